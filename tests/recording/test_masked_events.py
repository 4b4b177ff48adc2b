"""No secret that a delivery or a person brings gets into a log, or into a file that outlives the delivery."""

from __future__ import annotations

import ast
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from support.command import COMMAND, run_command
from support.digests import keyed_digest
from support.files_with import files_with
from support.project import RUN, Project
from support.summaries import ME, OTHER
from typing_extensions import get_type_hints, is_typeddict

import faber_ledger
from faber_ledger.ledger import events
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.log import Log
from faber_ledger.recording.masked_events import FREE_TEXT, KEPT, NAMED, mask_drafts
from faber_ledger.recording.spool import LONGEST_ASIDE

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
ASIDE_TYPES = """
import importlib, sys
from faber_ledger.cli.entry import main
from faber_ledger.recording import sessions

def fail(*arguments, **named):
    raise RuntimeError(f"a defect with {arguments[1]}")

sessions.open_session = fail
main()
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.made(tmp_path / "project")


def holders(project: Project, *secrets: str) -> list[str]:
    """Return the project's files, its git directory's among them, that hold a secret."""
    return files_with(project.root, *(secrets or (TOKEN, PASSWORD)))


def spool(project: Project) -> Path:
    return project.root / ".git" / "faber-ledger" / "spool" / project.run_id


def spooled(project: Project, *deliveries: tuple[str, dict[str, str]], **changes: Any) -> list[Path]:
    """Deliver where the ledger cannot be written; return what waits."""
    aside = project.run / "aside"
    project.ledger_path.rename(aside)
    project.ledger_path.mkdir()
    for name, fields in deliveries:
        assert project.deliver(name, fields=fields, **changes).code == 0
    project.ledger_path.rmdir()
    aside.rename(project.ledger_path)
    return sorted(spool(project).glob("*.json"))


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


def test_of_each_text_of_an_event_it_is_decided_how_it_is_masked() -> None:
    """(W17)"""
    found = {name for shape in get_args(events.Event) for name in _text_fields(shape)}
    assert {"text", "cwd", "blocks"} <= found
    assert found == FREE_TEXT | NAMED | KEPT
    assert len(found) == len(FREE_TEXT) + len(NAMED) + len(KEPT)


def test_every_event_that_this_program_makes_is_masked() -> None:
    """Another call of `Log.append`, the one that hashes events, would go around the masking (W17)."""
    callers = set()
    for package in Path(faber_ledger.__file__).parent.iterdir():
        for path in package.resolve().rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.keywords]
            if any(ast.unparse(call.func).endswith(".append") for call in calls):  # a list's has no keywords
                callers.add(f"{package.name}/{path.name}")
    assert callers == {"recording/masked_events.py"}


def test_a_draft_without_a_secret_is_the_same_draft() -> None:
    event: Any = {"type": "note_recorded", "kind": "note", "text": "token: rotate it", "phase": "build", "step": None}
    drafts: Any = [{"event": {**event, "text": "we chose flock, see docs/LOCKS.md"}, "client": ME}]
    assert mask_drafts(drafts) is drafts


# What a delivery brings

FIELDS = [
    (START, {"source": TOKEN}),
    (START, {"cwd": f"/srv/{TOKEN}/project"}),
    (START, {"cwd": f"https://ada:{PASSWORD}@example.com/project"}),
    (START, {"model": SAID, "transcript_path": f"/home/{TOKEN}.jsonl"}),
    (PRE, {"trigger": SAID}),
    (PRE, {"custom_instructions": SAID}),
    (POST, {"trigger": TOKEN}),
    (POST, {"compact_summary": SAID}),
    (POST, {"compact_summary": SAID, "agent_id": f"subagent {TOKEN}"}),
    (END, {"reason": SAID}),
    (END, {"cwd": f"/srv/{TOKEN}"}),
]


@pytest.mark.parametrize(("name", "fields"), FIELDS)
def test_no_secret_of_a_delivery_is_left_in_any_file(project: Project, name: str, fields: dict[str, str]) -> None:
    """(W17)"""
    project.deliver(START, client=ME)
    before = len(project.events)
    assert project.deliver(name, client=OTHER if name == START else ME, fields=fields).code == 0
    assert len(project.events) > before
    assert holders(project) == []
    project.assert_projected()


@pytest.mark.parametrize(("name", "fields"), FIELDS)
def test_a_delivery_waits_readable_by_its_user_alone_and_takes_its_secrets_along(
    project: Project, name: str, fields: dict[str, str]
) -> None:
    """(W7) (W17)"""
    project.deliver(START, client=ME)
    before = len(project.events)
    client = OTHER if name == START else ME
    (path,) = spooled(project, (name, fields), client=client)
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


def test_a_delivery_with_a_secret_is_recorded_once(project: Project) -> None:
    """Its digest is of what came, so that the same bytes are the same delivery, though other words are recorded."""
    project.deliver(START, client=ME)
    fields = {"compact_summary": SAID}
    (path,) = spooled(project, (POST, fields), client=ME)
    waited = path.read_bytes()
    assert project.faber("project").returncode == 0
    (event,) = project.of_type("compaction_completed")
    content = project.prepared(POST, client=ME, fields=fields)[0]
    assert event["delivery"]["digest"] == keyed_digest(project.root / ".git", content)
    assert "[masked" in event["summary"]
    path.parent.mkdir()
    path.write_bytes(waited)  # as a hook leaves it that was killed between the commit and the unlink
    assert project.faber("project").returncode == 0
    project.deliver(POST, client=ME, fields=fields)
    assert len(project.of_type("compaction_completed")) == 1
    assert project.of_type("delivery_ignored")[-1]["reason"] == "repeated"
    assert holders(project) == []


# What could not be recorded


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"note": SAID, "deep": [{"password": PASSWORD}], TOKEN: 1}),
        json.dumps({"id": TOKEN, "run_id": TOKEN, "hook": TOKEN, "delivery": json.dumps({"reason": SAID})}),
        json.dumps({"delivery": f"no JSON, {SAID}"}),
        f"no JSON, {SAID}",
        f"{SAID}\xff".encode("latin-1"),
        b"[" * 5000 + SAID.encode(),
        json.dumps({"padding": "word " * 300_000, "said": SAID}),
        SAID + " word" * 300_000,
        " " * (LONGEST_ASIDE - 20) + TOKEN + " word" * 300_000,
    ],
    ids=["other JSON", "ids", "text in a delivery", "text", "bytes", "deep", "long JSON", "long text", "at the cut"],
)
def test_what_is_no_delivery_is_moved_aside_without_its_secrets(project: Project, content: str | bytes) -> None:
    """(W7)"""
    project.deliver(START, client=ME)
    spool(project).mkdir(parents=True)
    path = spool(project) / "01700000000000000-x.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o600)
    assert project.deliver(END, client=ME).code == 0
    assert project.types[-1] == "session_ended"
    (aside,) = spool(project).iterdir()
    assert aside.suffix == ".malformed"
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert holders(project) == []
    assert holders(project, TOKEN[:9]) == []
    assert "may hold secrets" not in project.faber("doctor").stdout


def test_a_delivery_that_a_bug_refuses_is_masked_and_can_still_be_recorded(project: Project) -> None:
    """(W7)"""
    project.deliver(START, client=ME)
    spooled(project, (START, {"source": f"startup {TOKEN}", "more": SAID}), client=OTHER)
    done = subprocess.run(
        [sys.executable, "-c", ASIDE_TYPES, "hook", "session-end"],
        cwd=project.root,
        env=project.environment({"CLAUDE_CODE_SESSION_ID": ME}),
        input=project.prepared(END, client=ME)[0],
        capture_output=True,
        check=True,
    )
    assert b"was moved to" in done.stderr
    (aside,) = spool(project).iterdir()
    assert holders(project) == []
    aside.rename(aside.with_suffix(".json"))  # as doctor says
    assert project.faber("project").returncode == 0
    assert not spool(project).exists()
    assert project.of_type("session_started")[-1]["source"].startswith("startup [masked")
    project.assert_projected()


def test_doctor_copies_no_delivery(project: Project) -> None:
    """(W7)"""
    project.deliver(START, client=ME)
    spooled(project, (POST, {"compact_summary": SAID}), (END, {"reason": SAID}), client=ME)
    fixed = project.faber("doctor", "--fix")
    assert "record what waits in the spool" in fixed.stdout
    assert project.types[-1] == "session_ended"
    assert list((project.root / ".git" / "faber-ledger" / "doctor").rglob("*.json"))  # of the state
    assert holders(project) == []


@pytest.mark.parametrize(
    "place", [f".git/faber-ledger/spool/{RUN}", f".fractary/runs/{RUN}/spool", ".git/faber-ledger/spool/gone"]
)
def test_doctor_cleans_what_earlier_versions_have_left(project: Project, place: str) -> None:
    """With git and without, and of a run that is not there any more (W7)."""
    project.deliver(START, client=ME)
    copies = project.root / ".git" / "faber-ledger" / "doctor" / "20260101T000000Z"
    copy, other = copies / place / "01767623422000000-01KE7M.json", copies / ".fractary/runs" / RUN / "state.json"
    aside = spool(project) / "1.malformed"
    for path in (copy, aside):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"delivery": SAID}))
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text("{}")
    said = " ".join(project.faber("doctor").stdout.split())
    assert "1 copy of deliveries that an earlier version made may hold secrets" in said
    assert f"{RUN}: 1 file that could not be recorded may hold secrets" in said
    assert len(holders(project)) == 2
    fixed = project.faber("doctor", "--fix").stdout
    assert "remove copies of deliveries" in fixed
    assert "mask what was moved aside" in fixed
    assert holders(project) == []
    assert not copy.exists()
    assert aside.exists()
    assert other.exists()
    assert "may hold secrets" not in project.faber("doctor").stdout


# What a person, or another tool, brings


@pytest.mark.parametrize("kind", ["note", "summary"])
@pytest.mark.parametrize("from_stdin", [False, True])
def test_a_note_is_recorded_without_its_secrets(project: Project, kind: str, *, from_stdin: bool) -> None:
    """(W17)"""
    done = run_command(
        [COMMAND, "note", "add", "--kind", kind, *(["--from-stdin"] if from_stdin else [SAID]), "--json"],
        cwd=project.root,
        env=project.environment(),
        input=SAID,
        capture_output=True,
        text=True,
        check=True,
    )
    (event,) = project.of_type("note_recorded")
    assert json.loads(done.stdout)["data"]["text"] == event["text"]
    assert PASSWORD not in done.stdout
    assert event["text"].startswith("log in with password: [masked")
    assert event["text"].endswith(", then go on")
    assert holders(project) == []


def test_who_notes_a_secret_is_told_that_it_is_masked(project: Project) -> None:
    assert "what looks like a secret is masked" in project.faber("note", "add", SAID).stdout
    assert "masked" not in project.faber("note", "add", "we chose flock").stdout


def test_a_redactions_reason_is_recorded_without_its_secrets_and_once(project: Project) -> None:
    """(W17)"""
    project.faber("note", "add", "the customer is Ada")
    name = project.events[-1]["id"]
    for _ in range(2):
        assert project.faber("redact", name, "--yes", "--reason", SAID).returncode == 0
    (event,) = project.of_type("event_redacted")
    assert event["reason"].startswith("log in with password: [masked")
    assert holders(project) == []


def test_a_step_may_be_called_like_a_secret(project: Project) -> None:
    """(W17)"""
    project.change_state(current_phase="password: reset", current_step="token: rotate")
    project.deliver(START, client=ME)
    project.deliver(POST, client=ME, fields={"trigger": "secret: rotate"})
    project.faber("note", "add", "one")
    for kind in ("session_started", "compaction_completed", "note_recorded"):
        event = project.of_type(kind)[-1]
        assert (event["phase"], event["step"]) == ("password: reset", "token: rotate")
    assert project.of_type("compaction_completed")[0]["trigger"] == "secret: rotate"


def test_a_token_in_a_step_or_a_phase_stays_in_the_state_alone(project: Project) -> None:
    """Another tool's state is in git as it is; the log does not repeat what it says (W17)."""
    done = {"frame": {"status": "completed"}, f"phase-{TOKEN}": {"status": "completed"}}
    project.change_state(current_phase=f"build {TOKEN}", current_step=f"https://ada:{PASSWORD}@host/x", phases=done)
    project.deliver(START, client=ME)
    project.deliver(END, client=ME)
    event = project.of_type("session_ended")[0]
    assert (event["phase"], event["step"]) == ("build [masked: GitHub Token]", "https://[masked]@host/x")
    assert event["phases_completed"] == ["frame", "phase-[masked: GitHub Token]"]
    for path in (project.ledger_path, project.root / ".git/faber-ledger/runs" / RUN / "ledger.db"):
        assert TOKEN.encode() not in path.read_bytes()
        assert PASSWORD.encode() not in path.read_bytes()
    project.assert_projected()


