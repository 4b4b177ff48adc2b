"""How often a hook opens and decodes `state.json`: at 2,000 sessions each decoding costs more than everything else."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.project import Project, payload_of

if TYPE_CHECKING:
    from pathlib import Path

COUNTING = """
import json, os, sys
from faber_ledger.cli.entry import main
from faber_ledger.files.json_text import JsonText
from faber_ledger.runs import state_write

opened, decoded, read_back = [], [], []

def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and os.path.basename(arguments[0]) == "state.json":
        opened.append(arguments[0])

def count(self, text, *rest, decode=JsonText.__init__):
    decoded.append(text)
    decode(self, text, *rest)

def check(run, *rest, check_written=state_write._check_written):
    if rest[2]:
        read_back.append(run)
    check_written(run, *rest)

def leave(code, leave=os._exit):
    with open(report, "w") as file:
        json.dump([len(opened), len(decoded) - len(read_back)], file)  # a first write is decoded once more
    leave(code)

JsonText.__init__ = count
state_write._check_written = check
os._exit = leave  # a hook ends with it
report = sys.argv.pop(1)
sys.addaudithook(watch)
main()
leave(0)
"""
FIRST = "SessionStart.startup.print"


def counts_of(project: Project, recorded: str, report: Path) -> list[int]:
    """Deliver to a hook that counts; return how often it opened state.json, and how often it decoded one."""
    content, environment, argument = project.prepared(recorded)
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, report, "hook", argument],
        cwd=project.root,
        env=environment,
        input=content,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    counts: list[int] = json.loads(report.read_text())
    return counts


@pytest.mark.parametrize(
    "recorded",
    ["SessionStart.resume.print", "PreCompact.auto.print", "PostCompact.auto.print", "SessionEnd.other.print"],
)
def test_a_hook_opens_the_state_three_times_and_decodes_it_once(tmp_path: Path, recorded: str) -> None:
    """To learn the status, under the lock, and to compare just before the rename."""
    project = Project.made(tmp_path / "project")
    project.deliver(FIRST, client=payload_of(recorded)["stdin"]["session_id"])
    assert counts_of(project, recorded, tmp_path / "report") == [3, 1]
    project.assert_projected()


def test_so_does_the_first_start_of_a_run(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    assert counts_of(project, FIRST, tmp_path / "report") == [3, 1]
    project.assert_projected()
