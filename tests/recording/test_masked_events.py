"""No secret in a free text that a client, a program or a person brings gets into a log; names stay as they are."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from support.files_with import files_with
from support.project import Project
from support.summaries import ME, OTHER
from typing_extensions import get_type_hints, is_typeddict

from faber_ledger.ledger import events

if TYPE_CHECKING:
    from collections.abc import Iterator


START, PRE, POST, END = (
    "SessionStart.startup.print",
    "PreCompact.auto.print",
    "PostCompact.auto.print",
    "SessionEnd.other.print",
)
# Put together here, so that no tool takes this file for a leak.
TOKEN = "gh" + "p_" + "a1B2" * 9
PASSWORD = "Sommer2026!"
SAID = f"log in with password: {PASSWORD} and {TOKEN}, then go on"
FREE = {"client_reason", "error", "reason", "summary", "text", "told", "uncommitted_names", "model"}
NAMES = {
    *("type", "kind", "given", "severity", "code", "mode", "status", "trigger", "source", "loaded_at", "hook"),
    *("run_id", "workflow_id", "work_id", "session_id", "artifact_id", "agent_id", "also_loaded", "event_id"),
    *("phase", "phases_completed", "step", "branch", "cwd", "hostname", "platform", "pid", "git_commit", "commit"),
    *("digest", "sha256", "agent", "agent_version", "in_phase", "read_files"),
    "blocks",  # of a run that is adopted: they are in git already, and the projection shows them
}


def holders(project: Project, *secrets: str) -> list[str]:
    """Return the project's files, its git directory's among them, that hold a secret."""
    return files_with(project.root, *(secrets or (TOKEN, PASSWORD)))


def inbox(project: Project) -> Path:
    return project.root / ".git" / "faber-ledger" / "inbox" / project.run_id


def refused(project: Project, *deliveries: tuple[str, dict[str, str]], **changes: Any) -> list[Path]:
    """Deliver where the ledger cannot be written; return what waits."""
    aside = project.run / "aside"
    project.ledger_path.rename(aside)
    project.refuse()
    for name, fields in deliveries:
        assert project.deliver(name, fields=fields, **changes).code == 0
    project.relent()
    aside.rename(project.ledger_path)
    return sorted(inbox(project).glob("*.json"))


# Every event, and every field


def _text_fields(shape: Any, name: str = "") -> Iterator[str]:
    """Yield the names of the fields of an event's shape that hold text."""
    if is_typeddict(shape):
        for field, kind in get_type_hints(shape).items():
            yield from _text_fields(kind, field)
    elif shape is str or (get_args(shape) and all(isinstance(one, str) for one in get_args(shape))):
        yield name
    else:
        for one in get_args(shape):
            yield from _text_fields(one, name)


def test_each_text_of_an_event_is_free_or_a_name() -> None:
    """A new field has to be put into one of the sets; a free one is masked where it enters. (W17)"""
    found = {name for shape in get_args(events.Event) for name in _text_fields(shape)}
    assert {"text", "cwd", "blocks"} <= found
    assert found == FREE | NAMES
    assert FREE.isdisjoint(NAMES)


# What a delivery brings

FIELDS = [
    (START, {"model": SAID, "transcript_path": f"/home/{TOKEN}.jsonl"}),
    (PRE, {"trigger": SAID}),
    (PRE, {"custom_instructions": SAID}),
    (POST, {"compact_summary": SAID}),
    (POST, {"compact_summary": SAID, "agent_id": "subagent"}),
    (END, {"reason": SAID}),
]


def test_no_secret_of_a_delivery_is_left_in_any_file(project: Project) -> None:
    """(W17)"""
    project.deliver(START, client=ME)
    for number, (name, fields) in enumerate(FIELDS):
        before = len(project.events)
        client = f"{OTHER}-{number}" if name == START else ME
        assert project.deliver(name, client=client, fields=fields).code == 0
        assert len(project.events) > before, name
        assert holders(project) == [], name
    project.assert_projected()


def test_a_waiting_delivery_takes_its_secrets_along(project: Project) -> None:
    """(W7) (W17)"""
    project.deliver(START, client=ME)
    before = len(project.events)
    (path,) = refused(project, (POST, {"compact_summary": SAID}), client=ME)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert holders(project) in ([], [str(path.relative_to(project.root))])
    assert project.faber("project").returncode == 0
    assert len(project.events) > before
    assert holders(project) == []
    project.assert_projected()


