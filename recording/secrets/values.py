"""Read the value that a name leads, and judge whether it looks like a secret."""

from __future__ import annotations

from faber_ledger.recording.secrets import tokens
from faber_ledger.recording.secrets.names import ENDS, OTHER_KEYS, OTHER_WORDS, SIGNS, split_words
from faber_ledger.recording.secrets.patterns import ASCII, VERBOSE, Pattern
from faber_ledger.recording.secrets.tokens import DIGIT_SET, has_three_classes, is_shuffled

# One word that stands where a secret would, and is none.
PLAIN = split_words("""
    aes256 argon2 argon2id base64 basic bcrypt bearer bool boolean bytes change-me change_me changeme contraseña
    credentials default digest disabled ed25519 empty enabled encrypted environment example expired false field hashed
    hidden hs256 http2 input integer invalid ipv4 ipv6 kennwort masked md5 missing nil none nothing null number oauth2
    object optional p256 passwd password passwords passwort pbkdf2 placeholder plaintext prompt redacted required
    rotated rs256 same same-origin scrypt secret secrets senha sha1 sha256 sha512 stdin str string text tls1 todo token
    tokens true unchanged undefined unknown unset username utf8 value varchar wachtwoord x509
""")
# A sentence about secrets has one of these words.
PROSE = split_words("""
    a an and are as at be by can contraseña das der die eingeben el enter for from gives ihr ihre in invalid is it
    kennwort la le must new no not of olvidada olvidado on or oublié password passwort passwort? required same set
    should su that the this to tu user vergessen vergessen? votre was what when which will with wrong your
""")

# How a word ends that says what a password is like: `case-sensitive`, `auto-generated`.
ADJECTIVES = ("ed", "only", "sensitive", "time", "known", "able", "less", "free", "long", "wide", "ing", "bit", "party")

QUOTE = Pattern(r"(?:[bruf]{1,2}(?=[\"']))?\\{0,3}[\"'`]|[“„«‘「]")
CLOSED_BY = {"“": "”", "„": "“", "«": "»", "‘": "’", "「": "」"}
OPENED = {")": "(", "]": "[", "}": "{"}
_BARE = r"(?:[^\s\"'`;<|\\&%s]+|;(?=[^\s\w])|&(?!\w{1,30}=)|<(?!/)|\\(?![nrt\"'`\\])|['\"](?=\w))+"
BARE = Pattern(_BARE % r"\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af，。；！")
BARE_ASCII = Pattern(_BARE % "")  # compiling the other takes six times as long
LONGEST = 2048  # characters of a value
HARMLESS = Pattern(
    r"""\[masked.*                                            # it was masked
    |\$\{?[A-Za-z_][\w.]*\}?|\$[({].*|%[A-Za-z_]\w*%?|%\(.*    # a variable
    # What somebody shall fill in.
    |\{.*\}?|\}.*|[A-Z][A-Z0-9_]+=.*|<.*>?|.{0,2}<[^<>]*>.{0,3}|:[a-z_]+|[\[(].*|(.)\1*
    |[A-Za-z_]+(?:\.[A-Za-z_]+)+|[\w./-]*::.*|(?:process|import\.meta)\.env\.\w+   # an attribute
    |v?\d+(?:\.\d+)+\S{0,8}|\d{4}-\d\d-\d\d(?:[T_].*)?|\d{1,2}:\d\d.*|\d+(?:\.\d+)?[A-Za-z%]{1,3}
    |@[\w./-]+|(?:arn:)?aws:.*
    |[a-z]+://.*|[\w/-]+\.[a-z]{1,4}(?::\d+)?
    |--?[a-z].*|\.\w+|[A-Z]+_[A-Z_]+(?:V?\d{1,2})?|0x[0-9a-fA-F]{1,8}
    |\.[*+].*|[^\\]*\\[sSdDwW].*                             # a pattern""",
    ASCII | VERBOSE,
)
RANDOM = Pattern(r"[A-Za-z0-9+/=_.~%-]+", ASCII)
CHANGE = Pattern(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]", ASCII)
WORDS = Pattern(r"[A-Za-z]?[a-z]+\d{0,3}(?:[-_./:][A-Za-z]?[a-z]*\d{0,4})*", ASCII)
CAMEL = Pattern(r"(?<=[a-z])(?=[A-Z])")


