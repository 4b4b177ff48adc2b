"""`faber-ledger doctor`, through the installed command: each check fires, is silent otherwise, and writes nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command import COMMAND, run_command
from support.patients import FAULTS, Patient, another_run, copied, make_healthy, problems_of
from support.project import RUN
from support.sizes import few, pair

from faber_ledger.cli.commands.doctor import CHECKS, run_checks
from faber_ledger.cli.doctor.patient import Patient as Looked
from faber_ledger.ledger.clock import now
from faber_ledger.runs.git_command import limit_answers


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    return make_healthy(tmp_path_factory.mktemp("well") / "project")


@pytest.fixture
def patient(made: Patient, tmp_path: Path) -> Patient:
    return copied(made, tmp_path / "project")


def test_a_project_in_which_all_is_well_gets_no_finding(patient: Patient) -> None:
    data = patient.doctor(code=0)
    assert problems_of(data) == {}
    assert [one["check"] for one in data["checks"]] == [*CHECKS]
    assert patient.call("doctor").stdout == f"{len(CHECKS)} checks: no problems\n"


FIRST_OF_CHECK = list({check: name for name, (check, _, _) in reversed(FAULTS.items())}.values())


@pytest.mark.long
@pytest.mark.parametrize("name", few(dict.fromkeys([*FIRST_OF_CHECK, *FAULTS]), len(FIRST_OF_CHECK)))
def test_each_fault_is_found_with_what_to_run_and_nothing_is_written(patient: Patient, name: str) -> None:
    check, level, make_fault = FAULTS[name]
    make_fault(patient)
    before = patient.snapshot()
    done = patient.call("doctor", "--json")
    assert (patient.snapshot(), done.stderr) == (before, "")
    code, found = done.returncode, problems_of(json.loads(done.stdout)["data"])
    assert check in found, found
    assert level in {one["level"] for one in found[check]}
    assert all([one["what"] and one["hint"] for items in found.values() for one in items])
    assert not [one for items in found.values() for one in items if "this check failed" in one["what"]]
    grave = {one["level"] for items in found.values() for one in items} & {"warning", "error"}
    assert code == (23 if grave else 0)


OF_INIT = ["no hooks", "no drivers", "no stash", "older attributes", "no ignore", "one hook missing", "no attributes"]


@pytest.mark.long
@pytest.mark.parametrize("name", few(OF_INIT, 3))
def test_init_which_a_finding_names_leaves_no_problem(patient: Patient, name: str) -> None:
    FAULTS[name][2](patient)
    (found,) = patient.problems()[FAULTS[name][0]][:1]
    assert "`faber-ledger init" in found["hint"]
    assert patient.call("init").returncode == 0
    assert problems_of(patient.doctor(code=0)) == {}


def test_every_check_is_made_to_fire_by_a_fault_of_the_table() -> None:
    silent = CHECKS.keys() - {check for check, _, _ in FAULTS.values()}
    assert silent == {"git.repository", "hooks.program"}  # they are asked below


# Where it works


def test_without_a_project_the_error_says_so(tmp_path: Path) -> None:
    done = Patient(tmp_path).call("doctor", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: no project found")
    assert "hint: " in done.stderr


def test_a_subdirectory_is_the_same_project(patient: Patient) -> None:
    (patient.root / "src").mkdir()
    assert patient.doctor(code=0, cwd=patient.root / "src")["root"] == str(patient.root)


def test_a_linked_worktree_is_run_checks_and_the_main_one_too(patient: Patient) -> None:
    patient.git("worktree", "add", "-q", "../tree")
    tree = patient.root.parent / "tree"
    assert "hooks.installed" not in problems_of(patient.doctor(cwd=tree))
    (tree / ".claude" / "settings.json").unlink()
    assert "hooks.installed" in problems_of(patient.doctor(cwd=tree))


def test_a_submodule_is_a_project_of_its_own(patient: Patient, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    subprocess.run(["git", "init", "-q", str(outer)], check=True)
    allowed = ["-c", "protocol.file.allow=always"]
    subprocess.run(
        ["git", "-C", str(outer), *allowed, "submodule", "--quiet", "add", str(patient.root), "sub"], check=True
    )
    assert patient.call("init", "--git-only", cwd=outer / "sub").returncode == 0
    data = patient.doctor(cwd=outer / "sub")
    assert data["root"] == str(outer / "sub")
    assert "git.drivers" not in problems_of(data)
    assert "hooks.installed" not in problems_of(data)


def test_git_that_is_not_installed_stops_no_other_check(patient: Patient, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "faber-ledger").symlink_to(COMMAND)
    done = run_command(
        [COMMAND, "doctor"], cwd=patient.root, env={**patient.environment(), "PATH": str(tools)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (23, "")
    assert "git.repository: git is not installed" in done.stdout
    assert "hooks.program: faber-ledger-hook is not on PATH" in done.stdout
    assert "this check failed" not in done.stdout


def test_hundreds_of_runs_with_one_fault_are_counted(patient: Patient) -> None:
    for number in range(300):
        another_run(patient, f"many-{number:03}", workflow_id="project:missing")
        if number < 40:
            (patient.root / ".fractary" / "runs" / f"many-{number:03}" / "ledger.db").write_bytes(b"junk")
    before = patient.snapshot()
    found = patient.problems()
    assert len(found["ledger.sound"]) < 20
    assert [one["what"] for one in found["ledger.sound"] if one["what"].endswith("more like these")]
    assert patient.snapshot() == before


# Whatever is broken


PUT: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a loop": lambda path: path.symlink_to(path.name),
    "junk": lambda path: path.write_bytes(bytes(range(256)) * 20),
    "nested": lambda path: path.write_text("[" * 200_000),
    "nothing": Path.touch,
}
PLACES = [
    f".fractary/runs/{RUN}/ledger.db",
    f".fractary/runs/{RUN}/state.json",
    f".fractary/runs/{RUN}/ledger.db-journal",
    ".fractary/faber/.active-run-id",
    ".fractary/faber/logs/hooks.log",
    ".fractary/faber/ledger.json",
    ".fractary/faber/worktrees.json",
    ".claude/settings.json",
    ".fractary/.gitignore",
    f".git/faber-ledger/runs/{RUN}/log.db",
    ".git/config",
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "what"), few(pair(PLACES, PUT), 6))
def test_whatever_is_at_a_files_path_each_check_ends_and_writes_nothing(
    patient: Patient, name: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = patient.root / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    PUT[what](path)
    for variable, value in patient.environment().items():
        monkeypatch.setenv(variable, value)
    before = patient.snapshot()
    with limit_answers(0.5):  # git waits for a pipe in its configuration's place, before it does anything
        found = run_checks(Looked(str(patient.root), at=now()))
    assert patient.snapshot() == before
    findings = [one.what for items in found.values() for one in items]
    assert not [what for what in findings if "this check failed" in what]


def test_the_hint_removes_a_backup_of_a_finished_run(patient: Patient) -> None:
    patient.change_state(status="completed")  # as a pull brings it
    (patient.run / "state.json.backup").write_text("{}")
    (found,) = patient.problems()["runs.backups"]
    assert found["hint"] == f"run `faber-ledger project {RUN}`, which removes it"
    assert patient.call("project", RUN).returncode == 0
    assert "runs.backups" not in patient.problems()


def test_leftover_backups_are_one_finding(patient: Patient) -> None:
    for name in ("one", "two", "three", "four"):
        folder = patient.run.parent / name
        shutil.copytree(patient.run, folder)
        (folder / "state.json").write_text(json.dumps({**patient.state, "run_id": name, "status": "completed"}))
        (folder / "state.json.backup").write_text("{}")
    (found,) = patient.problems()["runs.backups"]
    assert found["what"].startswith("left over from 4 finished runs, perhaps with sensitive data: .fractary/runs/")
    assert found["what"].endswith("/state.json.backup")
    assert found["hint"].endswith(", which removes it; then again for each of the others")


def test_init_names_the_setting_that_it_changed(patient: Patient) -> None:
    key = "diff.faber-ledger.textconv"
    subprocess.run(["git", "-C", str(patient.root), "config", "--unset", key], check=True)
    (found,) = patient.problems()["git.drivers"]
    assert found["what"] == f"this clone's git lacks {key}: it cannot merge or show a ledger"
    said = patient.call("init", "--git-only").stdout
    assert "changed    this clone's git config: the diff driver\n" in said
    said = patient.call("init", "--git-only").stdout
    assert "unchanged  this clone's git config: the merge driver, the diff driver" in said


@pytest.mark.parametrize("kind", ["a file", "a link"])
def test_a_file_instead_of_the_clones_folder_is_named(patient: Patient, kind: str) -> None:
    place = patient.root / ".git/faber-ledger"
    place.rename(patient.root / ".git/aside")
    if kind == "a link":
        place.symlink_to("aside")
    else:
        place.write_text("")
    what = f"{place} is {kind}, where faber-ledger needs its own folder"
    do = "move it aside; faber-ledger makes the folder"
    assert f"note: {what}: nothing is recorded; {do}\n" in patient.call("status").stderr
    patient.deliver("SessionStart.startup.print")
    assert f"not recorded: {what} - {do}; it waits in" in "".join(patient.log_lines)
    (found,) = patient.problems()["files.permissions"]
    assert (found["what"], found["hint"]) == (f"{what}: nothing is recorded", do)


def test_a_misspelt_setting_is_named_with_a_near_one(patient: Patient) -> None:
    patient.write(".fractary/faber/ledger.json", json.dumps({"packet_buget": 3000, "project": "mine", "$schema": "x"}))
    path = patient.configure(plugin_root=[])
    assert {found["what"] for found in patient.problems()["workflow.configuration"]} == {
        f"{path}: 'plugin_root' is not a setting; did you mean 'plugin_roots'?",
        ".fractary/faber/ledger.json: 'packet_buget' is not a setting; did you mean 'packet_budget'?",
        ".fractary/faber/ledger.json: project must be a ULID, as `faber-ledger init` writes one",
    }
