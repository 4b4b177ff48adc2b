"""Clones that exchange a run through a server end with the same events, whatever is interrupted."""

from __future__ import annotations

import fcntl
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from support.lying import lying
from support.project import RUN, Project
from support.team_server import FORGED, Team

from faber_ledger.ledger.encoding import ID, PARENTS, PAYLOAD
from faber_ledger.postgres import exchange
from faber_ledger.postgres.address import Address, parse_url
from faber_ledger.postgres.exchange import PLACED, fetch_named, fetch_new, fetch_rows
from faber_ledger.postgres.server import Server, open_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_three_clones_that_work_apart_end_with_the_same_bytes(team: Team) -> None:
    for number, one in enumerate(team.clones):
        assert one.faber("note", "add", f"of clone {number}").returncode == 0
    for one in (*team.clones, *team.clones):
        team.synced(one)
    exports = [team.export(one) for one in team.clones]
    assert exports[0].count(b"of clone") == 3
    assert exports[0] == exports[1] == exports[2]
    for one in team.clones:
        assert one.faber("verify", RUN).returncode == 0
        assert one.state["sessions"] == team.clones[0].state["sessions"]


def test_a_sync_without_news_says_so_and_changes_nothing(team: Team) -> None:
    first = team.clones[0]
    count = team.synced(first)["pushed"]
    assert count == len(first.events)
    before = (first.ledger_path.read_bytes(), first.state_path.read_bytes())
    done = team.sync(first)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{RUN}: nothing new\n", "")
    assert (first.ledger_path.read_bytes(), first.state_path.read_bytes()) == before
    assert len(team.rows()) == count


