"""Measure texts as the client does, cut them between characters and lines, and show the characters that hide."""

from __future__ import annotations

from codecs import utf_16_le_encode  # `str.encode` would look the codec up, and load its module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


TAGS = 0xE  # the plane of Unicode that has only characters without a glyph
LEAST_END, LONGEST_STEP = 100, 200  # units of a useful end; letters that may be dropped to end with a full line


class _Shown(dict[int, str]):
    """What is shown for each character: itself, or if it hides, what stands for it; found out at its first use."""

    def __init__(self, kept: str, sign: str = "") -> None:
        """Show hidden characters as `sign`, or as escapes; those in `kept` as they are."""
        super().__init__({ord(letter): letter for letter in kept})
        self._sign = sign

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        shown = self._sign or ascii(letter)[1:-1] if is_hidden(letter) else letter
        self[code] = shown
        return shown


SIGNS, ESCAPES, LINES = _Shown("\n\t", "\ufffd"), _Shown(""), _Shown("\n\t")


_known_blanks: set[str] = set()


def _blanks() -> set[str]:
    """Return the letters and marks without a glyph that Python counts as printable, made at the first use.

    With them is what Unicode keeps free for more.
    """
    if not _known_blanks:
        _known_blanks.update("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2065\u2800\u3164\uffa0")
        _known_blanks.update(map(chr, (*range(0xFE00, 0xFE0E), *range(0xFFF0, 0xFFF9), *range(0xE0100, 0xE01F0))))
    return _known_blanks


def is_hidden(letter: str) -> bool:
    """Return whether a reader does not see a character, or it steers what is around it.

    True for controls (newline and tab, too), format characters (zero width, directions, tags), line separators, lone
    surrogates, and letters and marks without a glyph.
    """
    if not letter.isascii() and (letter in _blanks() or ord(letter) >> 16 == TAGS):
        return True
    if letter.isprintable():
        return False
    import unicodedata  # rarely needed

    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def plain(text: str) -> str:
    """Replace hidden characters by U+FFFD; newlines and tabs stay, and CRLF becomes LF.

    For a text from a repository that a model reads. No text becomes longer.
    """
    return text if _hides_nothing(text) else text.replace("\r\n", "\n").translate(SIGNS)


def escape(text: str) -> str:
    """Return a text as one line in which no character hides: newlines, tabs and all others that do become escapes."""
    return text.translate(ESCAPES)


def escape_lines(text: str) -> str:
    """Return a text of several lines with escapes for what hides; newlines and tabs stay, and must be meant."""
    return text if _hides_nothing(text) else text.translate(LINES)


def quote_word(text: str) -> str:
    """Return a text as one word for a shell, in which no character hides: for a command that somebody may paste."""
    from shlex import quote  # only for hints

    if not any(map(is_hidden, text)):
        return quote(text)
    return "$'" + "".join([_in_dollar_quotes(letter) for letter in text]) + "'"


def _in_dollar_quotes(letter: str) -> str:
    if not is_hidden(letter) and letter not in "\\'":
        return letter
    errors = "surrogateescape" if "\udc80" <= letter <= "\udcff" else "surrogatepass"  # the first: a byte of a name
    return "".join([f"\\x{byte:02x}" for byte in letter.encode("utf-8", errors)])


def _hides_nothing(text: str) -> bool:
    """Return whether a text surely has no hidden character but newlines and tabs; faster than looking at each."""
    rest = text.replace("\n", "").replace("\t", "")
    return rest.isprintable() and (rest.isascii() or _blanks().isdisjoint(rest))


def units(text: str) -> int:
    """Count a text's UTF-16 code units, which is how the client counts."""
    return len(text) if text.isascii() else len(utf_16_le_encode(text, "surrogatepass")[0]) // 2


def one_line(text: object, longest: int = 300) -> str:
    """Return a text from a repository as one line of at most `longest` units."""
    start = str(text)
    if len(start) > 4 * longest:
        start = start[: _place(start, 4 * longest)]
    line = " ".join(start.split())
    if len(line) <= longest and line.isascii() and line.isprintable():
        return line  # as nearly every one
    return clip(plain(line), longest)


