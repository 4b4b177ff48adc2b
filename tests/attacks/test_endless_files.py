"""Ledgers of few pages that never end: pages of a tree name each other so often that reading it takes for ever."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from support.project import Project
from support.sizes import few

if TYPE_CHECKING:
    from pathlib import Path

START, END = "SessionStart.startup.print", "SessionEnd.other.print"
LEVELS, CHILDREN = 15, 60  # 60 to the power of 15 rows


def make_endless(path: Path, table: str) -> None:
    """Put pages above a table's only page, each of which names the page below it again and again."""
    content = bytearray(path.read_bytes())
    (size,) = struct.unpack(">H", content[16:18])
    root = 1
    if table != "sqlite_schema":
        with closing(sqlite3.connect(path)) as connection:
            (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    start = (root - 1) * size
    header = 100 if root == 1 else 0  # the database's own, before that of its first page
    leaf = bytearray(content[start : start + size])
    kind, count = leaf[header], struct.unpack(">H", leaf[header + 3 : header + 5])[0]
    has_rowids = kind == 13
    assert kind in (10, 13), "the table has more than one page"
    first = struct.unpack(">H", leaf[header + 8 : header + 10])[0]
    cell = b"\x01" if has_rowids else bytes(leaf[first : first + 1 + leaf[first]])
    moved = bytearray(size)
    moved[:] = leaf
    moved[0 : 8 + 2 * count] = leaf[header : header + 8 + 2 * count]
    last = len(content) // size
    pages = [moved]
    for level in range(LEVELS):
        pages.append(interior(size, last + 1 + level, cell, 5 if has_rowids else 2))
    top = interior(size, last + len(pages), cell, 5 if has_rowids else 2, bytes(content[:header]))
    content[start : start + size] = top
    for page in pages:
        content += page
    content[28:32] = struct.pack(">I", len(content) // size)
    path.write_bytes(content)


def interior(size: int, child: int, cell: bytes, kind: int, before: bytes = b"") -> bytearray:
    """Return a page that names one child many times."""
    page, end, pointers = bytearray(size), size, []
    page[: len(before)] = before
    for _ in range(CHILDREN):
        one = struct.pack(">I", child) + cell
        end -= len(one)
        page[end : end + len(one)] = one
        pointers.append(end)
    at = len(before)
    page[at : at + 12] = struct.pack(">BHHHBI", kind, 0, CHILDREN, end, 0, child)
    page[at + 12 : at + 12 + 2 * CHILDREN] = struct.pack(f">{CHILDREN}H", *pointers)
    return page


@pytest.fixture
def origin(tmp_path: Path) -> Project:
    """Return a project whose run is committed."""
    project = Project.made(tmp_path / "origin")
    project.deliver(START, client="one")
    project.deliver(END, client="one")
    project.commit("Begin")
    return project


def commit_endless(project: Project, table: str) -> None:
    make_endless(project.ledger_path, table)
    project.git("commit", "--quiet", "--no-verify", "--all", "-m", "Look for ever")


@pytest.mark.long
@pytest.mark.parametrize("table", few(["sqlite_schema", "head"], 1))
def test_an_endless_ledger_holds_up_no_hook_or_command(origin: Project, tmp_path: Path, table: str) -> None:
    """The file is set aside, and the run goes on with what `state.json` says."""
    commit_endless(origin, table)
    clone = origin.clone(tmp_path / "clone", "desktop")
    for words in (["status"], ["log"], ["verify"], ["run", "list"], ["export"], ["doctor"]):
        assert "Traceback" not in clone.faber(*words).stderr, words
    assert clone.deliver(START, client="two").packet is not None
    clone.assert_projected()


@pytest.mark.long
@pytest.mark.parametrize("table", few(["head", "sqlite_schema"], 1))
def test_a_ledger_that_never_ends_takes_nothing_from_a_clone(origin: Project, tmp_path: Path, table: str) -> None:
    clone = origin.clone(tmp_path / "clone", "desktop")
    clone.faber("init", "--git-only")
    clone.deliver(START, client="two")
    before = clone.types
    clone.git("checkout", "--quiet", "--", ".")
    commit_endless(origin, table)
    clone.git("pull", "--quiet", "--no-rebase")
    answer = clone.deliver("PreCompact.auto.print", client="two")
    assert "a copy of it is kept for 30 days" in answer.errors
    assert clone.types == [*before, "session_ended"]
    assert clone.faber("verify").returncode == 0
    clone.assert_projected()
