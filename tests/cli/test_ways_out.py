"""A hint that is printed works when it is run, and two commands say the same of one state."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.project import Project


def test_what_is_not_published_is_no_difference(project: Project) -> None:
    project.deliver("SessionStart.startup.print", client="one")
    project.deliver("SessionEnd.other.print", client="one")
    project.change_state(status="completed")
    assert project.faber("seal").returncode == 0
    project.git("commit", "--quiet", "--message", "Work")
    project.deliver("SessionStart.startup.print", client="two")
    assert project.faber("session-load", "--force").returncode == 0
    checked = project.faber("verify")
    assert checked.returncode == 0
    assert "the run is finished, and its ledger is committed" in checked.stdout


def test_a_ledger_is_no_file_to_import(project: Project) -> None:
    project.deliver("SessionStart.startup.print", client="one")
    done = project.faber("import", str(project.ledger_path))
    assert done.returncode == 20
    assert "it is a SQLite file" in done.stderr
    assert "line 2" not in done.stderr


def test_another_runs_ledger_in_the_place_of_a_runs_is_left_alone(project: Project, tmp_path: Path) -> None:
    project.deliver("SessionStart.startup.print", client="one")
    assert project.faber("run", "start", "--work-id", "9", "--run-id", "other", "--yes").returncode == 0
    shutil.copyfile(project.run.with_name("other") / "ledger.db", project.ledger_path)
    project.git("add", "--all", "--force")
    project.git("commit", "--quiet", "--message", "Oops")
    clone = Project(tmp_path / "clone", project.run_id)
    project.git("clone", "--quiet", str(project.root), str(clone.root))
    verified = clone.faber("verify", project.run_id)
    assert "is the ledger of another run, and is left as it is" in verified.stdout
    assert "other" not in clone.faber("log", project.run_id).stdout
    here = project.faber("verify", project.run_id)
    assert "remove the file and run `faber-ledger project" in here.stdout
    project.ledger_path.unlink()
    assert project.faber("project", project.run_id).returncode == 0
    assert project.faber("verify", project.run_id).returncode == 0


def test_a_setting_of_git_that_the_user_changed_after_init_stays(project: Project) -> None:
    assert project.faber("init").returncode == 0
    project.git("config", "merge.autoStash", "false")
    assert project.faber("init").returncode == 0
    assert project.git("config", "merge.autoStash").strip() == "false"


def test_no_hint_names_a_command_that_must_fail(project: Project) -> None:
    (project.root / ".fractary/runs/empty").mkdir()
    said = project.faber("project", "empty").stderr
    assert "the run empty has neither a ledger nor a state" in said
    assert "session-load" not in said
    assert project.faber("run", "list").returncode == 0
    project.put_state("{")
    said = project.faber("session-save").stderr
    assert "2. Restore from backup if available\n" in said
    assert "--restore" not in said