def clip(text: str, room: int, mark: str = "…") -> str:
    """Cut a text to at most `room` units and end it with `mark`."""
    if 2 * len(text) <= room or units(text) <= room:  # no character has more than two units
        return text
    left = room - units(mark)
    return text[: _place(text, left)] + mark if left >= 0 else ""


def cut_middle(text: str, room: int, mark: str = "\n…\n") -> str:
    """Replace the middle of a text of more than `room` units by `mark`, between lines if they are short.

    A summary ends with what was done last and what comes next.
    """
    if units(text) <= room:
        return text
    half = (room - units(mark)) // 2
    if half < LEAST_END:
        return clip(text, room)
    head, start = text[: _place(text, half)], max(len(text) - half, 1)
    while start < len(text) and units(text[start:]) > half:
        start += 1
    tail = text[start:]
    line = head.rfind("\n", -LONGEST_STEP)
    head = head[:line] if line > 0 else head
    line = tail.find("\n", 0, LONGEST_STEP)
    return head + mark + (tail[line + 1 :] if line >= 0 else tail)


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """Split room fairly: a want below an equal share is met, and the others share what is left."""
    given = [0] * len(wanted)
    for count, index in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        given[index] = min(wanted[index], max(room, 0) // (len(wanted) - count))
        room -= given[index]
    return given


def share_room(wanted: Sequence[tuple[int, int, int]], room: int) -> list[int]:
    """Split room among wants `(rank, least, most)`: everybody's least first, then up to the most, by rank.

    Those of one rank share alike. One whose least has no room gets nothing.
    """
    given = [0] * len(wanted)
    order = sorted([(rank, at, min(least, most)) for at, (rank, least, most) in enumerate(wanted)])
    for _, at, least in order:
        if least <= room:
            given[at] = least
            room -= least
    for rank in sorted({rank for rank, _, _ in order}):
        chosen = [at for one, at, least in order if one == rank and given[at] >= least]
        for at, more in zip(chosen, shares([wanted[at][2] - given[at] for at in chosen], room), strict=True):
            given[at] += more
            room -= more
    return given


def _place(text: str, room: int) -> int:
    """Return how many characters fit into `room` units."""
    at = min(room, len(text))
    while units(text[:at]) > room:
        at -= max((units(text[:at]) - room) // 2, 1)
    return at


def quote_lines(text: str) -> str:
    """Quote a text of several lines, so that no line of it, nor a heading, is taken for one of ours."""
    return "> " + "\n> ".join(text.splitlines())


LONGEST_QUOTE, LONGEST_ID = 200, 80


def quoted(text: object) -> str:
    """Quote a text that came from a repository: one bounded line in backticks, with none inside."""
    return f"`{one_line(text, LONGEST_QUOTE).replace('`', chr(39))}`"


# Tags that clients put into a conversation in their own name, or that they read as calls of tools.
TAGS_OF_CLIENTS = frozenset(
    [
        *("system", "system-reminder", "system_reminder", "antml", "faber", "function_calls", "function_results"),
        *("invoke", "tool_use", "tool_result", "command-name", "command-message", "command-args", "bash-input"),
        *("bash-stdout", "bash-stderr", "local-command-stdout", "local-command-stderr", "local-command-caveat"),
        *("user-prompt-submit-hook", "session-start-hook", "persisted-output", "task-notification"),
        *("teammate-message", "new-diagnostics", "ide_selection", "ide_opened_file"),
    ]
)
OPENING = "\u2039"  # instead of `<`


def defuse(line: str) -> str:
    """Return a value in which nothing is a tag: `<` before a letter or a slash becomes another sign."""
    first, *rest = line.split("<")
    return first + "".join([f"{OPENING if piece[:1].isalpha() or piece[:1] == '/' else '<'}{piece}" for piece in rest])


def defuse_tags(text: str) -> str:
    """Return a text in which none of the tags of clients is one; other tags stay, since the text may be about them."""
    first, *rest = text.split("<")
    return first + "".join([f"{OPENING if _is_of_client(piece) else '<'}{piece}" for piece in rest])


def _is_of_client(text: str) -> bool:
    """Return whether what follows a `<` makes it a tag of a client, with or without a namespace."""
    letters = text[:80].removeprefix("/")
    end = next((at for at, letter in enumerate(letters) if not (letter.isalnum() or letter in "-_")), len(letters))
    return letters[:end].lower() in TAGS_OF_CLIENTS
