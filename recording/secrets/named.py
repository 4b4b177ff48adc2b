"""Mask what a name leads: in assignments, options, headers, tables, formats and prose.

Only where a name stands is what follows it read, in bounded steps, so that the time is linear in the text whatever it
holds. A value is judged by how sure the name is, and by how it is joined to the value.
"""

from __future__ import annotations

from faber_ledger.recording.secrets import values
from faber_ledger.recording.secrets.names import ENDS, KEYS_OF, VAGUE, WINDOW, split_words
from faber_ledger.recording.secrets.patterns import ASCII, DOTALL, IGNORECASE, MULTILINE, VERBOSE, Pattern
from faber_ledger.recording.secrets.tokens import ALNUM, DIGIT_SET, is_public

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any

IN_NAME = ALNUM + "_-."
VAGUE_WORDS = frozenset(("key", "keys", *VAGUE))
OPTIONS = split_words("password passwd pass pwd pw passphrase passcode passwort kennwort")
USERS = ("user", "usuario", "benutzer", "login", "utilisateur", "identifiant", "account")
# What is said of an option.
PLAIN_OPTION = split_words("flag option argument parameter switch instead prompts arg does only alone file stdin")

# How a name is joined to its value. First the rest of the name, with what closes it.
NAME = Pattern(r"([A-Za-z0-9_.-]{0,40})([\])\"'`*_\\]{0,8})", ASCII)
ASSIGNMENT = Pattern(
    r"""(?:\s?\#?\d{1,3}|\s?\([^()\n]{1,30}\)|\s(?:for|of|on|at)\s[^\n:=|"']{1,40})?[\s\u3000]{0,8}
        (?:(?::(?!:)|=|：|＝)={0,2}>?|->|=>|→|⇒|\|)(?:[\s*_\u3000|>]|\\\n|\\[nrt]){0,12}  # assigned, or a cell
        (?:(?:bearer|basic|token|apikey)\s{1,3})?
    |</\w{1,8}>\s{0,9}<\w{1,8}>(?=[^\s<])                                           # the next element
    |>\s{0,3}(?=[^\s<])                                                           # an element
    |,?\s{0,30}(?:\\n)?\s{0,30}\\{0,3}["']?value\\{0,3}["']?\s{0,3}[:=]\s{0,3}        # an entry of name and value
    |[,(]\s{0,3}(?=\\{0,3}["'])                                                       # an argument""",
    ASCII | VERBOSE | IGNORECASE,
)
VERB_OR_DASH = Pattern(
    r"""(?:\s(?:for|of|on|von|für|de|pour)\s[^\n:=|"'`]{1,30})?[\s\u3000]{0,3}(?:is|was|are|were|to|be|lautet|ist|war|est|es|era|é|è|är|er|on|jest|je|egy|là|adalah|это
        |是|为|為|は|が|은|는|है)
        (?:\s{1,3}now|\s{1,3}still|\s{1,3}set\s{1,3}to)?(?:[\s\u3000:]{1,3}|(?<=[是为為はが은는]))
    |\s{1,3}[-–—/]{1,2}\s{1,3}|\s{0,3}[(（]\s{0,2}(?!\))""",
    VERBOSE,
)
SPACE = Pattern(r"[ \t]{4,40}|[\s\u3000]{1,3}")  # also in columns
VERBS = frozenset(
    ("is", "was", "to", "auf", "lautet", "ist", "war", "est", "es", "era", "é", "è", "är", "er", "/", "->", "→", "=")
)
PUBLIC = Pattern(r"[0-9a-f]{7,12}|I?[0-9a-f]{40}|[0-9a-f]{64}|[0-7][0-9A-HJKMNP-TV-Z]{25}", ASCII)  # SHA, ULID
DIGIT = Pattern(r"\d", ASCII)
EIGHT_CHARACTERS = Pattern(r"\S{8}")
TWENTY_CHARACTERS = Pattern(r"\S{20}")
REST_OF_WORD = Pattern(r"[!-~]*")
NEXT_WORD = Pattern(r"[\s\u3000\"`]*([^\s\"`]+)")
HASHES = frozenset(("sha1", "sha256", "sha512", "md5", "h1"))  # what follows their colon is not a secret
MASKED = Pattern(r"\[masked(?:[^\]]{0,52}\])?")
LEADING = "\"'`([{<*_„“«|"
CODES = Pattern(
    r"(?: (?:for|of|de|del|du|des|der|von|vom|für|pour) [^\n:=]{1,40}?(?::| (?:is|was|es|est|ist|lautet)\b))?"
    r"(?:"
    r"codes?|is|was|are|es|est|ist|lautet|son|sont|sind|[:=|]|\\n|\s|[*_`\"'(\[\\-]|\d{1,2}[.)] )*?(?:(?<!\w)|(?<=\\n))"
    r"((?:\d[\d -]{2,80}\d|[a-z0-9]{4,8}-[a-z0-9]{4,8}|[0-9a-f]{16}|[A-Z0-9]{4,6}(?:-[A-Z0-9]{4,6}){2,9})"
    r"(?:(?:\\n|[\s,;/\"'\\-]){1,8}(?:\d{1,2}[.)] )?(?:\d[\d-]{2,12}\d|[a-z0-9]{4,8}-[a-z0-9]{4,8}|[0-9a-f]{16}))*)",
    ASCII,
)
CARD = Pattern(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)", ASCII)
MANY_WORDS = Pattern(r".{0,39}?(?<![a-z])((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8}(?![a-z]))", ASCII | DOTALL)
SOME_WORDS = Pattern(r"[a-z]{2,12}(?: [a-z]{2,12}){2,11}(?=\s*(?:$|[\"'|`.,(\\]|\s[A-Z]))", ASCII | MULTILINE)


