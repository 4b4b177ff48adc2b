"""Journals as an attacker makes them, to be put beside a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from support.project import Project

MAGIC = bytes.fromhex(
    "d9d505f920a163d7"
)  # each header of a journal begins with it, and a super-journal's name ends with it
PAGE = 4096


def journal(pages: int, *, names: str = "", content: bytes = b"") -> bytes:
    """Make a journal for a database of so many pages: it plays `content`, and names a super-journal."""
    count, nonce, sector = len(content) // PAGE, 7, 512
    numbers = (count, nonce, pages, sector, PAGE)
    made = (MAGIC + b"".join([number.to_bytes(4, "big") for number in numbers])).ljust(sector, b"\0")
    for number in range(count):
        page = content[number * PAGE : (number + 1) * PAGE]
        check = nonce + sum(page[PAGE - 200 : 0 : -200])
        made += (number + 1).to_bytes(4, "big") + page + check.to_bytes(4, "big")
    if names:
        name = names.encode()
        made += name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + MAGIC
    return made


def pages_of(ledger: Path) -> int:
    """Return how many pages a ledger has."""
    return ledger.stat().st_size // PAGE


def texts(project: Project) -> str:
    """Return what `log` prints."""
    done = project.faber("log")
    assert done.returncode == 0, done.stderr
    return done.stdout
