"""The demo: the installed command plays its story, and shows what the documents say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.command import COMMAND, run_command
from support.program import make_program, program_folder
from support.served import Served

ARTIFACTS = ["workflow-state", "orchestration-protocol", "specification"]


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Return the folder that the demo uses as its temporary one."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def played(
    temporary: Path, *arguments: str, program: str | Path = COMMAND, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Play the demo, which starts the program that it was started as for each step."""
    environment = os.environ | {"TMPDIR": str(temporary)} | variables
    return run_command(
        [program, "demo", *arguments], env=environment, capture_output=True, encoding="utf-8", check=False
    )


def data_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert (done.returncode, done.stderr) == (0, "")
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


def test_the_sessions_and_the_log_are_those_of_the_story(temporary: Path) -> None:
    data = data_of(played(temporary, "--json"))
    sessions = data["sessions"]
    history = sessions["session_history"]
    assert [(one["environment"]["hostname"], one["end_reason"], one["phases_completed"]) for one in history] == [
        ("laptop", "compaction", ["frame", "architect"]),
        ("laptop", "abandoned", ["frame", "architect", "build"]),
        ("desktop", "normal", ["frame", "architect", "build", "evaluate", "release"]),
    ]
    assert [one["artifacts_loaded"] for one in history] == [ARTIFACTS[:2], ARTIFACTS, ARTIFACTS]
    assert (sessions["current_session_id"], sessions["total_sessions"]) == (None, 3)
    context = data["context_metadata"]
    assert context["reload_count"] == 3
    assert [load["artifact_id"] for load in context["artifacts_in_context"]] == ARTIFACTS
    assert list(temporary.iterdir()) == []
    starts = [recorded for recorded in data["log"] if recorded["event"]["type"] == "session_started"]
    assert [start["event"]["source"] for start in starts] == ["startup", "compact", "resume"]
    laptop, again, desktop = [start["writer"] for start in starts]
    assert laptop == again != desktop
    ends = [recorded["event"] for recorded in data["log"] if recorded["event"]["type"] == "session_ended"]
    assert [(end["reason"], end["inferred"], end["client_reason"]) for end in ends] == [
        ("compaction", False, "auto"),
        ("abandoned", True, None),
        ("normal", False, "prompt_input_exit"),
    ]


def test_the_story_shows_sessions_context_and_that_the_log_holds(temporary: Path) -> None:
    done = played(temporary, program=f"{program_folder()}/faber-ledger")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [re.split("  +", line.strip()) for line in done.stdout.splitlines()]
    rows = [line for line in lines if line[1:2] in (["laptop"], ["desktop"]) and len(line) > 6]
    assert [(row[1], *row[4:]) for row in rows] == [
        ("laptop", "compaction", "86.6k", "frame ✓, architect ✓, build"),
        ("laptop", "abandoned", "-", "build ✓"),
        ("desktop", "normal", "44.5k", "evaluate ✓, release ✓"),
    ]
    places = ["Phase: frame", "Phase: build (frame, architect are completed)"]
    assert re.findall("│ (Phase: .*)", done.stdout)[:2] == places
    sound, empty, offer = done.stdout.splitlines()[-3:]
    assert (sound.endswith(": sound"), empty) == (True, "")
    assert "`faber-ledger demo --keep`, then `faber-ledger page`" in offer
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("machine", ["laptop", "desktop"])
def test_the_page_of_a_kept_demo_shows_three_runs(temporary: Path, machine: str) -> None:
    done = played(temporary, "--keep")
    assert done.returncode == 0
    assert "`faber-ledger page`" in done.stderr.splitlines()[-1]
    (folder,) = temporary.iterdir()
    environment = {**os.environ, "HOME": str(folder), "FABER_LEDGER_HOSTNAME": machine}
    project = folder / machine / "myproject"
    listed = run_command(
        [COMMAND, "run", "list", "--json"], cwd=project, env=environment, capture_output=True, check=True
    )
    assert [row["phase"] for row in json.loads(listed.stdout)["data"]] == ["build", "build", "release"]
    with Served(project, environment) as page:
        rows = re.findall(r'<tr id="run-([^"]+)"(.*?)</tr>', page.read("/"), re.DOTALL)
        for (_, row), words in zip(rows, ("waiting: question", "failed", "done"), strict=True):
            assert f">{words}<" in row
        assert "131.1k" in rows[2][1]
        assert "<td>desktop</td>" in page.read(f"/run/{rows[1][0]}")


@pytest.mark.long(alone=True)
def test_the_callers_home_git_and_client_change_nothing(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    hooks = tmp_path / "hooks"
    for name in ("pre-commit", "pre-push", "post-checkout"):
        make_program(hooks / name, "exit 1")
    config = tmp_path / "gitconfig"
    config.write_text(
        f"[core]\nhooksPath = {hooks}\n[commit]\ngpgsign = true\n[gpg]\nprogram = false\n[push]\ndefault = nothing\n"
        f"[init]\ntemplateDir = {tmp_path}\n[pull]\nrebase = true\n"
    )
    data = data_of(
        played(
            temporary,
            "--json",
            GIT_CONFIG_GLOBAL=str(config),
            GIT_CONFIG_SYSTEM=str(config),
            GIT_DIR=str(tmp_path / "elsewhere"),
            CLAUDE_CODE_SESSION_ID="another",
            CLAUDE_PROJECT_DIR=str(tmp_path),
            FABER_LEDGER_HOSTNAME="mine",
            LC_ALL="C",
        )
    )
    machines = [one["environment"]["hostname"] for one in data["sessions"]["session_history"]]
    assert machines == ["laptop", "laptop", "desktop"]


def test_without_git_it_says_what_is_missing(temporary: Path) -> None:
    done = played(temporary, PATH=str(temporary))
    assert (done.returncode, done.stdout) == (1, "")
    assert "git" in done.stderr
    assert "hint: install git" in done.stderr
    assert list(temporary.iterdir()) == []


def test_a_step_that_fails_is_named_and_nothing_is_left_behind(temporary: Path, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    script = f'[ "$1" = pull ] && {{ echo no network >&2; exit 7; }}\nexec {shutil.which("git")} "$@"'
    make_program(programs / "git", script)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = played(temporary, program=f"{program_folder()}/faber-ledger", PATH=path)
    assert done.returncode == 1
    assert "error: laptop: `git pull` ended with exit code 7: no network" in done.stderr
    assert list(temporary.iterdir()) == []
