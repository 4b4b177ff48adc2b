"""A block of lines in somebody else's file, between two markers: put in, renewed where it stands, and taken out."""

from __future__ import annotations

LAST = "# <<< faber-ledger"
REMOVAL = "(`faber-ledger uninstall` removes this block)"
START = b"# >>> faber-ledger:"


def marked(purpose: str, *lines: str) -> tuple[str, ...]:
    """Give the lines of a block, its markers included."""
    return f"{START.decode()} {purpose} {REMOVAL}", *lines, LAST


def with_block(content: bytes, block: tuple[str, ...], *, after_first_line: bool = False) -> bytes:
    """Give a file's content with the block: in the place of an older one, else at the end or after the first line."""
    newline = b"\r\n" if b"\r\n" in content else b"\n"
    text = newline.join([line.encode() for line in block])
    span = _block(content)
    if span:
        return content[: span[0]] + text + content[span[1] :]
    if after_first_line:
        first, end, rest = content.partition(b"\n")
        return first + (end or b"\n") + text + newline + rest
    if content and not content.endswith(b"\n"):
        return content + newline + text  # no newline at the end here either: so `without_block` finds the old end
    return content + text + newline


def without_block(content: bytes) -> bytes:
    """Give a file's content as it was before `with_block`."""
    span = _block(content)
    if not span:
        return content
    before, after = content[: span[0]], content[span[1] :]
    if after:
        return before + after.removeprefix(b"\r").removeprefix(b"\n")
    return before.removesuffix(b"\n").removesuffix(b"\r")


def has_block(content: bytes) -> bool:
    """Tell whether a file has our block."""
    return _block(content) is not None


def _block(content: bytes) -> tuple[int, int] | None:
    """Find our block: from the start of its first marker to the end of its last one."""
    start = content.find(START)
    end = content.find(LAST.encode(), max(start, 0))
    return (start, end + len(LAST)) if 0 <= start < end else None
