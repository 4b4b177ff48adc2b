"""Whatever a clone brings, no command and no hook leaves the project, executes a program of its, or hangs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from support.command import COMMAND
from support.project import ARGUMENTS
from support.sizes import pick

from attacks.audit import Borders, run_traced
from attacks.hostile import MARK, make
from attacks.test_text import CALLS

if TYPE_CHECKING:
    from pathlib import Path

HOOKS = (
    "SessionStart.startup.print",
    "PreCompact.auto.print",
    "SessionStart.compact.print",
    "PostCompact.auto.print",
    "SessionEnd.other.print",
)
# What changes the project most comes last.
LAST = ("redact", "init", "uninstall")


@pytest.mark.parametrize(
    "deed",
    [
        "open(bait)",
        "os.unlink(bait)",
        "os.chdir(os.path.dirname(bait)); os.rename('notes.txt', 'other.txt')",
        "subprocess.run(['./evil'])",
        "open('link')",
        "os.mkdir('../beside')",
    ],
)
def test_what_leaves_a_project_is_seen(tmp_path: Path, deed: str) -> None:
    project, bait = tmp_path / "project", tmp_path / "home" / "notes.txt"
    for folder in (project, bait.parent):
        folder.mkdir()
    bait.write_text("mine")
    (project / "link").symlink_to(bait)
    (project / "evil").write_text("#!/bin/sh\n")
    (project / "evil").chmod(0o755)
    environment = {**os.environ, "HOME": str(bait.parent), "TMPDIR": str(tmp_path / "temporary")}
    borders = Borders(project, environment, tmp_path / "state")

    def broken_by(code: str) -> list[str]:
        words = [sys.executable, "-c", f"import os, subprocess; bait = {str(bait)!r}; {code}"]
        return borders.broken_by(run_traced(words, project, environment).touched)

    assert broken_by(deed)
    assert not broken_by("open('own', 'w'); subprocess.run(['git', '--version'])")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(pick(1, 8)))
def test_no_command_leaves_a_hostile_clone(tmp_path: Path, seed: int) -> None:
    project, steps = make(tmp_path, seed)
    shown = f"seed {seed}, steps {', '.join(steps)}"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    own: dict[str, str | None] = {"HOME": str(tmp_path / "home"), "TMPDIR": str(temporary), "XDG_CONFIG_HOME": None}
    own |= {"XDG_STATE_HOME": str(tmp_path / "state"), "CLAUDE_ENV_FILE": None}
    environment = project.environment(own)
    borders = Borders(project.root, environment, tmp_path / "state")
    calls: list[tuple[list[str], bytes, dict[str, str]]] = []
    for name in HOOKS:
        content, variables, event = project.prepared(name, client="one", env=own)
        calls.append((["hook", ARGUMENTS[event]], content, variables))
    places = {"EVENT": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "LEDGER": str(project.ledger_path)}
    for name in sorted(CALLS, key=lambda name: name.startswith(LAST)):
        for given in [given for given in CALLS[name] if "--worktree" not in given]:  # which is made beside the project
            calls.append(([*name.split(), *[places.get(word, word) for word in given]], b"", environment))
    completing = {"_FABER_LEDGER_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    for words in ("faber-ledger show ", "faber-ledger status ", "faber-ledger run resume "):
        calls.insert(len(HOOKS), ([], b"", {**environment, **completing, "COMP_WORDS": words}))
    before = _files_in(tmp_path / "home")
    for arguments, content, variables in calls[seed % 4 :: pick(4, 1)]:
        done = run_traced([str(COMMAND), *arguments], project.root, variables, content)
        what = f"{shown}: faber-ledger {' '.join(arguments)}"
        assert done.code is not None, f"{what} hangs"
        assert b"Traceback" not in done.errors, f"{what}: {done.errors.decode(errors='replace')[-3000:]}"
        assert b"bug in faber-ledger" not in done.errors, f"{what}: {done.errors.decode(errors='replace')[-3000:]}"
        assert not (broken := borders.broken_by(done.touched)), f"{what}:\n" + "\n".join(broken[:10])
        assert not list(project.root.rglob(MARK)), f"{what} executed something"
    assert _files_in(tmp_path / "home") == before, shown


def _files_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
