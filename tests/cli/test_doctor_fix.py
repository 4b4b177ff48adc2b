"""`faber-ledger doctor --fix`: what is safe is fixed, the originals are copied, and a dry run writes nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from support.patients import FAULTS, SETTINGS, Patient, copied, make_healthy, problems_of
from support.project import RUN
from support.sizes import few

FIXED = [
    "no hooks",
    "no drivers",
    "no stash",
    "older attributes",
    "no ignore",
    "unwritable state",
    "1 delivery waiting",
    "rolled back",
    "changed payload",
    "state changed",
    "state broken",
    "one hook missing",
    "no attributes",
    "unusable folder",
    "ledger gone",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    return make_healthy(tmp_path_factory.mktemp("well") / "project")


@pytest.fixture
def patient(made: Patient, tmp_path: Path) -> Patient:
    return copied(made, tmp_path / "project")


@pytest.mark.long
@pytest.mark.parametrize("name", few(FIXED, 9))
def test_what_is_safe_is_fixed_and_then_no_problem_is_left(patient: Patient, name: str) -> None:
    FAULTS[name][2](patient)
    before = patient.snapshot()
    dry = patient.doctor("--fix", "--dry-run", code=23)
    assert patient.snapshot() == before
    assert dry["would_mend"]
    assert all([one["what"] and one["diff"] for one in dry["would_mend"]])
    data = patient.doctor("--fix", code=0)
    assert problems_of(data) == {}
    assert [one["problem"] for one in data["mended"]] == [None] * len(data["mended"])
    changed = {path for path, (_, _, content) in before.items() if content and is_changed(Path(path), content)}
    kept = {Path(copy).read_bytes() for one in data["mended"] for copy in one["copies"]}
    private = patient.root / ".git" / "faber-ledger"
    waited = {path for path in changed if Path(path).parent == private / "inbox" / RUN}  # unmasked: no copy may stay
    assert not any([Path(path).exists() for path in waited])
    own = {path for path in changed if Path(path).parent == private / "runs" / RUN}
    for path in changed - waited - own:
        assert before[path][2] in kept, path


def is_changed(path: Path, content: bytes) -> bool:
    return not path.exists() or path.read_bytes() != content


@pytest.mark.long
@pytest.mark.parametrize("name", few(sorted(set(FAULTS) - set(FIXED) - {"over", "forged log"}), 6))
def test_what_is_not_safe_is_not_changed(patient: Patient, name: str) -> None:
    FAULTS[name][2](patient)
    before = patient.snapshot()
    data = patient.doctor("--fix")
    if not data["mended"]:
        assert patient.snapshot() == before
    assert FAULTS[name][0] in problems_of(data)


def test_a_file_is_copied_for_its_owner_alone_before_it_is_fixed(patient: Patient) -> None:
    FAULTS["one hook missing"][2](patient)
    mine = (patient.root / SETTINGS).read_bytes()
    (mended,) = patient.doctor("--fix", code=0)["mended"]
    (copy,) = mended["copies"]
    assert Path(copy).read_bytes() == mine
    assert Path(copy).stat().st_mode & 0o077 == 0
    assert len(json.loads((patient.root / SETTINGS).read_text())["hooks"]) == 4


def test_without_git_the_copies_lie_in_the_users_folder_for_state(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shutil.rmtree(patient.root / ".git")
    FAULTS["one hook missing"][2](patient)
    (copy,) = patient.doctor("--fix", code=0)["mended"][0]["copies"]
    key = hashlib.sha256(bytes(patient.root.resolve())).hexdigest()
    assert copy.startswith(str(tmp_path / "state" / "faber-ledger" / key / "doctor"))
    folders = [path for path in (tmp_path / "state").rglob("*") if path.is_dir()]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


def test_hooks_go_where_the_others_are(patient: Patient) -> None:
    local = patient.root / ".claude" / "settings.local.json"
    (patient.root / SETTINGS).rename(local)
    patient.settings(lambda values: values["hooks"].pop("PreCompact"), ".claude/settings.local.json")
    patient.doctor("--fix", code=0)
    assert len(json.loads(local.read_text())["hooks"]) == 4
    assert not (patient.root / SETTINGS).exists()


def test_a_damaged_log_is_made_again_before_it_is_projected(patient: Patient) -> None:
    FAULTS["forged log"][2](patient)
    FAULTS["state changed"][2](patient)
    assert {*problems_of(patient.doctor("--fix", code=0))} == {"ledger.set_aside"}
    patient.assert_projected()


def test_the_output_says_what_was_fixed_and_where_the_originals_are(patient: Patient) -> None:
    FAULTS["older attributes"][2](patient)
    dry = patient.call("doctor", "--fix", "--dry-run").stdout
    assert "would    put our lines in .fractary/.gitattributes\n--- a/.fractary/.gitattributes\n" in dry
    said = patient.call("doctor", "--fix").stdout
    assert said.startswith("fixed    put our lines in .fractary/.gitattributes\n")
    assert "the original file: .git/faber-ledger/doctor/" in said
