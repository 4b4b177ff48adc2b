"""`faber-ledger resolve --newer`: keys that both sides changed come from the side that was updated later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.clones import STATE, Clone

EARLY, LATE = "2026-02-01T10:00:00Z", "2026-02-01T09:30:00-01:00"  # the later one is not the later text
FIRST, SECOND = (
    {"title": "first", "notes": {"a": 10, "b": 2, "c": 3}},
    {"title": "second", "notes": {"a": 20, "b": 2, "c": 3}},
)


@pytest.fixture
def one(tmp_path: Path) -> Clone:
    return Clone.first(tmp_path / "one", driver=False)


@pytest.fixture
def other(one: Clone) -> Clone:
    return one.clone("other", driver=False)


def go_apart(one: Clone, other: Clone, times: tuple[str | None, str | None]) -> set[str]:
    """Let both sides change two keys; return the events of both."""
    for clone, members, time in ((one, FIRST, times[0]), (other, SECOND, times[1])):
        state: dict[str, Any] = {**clone.state, **members, "updated_at": time}
        clone.put({key: value for key, value in state.items() if value is not None})
        clone.advance(clone.root.name)
    one.git("fetch", "-q", "../other", "main:there")
    return one.ids() | other.ids()


def taken_from(one: Clone) -> dict[str, Any]:
    assert one.git("diff", "--name-only", "--diff-filter=U") == ""
    assert one.git("diff", "--name-only") == ""
    one.assert_sound()
    return {name: one.state[name] for name in FIRST}


@pytest.mark.parametrize("theirs_is_newer", [True, False])
@pytest.mark.parametrize("verb", ["merge", "rebase"])
def test_all_keys_come_from_the_side_that_was_updated_later(
    one: Clone, other: Clone, verb: str, theirs_is_newer: bool
) -> None:
    here = theirs_is_newer == (verb == "rebase")  # in a rebase ours is the branch that it is put onto
    both = go_apart(one, other, (LATE, EARLY) if here else (EARLY, LATE))
    one.git(verb, "there", code=1)
    side = "theirs" if theirs_is_newer else "ours"
    output = one.faber("resolve", code=1).stdout
    assert f"  `faber-ledger resolve --newer` takes {side}, written later ({LATE})\n" in output
    how = f"{STATE}: both sides changed the same key: {side}, written later ({LATE}), is taken\n  notes.a\n"
    assert f"would resolve  {how}" in one.faber("resolve", "--newer", "--dry-run").stdout
    output = one.faber("resolve", "--newer").stdout
    assert f"resolved  {how}" in output
    assert "edit it" not in output
    assert taken_from(one) == (FIRST if here else SECOND)
    assert one.state["updated_at"] == LATE
    assert one.ids() == both
    one.git(verb, "--continue")
    assert one.git("status", "--porcelain") == ""


def test_a_key_that_the_later_side_removed_is_removed(one: Clone, other: Clone) -> None:
    for clone in (one, other):
        clone.change(title="both")
    one.commit("both")
    other.git("checkout", "-q", "--", ".")
    other.git("pull", "-q", "../one", "main")
    one.change(title="first", updated_at=EARLY)
    one.advance("one")
    other.put({key: value for key, value in other.state.items() if key != "title"} | {"updated_at": LATE})
    other.advance("other")
    one.git("pull", "--no-rebase", "../other", "main", code=1)
    one.faber("resolve", "--newer")
    assert "title" not in one.state
    assert one.git("diff", "--name-only", "--diff-filter=U") == ""


@pytest.mark.parametrize("times", [(EARLY, EARLY), (None, LATE), (EARLY, "yesterday")])
def test_keys_are_left_where_the_times_do_not_say(
    one: Clone, other: Clone, times: tuple[str | None, str | None]
) -> None:
    go_apart(one, other, times)
    one.git("merge", "there", code=1)
    assert "--newer" not in one.faber("resolve", code=1).stdout
    output = one.faber("resolve", "--newer", code=1).stdout
    assert (
        f"left      {STATE}: both sides changed the same key, and `updated_at` does not say which is newer\n" in output
    )
    assert one.state["title"] == "first"
    assert one.git("diff", "--name-only", "--diff-filter=U") == f"{STATE}\n"


@pytest.mark.parametrize("times", [(EARLY, LATE), (LATE, EARLY)])
def test_committed_markers_are_settled_by_their_times(one: Clone, other: Clone, times: tuple[str, str]) -> None:
    go_apart(one, other, times)
    one.git("merge", "there", code=1)
    one.git("checkout", "--theirs", "--", str(one.ledger))
    one.commit("with markers")
    data = json.loads(one.faber("resolve", "--newer", "--json").stdout)["data"]
    side = "theirs" if times[1] == LATE else "ours"
    assert data["files"][0]["newer"] == {"side": side, "updated_at": LATE}
    assert {name: one.state[name] for name in FIRST} == (SECOND if side == "theirs" else FIRST)
    one.assert_sound()


def test_what_a_person_wrote_meanwhile_stays(one: Clone, other: Clone) -> None:
    go_apart(one, other, (EARLY, LATE))
    one.git("merge", "there", code=1)
    one.faber("resolve", code=1)
    one.change(title="mine")
    one.faber("resolve", "--newer")
    assert taken_from(one) == {**SECOND, "title": "mine"}


def test_the_driver_names_it(one: Clone, other: Clone) -> None:
    one.faber("init", "--git-only")
    go_apart(one, other, (EARLY, LATE))
    assert (
        f"see `faber-ledger resolve`; `faber-ledger resolve --newer` takes theirs, written later ({LATE})\n"
        in one.git("merge", "there", code=1)
    )
