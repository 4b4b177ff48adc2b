"""The client runs a plugin's hook beside the settings' one, with the same bytes: recorded once and printed once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from support.plugins import plugin_environment
from support.project import Answer, Project, answer_of

START, END = "SessionStart.startup.print", "SessionEnd.other.print"
PRE, POST = "PreCompact.auto.print", "PostCompact.auto.print"
ME, PID = "6b7b3c2e-0231-4ac6-8eb6-c6c99574fbae", "26210"


def deliver_to_both(project: Project, recorded: str, **changes: Any) -> list[Answer]:
    """Deliver to a hook of the plugin and to one of the settings at once."""
    content = project.prepared(recorded, **changes)[0]
    both = [project.started(recorded, **changes, env=more) for more in (plugin_environment(project), {})]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda process: answer_of(process, content), both))


def waiting(project: Project) -> list[Path]:
    return sorted((project.root / ".git" / "faber-ledger").rglob("inbox/**/*.json"))


def repeats(project: Project) -> int:
    return [event["reason"] for event in project.of_type("delivery_ignored")].count("repeated")


def make_all_deliveries_to_both(project: Project, client: str) -> None:
    """Deliver all four; an end has one second, so on a busy machine it may wait in the inbox afterwards."""
    for recorded in (START, PRE, POST, END):
        answers = deliver_to_both(project, recorded, client=client, pid=PID)
        assert [answer.code for answer in answers] == [0, 0], recorded
        assert sum(bool(answer.output) for answer in answers) == (recorded in (START, PRE)), recorded


def test_all_four_hooks_of_plugin_and_settings_record_and_print_once(project: Project) -> None:
    for count in range(2):
        make_all_deliveries_to_both(project, f"{count:08d}-0231-4ac6-8eb6-c6c99574fbae")
    assert project.faber("project").returncode == 0
    assert len(project.history) == 2
    assert repeats(project) == 2 * 4
    assert len(project.of_type("compaction_completed")) == 2
    assert project.current is None
    assert waiting(project) == []
    project.assert_projected()