class Value:
    """A value in a text, from `start` to `end`, without its quotes."""

    def __init__(self, text: str, start: int, end: int, *, is_quoted: bool) -> None:
        self.start = start
        self.end = end
        self.is_quoted = is_quoted
        self.word = text[start:end]
        self.sure = strength(self.word, is_quoted=is_quoted)


def read_value(text: str, at: int) -> Value | None:
    """Return the value at a place: what is in quotes, or up to the next space; None if there is none."""
    quote = QUOTE.match(text, at)
    if quote:
        start = quote.end()
        mark = quote[0].lstrip("bruf")
        line = text[start : start + 300].partition("\n")[0]
        length = line.find(CLOSED_BY.get(mark, mark))
        if length >= 0:
            is_quoted = not quote[0].endswith("`")  # what is in backticks may be code
            return Value(text, start, start + length, is_quoted=is_quoted)
        at = start
    bare = (BARE_ASCII if text[at : at + LONGEST].isascii() else BARE).match(text, at, at + LONGEST)
    return _without_ends(text, at, bare[0]) if bare else None


def _without_ends(text: str, at: int, word: str) -> Value | None:
    """Return a bare value without what ends its sentence, or closes what was opened before it."""
    if not word.startswith("[masked"):
        word = word.partition("[masked")[0]
    word = word.rstrip(ENDS)
    while word and word[-1] in OPENED and word.count(word[-1]) > word.count(OPENED[word[-1]]):
        word = word[:-1].rstrip(ENDS)
    return Value(text, at, at + len(word), is_quoted=False) if word else None


def strength(word: str, *, is_quoted: bool = False) -> int:
    """Return how sure a word is a password: 0 not, 1 if something says so, 2 likely, 3 even in a sentence."""
    if len(word) < 4 or HARMLESS.fullmatch(word) or word.lower() in PLAIN:
        return 0
    letters = set(word)
    has_digit, has_sign = bool(letters & DIGIT_SET), bool(letters & SIGNS)
    has_letter = bool(letters & tokens.SMALL_SET or letters & tokens.LARGE_SET) or not word.isascii()
    if not has_letter or not (has_digit or has_sign):
        return 1
    if len(word) >= 8 and has_digit and (has_sign or is_typed(word)) and not WORDS.fullmatch(word):
        return 3
    return 2


def is_typed(word: str) -> bool:
    """Return whether a word has digits and letters of both cases, mixed or at its end, as a policy asks for."""
    return has_three_classes(word) and (changes(word) * 5 >= len(word) * 2 or word[-2:].strip(tokens.DIGITS) == "")


def is_random(word: str, least: int) -> bool:
    """Return whether a word of at least so many characters changes between digits and letters as only a key does."""
    if len(word) < least or RANDOM.fullmatch(word) is None:
        return False
    if DIGIT_SET.isdisjoint(word):
        return is_shuffled(word) and changes(word) * 3 >= len(word)
    return changes(word) * 5 >= len(word)


def changes(word: str) -> int:
    """Count the places where a digit, a small letter or a large one is followed by one of another kind."""
    return len(CHANGE.findall(word))


def is_prose(words: str) -> bool:
    """Return whether a value of several words is a sentence, not a passphrase."""
    return bool(PROSE.intersection(words.lower().split())) or len(words.split()) > 12


def is_other(name: str, group: str) -> bool:
    """Return whether a name has a word that makes it no secret's: `token_count`, `secretName`, `public key`."""
    words = words_of(CAMEL.sub("_", name).lower())
    if words[-2:] == ["secret", "id"]:  # half of an AppRole's or an ACL's pair
        return False
    return (
        not OTHER_WORDS.isdisjoint(words)
        or name.lower() == "salt"
        or (group == "key" and not OTHER_KEYS.isdisjoint(words))
    )


def words_of(name: str) -> list[str]:
    """Return the words of a name."""
    return name.replace("-", "_").replace(".", "_").replace(" ", "_").split("_")


def is_adjective(word: str) -> bool:
    """Return whether a word says what a password is like, and is none."""
    return word.isalpha() or word.endswith(ADJECTIVES)
