"""Payloads that fit no reader: a peer writes events of known types whose fields have other types."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from support.forged_events import forge_event
from support.program import path_with_program
from support.project import Project
from support.sample_log import every_type
from support.sizes import few, pick

from faber_ledger.ledger.clock import event_id
from faber_ledger.ledger.encoding import canonical
from faber_ledger.ledger.event_types import EVENT_TYPES, has_required

if TYPE_CHECKING:
    from pathlib import Path

VALUES: list[Any] = [None, True, 7, -1, "x", [], ["x"], [None], [{}], [[]], {}, {"x": {}}, {"x": [1]}, 10**15]
READERS = (
    ("log",),
    ("log", "--json"),
    ("status",),
    ("replay",),
    ("reconstitute",),
    ("session-load", "--dry-run"),
    ("timeline", "-o", "-"),
    ("export",),
    ("run", "list"),
)


def spoil(chance: random.Random, payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload with other values in some of its fields, or without them."""
    made = dict(payload)
    for name in chance.sample(
        [*made, "session_id", "delivery", "environment", "also_loaded", "summary"], chance.choice([1, 2])
    ):
        made[name] = chance.choice(VALUES)
        if chance.random() < 0.1:
            del made[name]
        elif isinstance(payload.get(name), dict) and payload[name] and chance.random() < 0.5:
            made[name] = {**payload[name], chance.choice([*payload[name]]): chance.choice(VALUES)}
    return made


def put_ill_typed(project: Project, seed: int) -> list[str]:
    """Put events of every type, each with a payload that fits no reader, on a ledger's heads; return their ids."""
    chance = random.Random(f"ill-typed {seed}")
    names = []
    for event in [dict(event) for event in every_type() for _ in range(8)]:
        kind, session = str(event.pop("type")), event.pop("session_id", None)
        names.append(event_id(1_790_000_000, chance.randbytes(10)))
        said = spoil(chance, event)
        version = EVENT_TYPES[kind].version
        session = session if chance.random() < 0.7 else None
        changes = {"type": kind, "version": version, "session_id": session, "payload": canonical(said)}
        forge_event(project.ledger_path, id=names[-1], **changes)
    return names


@pytest.mark.long
@pytest.mark.parametrize(("seed", "has_git"), [(seed, seed % 2 == 0) for seed in range(pick(1, 24))])
def test_no_reader_ends_in_a_traceback(tmp_path: Path, seed: int, has_git: bool) -> None:
    """A peer's events have fields of other types, and every reader goes on, before and after the first hook (F7)."""
    project = Project.noted(tmp_path / "peer")
    names = put_ill_typed(project, seed)
    if has_git:
        project.git("add", "--all", "--force")
        project.git("commit", "--quiet", "--no-verify", "--allow-empty", "--message", "Look")
        project = project.clone(tmp_path / "clone", "dev-machine-2")
    some = [("show", name) for name in random.Random(seed).sample(names, 4)]
    for arguments in (*READERS, *some):
        done = project.faber(*arguments)
        assert "Traceback" not in done.stderr, (arguments, done.stderr)
        assert done.returncode in (0, 1, 10), (arguments, done.returncode, done.stderr)
    assert project.deliver("SessionStart.startup.print").code == 0
    for arguments in READERS:
        done = project.faber(*arguments)
        assert "Traceback" not in done.stderr, (arguments, done.stderr)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("note_recorded", "step", 5),
        ("note_recorded", "phase", True),
        ("note_recorded", "session_id", []),
        ("artifact_loaded", "artifact_id", [{}]),
        ("session_started", "environment", {"hostname": 1}),
        ("session_started", "phases_completed", [{}]),
        ("checkout_recorded", "uncommitted", "yes"),
        ("checkout_recorded", "uncommitted_count", "12"),
        ("checkout_recorded", "uncommitted_names", [1]),
        ("context_reconstituted", "findings", ["x"]),
        ("delivery_ignored", "delivery", {"hook": {}}),
        ("session_ended", "also_loaded", [1]),
    ],
)
def test_a_field_of_another_type_is_no_payload(kind: str, field: str, value: Any) -> None:
    """The gate drops a payload of a known type and version whose field has another type, and no other (F7)."""
    event = next(dict(event) for event in every_type() if event["type"] == kind)
    version = EVENT_TYPES[kind].version
    for _ in range(2):  # what was found before decides nothing about another event
        assert has_required(kind, version, event)
        assert not has_required(kind, version, {**event, field: value})
    assert has_required(kind, version + 1, {**event, field: value})


ILL_PAYLOADS: list[tuple[str, dict[str, Any]]] = [
    ("session_started", {"environment": 7}),
    ("run_adopted", {"run_id": "other-run", "blocks": "{}", "more": "evil"}),
    ("note_recorded", {"kind": 5}),
    ("note_recorded", {"kind": "note", "text": "x", "phase": None, "step": None, "more": "evil"}),
    ("run_started", {"run_id": 7}),
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "said"), few(ILL_PAYLOADS, 1))
def test_an_ill_payload_leaves_no_clone_unsound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, said: dict[str, Any]
) -> None:
    """A peer's event has an ill-typed payload: what `verify` advises makes every clone sound again (F7)."""
    monkeypatch.setenv("PATH", path_with_program())  # git calls the merge driver
    peer = Project.noted(tmp_path / "peer")
    assert peer.faber("init", "--git-only").returncode == 0
    peer.git("add", "--all", "--force")
    peer.git("commit", "--quiet", "--no-verify", "--allow-empty", "--message", "Before")
    mine = peer.clone(tmp_path / "mine", "dev-machine-2")
    assert mine.faber("init", "--git-only").returncode == 0
    assert mine.faber("note", "add", "mine").returncode == 0
    row = forge_event(peer.ledger_path, type=kind, session_id=None, payload=canonical(said))
    peer.git("commit", "--quiet", "--no-verify", "--all", "--message", "Look")
    mine.git("commit", "--quiet", "--no-verify", "--all", "--message", "Mine")
    mine.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    other = peer.clone(tmp_path / "other", "dev-machine-3")
    for clone in (mine, other):
        if clone is other:
            assert other.faber("init", "--git-only").returncode == 0
            assert other.faber("note", "add", "other").returncode == 0
        for _ in range(3):
            found = clone.faber("verify", clone.run_id)
            advised = re.findall(r"`faber-ledger (quarantine|redact) ([^`]*)`", found.stdout)
            if found.returncode == 0:
                break
            command, words = advised[0]
            done = clone.faber(command, *words.replace("--yes", "").split(), "--yes")
            assert done.returncode == 0, (found.stdout, done.stderr)
        assert found.returncode == 0, found.stdout
        clone.git("commit", "--quiet", "--no-verify", "--all", "--allow-empty", "--message", "Mended")
    other.git("pull", "--quiet", "--no-rebase", "--no-edit", str(mine.root), "main")
    fresh = other.clone(tmp_path / "fresh", "dev-machine-4")
    for clone in (other, fresh):
        found = clone.faber("verify", clone.run_id)
        assert found.returncode == 0, found.stdout
        assert clone.deliver("SessionStart.startup.print").code == 0
        found = clone.faber("verify", clone.run_id)
        assert found.returncode == 0, found.stdout
        assert row[1] in {one["id"] for one in clone.events}
