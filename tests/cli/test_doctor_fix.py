"""`faber-ledger doctor --fix`: it makes the changes that `init` makes, and a dry run writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.patients import FAULTS, SETTINGS, Patient, copied, make_healthy, problems_of
from support.sizes import few

FIXED = ["no hooks", "no drivers", "no stash", "older attributes", "no ignore", "one hook missing", "no attributes"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    return make_healthy(tmp_path_factory.mktemp("well") / "project")


@pytest.fixture
def patient(made: Patient, tmp_path: Path) -> Patient:
    return copied(made, tmp_path / "project")


@pytest.mark.long
@pytest.mark.parametrize("name", few(FIXED, 4))
def test_what_is_safe_is_fixed_and_then_no_problem_is_left(patient: Patient, name: str) -> None:
    FAULTS[name][2](patient)
    before = patient.snapshot()
    dry = patient.doctor("--fix", "--dry-run", code=23)
    assert patient.snapshot() == before
    assert dry["would_fix"]
    assert all([one["what"] and one["diff"] for one in dry["would_fix"]])
    data = patient.doctor("--fix", code=0)
    assert problems_of(data) == {}
    assert [one["problem"] for one in data["fixed"]] == [None] * len(data["fixed"])


@pytest.mark.long
@pytest.mark.parametrize("name", few(sorted(set(FAULTS) - set(FIXED) - {"over", "forged log"}), 6))
def test_what_is_not_safe_is_not_changed(patient: Patient, name: str) -> None:
    FAULTS[name][2](patient)
    before = patient.snapshot()
    data = patient.doctor("--fix")
    if not data["fixed"]:
        assert patient.snapshot() == before
    assert FAULTS[name][0] in problems_of(data)


def test_hooks_go_where_the_others_are(patient: Patient) -> None:
    local = patient.root / ".claude" / "settings.local.json"
    (patient.root / SETTINGS).rename(local)
    patient.settings(lambda values: values["hooks"].pop("PreCompact"), ".claude/settings.local.json")
    patient.doctor("--fix", code=0)
    assert len(json.loads(local.read_text())["hooks"]) == 4
    assert not (patient.root / SETTINGS).exists()


def test_the_output_says_what_was_fixed(patient: Patient) -> None:
    FAULTS["older attributes"][2](patient)
    dry = patient.call("doctor", "--fix", "--dry-run").stdout
    assert "would    put our lines in .fractary/.gitattributes\n--- a/.fractary/.gitattributes\n" in dry
    said = patient.call("doctor", "--fix").stdout
    assert said.startswith("fixed    put our lines in .fractary/.gitattributes\n")