def mask_named(text: str, names: list[tuple[int, int, str]]) -> str:
    """Return a text with the secrets that its names lead replaced by `[masked]`."""
    marks = _Marks(text)
    unjoined: list[tuple[int, int, str]] = []
    has_keys = "-----BEGIN " in text
    for start, end, group in names:
        if marks.has(start, end) or (has_keys and is_public(text, start)):
            continue
        at, name = _end_of_name(text, start, end, group)
        if name is None:
            continue
        span = _code(text, start, end) if group == "code" else _joined(text, start, at, group, name)
        if span:
            marks.add(*span)
        else:
            unjoined.append((start, end, group))
    for start, end, group in unjoined:  # now that what is joined to a name in between is known
        if not marks.has(start, end):
            span = _near(text, end, group)
            if span:
                marks.add(*span)
    return marks.masked()


class _Marks:
    """Which characters of a text are masked."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._marks = bytearray(len(text))
        for match in MASKED.finditer(text) if "[masked" in text else ():
            self._marks[match.start() : match.end()] = b"\2" * len(match[0])  # it was masked before

    def has(self, start: int, end: int) -> bool:
        return self._marks.count(0, start, end) < end - start

    def add(self, start: int, end: int) -> None:
        if not self.has(start, end):
            self._marks[start:end] = b"\1" * (end - start)

    def masked(self) -> str:
        parts, done = [], 0
        while (start := self._marks.find(1, done)) >= 0:
            parts += [self._text[done:start], "[masked]"]
            done = start + len(self._marks[start:]) - len(self._marks[start:].lstrip(b"\1"))
        return "".join([*parts, self._text[done:]])


def _joined(text: str, start: int, at: int, group: str, name: str) -> tuple[int, int] | None:
    """Return where the secret is that is joined to a name: assigned to it, said of it, or beside it."""
    if group not in ("password", "key"):
        return None
    joint = ASSIGNMENT.match(text, at)
    said = None if joint else VERB_OR_DASH.match(text, at)
    match = joint or said or SPACE.match(text, at)
    value = values.read_value(text, match.end()) if match else None
    if value is None or not (value.sure or " " in value.word):
        return None
    if group == "password" and joint and not value.is_quoted:
        words: re.Match[str] | None = SOME_WORDS.match(text, value.start)
        if words and "phrase" in name and not values.is_prose(words[0].split()[0]):
            return words.span()
    is_secret = _is_password if group == "password" else _is_key
    how = "assigned" if joint else "said" if said else "beside"
    return (value.start, value.end) if is_secret(text, start, name, how, joint, value) else None


def _end_of_name(text: str, start: int, end: int, group: str) -> tuple[int, str | None]:
    """Return where a name ends, with all of it; None in its place if it is not a secret's."""
    before = text[max(0, start - 24) : start]
    first = before[len(before.rstrip(IN_NAME)) :]
    if not first and group == "key" and before.endswith(" "):
        first = before.split()[-1] + " " if before.strip() else ""
    rest = NAME.match(text, end)
    at = rest.end() if rest else end
    more = rest[1] if rest else ""
    name = first + text[start:end] + more
    if text.startswith(("@", ">@"), at) or ("." in more and text.startswith("(", at)):
        return at, None  # a placeholder in a URL, or a method of it
    return at, None if values.is_other(name, group) else name.lower()


def _is_password(text: str, start: int, name: str, how: str, joint: Any, value: values.Value) -> bool:
    if value.is_quoted and " " in value.word:
        return how != "beside" and not values.is_prose(value.word) and values.strength(value.word.replace(" ", "-")) > 0
    sure = value.sure
    if how == "assigned":
        is_element = text.startswith("</", value.end)
        return sure > 1 or (sure == 1 and (value.is_quoted or is_element or _is_line(text, start, name, joint, value)))
    if how == "said":
        if value.is_quoted or not values.WORDS.fullmatch(value.word):
            return sure > (0 if value.is_quoted else 1)
        return sure > 1 or (sure == 1 and "-" in value.word and not values.is_adjective(value.word))
    is_option = name.startswith("-") or "_" in name
    if (
        name.startswith("-")
        and value.sure
        and values.words_of(name)[-1] in OPTIONS
        and text[value.start - 1 - value.is_quoted] in " \t"
    ):
        return value.is_quoted or not (
            value.word in PLAIN_OPTION or value.word.isupper() or values.is_prose(value.word)
        )
    is_typed = "pass" in name and "_" not in name and value.word[-2:].isdigit()
    return sure == 3 or (sure == 2 and (value.is_quoted or is_option or is_typed))


