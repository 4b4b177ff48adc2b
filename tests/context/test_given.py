"""The agent gets what it does not have, and what is recorded as given is what it was given."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.project import PROTOCOL, Project

if TYPE_CHECKING:
    pass

STARTUP = "SessionStart.startup.interactive"
ME = "324802ff-0231-4ac6-8eb6-c6c99574fbae"
IN_CLIENT = {"CLAUDE_CODE_SESSION_ID": ME, "CLAUDE_PID": "1"}
BOTH = ["workflow-state", "orchestration-protocol"]


def load(project: Project, *arguments: str, **env: str) -> dict[str, Any]:
    found: dict[str, Any] = project.data("session-load", *arguments, env=env)
    return found


def names(data: dict[str, Any], member: str = "loaded") -> list[str]:
    return [one["artifact_id"] for one in data[member]]


# The five minutes


def test_the_load_after_a_compaction_gives_all_again(project: Project) -> None:
    """Without hooks, and on another machine: the context is new, whoever loaded before (spec-and-session-end 1)."""
    assert names(load(project, "--trigger", "session_start")) == BOTH
    assert project.faber("session-save", "--reason", "compaction").returncode == 0
    assert names(load(project)) == BOTH
    assert project.history[1]["artifacts_loaded"] == BOTH
    assert names(load(project, FABER_LEDGER_HOSTNAME="desktop")) == BOTH
    project.assert_projected()


@pytest.mark.parametrize("trigger", ["session_start", "compaction_detected"])
def test_a_client_whose_context_begins_again_gets_all(project: Project, trigger: str) -> None:
    """A hook set of the documents' form misses a manual compaction, and calls a load all the same."""
    assert names(load(project, "--trigger", "session_start", **IN_CLIENT)) == BOTH
    again = load(project, "--trigger", trigger, **IN_CLIENT)
    assert again["skipped"] == []
    assert len(project.history) == 1


def test_a_load_spares_only_what_this_session_was_given_whole(project: Project) -> None:
    """An outline is not the artifact, and one that is named is wanted (session-manager-reload-reconstitution 1)."""
    project.name_artifacts({"id": "short", "path": "short.md"}, {"id": "long", "path": "long.md"})
    project.write("short.md", "Short.\n")
    project.write("long.md", "# Long\n\n" + "A line of it.\n" * 2_000)
    project.deliver(STARTUP, client=ME, pid="1")
    assert [event["given"] for event in project.of_type("artifact_loaded")] == ["inline", "outline"]
    done = load(project, "--budget", "100000", **IN_CLIENT)
    assert (names(done), names(done, "skipped")) == (["long"], ["short"])
    assert "A line of it.\n" * 2_000 in done["context"]
    assert names(load(project, **IN_CLIENT), "skipped") == ["short", "long"]
    assert names(load(project, "--artifacts", "short", **IN_CLIENT)) == ["short"]
    assert names(load(project, "--content", **IN_CLIENT)) == ["short", "long"]
    report = project.faber("session-load", "--verbose", env=IN_CLIENT).stdout
    assert "ℹ Skipping short - loaded just now (--force loads it)\n" in report
    assert "  ⊘ short - this session has it: loaded just now\n" in report
    project.assert_projected()


def test_an_older_tools_load_counts_for_its_open_session(project: Project) -> None:
    from faber_ledger.ledger.clock import now, utc_text

    entry = {"session_id": "older", "started_at": utc_text(now() - 60), "artifacts_loaded": BOTH}
    sessions = {"current_session_id": "older", "total_sessions": 1, "session_history": [entry]}
    recent = [{"artifact_id": "workflow-state", "loaded_at": utc_text(now() - 60)}]
    project.change_state(sessions=sessions, context_metadata={"artifacts_in_context": recent})
    dry = project.faber("session-load", "--dry-run").stdout
    assert dry.count("Action: SKIP (recently loaded)") == 1
    assert names(load(project), "skipped") == ["workflow-state"]


# What was given