def test_the_blocks_that_a_sync_grows_are_those_of_the_whole_log(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(first)
    team.synced(second)
    assert second.faber("run", "resume", RUN).returncode == 0
    for kind in (
        "SessionStart.clear.print",
        "SessionStart.compact.print",
        "PreCompact.auto.print",
        "SessionEnd.other.print",
    ):
        first.deliver(kind)
        assert first.faber("note", "add", "a note").returncode == 0
        team.synced(first)
        assert team.synced(second)["fetched"] >= 1
        second.assert_projected()
        assert second.state["sessions"] == first.state["sessions"]
    start = next(one["id"] for one in first.events if one["event"]["type"] == "session_started")
    assert first.faber("redact", start, "--yes").returncode == 0
    team.synced(first)
    assert team.sync(second).returncode == 0
    second.assert_projected()
    assert second.state["sessions"] == first.state["sessions"]


def leave_end_waiting(clone: Project) -> None:
    """End the clone's session while its log is locked."""
    with open(clone.lock_path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        clone.deliver("SessionEnd.other.print")
    assert clone.current is not None


def test_a_sync_that_leaves_a_delivery_waiting_ends_with_1(team: Team) -> None:
    first = team.clones[0]
    team.synced(first)
    leave_end_waiting(first)
    state = first.state_path.read_bytes()
    first.put_state({**first.state, "run_id": "another-run"})
    done = team.sync(first)
    said = f"{RUN}: 0 events fetched, 0 pushed, state.json left out, 1 delivery not recorded\n"
    assert (done.returncode, done.stdout) == (1, said)
    assert f"{RUN}: not recorded yet, so not pushed: 1 delivery\n" in done.stderr
    first.state_path.write_bytes(state)
    assert team.synced(first)["pushed"] == 2
    assert [row["type"] for row in team.rows()[-2:]] == ["session_ended", "checkout_recorded"]


def test_without_its_notes_a_clone_compares_all_and_doubles_nothing(team: Team) -> None:
    first = team.clones[0]
    team.synced(first)
    for note in (first.root / ".git" / "faber-ledger" / "sync").rglob("*.json"):
        note.unlink()
    assert team.synced(first) == {
        "run_id": RUN,
        "fetched": 0,
        "pushed": 0,
        "state": None,
        "left_out": [],
        "conflicts": [],
        "not_removed": [],
        "waiting": 0,
    }


def test_push_and_fetch_alone_go_one_way(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(first, "--push")
    assert second.faber("note", "add", "of the second").returncode == 0
    before = team.export(second)
    assert team.synced(second, "--fetch")["pushed"] == 0
    assert len(team.rows()) == len(first.events)
    assert team.export(second) == before
    assert first.faber("note", "add", "of the first").returncode == 0
    assert team.synced(second, "--push")["fetched"] == 0
    assert b"of the first" not in team.export(second)
    assert team.synced(first, "--fetch")["fetched"] == 1


def test_what_git_and_the_server_both_bring_is_there_once(team: Team) -> None:
    first, second, _ = team.clones
    assert first.faber("note", "add", "on both ways").returncode == 0
    team.synced(first)
    first.git("commit", "-qam", "More")
    second.git("pull", "--quiet", "--no-rebase", str(first.root), "HEAD")
    team.synced(second)
    assert team.export(second) == team.export(first)
    assert len(team.rows()) == len(first.events)


def test_a_missing_project_id_or_server_says_what_to_do(team: Team, tmp_path: Path) -> None:
    done = team.clones[0].faber("sync")
    assert done.returncode == 2
    assert "no server is named" in done.stderr
    bare = Project.made(tmp_path / "bare")
    done = team.sync(bare)
    assert done.returncode == 1
    assert "error: the project has no id yet" in done.stderr
    assert "hint: `git pull` brings it if a colleague has set it up; else run `faber-ledger init`, and" in done.stderr


# Redactions


def test_a_redaction_reaches_the_server_at_once_and_every_clone_that_syncs(team: Team) -> None:
    first, second, third = team.clones
    assert first.faber("note", "add", "the word is hunter-0001").returncode == 0
    team.synced(first)
    team.synced(second)
    name = first.events[-1]["id"]
    done = first.faber("redact", name, "--yes", env={"FABER_LEDGER_URL": team.url})
    assert (done.returncode, done.stderr) == (0, "")
    assert "  removed on the team's server, too, where an admin can put it back for 30 days" in done.stdout
    assert "hunter" not in str(team.rows())
    assert "1 event was redacted elsewhere" in team.sync(second).stderr
    team.synced(third)  # it never had the note
    for one in (second, third):
        assert b"hunter" not in team.export(one)
        assert one.faber("verify", RUN).returncode == 0
    assert team.export(second) == team.export(first) == team.export(third)


def test_a_redaction_without_the_server_holds_and_is_sent_later(team: Team) -> None:
    first, second, _ = team.clones
    assert first.faber("note", "add", "the word is hunter-0001").returncode == 0
    team.synced(first)
    away = "postgresql:///db?host=/nowhere"
    done = first.faber("redact", first.events[-1]["id"], "--yes", env={"FABER_LEDGER_URL": away})
    assert done.returncode == 0
    assert "the server may still have what was redacted" in done.stderr
    assert f"run `faber-ledger sync {RUN} --push`" in done.stderr
    assert b"hunter" not in team.export(first)
    assert "hunter" in str(team.rows())
    assert second.faber("note", "add", "meanwhile").returncode == 0
    team.synced(first, "--push")
    assert "hunter" not in str(team.rows())


# Two contents of one id


def test_one_id_with_two_contents_is_named_and_the_rest_is_exchanged(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(second)
    row: dict[str, Any] = team.forged(first, id="01KE0000000000000000000001")
    team.put(row)
    other = team.forge_into(second, id=row["id"], text="another")
    assert first.faber("note", "add", "later").returncode == 0
    team.synced(first)
    done = team.sync(second)
    assert done.returncode == 22
    named = f"{RUN}: event {row['id']} differs from the one on the server (written by "
    assert done.stderr.count(named) == 1
    assert b"later" in team.export(second)
    assert other["hash"].hex().encode() in team.export(second)
    for words in ((), ("--push",), ("--fetch",)):
        again = team.sync(second, *words)
        assert (again.returncode, again.stderr.count(named)) == (22, 1)
    assert [one["hash"] for one in team.rows() if one["id"] == row["id"]] == [row["hash"]]


# What is fetched from a server comes in batches of a bounded size, however much somebody has put there.


@pytest.fixture
def server(team: Team) -> Iterator[Server]:
    with open_server(Address(parse_url(team.url, "a test"))) as opened:
        yield opened


def test_batches_of_any_size_have_the_same_events(team: Team, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    team.synced(team.clones[0])
    monkeypatch.setattr(exchange, "MOST_EVENTS", 2)
    batches: list[int] = []
    with closing(fetch_new(server, team.project, RUN, 0, [], batches.append)) as fetched:
        ids = [name for (name,) in fetched.log.connection.execute("SELECT id FROM event ORDER BY seq, id")]
    assert ids == [one["id"] for one in team.clones[0].events]
    assert max(batches) == 2
    ask, asked = server.ask, list[int]()

    def count(*words: Any, **more: Any) -> Any:
        asked.append(len(more.get("ids", ())))
        return ask(*words, **more)

    monkeypatch.setattr(server, "ask", count)
    found = [row[ID] for batch in fetch_named(server, team.project, RUN, ids) for _, row in batch]
    assert (sorted(found), max(asked)) == (sorted(ids), 2)  # the more there are, the longer each question would take


def test_many_megabytes_of_parents_come_in_batches(team: Team, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a member pushes, no answer is larger than it is meant to be, but for one event."""
    longest, ids = 512 * 1024, [f"{FORGED[:-2]}{number:02d}" for number in range(12)]
    team.synced(team.clones[0])
    for name in ids:
        team.put(team.forged(team.clones[0], id=name, parents=bytes(range(32)) * (longest // 32)))
    most = 3 * longest
    monkeypatch.setattr(exchange, "MOST_BYTES", most)
    for batches in (fetch_rows(server, team.project, RUN), fetch_named(server, team.project, RUN, ids)):
        found = list(batches)
        assert len(found) >= 4
        assert all(sum(len(row[PARENTS]) + len(row[PAYLOAD] or "") for _, row in one) <= most for one in found)
        assert {*ids} <= {row[ID] for one in found for _, row in one}
    done = team.sync(team.clones[1])
    assert (done.returncode, done.stderr.count(" is left out: ")) == (0, 10)
    assert "and 2 more" in done.stderr


def test_endless_positions_are_followed_to_the_newest_asked_for(team: Team) -> None:
    first, second, _ = team.clones
    team.synced(first)
    with team.database.connect() as connection:
        connection.execute("CREATE SEQUENCE faber_ledger.endless")
    columns = ["nextval('faber_ledger.endless') AS position", *[*PLACED][1:]]
    endless = f"SELECT {', '.join(columns)} FROM honest ORDER BY honest.position DESC LIMIT 1"
    with lying(team.database, endless, "events_after"):
        done = team.sync(second, "--fetch")
    assert (done.returncode, done.stdout) == (14, "")
    assert "fewer events than it has counted" in done.stderr
    team.synced(second, "--fetch")
    assert team.export(second) == team.export(first)