def test_a_token_in_an_artifacts_path_or_command_is_masked(project: Project) -> None:
    """(W17)"""
    command = f"git log --format=https://ada:{PASSWORD}@host"
    named = [
        {"id": "tokens", "type": "markdown", "path": f"docs/{TOKEN}.md", "required": True},
        {"id": "history", "type": "git_info", "command": command, "required": False},
        {"id": "gone", "type": "markdown", "path": f"docs/{TOKEN}/none.md", "required": True},
    ]
    project.write(f"docs/{TOKEN}.md", "Read me.\n")
    project.write(".fractary/faber/workflows/mine.json", json.dumps({"critical_artifacts": {"always_load": named}}))
    project.change_state(workflow_id="mine")
    packet = project.deliver(START, client=ME).packet or ""
    assert "Read me." in packet
    sources = {one["artifact_id"]: one["source"] for one in project.of_type("artifact_loaded")}
    assert sources["tokens"].startswith("docs/[masked")
    (failed,) = [one for one in project.of_type("artifact_failed") if one["artifact_id"] == "gone"]
    assert "[masked" in failed["error"]
    names_files = (".fractary/faber/workflows", "docs/")
    assert [path for path in holders(project) if not path.startswith(names_files)] == []
    project.assert_projected()
    assert project.faber("session-load").returncode == 1  # a required artifact is missing
    assert project.faber("show", "tokens").returncode == 0