def test_what_the_packet_only_names_is_not_in_context(project: Project) -> None:
    """Nor in the session's list (session-manager-reload-reconstitution 2)."""
    many = [{"id": f"artifact-with-a-long-name-{number:03}", "path": "a.md"} for number in range(80)]
    project.name_artifacts(*many)
    project.write("a.md", "A line of it.\n" * 70)
    packet = project.deliver(STARTUP, client=ME, pid="1").packet or ""
    given = [event["artifact_id"] for event in project.of_type("artifact_loaded") if event["given"] != "pointer"]
    assert 0 < len(given) < 40
    assert all(f"\n===== {name}: " in packet for name in given)
    listed = [event["artifact_id"] for event in project.of_type("artifact_loaded") if event["given"] == "pointer"]
    assert listed
    assert all(f"\n- {name}: not shown, a.md" in packet for name in listed)
    more = len(many) - len(given) - len(listed)
    assert more
    none = f"none of all {len(listed) + more} required"
    assert f"\n- … and {more} more, {none}: `faber-ledger session-load --dry-run` lists them\n" in packet
    assert project.in_context == project.history[0]["artifacts_loaded"] == given
    (reloaded,) = project.of_type("context_reloaded")
    assert reloaded["loaded"] == len(given)
    project.assert_projected()


def test_a_deferred_command_is_not_in_context(project: Project) -> None:
    """Nor what has no room in a load's contents (spec-and-session-end 7)."""
    ask = {"id": "issue", "type": "work_plugin", "command": "/fractary-work:issue-fetch 258"}
    project.name_artifacts({"id": "a", "path": "a.md"}, ask)
    project.write("a.md", "A.\n")
    done = project.faber("session-load", "--verbose", env=IN_CLIENT)
    assert "Artifacts loaded (1):\n  ✓ a\n" in done.stdout
    assert "Artifacts skipped (1):\n  ⊘ issue - deferred: the agent is asked to run it\n" in done.stdout
    assert project.in_context == project.history[0]["artifacts_loaded"] == ["a"]
    assert project.of_type("artifact_loaded")[1]["given"] == "deferred"
    assert names(load(project, **IN_CLIENT)) == ["issue"]  # it is asked for again


def test_an_empty_answer_of_a_program_is_a_failure(project: Project) -> None:
    """As it is for reconstitute (session-manager-reload-reconstitution 15)."""
    ask = {"id": "issue", "type": "work_plugin", "command": "/fractary-work:issue-fetch 258"}
    project.name_artifacts(ask)
    project.map_fetch("true")
    done = project.faber("session-load")
    assert "Error: `true` failed: it printed nothing\n" in done.stderr
    assert project.in_context == []
    assert project.of_type("artifact_failed")[0]["artifact_id"] == "issue"


def test_a_look_on_a_terminal_records_nothing(project: Project) -> None:
    """A person looks, and the agent still gets everything."""
    shown, code = project.on_terminal("session-load")
    assert code == 0
    assert shown.splitlines()[0] == (
        "ℹ A look, since this is a terminal: nothing is recorded, and no contents are printed"
        " (`faber-ledger session-load --content` does both)"
    )
    assert "Artifacts that would be loaded (2):\n" in shown
    assert "  Current session: none\n" in shown
    assert f"Would reload context for run: {project.run_id}\n" in shown
    assert "One step after the other" not in shown
    assert not project.ledger_path.exists()
    assert "sessions" not in project.state
    shown, code = project.on_terminal("session-load", "--content")
    assert code == 0
    assert "One step after the other" in shown
    assert project.in_context == BOTH
    events = project.events
    project.on_terminal("session-load")
    shown, code = project.on_terminal("session-load", "--json")
    assert (code, json.loads(shown)["data"]["context"]) == (0, "")
    assert project.events == events


def test_without_fabers_plugin_a_context_begins_with_the_run(project: Project) -> None:
    """No error comes first, and a load succeeds (session-manager-reload-reconstitution 3)."""
    (project.root / PROTOCOL).unlink()
    text = project.deliver(STARTUP, client=ME, pid="1").packet or ""
    assert text.startswith(f"# FABER run {project.run_id}\n")
    assert names(load(project, **IN_CLIENT), "skipped") == ["workflow-state"]
    assert project.state["context_metadata"]["reload_count"] == 2


# Whatever fails, the agent gets the rest


def test_a_failed_required_artifact_does_not_keep_the_others_away(project: Project) -> None:
    """Its error and how to recover stand first in the contents."""
    needed = {"id": "needed", "path": "needed.md", "required": True}
    project.name_artifacts(needed, {"id": "after", "path": "after.md"})
    project.write("after.md", "What comes after.\n")
    done = project.faber("session-load")
    assert done.returncode == 1
    error = "❌ ERROR: Required artifact not found\nArtifact: needed\n"
    assert error in done.stderr
    contents = done.stdout[done.stdout.index(error) :]
    assert "Recovery:\n1. Check if path is correct in workflow config\n" in contents
    assert "\n===== after: whole, after.md (0.1 KB)\nWhat comes after.\n===== end of after\n" in contents
    assert project.in_context == ["after"]
    assert project.of_type("artifact_failed")[0]["artifact_id"] == "needed"
    assert project.state["context_metadata"]["reload_count"] == 0
    assert "last_artifact_reload" not in project.state["context_metadata"]
    project.assert_projected()