def test_a_secret_in_place_of_a_hooks_name_gets_into_no_log(project: Project) -> None:
    """(W17)"""
    answer = project.deliver(START, client=ME, fields={"hook_event_name": f"x{TOKEN}"}, argument="session-start")
    assert TOKEN in answer.errors
    assert "is not a hook of faber-ledger" in project.log_lines[0]
    assert holders(project) == []


# What could not be recorded


# What a person, or another tool, brings


@pytest.mark.parametrize(("kind", "from_stdin"), [("note", False), ("summary", True)])
def test_a_note_is_recorded_without_its_secrets(project: Project, kind: str, *, from_stdin: bool) -> None:
    """(W17)"""
    words = ["--from-stdin"] if from_stdin else [SAID]
    done = project.faber("note", "add", "--kind", kind, *words, "--json", input=SAID)
    (event,) = project.of_type("note_recorded")
    assert json.loads(done.stdout)["data"]["text"] == event["text"]
    assert PASSWORD not in done.stdout
    assert event["text"].startswith("log in with password: [masked")
    assert event["text"].endswith(", then go on")
    assert holders(project) == []


def test_a_redactions_reason_is_recorded_without_its_secrets_and_once(project: Project) -> None:
    """(W17)"""
    project.faber("note", "add", "the customer is Ada")
    name = project.events[-1]["id"]
    for _ in range(2):
        assert project.faber("redact", name, "--yes", "--reason", SAID).returncode == 0
    (event,) = project.of_type("event_redacted")
    assert event["reason"].startswith("log in with password: [masked")
    assert holders(project) == []


def test_the_error_of_a_users_program_is_recorded_without_its_secrets(project: Project) -> None:
    """(W17)"""
    project.name_artifacts({"id": "issue", "type": "work_plugin", "command": "/fractary-work:issue-fetch"})
    project.map_fetch(sys.executable, "-c", f"import sys; sys.exit({SAID!r})")
    assert project.faber("session-load").returncode == 0
    (failed,) = project.of_type("artifact_failed")
    assert "log in with password: [masked]" in failed["error"]
    assert holders(project) == []


def test_a_finding_is_recorded_without_its_secrets(project: Project) -> None:
    """(W17)"""
    project.change_state(work_id="258")
    project.map_fetch(sys.executable, "-c", f"import sys; sys.exit('could not resolve host: {SAID}')")
    assert project.faber("reconstitute").returncode == 0
    told = [one["told"] for one in project.of_type("context_reconstituted")[0]["findings"]]
    assert [text for text in told if "password: [masked]" in text]
    assert holders(project) == []


def test_names_are_recorded_as_they_are(project: Project) -> None:
    """Other tools have them in git already, or make them up; a step may be called like a secret."""
    project.change_state(current_phase="password: reset", current_step=f"rotate {TOKEN}")
    project.git("checkout", "--quiet", "-b", f"feat/{TOKEN}")
    project.deliver(START, client=ME)
    event = project.of_type("session_started")[0]
    assert (event["phase"], event["step"]) == ("password: reset", f"rotate {TOKEN}")
    assert project.of_type("checkout_recorded")[0]["branch"] == f"feat/{TOKEN}"


def test_names_of_uncommitted_files_are_masked(project: Project) -> None:
    project.deliver(START, client=ME)
    project.write(f"keys/{TOKEN}", "x\n")
    project.write("plain.txt", "x\n")
    project.git("add", "keys")
    project.deliver(END, client=ME)
    names = project.of_type("checkout_recorded")[1]["uncommitted_names"]
    assert len(names) == 2
    assert "plain.txt" in names
    assert TOKEN not in str(names)


def test_the_blocks_of_an_adopted_run_stay_as_git_has_them(project: Project) -> None:
    """What another tool wrote into state.json is in git already, and the projection shows it."""
    entry = {"session_id": "theirs", "started_at": "2026-01-05T14:30:22Z", "environment": {"cwd": f"/srv/{TOKEN}"}}
    project.change_state(sessions={"current_session_id": None, "total_sessions": 1, "session_history": [entry]})
    project.deliver(START, client=ME)
    assert TOKEN in project.of_type("run_adopted")[0]["blocks"]
    assert project.history[0]["environment"]["cwd"] == f"/srv/{TOKEN}"
    project.assert_projected()