def test_a_branch_with_a_token_is_masked_and_its_run_still_used(project: Project, tmp_path: Path) -> None:
    """(W17)"""
    project.git("checkout", "--quiet", "-b", f"feat/{TOKEN}")
    project.deliver(START, client=ME)
    project.deliver(END, client=ME)
    branches = {one["branch"] for one in project.of_type("checkout_recorded")}
    assert branches == {"feat/[masked: GitHub Token]"}
    project.git("add", "--all")
    project.git("commit", "--quiet", "--message", "Work")
    clone = project.clone(tmp_path / "clone", "desktop")
    assert f"feat/{TOKEN}" in clone.git("branch", "--show-current")
    before = len(clone.events)
    assert clone.deliver(START, client=OTHER).packet is not None
    assert len(clone.events) > before


def test_a_folder_with_a_token_is_masked_and_not_taken_for_another(tmp_path: Path) -> None:
    """(W17)"""
    project = Project.noted(tmp_path / TOKEN)
    project.git("config", "--remove-section", "merge.faber-ledger")  # which is said where a session was elsewhere
    assert "never set up" not in (project.deliver(START, client=ME).packet or "never set up")
    assert project.history[-1]["environment"]["cwd"] == str(tmp_path / "[masked: GitHub Token]")
    assert "never set up" not in (project.deliver(START, client=OTHER).packet or "never set up")
    assert not [path for path in holders(project, TOKEN) if path.endswith(("ledger.db", "state.json", ".log"))]


