"""Rows that a member puts straight into the tables hurt nobody: what no ledger writes is left out and named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.project import RUN
from support.server_rows import put
from support.team_server import FORGED, Team, fresh, start_of, with_hash

from faber_ledger.ledger.encoding import COLUMNS, canonical
from faber_ledger.postgres.ask import LONGEST
from faber_ledger.runs.run import is_run_id, is_taken

if TYPE_CHECKING:
    from pathlib import Path


CHILD = "01KE0000000000000000000002"


def hostile_rows(team: Team) -> dict[str, dict[str, Any]]:
    """Return what a member could insert, by what is wrong with it."""
    honest = team.forged(team.clones[0])
    ids = (f"01KE0000000000000000001{number:03}" for number in range(100))
    swapped = canonical({"kind": "note", "text": "another text", "phase": None, "step": None})

    def row(**changes: Any) -> dict[str, Any]:
        return with_hash({**honest, "id": next(ids), **changes})

    return {
        "hash": {**row(), "hash": bytes(32)},
        "seq": row(seq=honest["seq"] + 5),
        "highest seq": row(seq=2**53 - 1),
        "parent": row(parents=bytes(range(32))),
        "parents": row(parents=honest["parents"] * 2),
        "client": row(client="a\u202eb\x1b[31m"),
        "writer": row(writer="w\u2066w"),
        "time": row(at="yesterday \x1b[2J"),
        "other start": start_of("some-other-run", next(ids)),
        "payload": {**row(), "payload": swapped},
        "huge": {**row(), "payload": '"' + "x" * 8_000_000 + '"'},
        "no object": row(payload="[]"),
    }


def test_hostile_rows_are_named_and_nobody_is_hurt(team: Team, tmp_path: Path) -> None:
    first, second, third = team.clones
    team.synced(first)
    rows = hostile_rows(team)
    whole = rows["no object"]["id"]  # its event passes, without the payload that readers could not use
    for row in rows.values():
        team.put(row)
    assert second.faber("note", "add", "of the second").returncode == 0
    other = fresh(team, tmp_path / "other")
    for clone in (second, third, other):
        done = team.sync(clone, RUN, "--json")
        assert done.returncode == 0, done.stderr
        assert done.stderr.isascii()
        assert "\x1b" not in done.stderr
        (run,) = json.loads(done.stdout)["data"]["runs"]
        assert {one["id"] for one in run["left_out"]} == {row["id"] for row in rows.values()}
    exports = [team.export(clone, RUN) for clone in (second, third, other)]
    assert exports[0] == exports[1] == exports[2]
    assert b"of the second" in exports[0]
    assert [row["id"] for row in rows.values() if row["id"].encode() in exports[0]] == [whole]
    assert team.sync(first).returncode == 0
    assert team.export(first) == exports[0]


def test_a_taken_run_id_ends_with_22_and_hides_nothing(team: Team, tmp_path: Path) -> None:
    first, second, _ = team.clones
    assert first.faber("run", "start", "--work-id", "9", "--yes").returncode == 0
    run_id = first.active_path.read_text().strip()
    assert team.sync(first, run_id).returncode == 0
    other, before = fresh(team, tmp_path / "other"), team.rows()
    assert other.faber("run", "start", "--work-id", "9", "--run-id", run_id, "--yes").returncode == 0
    own = team.export(other, run_id)
    done = team.sync(other, run_id)
    assert (done.returncode, team.rows(), team.export(other, run_id)) == (22, before, own), done.stderr
    assert (
        f"another run has the id {run_id}: {team.login.role} wrote it, and {team.login.role} brought it" in done.stderr
    )
    assert team.sync(second, run_id).returncode == 0
    assert team.export(second, run_id) == team.export(first, run_id)


def test_an_event_whose_parent_arrives_later_comes_in_then(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(first)
    team.synced(second)
    parent = team.forged(first, id=FORGED)
    child = with_hash({**parent, "id": CHILD, "seq": parent["seq"] + 1, "parents": parent["hash"]})
    team.put(child)
    done = team.sync(second)
    assert (done.returncode, done.stderr.count("is left out: its parent")) == (0, 1)
    assert team.sync(second).stderr.count("is left out: its parent") == 1
    team.put(parent)
    assert team.synced(second)["fetched"] == 2
    assert CHILD.encode() in team.export(second)


@pytest.mark.long
def test_any_number_of_events_beside_each_other_does_not_end_a_run(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(first)
    row, count = team.forged(first), LONGEST["parents"] // 32 + 1
    with team.database.connect(team.login) as connection:
        for number in range(count):
            beside = with_hash({**row, "id": f"01KE00000000000000001{number:05}"})
            put(connection, team.project, tuple(beside[name] for name in COLUMNS))
    for clone in (first, second):
        assert team.sync(clone, RUN).returncode == 0
        assert clone.faber("note", "add", "It goes on").returncode == 0
        assert team.sync(clone, RUN).returncode == 0
        assert clone.faber("verify", RUN).returncode == 0
    assert first.faber("log", "--json").stdout.count("It goes on") == 1


def test_a_run_that_no_event_starts_makes_no_folder(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(first)
    team.put(start_of("somebody-else"), "made-up")
    team.put(team.forged(first), "without-start")
    done = team.sync(second, "--all")
    assert done.returncode == 0, done.stderr
    assert f"made-up: event {FORGED} is left out: it starts another run" in done.stderr
    assert "without-start: event" in done.stderr
    assert sorted(one.name for one in second.run.parent.iterdir()) == [RUN]


def test_what_a_forged_redaction_hides_comes_back_with_an_undo(team: Team) -> None:
    first, second, _ = team.clones
    assert first.faber("note", "add", "still here").returncode == 0
    team.synced(first)
    team.synced(second)
    target = first.events[-1]["id"]
    forged = with_hash({**team.forged(first, id=FORGED), "type": "event_redacted"})
    forged["payload"] = canonical({"event_id": target, "reason": None})
    team.put(with_hash(forged))
    assert "still here" not in str(team.rows())
    for clone in (first, second):
        done = team.sync(clone)
        assert (done.returncode, "1 event was redacted elsewhere" in done.stderr) == (0, True)
        assert b"still here" not in team.export(clone)
    done = first.faber("redact", target, "--undo")  # in whose name the redaction is
    assert done.returncode == 0, done.stderr
    for clone in (first, second):
        assert team.sync(clone).returncode == 0
        assert b"still here" in team.export(clone)


NAMES_OF_FILES = [
    *("ledger.db", "Ledger.DB", "ledger.db/x", "state.json", "state.json.backup", "state.backup.json", "ledger.json"),
    *("metadata.json", "events", "inbox", "events.jsonl", "session-summaries", "plan.json"),
]


def test_a_run_named_as_a_file_of_another_takes_no_place(team: Team) -> None:
    first, second, third = team.clones
    team.synced(first)
    for number, name in enumerate(NAMES_OF_FILES):
        team.put(start_of(f"{RUN}/{name}", f"01KE00000000000000000001{number:02}"), f"{RUN}/{name}")
    for clone in (second, third):
        done = team.sync(clone, "--all")
        assert done.returncode == 0, done.stderr
        lines = done.stderr.splitlines()
        assert len(lines) == len(NAMES_OF_FILES)
        assert all("a run of the server is left out: " in line for line in lines)
        assert not [path for path in clone.run.rglob("*") if path.is_dir()]
        done = team.sync(clone, "--all")
        assert (done.returncode, done.stderr) == (0, "")
        names = {path.name for path in clone.run.iterdir() if is_run_id(f"r/{path.name}")}
        assert {"state.json", "ledger.db"} <= names
        assert not {name for name in names if not is_taken(f"r/{name}")}
