"""Mask the secrets in what people and models say: tokens, what a name leads, and here what a command gives away."""

from __future__ import annotations

from faber_ledger.files.text import cut_middle
from faber_ledger.ledger.encoding import without_surrogates
from faber_ledger.recording.secrets import tokens
from faber_ledger.recording.secrets.commands import COMMANDS
from faber_ledger.recording.secrets.names import find_names, may_lead
from faber_ledger.recording.secrets.patterns import IGNORECASE, Pattern
from faber_ledger.recording.secrets.tokens import BASE64, LONGEST, PLACEHOLDERS, has_both_cases, is_public, mask_known

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

MAX_LENGTH = 6_000
READ_LENGTH = 32_768  # at each end: much more than is kept, since masking makes room
MAX_NAMES = 1_500  # of secrets in a text, whose time is bounded by them; nobody writes more in 64 KB
PRINTED = "".join([chr(code) for code in range(33, 127)])
INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad"))

PRODUCT_KEY = Pattern(r"(?<![\w-])(?=[A-Z-]{0,20}\d)(?=[\d-]{0,20}[A-Z])(?P<c>[A-Z0-9]{5}(?:-[A-Z0-9]{5}){4})(?![\w-])")
# A UUID, set apart.
TOKEN_ID = Pattern(r"[Tt]oken\b[^\n.;]{0,60}\s[—–-]\s\W?(?P<c>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
# A user and a password, which has a sign, a digit and letters of both cases: `bob:…`, `bob@example.com / …`
STRONG = r"(?=[^\s\"'`]{0,40}?\d)(?=[^\s\"'`]{0,40}?[A-Z])(?=[^\s\"'`]{0,40}?[a-z])(?=[^\s\"'`]{0,40}?[!@#$%^&*])"
LOGIN = Pattern(
    rf"(?<![^\s\"'`(|])[\w.+-]{{1,60}}(?:@[\w.-]{{1,80}}(?::| / )|:){STRONG}(?P<c>[^\s\"'`\\|;/]{{8,80}})(?![\w/])"
)
# A query's or fragment's parameter that is a secret, with a digit in its value.
PARAMETER = Pattern(
    r"(?:[?&#;]|u0026)(?:[\w.-]{0,40}(?:token|secret|passw|signature|api[_-]?key|accesskey|credential)[\w.-]{0,40}"
    r"|sig|key|auth|code|pwd|pass|hmac|sign|st|assertion)=(?=[^&#;\s]{0,99}\d)(?P<c>[^&#;\s\"'<>`\\]{6,4000})",
    IGNORECASE,
)
RANDOM = Pattern(r"(?!I[0-9a-f]{40}\b)(?<![A-Za-z0-9+/_.%~-])[A-Za-z0-9+/_.%~-]{24,}={0,2}")
# How the public keys of SSH begin, the hashes of packages, and the names that C++ gives functions.
PUBLIC = ("AAAAB3NzaC1", "AAAAC3NzaC1", "AAAAE2VjZHNh", "sha1-", "sha256-", "sha384-", "sha512-", "_ZN", "_ZS")
SIGNS = frozenset("!@#$%^&*")
HASHES = ("SHA256:", "sha256:", "h1:", ";base64,", 'hash = "', "cf-id: ", "verification=", "; p=", '"kid":"', '"n":"')
CHANGE = Pattern(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")
EDGE = Pattern(
    r"(?:-{1,5} ?)?(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?(?: ?-{1,5})?"
    r"|PuTTY-User-Key-File-\d:|(Private-MAC): [0-9a-fA-F]{0,80}"
)
HEADERS = ("Proc-Type: ", "DEK-Info: ", "Version: ", "Comment: ", "Encryption: ", "Public-Lines: ", "Private-Lines: ")
ENDS_OF_URL = ("://", *" \t\n\r\"'<>`|")
PUTTY = "PuTTY-User-Key-File-"
SHORTEST = 12  # no shorter text has a token or a URL with a password


def clean_summary(said: str) -> str:
    """Return a client's summary without secrets, in at most 6,000 characters; empty if nothing is left.

    The model's analysis before the summary proper is left out. A longer summary keeps its beginning and its end, where
    the next steps are. What is cut was masked before; of a text too long for that, a token at the cut is left out
    completely: no rule would recognise half of a secret.
    """
    text = _summary(said)
    if len(text) <= 2 * READ_LENGTH:
        text = mask_text(without_surrogates(text))
    else:
        head, tail = text[:READ_LENGTH].rstrip(PRINTED), text[-READ_LENGTH:].lstrip(PRINTED)
        text = f"{mask_text(without_surrogates(head))}\n…\n{mask_text(without_surrogates(tail))}"
    return cut_middle(text.strip(), MAX_LENGTH)


PASSES = 2  # more over a text with a secret: the mask of one may show where another begins


def mask_text(text: str) -> str:
    """Return a free text (a summary, a note, a reason) with each secret replaced by its kind."""
    bare = text if text.isascii() else text.translate(INVISIBLE)
    masked = _masked(bare)
    if masked == bare:
        return text  # what nobody sees can be in the middle of a secret
    for _ in range(PASSES):
        masked = _masked(masked)
    return masked


def _masked(text: str) -> str:
    text = _mask_commands(mask_tokens(text))
    names = find_names(text)
    if len(names) > MAX_NAMES:
        text = f"{text[: names[MAX_NAMES][0]]} [masked: the rest]"
        names = names[:MAX_NAMES]
    names = [name for name in names if may_lead(text, *name)]
    if names:
        from faber_ledger.recording.secrets.named import mask_named  # many patterns

        text = mask_named(text, names)
    return _mask_random(text)


def _summary(said: str) -> str:
    start = said.find("<summary>", max(said.find("</analysis>"), 0))
    end = said.rfind("</summary>")
    return said[start + len("<summary>") if start >= 0 else 0 : end if end > start else len(said)].strip()


def _mask_commands(text: str) -> str:
    """Return a text with the secrets of commands and formats replaced by `[masked]`."""
    for words, pattern in COMMANDS:
        if any([word in text for word in words]):
            text = _mask_value(text, Pattern(pattern))
    if any([word.count("-") > 3 and len(word) > 28 for word in text.split()]):
        text = _mask_value(_mask_value(text, PRODUCT_KEY), TOKEN_ID)
    if (
        any([len(word) > 9 and ":" in word[1:-8] and not SIGNS.isdisjoint(word) for word in text.split()])
        or " / " in text
    ):
        text = _mask_value(text, LOGIN)
    return text


def _mask_value(text: str, pattern: Pattern) -> str:
    parts, done = [], 0
    for match in pattern.finditer(text):
        start, end = match.span(match.lastgroup or 0)
        said = text[start:end]
        is_shown = said.startswith(("$", "{{", "<")) or said.lower() in PLACEHOLDERS
        if not is_shown and ("]:" in said or not said.startswith("[masked")):
            parts += [text[done:start], "[masked]"]
            done = end
    return "".join([*parts, text[done:]])


def _mask_random(text: str) -> str:
    """Return a text without the long words that change between digits and letters as only a key does."""
    if not any([len(word) >= 24 and has_both_cases(word) for word in text.split()]):
        return text

    def is_mixed(piece: str) -> bool:
        if len(CHANGE.findall(piece)) * 5 < len(piece) * 2:
            return False
        digits = sum(map(piece.count, tokens.DIGITS))
        if digits == 0:  # else it is a name in code: few of its letters are large
            return len(piece) >= 32 and sum(map(piece.count, tokens.LARGE_SET)) * 3 > len(piece)
        return len(piece) >= 32 or digits > 1

    def shown(match: re.Match[str]) -> str:
        kept = ""
        for piece in match[0].split("."):
            if len(piece) >= 24 and has_both_cases(piece) and is_mixed(piece):
                at = match.start() + len(kept)
                is_shown = piece.startswith(PUBLIC) or text.endswith(HASHES, 0, at) or is_public(text, at)
                return match[0] if is_shown else kept + "[masked]"
            kept += piece + "."
        return match[0]

    masked: str = RANDOM.sub(shown, text)
    return masked


def mask_tokens(text: str) -> str:
    """Return a field's value (a step, a path, a command) with each token and each URL's password replaced by its kind.

    What only a word before it makes a secret stays: a step may be called `token: rotate`.
    """
    if len(text) < SHORTEST:
        return text
    for _ in range(4):  # a token that is gone may have hidden the end of the one before it
        masked = mask_known(_mask_keys(text) if "PRIVATE KEY" in text or PUTTY in text else text)
        if masked == text:
            break
        text = masked
    if "://" in text or ":\\/\\/" in text:
        text = _mask_urls(text)
        text = _mask_value(text, PARAMETER) if "=" in text else text
    return text


def _mask_keys(text: str) -> str:
    """Mask private keys from BEGIN to END; where one of them is missing, the lines that can be a key's."""
    edges = list(EDGE.finditer(text))
    parts, done = [], 0
    for edge, following in zip(edges, [*edges[1:], None], strict=False):
        start, end = edge.span()
        if start < done:
            continue
        if edge[1] == "END" or edge[2]:
            start = _start_of_lines(text, done, start)
        elif following and (following[1] == "END" or following[2]) and following.start() - end < LONGEST:
            end = following.end()
        else:
            end = _end_of_lines(text, end)
        parts += [text[done:start], "[masked: Private Key]"]
        done = end
    return "".join([*parts, text[done:]])


def _end_of_lines(text: str, at: int) -> int:
    """Return where the lines end that have no space, or are a key's headers; of the next, what can be a key's."""
    end = at
    for line in text[at : at + LONGEST].splitlines(keepends=True):
        if " " in line.strip() and not line.startswith(HEADERS):
            length = tokens.count_ahead(line, 0, BASE64 + "\\")
            end += length if length >= 16 else 0
            break
        end += len(line)
    return at + len(text[at:end].rstrip())


def _start_of_lines(text: str, least: int, at: int) -> int:
    """Return where the lines before a place begin that have no space."""
    start = at
    for line in reversed(text[max(least, at - LONGEST) : at].splitlines(keepends=True)):
        if " " in line.strip():
            break
        start -= len(line)
    return start


def _mask_urls(text: str) -> str:
    """Mask the user and password of each URL."""
    parts, done = [], 0
    at = text.find(":")
    while at >= 0:
        start = at + (3 if text.startswith("//", at + 1) else 5 if text.startswith("\\/\\/", at + 1) else 0)
        if start > at:
            url = _url_ahead(text, start)
            shown = _masked_url(url)
            if shown != url:
                parts += [text[done:start], shown]
                done = start + len(url)
            at = start + len(url) - 1
        at = text.find(":", at + 1)
    return "".join([*parts, text[done:]])


def _url_ahead(text: str, at: int) -> str:
    """Return what a URL has after its scheme, as far as the next character that ends one, or the next URL."""
    for length in (128, LONGEST):
        url = text[at : at + length]
        for mark in ENDS_OF_URL:
            if mark in url:
                url = url.partition(mark)[0]
        if len(url) < length:
            break
    return url


def _masked_url(url: str) -> str:
    name = url
    for mark in "/?#\\":
        name = name.partition(mark)[0]
    at = name.rfind("@")
    port = name.partition(":")[2]
    if at < 0 and port and not port.isdigit() and not name.startswith("["):
        at = url.rfind("@")  # a password with a slash
    return f"[masked]{url[at:]}" if at > 0 and _is_secret_user(url[:at]) else url


def _is_secret_user(user: str) -> bool:
    """Return whether what is before a URL's @ holds a secret: a password, or a token in the name's place."""
    name, colon, password = user.partition(":")
    if colon:
        is_shown = password.startswith(("$", "*", "<", "{", "[masked")) or password.lower() in PLACEHOLDERS
        return password != "" and not is_shown
    return len(name) >= 16 and tokens.looks_random(name) and not name.startswith(("$", "<", "{", "["))