def test_the_blocks_of_an_adopted_run_stay_as_git_has_them(project: Project) -> None:
    """What another tool wrote into state.json is in git already, and the projection shows it."""
    entry = {"session_id": "theirs", "started_at": "2026-01-05T14:30:22Z", "environment": {"cwd": f"/srv/{TOKEN}"}}
    project.change_state(sessions={"current_session_id": None, "total_sessions": 1, "session_history": [entry]})
    project.deliver(START, client=ME)
    assert TOKEN in project.of_type("run_adopted")[0]["blocks"]
    assert project.history[0]["environment"]["cwd"] == f"/srv/{TOKEN}"
    project.assert_projected()


def test_a_redaction_of_another_field_leaves_a_secret_and_has_effect(project: Project) -> None:
    """What remains is compared with the payload: were it masked, the redaction would count as forged."""
    project.faber("note", "add", "ours")
    draft: Any = {"type": "note_recorded", "kind": "note", "text": SAID, "phase": "the customer's", "step": None}
    with Log.open(str(project.ledger_path)) as log:
        log.append([{"event": draft}], at=now(), writer="5f" * 16)
        log.commit()
    name = project.events[-1]["id"]
    assert project.faber("redact", name, "--field", "phase", "--yes").returncode == 0
    assert project.of_type("event_redacted")[0]["remains"]["text"] == SAID
    assert holders(project, "the customer's") == []
    assert project.faber("redact", name, "--yes").returncode == 0
    assert holders(project) == []


def test_events_of_others_stay_as_they_are(project: Project, tmp_path: Path) -> None:
    """Their hashes cover what they say: who receives them cannot mask them, and says so with a redaction."""
    project.faber("note", "add", "ours")
    theirs = tmp_path / "theirs"
    shutil.copytree(project.root, theirs)
    other = Project(theirs)
    draft: Any = {"type": "note_recorded", "kind": "note", "text": SAID, "phase": None, "step": None}
    with Log.open(str(other.ledger_path)) as log:
        log.append([{"event": draft}], at=now(), writer="5f" * 16)
        log.commit()
    done = project.faber("union", str(project.ledger_path), str(other.ledger_path), "-o", str(tmp_path / "both.db"))
    assert done.returncode == 0, done.stderr
    os.replace(tmp_path / "both.db", project.ledger_path)
    assert project.faber("verify").returncode == 0
    assert project.of_type("note_recorded")[-1]["text"] == SAID
    assert project.faber("redact", project.events[-1]["id"], "--yes").returncode == 0
    assert holders(project) == []
