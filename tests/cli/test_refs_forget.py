"""`run forget --remote`: a ref is deleted at the remote, and no event is lost by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.carried import SENT, CarriedClone
from support.clones import RUN


@pytest.fixture
def one(tmp_path: Path) -> CarriedClone:
    """A clone with a run that has one session, of which nothing was sent."""
    return CarriedClone.started(tmp_path / "one")


def test_a_ref_that_was_forgotten_is_sent_by_name_alone(one: CarriedClone) -> None:
    one.sync()
    one.faber("run", "forget", "--remote", RUN, "--yes")
    assert one.origin.heads() == {}
    assert one.refs(SENT) == ""
    one.work("second")
    assert one.sync().stdout == "nothing to fetch from origin, and nothing to send\n"
    said = f"deleted at origin: only `faber-ledger sync {RUN}` sends it from here"
    assert said in one.faber("status").stdout
    assert "its ref is gone already at origin\n" in one.faber("run", "forget", "--remote", RUN, "--yes").stdout
    one.sync(RUN)
    assert one.origin.ids() == one.log_ids()


def test_a_run_that_was_never_sent_is_not_forgotten(one: CarriedClone) -> None:
    assert one.call(*one.command("run", "forget", "--remote", RUN, "--yes")).returncode == 10
    assert one.sync().stdout.startswith(f"{RUN}: 0 events fetched from origin, ")


def test_a_forgotten_refs_events_are_fetched_before_and_said(one: CarriedClone) -> None:
    two = one.second_at_work()
    done = one.call(*one.command("run", "forget", "--remote", RUN))
    assert done.returncode == 1
    count = len(two.log_ids())
    assert f"would delete {SENT}{RUN} at origin, with {count} events, all of them in this clone's log" in done.stderr
    assert "by two" in one.clients()
    assert one.origin.has(two)
    assert one.sync().stdout == "nothing to fetch from origin, and nothing to send\n"


def test_what_a_colleague_sends_again_is_absorbed(one: CarriedClone) -> None:
    one.sync()
    two = one.second("two")
    two.sync()
    one.faber("run", "forget", "--remote", RUN, "--yes")
    one.work("unsent")
    two.work("by two")
    two.sync()
    one.sync()
    assert "by two" in one.clients()
    assert one.origin.has(two)
    assert not one.origin.has(one)
    assert "deleted at origin, and sent again by another clone: only" in one.faber("status").stdout
    assert "sent" not in one.start_line()
    one.origin.git("update-ref", "-d", SENT + RUN)
    one.sync()
    assert "deleted at origin: only" in one.faber("status").stdout


def test_a_ref_that_nobody_can_absorb_is_deleted_all_the_same(one: CarriedClone) -> None:
    one.sync()
    one.origin.put({"ledger.db": b"no ledger"}, message=b"x\n\nRun: another-1\n")
    assert "belongs to another run" in one.call(*one.command("run", "forget", "--remote", RUN)).stderr
    one.faber("run", "forget", "--remote", RUN, "--yes")
    assert one.origin.heads() == {}


def test_no_ref_is_deleted_before_that_is_noted(one: CarriedClone) -> None:
    one.sync()
    before = one.origin.heads()
    note = one.private(RUN) / "sent.json"
    note.unlink()
    note.mkdir()
    one.faber("run", "forget", "--remote", RUN, "--yes", code=1)
    assert one.origin.heads() == before
