"""A hint that is printed works when it is run, and two commands say the same of one state."""

from __future__ import annotations

from support.project import Project


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
