"""Kept broken ledgers, one of each kind: `verify` distinguishes them, and the docs show what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from break_ledgers import BROKEN, FOLDER, break_all

from faber_ledger.ledger.verify import find_problems

KINDS = {
    "changed-payload": ["refused"],
    "removed-middle": ["missing_parent"],
    "cut-tail": ["cut_tail"],
    "swapped-order": ["refused", "missing_parent", "refused"],
    "forged-parent": ["refused"],
    "duplicated-id": ["duplicate_id"],
    "emptied-heads": ["no_heads"],
    "another-revision": ["revision"],
    "surplus": ["surplus"],
}


@pytest.mark.parametrize("name", KINDS)
def test_each_broken_ledger_has_its_own_kind_of_finding(name: str) -> None:
    found = list(find_problems(str(FOLDER / f"{name}.db")))
    assert [finding.kind for finding in found] == KINDS[name]
    assert all(finding.hint for finding in found)


def test_the_kept_files_are_what_the_script_makes(tmp_path: Path) -> None:
    break_all(tmp_path)
    made = {path.stem: list(find_problems(str(path))) for path in tmp_path.iterdir()}
    kept = {path.stem: list(find_problems(str(path))) for path in FOLDER.iterdir()}
    assert made == kept
    assert set(kept) == set(KINDS) == {*BROKEN, "surplus"}
