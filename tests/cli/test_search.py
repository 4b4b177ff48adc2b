"""`faber-ledger search` in the runs of a clone: which texts are read, what TEXT means, and what is never shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.project import Project
from support.searching import NOTE, STATE, add_run, kinds, project_to_search, search

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return project_to_search(tmp_path / "project")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("deploy", ["older note"]),
        ("friday", ["older summary"]),
        ("plan", ["older summary"]),
        ("rules", ["older loaded"]),
        ("md", ["older loaded"]),
        ("down", ["older failed"]),
        ("skipped", ["older skipped"]),
        ("feat/258", ["older finding"]),
        ("redis", ["newer decisions[0]"]),
    ],
)
def test_each_kind_of_text_is_found(project: Project, text: str, found: list[str]) -> None:
    assert kinds(project, text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the table", ["older summary", "older summary"]),
        ("TABLE User", ["older summary"]),
        ('"user table"', ["older summary"]),
        ('"table user"', []),
        ("team-rules", ["older loaded"]),
        ("rules-team", []),
        ("issue gateway", ["older failed"]),  # words of two texts of one event
        ('"258 http"', []),  # a phrase is in one text
        ("MÜLLER", ["older note"]),
        ("SPÄTER", ["newer decisions[1]"]),
        ("ledis", []),
        ("redi", []),  # whole words alone
    ],
)
def test_text_asks_for_words_and_phrases(project: Project, text: str, found: list[str]) -> None:
    assert kinds(project, text) == found


def test_hits_come_by_run_the_newest_first(project: Project) -> None:
    assert kinds(project, "gateway") == ["newer note", "newer decisions[0]", "older failed"]
    found = search(project, "gateway")
    assert [found["text"], found["has_more"]] == ["gateway", False]
    note, state = found["runs"][0]["hits"]
    assert (note["at"], note["kind"], note["excerpt"]) == ("2026-01-05T09:00:00Z", "note", "the gateway is up again")
    assert note["path"] is None
    for hit in (note, found["runs"][1]["hits"][0]):
        assert hit["event_id"] in project.said("show", hit["event_id"])  # of whichever run
    assert (state["at"], state["event_id"]) == (STATE["updated_at"], None)


def test_the_files_of_a_run_are_read_too(project: Project) -> None:
    """What `reconstitute` shows of them is found (session-manager-reload-reconstitution F8)."""
    run = ".fractary/runs/older"
    decided = {
        "type": "decision_point",
        "timestamp": "2026-01-04T08:00:00Z",
        "message": "Hooks",
        "metadata": ["polling"],
    }
    project.write(f"{run}/events/003-decision_point.json", json.dumps(decided))
    project.write(f"{run}/events/002-broken.json", "{")
    project.write(f"{run}/events.jsonl", '{"type": "approval_granted", "message": "maria approved"}\n')
    summary = {"timestamp": "2026-01-04T09:00:00Z", "summary": {"decisions": ["clocks of laptops differ"]}}
    project.write(f"{run}/session-summaries/session-1.json", json.dumps(summary))
    project.write("specs/258.md", "# Hooks\n\nReload context by hooks\n")
    project.write("issue-258.md", "The agent forgets the spec\n")
    (project.root.parent / "secret.md").write_text("outside the project")
    paths = {"spec_path": "specs/258.md", "issue_path": "issue-258.md", "gone_path": "x.md", "far_path": "../secret.md"}
    project.put_state({**project.state, "artifacts": paths})
    found = {
        "hooks polling": "older events/003-decision_point.json",
        "maria approved": "older events.jsonl, line 1",
        "clocks laptops": "older session-summaries/session-1.json",
        "reload context": "older specs/258.md",
        "forgets": "older issue-258.md",
    }
    for text, path in found.items():
        done = project.faber("search", "--json", text)
        (hit,) = json.loads(done.stdout)["data"]["runs"][0]["hits"]
        assert f"{hit['run_id']} {hit['path']}" == path
    assert "events/002-broken.json of older is left out: " in project.faber("search", "polling").stderr
    assert "outside" not in project.faber("search", "outside").stdout.replace("these words: outside", "")


def test_a_work_item_has_all_its_runs_searched(project: Project) -> None:
    add_run(project, "second", STATE, {**NOTE, "text": "the gateway moved"}, hour=2)
    add_run(project, "other", {**STATE, "work_id": "7"}, {**NOTE, "text": "no gateway"}, hour=3)
    done = project.faber("search", "--work-id", "258", "gateway", "--json")
    assert (done.stderr, [one["run_id"] for one in json.loads(done.stdout)["data"]["runs"]]) == (
        "",
        ["second", "newer"],
    )
    assert project.faber("search", "--work-id", "9", "gateway").returncode == 10


def test_a_limit_leaves_out_the_oldest_and_says_so(project: Project) -> None:
    assert kinds(project, "gateway", "--limit", "2") == ["newer note", "newer decisions[0]"]
    assert kinds(project, "gateway", "--limit", "1") == ["newer decisions[0]"]
    assert search(project, "gateway", "--limit", "2")["has_more"]
    said = project.faber("search", "gateway", "--limit", "2").stdout.splitlines()
    assert said[-1] == "older hits are not shown: --limit N shows more"
    assert not search(project, "gateway", "--limit", "3")["has_more"]


@pytest.mark.parametrize(
    ("text", "message"), [(" -- ", "TEXT has no word"), ("x" * 1001, "TEXT has more than 1,000 characters")]
)
def test_text_that_asks_for_nothing_is_wrong_usage(project: Project, text: str, message: str) -> None:
    done = project.faber("search", "--", text)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}\n\nhint: ")


def test_a_redacted_event_is_never_found(project: Project) -> None:
    event = search(project, "again")["runs"][0]["hits"][0]["event_id"]
    done = project.faber("redact", event, "--run", "newer", "--yes")
    assert done.returncode == 0, done.stderr
    assert kinds(project, "again") == []
    assert kinds(project, "build") == []
    assert kinds(project, "redacted") == []


def test_runs_of_other_branches_are_read_too(project: Project) -> None:
    noted = Project(project.root, "older", project.hostname)
    assert noted.faber("run", "resume", "older").returncode == 0
    assert noted.faber("note", "add", "elsewhere there is a heron").returncode == 0
    project.git("switch", "--quiet", "-c", "work")
    project.commit()
    project.git("switch", "--quiet", "main")
    assert not noted.ledger_path.exists()
    assert kinds(project, "heron") == ["older note"]


def test_an_unreadable_run_is_named_and_the_others_are_searched(project: Project) -> None:
    (project.root / ".fractary/runs/older/ledger.db").write_bytes(b"SQLite format 3\0" + b"x" * 4096)
    (project.root / ".fractary/runs/older/state.json").write_text("{")
    done = project.faber("search", "gateway", "--json")
    assert done.returncode == 0
    data = json.loads(done.stdout)["data"]
    assert [group["run_id"] for group in data["runs"]] == ["newer"]
    assert [warning.partition(" are ")[0].partition(" is ")[0] for warning in data["warnings"]] == [
        "the events of older",
        "the state of older",
    ]


def test_a_report_has_one_line_for_each_hit(project: Project) -> None:
    lines = project.faber("search", "gateway").stdout.splitlines()
    events = [hit["event_id"] for group in search(project, "gateway")["runs"] for hit in group["hits"]]
    assert [line.split(maxsplit=3) for line in lines] == [
        ["newer:", "2", "hits"],
        ["2026-01-05T09:00:00Z", "note", events[0], "the gateway is up again"],
        ["-", "state", "decisions[0]", "what keep, reason Redis would need a second gateway"],
        ["older:", "1", "hit"],
        ["2026-01-05T08:00:04Z", "failed", events[2], "HTTP 502: gateway is down"],
    ]


def test_an_entry_of_the_state_has_its_own_time(project: Project) -> None:
    error = {"error": "the kettle boils", "timestamp": "2026-01-04T10:00:00+01:00"}
    asked = {"prompt": "Which kettle?", "at": "2026-01-03T09:00:00Z", "more": ["kettles"]}
    project.change_state(
        feedback_request=asked, **{"errors": [{"error": "no kettle"}, error, "kettle"], "errors[7": "kettle!"}
    )
    lines = project.faber("search", "kettle").stdout.splitlines()
    assert [line.split(maxsplit=3) for line in lines[1:]] == [
        ["2026-01-03T09:00:00Z", "state", "feedback_request.prompt", "Which kettle?"],
        ["-", "state", "errors[0]", "error no kettle"],
        ["2026-01-04T09:00:00Z", "state", "errors[1]", "error the kettle boils"],
        ["-", "state", "errors[2]", "kettle"],
        ["-", "state", "errors[7", "kettle!"],
    ]


def test_an_entry_of_the_state_is_one_hit_with_who_and_when(project: Project) -> None:
    approval = {"phase": "release", "status": "approved", "by": "maria", "at": "2026-01-07T10:00:00Z"}
    notes = {"seen": {"status": "approved"}, "why": "Approved " + "at length " * 30}
    comment = "Approved on condition that the migration is run by hand and at night alone"
    project.change_state(approvals=[approval | {"comment": comment}, {**notes, "approved": True}])
    first, long, *others = project.said("search", "approved").splitlines()[1:]
    assert "Approved on condition that" in long
    assert first.split(maxsplit=3) == [
        approval["at"],
        "state",
        "approvals[0]",
        "phase release, status approved, by maria",
    ]
    assert [line.split()[2] for line in others] == ["approvals[1].seen.status", "approvals[1].why"]
    assert "approvals[0]" in project.said("search", "status maria")  # words of two fields, and a field's name
    project.change_state(status="in_progress", current_phase="release")
    assert [line.split()[2] for line in project.said("search", "release").splitlines()[1:]] == ["approvals[0]"]