def _is_line(text: str, start: int, name: str, joint: Any, value: values.Value) -> bool:
    """Return whether a name and its value are a setting: a variable of a shell, or a line of their own."""
    if joint[0] == "=" or (text[start : start + 4].isupper() and "=" in joint[0]):
        return True
    before = text[text.rfind("\n", max(0, start - 60), start) + 1 : start]
    after = text[value.end : value.end + 2].rstrip(ENDS)
    return (
        len(before) < 60
        and (" " not in before.strip(" \t-*>|") or before.lower().lstrip(" -*").startswith(USERS))
        and after[:1] in ("", "\n", "\r")
        and len(value.word) > 5
    )


def _is_sure(name: str) -> bool:
    """Return whether a name says more than that there is a key, or a service."""
    words = values.words_of(values.CAMEL.sub("_", name))
    return not KEYS_OF.isdisjoint(words) or VAGUE_WORDS.isdisjoint(words)


def _is_key(text: str, start: int, name: str, how: str, joint: Any, value: values.Value) -> bool:
    word = value.word
    if " " in word or not value.sure:
        return False
    is_sure = _is_sure(name)
    if how != "assigned":
        return values.is_random(word, 12 if is_sure else 16)
    is_word = values.WORDS.fullmatch(word) and not (len(word) >= 12 and word.isalnum())
    if is_sure and len(word) >= 8 and value.sure > 1 and not is_word:
        return True
    is_variable = text[start : start + 3].isupper() and len(word) >= 16 and not DIGIT_SET.isdisjoint(word)
    return is_variable or values.is_random(word, 16)


def _near(text: str, end: int, group: str) -> tuple[int, int] | None:
    """Return where the secret is that stands in the same line as a name."""
    if group == "phrase":
        words = MANY_WORDS.match(text, end, end + 400)
        return words.span(1) if words else None
    digit = None if group == "code" else DIGIT.search(text, end, end + WINDOW)
    if group == "card" and digit:
        number = CARD.search(text, end, end + WINDOW + 20)
        return number.span() if number and _is_card(number[0]) else None
    least, most, long, is_secret = (
        (20, 6, TWENTY_CHARACTERS, _is_near_key) if group == "key" else (8, 10, EIGHT_CHARACTERS, _is_near_password)
    )
    if not digit or not long.search(text, end, end + WINDOW + least):
        return None
    line = text[end : end + WINDOW].partition("\n")[0]
    at, last = end, ""
    if text[end - 1].isascii():  # the rest of the name is not a word of its own
        rest = REST_OF_WORD.match(text, end, end + WINDOW) if group == "key" else NAME.match(text, end)
        at = rest.end() if rest else end
    for _ in range(most):
        found = NEXT_WORD.match(text, at, at + 4_096)
        if found is None or found.start(1) >= end + len(line) or "[masked" in found[1]:
            break
        at = found.end()
        ahead, word, is_after_colon = _value_in(found[1])
        begin = found.start(1) + ahead
        if PUBLIC.fullmatch(word):
            is_token = len(word) > 26 and last in VERBS and text[end - 5 : end].lower() in ("token", "i key", "i-key")
            return (begin, begin + len(word)) if is_token else None
        if len(word) >= least and is_secret(word):
            return begin, begin + len(word)
        is_said = last in VERBS or is_after_colon or (last in ("with", "using") and " as " in text[end:begin])
        if group != "key" and is_said and values.strength(word) > 1 and DIGIT.search(word):
            return begin, begin + len(word)
        last = found[1]
    return None


def _value_in(said: str) -> tuple[int, str, bool]:
    """Return where in what stands between two spaces its value begins, the value, and whether a colon leads it."""
    begin = len(said) - len(said.lstrip(LEADING))
    word = said[begin:].rstrip(LEADING + ENDS + ")]}>/\\")
    name, mark, value = word.partition("=" if "=" in word else ":")
    if name.lower() in HASHES:
        return begin, "", False
    if value != "" and name.replace("_", "").isalnum():
        return begin + len(name) + 1, value, mark == ":"
    return begin, word, False


def _is_near_key(word: str) -> bool:
    return values.is_random(word, 20) and values.changes(word) * 10 >= len(word) * 3


def _is_near_password(word: str) -> bool:
    return values.strength(word) == 3 and "://" not in word


def _code(text: str, start: int, end: int) -> tuple[int, int] | None:
    end += 1 if text[end : end + 1] in ("s", "S") else 0
    found = CODES.match(text, end, end + 480)
    if found is None:
        return None
    digits, dashes = sum([letter in DIGIT_SET for letter in found[1]]), found[1].count("-")
    if digits < 4 and dashes < 3 and not (digits and dashes and "code" in text[start:end].lower()):
        return None
    span: tuple[int, int] = found.span(1)
    return span


def _is_card(number: str) -> bool:
    """Return whether a number's last digit is the check digit of a card's number (Luhn)."""
    digits = [int(letter) for letter in reversed(number) if letter.isdigit()]
    doubled = [2 * digit - 9 if digit > 4 else 2 * digit for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0
