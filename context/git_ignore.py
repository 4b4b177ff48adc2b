"""The ignore file of `.fractary`: our block in it, and everything else as it is."""

from __future__ import annotations

import os

from faber_ledger.context.file_change import FileChange, read_file
from faber_ledger.ledger.errors import LedgerError

IGNORE_FILE = ".fractary/.gitignore"
FIRST = "# >>> faber-ledger: what stays on this machine (`faber-ledger uninstall` removes this block)"
LAST = "# <<< faber-ledger"
PATTERNS = ("state.backup.json", "*.backup", "*.lock", "*-journal", "*.tmp", "/faber/logs/", "/faber/writer")


def ignore_change(root: str, *, remove: bool = False) -> FileChange:
    """Plan the ignore file with our block in it, or without; raises LedgerError if it is a link."""
    path = os.path.join(root, *IGNORE_FILE.split("/"))
    if os.path.islink(path):
        raise LedgerError(
            f"{IGNORE_FILE} is a link, and git reads no rules through a link", hint="put a file in its place"
        )
    before = read_file(path)
    if remove:
        return FileChange(path, before, without_block(before or b"") or None if before else before)
    return FileChange(path, before, with_block(before or b""))


def with_block(content: bytes) -> bytes:
    """Give an ignore file's content with our block: in the place of an older one, else at the end."""
    newline = b"\r\n" if b"\r\n" in content else b"\n"
    block = newline.join([line.encode() for line in (FIRST, *PATTERNS, LAST)])
    span = _block(content)
    if span:
        return content[: span[0]] + block + content[span[1] :]
    if content and not content.endswith(b"\n"):
        return content + newline + block  # no newline at the end here either: so `without_block` finds the old end
    return content + block + newline


def without_block(content: bytes) -> bytes:
    """Give an ignore file's content as it was before `with_block`."""
    span = _block(content)
    if not span:
        return content
    before, after = content[: span[0]], content[span[1] :]
    if after:
        return before + after.removeprefix(b"\r").removeprefix(b"\n")
    return before.removesuffix(b"\n").removesuffix(b"\r")


def _block(content: bytes) -> tuple[int, int] | None:
    """Find our block: from the start of its first marker to the end of its last one."""
    start = content.find(FIRST[: FIRST.index(":") + 1].encode())
    end = content.find(LAST.encode(), max(start, 0))
    return (start, end + len(LAST)) if 0 <= start < end else None