def test_a_load_that_cannot_be_recorded_gives_its_contents(project: Project) -> None:
    """And nothing is skipped afterwards that was not given (spec-and-session-end 2)."""
    project.refuse()
    inbox = project.write(".fractary/inbox", "no folder")
    done = project.faber("session-load")
    project.relent()
    inbox.unlink()
    assert done.returncode == 1
    assert f"# FABER run {project.run_id}" in done.stdout
    assert "One step after the other" in done.stdout
    assert "❌ ERROR: Failed to save state file" in done.stderr
    assert "✓ Context reloaded" not in done.stdout
    assert names(load(project)) == BOTH


def test_a_load_that_waits_gives_its_contents_and_is_recorded_later(project: Project) -> None:
    load(project)
    project.age_log(400)
    project.refuse()
    done = project.faber("session-load")
    project.relent()
    assert done.returncode == 0, done.stderr
    assert "One step after the other" in done.stdout
    assert "this waits in .fractary/inbox/" in done.stderr
    loads = len(project.of_type("artifact_loaded"))
    assert project.faber("note", "add", "next").returncode == 0
    assert len(project.of_type("artifact_loaded")) == loads + len(BOTH)


def test_a_name_that_no_artifact_has_loads_nothing_and_records_nothing(project: Project) -> None:
    """It is an error that lists the names (spec-and-session-end remark 5)."""
    for dry in ([], ["--dry-run"]):
        done = project.faber("session-load", "--artifacts", "workflow-stat", *dry)
        assert done.returncode == 1
        assert "error: nothing to load: none of the named artifacts is selected\n" in done.stderr
        assert "hint: the workflow's artifacts: workflow-state, orchestration-protocol" in done.stderr
        assert "Context reloaded" not in done.stdout
    assert not project.ledger_path.exists()


# Dry run and real run


def test_a_dry_run_fails_where_the_load_would(project: Project) -> None:
    """It says so in its text (spec-and-session-end remark 6)."""
    needed = {"id": "req", "path": "gone.md", "required": True}
    project.name_artifacts(needed, {"id": "opt", "path": "gone.md"}, {"id": "a", "path": "a.md"})
    project.write("a.md", "A.\n")
    dry = project.faber("session-load", "--dry-run")
    assert dry.returncode == 1
    assert "  ✗ req\n" in dry.stdout
    assert "    Exists: no\n" in dry.stdout
    assert "    Action: FAIL (the load would exit with code 1)\n" in dry.stdout
    assert "  ⊘ opt\n" in dry.stdout
    assert "    Action: SKIP (not found)\n" in dry.stdout
    assert "Total: 3 artifacts (1 would be loaded, 1 skipped, 1 would fail)\n" in dry.stdout
    assert project.faber("session-load").returncode == 1


def test_a_dry_run_tells_all_that_the_load_would_do(project: Project) -> None:
    """Which latest file, and what is not selected (session-manager-reload-reconstitution 12)."""
    newest = {"id": "notes", "type": "directory", "path": "notes", "load_strategy": "latest_only"}
    ask = {"id": "issue", "type": "work_plugin", "command": "/fractary-work:issue-fetch 258"}
    project.name_artifacts(newest, ask)
    project.write("notes/a.md", "A.\n")
    workflow = json.loads((project.root / ".fractary/faber/workflows/own.json").read_text())
    unmet = {"id": "unmet", "type": "markdown", "path": "a.md", "condition": "work_id == 'x'"}
    workflow["critical_artifacts"]["conditional_load"] = [unmet, {**unmet, "id": "odd", "condition": 7}]
    project.write(".fractary/faber/workflows/own.json", json.dumps(workflow))
    dry = project.faber("session-load", "--dry-run")
    assert dry.returncode == 0
    assert f"    Resolved: {project.root}/notes/a.md\n" in dry.stdout
    assert "    Action: SKIP (deferred: the agent is asked to run it)\n" in dry.stdout
    assert "Total: 2 artifacts (1 would be loaded, 1 skipped)\n" in dry.stdout
    assert "Not selected, for their triggers, phase or condition: unmet, odd\n" in dry.stdout
    assert "Cannot evaluate condition: 7\n" in dry.stderr
    real = project.faber("session-load", "--verbose").stdout
    assert "Artifacts loaded (1):\n" in real
    assert "Artifacts skipped (1):\n" in real
