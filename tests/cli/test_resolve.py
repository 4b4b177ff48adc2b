"""`faber-ledger resolve`: conflicts left by clones without the driver are resolved from the index."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.clones import LEDGER, STATE, Clone
from support.command import COMMAND


@pytest.fixture
def one(tmp_path: Path) -> Clone:
    return Clone.first(tmp_path / "one", driver=False)


@pytest.fixture
def other(one: Clone) -> Clone:
    return one.clone("other", driver=False)


def apart(one: Clone, other: Clone) -> set[str]:
    """Let both machines go on apart, and give the events of both."""
    one.advance("here")
    other.advance("there")
    return one.ids() | other.ids()


def stopped(one: Clone) -> list[str]:
    """Merge without the driver, which stops, and give the status."""
    one.git("pull", "--no-rebase", "../other", "main", code=1)
    return one.git("status", "--porcelain").splitlines()


def test_a_dry_run_says_what_it_would_do_and_writes_nothing(one: Clone, other: Clone) -> None:
    both = apart(one, other)
    status = stopped(one)
    before = one.ledger.read_bytes(), one.state_path.read_bytes()
    output = one.faber("resolve", "--dry-run").stdout
    assert output.splitlines()[0] == f"would resolve  {LEDGER}: both sides, {len(both)} events"
    assert (one.ledger.read_bytes(), one.state_path.read_bytes()) == before
    assert one.git("status", "--porcelain").splitlines() == status


def test_the_value_that_is_not_used_is_in_the_answer(one: Clone, other: Clone) -> None:
    one.change(status="paused")
    other.change(status="failed", long="x" * 1000)
    other.put({name: value for name, value in other.state.items() if name != "work_id"})
    one.change(work_id="9", long="y")
    apart(one, other)
    stopped(one)
    data = json.loads(one.faber("resolve", "--json").stdout)["data"]
    state = next(file for file in data["files"] if file["path"] == STATE)
    keys = {key["key"]: (key["used"], key["other"]) for key in state["keys"]}
    assert keys == {"status": ("ours", '"failed"'), "work_id": ("ours", None), "long": ("ours", f'"{"x" * 1000}"')}


def test_what_was_recorded_while_the_merge_stood_still_is_kept(one: Clone, other: Clone) -> None:
    both = apart(one, other)
    stopped(one)
    one.git("checkout", "--ours", "--", STATE)
    one.deliver("session-start", "meanwhile", hook_event_name="SessionStart", source="startup")
    one.change(notes="by hand")
    both |= one.kept_ids()
    one.faber("resolve")
    assert one.ids() == both
    assert "meanwhile" in one.clients()
    assert one.state["notes"] == "by hand"
    one.assert_sound()


def test_a_ledger_that_cannot_be_read_is_left_out_and_named(one: Clone, other: Clone) -> None:
    one.advance("here")
    other.advance("there")
    events = other.ids()
    one.ledger.write_bytes(b"nothing")
    one.git("commit", "-qam", "broken", "--no-verify")  # our hook would publish it again
    stopped(one)
    done = one.faber("resolve")
    assert f"{LEDGER}: ours cannot be read and is left out: " in done.stderr
    assert "/tmp" not in done.stderr
    assert one.ids() >= events
    assert one.git("diff", "--name-only", "--diff-filter=U") == ""
    one.assert_sound()


def test_ledgers_of_which_none_can_be_read_are_left(one: Clone, other: Clone) -> None:
    for clone in (one, other):
        clone.ledger.write_bytes(b"nothing of " + clone.root.name.encode())
        clone.git("commit", "-qam", "broken", "--no-verify")  # our hook would publish it again
    stopped(one)
    output = one.faber("resolve", code=1).stdout
    assert output.startswith(f"left      {LEDGER}: ours cannot be read: it is not a SQLite database; theirs ")
    assert f"UU {LEDGER}" in one.git("status", "--porcelain").splitlines()


def test_what_a_person_has_made_of_both_sides_holds(one: Clone, other: Clone) -> None:
    one.change(status="paused", mine=1)
    other.change(status="failed", theirs=2)
    apart(one, other)
    stopped(one)
    one.git("checkout", "--theirs", "--", STATE)
    one.change(status="cancelled", mine=1)
    assert f"resolved  {STATE}: the file as it was edited\n" in one.faber("resolve").stdout
    assert [one.state[name] for name in ("status", "mine", "theirs")] == ["cancelled", 1, 2]
    assert one.git("diff", "--name-only", "--diff-filter=U") == ""
    one.assert_sound()


def test_a_conflict_in_other_files_is_not_touched(one: Clone, other: Clone) -> None:
    for clone in (one, other):
        (clone.root / "code.py").write_text(f"x = '{clone.root.name}'\n")
        (clone.root / ".fractary/plugin.json").write_text(f"['{clone.root.name}']\n")
    apart(one, other)
    assert len(stopped(one)) == 4
    before = (one.root / "code.py").read_text()
    one.faber("resolve")
    assert (one.root / "code.py").read_text() == before
    assert one.git("status", "--porcelain").count("AA ") == 2


def test_resolve_works_in_folders_and_projects_below_the_top(tmp_path: Path) -> None:
    one = Clone.first(tmp_path / "one", driver=False)
    (one.root / "part").mkdir()
    one.git("mv", ".fractary", "part/.fractary")
    one.git("commit", "-qm", "moved")
    other = one.clone("other", driver=False)
    for clone in (one, other):
        clone.root /= "part"
        clone.ledger, clone.state_path = clone.root / LEDGER, clone.root / STATE
        clone.name_run()
    both = apart(one, other)
    one.git("pull", "--no-rebase", str(tmp_path / "other"), "main", code=1)
    below = one.root / ".fractary" / "runs"
    done = one.call(str(COMMAND), "resolve", cwd=below)
    assert done.returncode == 0, done.stdout + done.stderr
    assert one.ids() == both
    one.assert_sound()
