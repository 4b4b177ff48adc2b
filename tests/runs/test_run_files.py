"""The files of a run in a folder of several: each belongs to one run, whatever their suffixes are."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber_ledger.ledger.whole_file import is_own_name, own_name
from faber_ledger.runs.layouts import places_of
from faber_ledger.runs.run import Run, kind_of

PIECES = ["a", "b", ".json", ".db", ".backup", "-journal", ".lock", ".tmp", "-", "state", "2026"]


def is_usable(suffix: str) -> bool:
    return kind_of(f"state-{suffix}.json") == ("state.json", suffix)


beginnings = st.sampled_from(["a", "2026", "a.json"])
suffixes = (
    st.tuples(beginnings, st.lists(st.sampled_from(PIECES), max_size=3).map("".join)).map("".join).filter(is_usable)
)
two_suffixes = st.tuples(suffixes, suffixes).filter(lambda pair: pair[0] != pair[1])


def files_of(run: Run) -> list[str]:
    """Return the names of what this program writes for a run."""
    paths = [*run.required_paths, *run.backup_paths]
    paths += [run.settings_path, own_name(run.state_path), own_name(run.backup_path), f"{run.ledger_path}.tmp"]
    paths += [own_name(run.ledger_path), f"{run.state_path}.broken.backup", f"{run.ledger_path}.migrating"]
    return [os.path.basename(path) for path in paths]


@given(two_suffixes)
def test_no_file_belongs_to_two_runs(pair: tuple[str, str]) -> None:
    mine, beside = (Run("/p", "run", "/p/r", suffix) for suffix in pair)
    assert [name for name in files_of(mine) if not mine.owns(name)] == []
    assert [name for name in files_of(beside) if mine.owns(name)] == []
    assert [name for name in files_of(beside) if not mine.is_beside(name)] == []


@given(two_suffixes)
def test_a_sweep_takes_the_temporary_files_of_one_run(pair: tuple[str, str]) -> None:
    mine, beside = (Run("/p", "run", "/p/r", suffix) for suffix in pair)
    swept = os.path.basename(mine.state_path)
    for path, is_swept in ((mine.state_path, True), (mine.backup_path, True), (beside.state_path, False)):
        assert is_own_name(os.path.basename(own_name(path)), swept) is is_swept


@given(suffixes)
def test_the_name_of_a_state_says_its_suffix(suffix: str) -> None:
    found = [place for place in places_of("/p", f"plan/{suffix}") if place.suffix]
    assert [(os.path.basename(place.state_path), place.suffix) for place in found if place.suffix == suffix] == [
        (f"state-{suffix}.json", suffix)
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("state.json", ("state.json", "")),
        ("ledger-a.db", ("ledger.db", "a")),
        ("state-a.backup.json", None),
        ("state-.json", None),
        ("state-a b.json", None),
        ("state-a.json.backup", None),
        ("metadata.json", None),
    ],
)
def test_a_file_is_a_runs_by_its_name(name: str, kind: tuple[str, str] | None) -> None:
    assert kind_of(name) == kind
