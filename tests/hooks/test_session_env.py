"""The variables that the client's shell commands get: once, and nothing that a shell would take for more."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.project import RUN, Project

if TYPE_CHECKING:
    from pathlib import Path

STARTUP = "SessionStart.startup.interactive"
RESUME = "SessionStart.resume.interactive"
RUN_LINE = f"export FABER_RUN_ID='{RUN}'\n"


def started(project: Project, path: Path | str, recorded: str = STARTUP, **changes: str) -> None:
    answer = project.deliver(recorded, env={"CLAUDE_ENV_FILE": str(path)}, **changes)
    assert (answer.code, bool(answer.packet)) == (0, True)


def sourced(path: Path) -> list[str]:
    """Return what a shell that sources the file has in the two variables."""
    script = f'. "{path}"; printf "%s\\n" "$FABER_RUN_ID" "$FABER_WORK_ID"'
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_start_exports_the_runs_ids_once(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "environment.sh"
    started(project, path)
    started(project, path, RESUME)
    assert path.read_text() == RUN_LINE + "export FABER_WORK_ID='258'\n"
    assert sourced(path) == [RUN, "258"]


def test_what_others_export_stays_and_a_missing_newline_is_added(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "environment.sh"
    path.write_text("export PATH=/opt/bin:$PATH\nexport FABER_WORK_ID='1'")
    started(project, path)
    assert path.read_text().startswith("export PATH=/opt/bin:$PATH\nexport FABER_WORK_ID='1'\nexport FABER_RUN_ID=")
    assert sourced(path) == [RUN, "258"]


def test_another_work_item_replaces_the_one_before_and_none_removes_it(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "environment.sh"
    started(project, path)
    project.change_state(work_id=300)
    started(project, path, RESUME, client="another")
    assert sourced(path) == [RUN, "300"]
    project.change_state(work_id=None)
    started(project, path, RESUME, client="a third")
    assert sourced(path) == [RUN, ""]


@pytest.mark.parametrize(
    "work_id", ["$(touch x)", "1'; touch x; '", "a b", "-n", "", "x" * 65, "1\nexport A=1", "é", True, ["1"], {"a": 1}]
)
def test_a_work_id_that_a_shell_could_misread_is_left_out(project: Project, tmp_path: Path, work_id: object) -> None:
    path = tmp_path / "environment.sh"
    project.change_state(work_id=work_id)
    started(project, path)
    assert path.read_text() == RUN_LINE + "export FABER_WORK_ID=''\n"


@pytest.mark.parametrize("work_id", ["258", "PROJ-12", "fractary/x".replace("/", "#"), "x" * 64])
def test_a_work_id_of_any_tracker_is_exported(project: Project, tmp_path: Path, work_id: str) -> None:
    path = tmp_path / "environment.sh"
    project.change_state(work_id=work_id)
    started(project, path)
    assert sourced(path) == [RUN, work_id]


def test_a_link_a_pipe_and_a_folder_are_left_alone_and_reported(project: Project, tmp_path: Path) -> None:
    target = tmp_path / "bashrc"
    target.write_text("# mine\n")
    link, pipe, folder = tmp_path / "link", tmp_path / "pipe", tmp_path / "folder"
    link.symlink_to(target)
    os.mkfifo(pipe)
    folder.mkdir()
    for count, path in enumerate([link, pipe, folder, tmp_path / "nowhere" / "environment.sh"]):
        started(project, path, client=f"client-{count}")
        assert "CLAUDE_ENV_FILE: " in project.log_lines[-1]
    assert target.read_text() == "# mine\n"
    assert len(project.history) == 4


def test_a_finished_run_and_a_subagent_export_nothing(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "environment.sh"
    environment = {"CLAUDE_ENV_FILE": str(path)}
    project.deliver("subagent.SessionStart.compact.print", env=environment)
    project.change_state(status="completed")
    project.deliver(STARTUP, env=environment)
    assert not path.exists()
