"""`verify` names everything that is wrong with a ledger, and says what to run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.attacked_clones import crafted
from support.command import COMMAND, run_command
from support.forging import forge
from support.sample_log import RUN, append_sample, write_run

from faber_ledger.context.notes import note_recorded
from faber_ledger.ledger.encoding import ID
from faber_ledger.ledger.errors import Locked
from faber_ledger.ledger.events import Draft
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import insert_rows
from faber_ledger.ledger.verify import LogProblem, find_problems
from faber_ledger.runs.clone import note_use
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.progress import snapshot

HASH = "(SELECT hash FROM event WHERE seq = 2)"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose run this clone has taken up."""
    write_run(tmp_path)
    note_use(str(tmp_path), RUN, is_taken_up=True)
    return tmp_path


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    append_sample(tmp_path / "ledger.db")
    return tmp_path / "ledger.db"


def append_note(ledger: Path) -> None:
    event: Draft = {"event": note_recorded("next", "note", None, snapshot({}))}
    with Log.open(str(ledger), busy_seconds=0.0) as log, log.writing():
        log.append([event], at=1_800_000_000.0, writer="5f" * 16)
        log.commit()


def verify(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command([COMMAND, "verify", *arguments], cwd=project, capture_output=True, text=True, check=False)


def folder(project: Path) -> Path:
    return project / ".fractary" / "runs" / RUN


def found(path: Path) -> list[LogProblem]:
    return list(find_problems(str(path)))


def test_a_sound_ledger_has_no_finding(ledger: Path) -> None:
    before = ledger.read_bytes()
    counted: list[int] = []
    assert list(find_problems(str(ledger), advance=counted.append)) == []
    assert sum(counted) == 11
    assert ledger.read_bytes() == before
    assert [path.name for path in ledger.parent.iterdir()] == ["ledger.db"]


@pytest.mark.parametrize(
    ("statements", "kinds"),
    [
        (["UPDATE event SET at = '2020-01-01T00:00:00Z' WHERE seq = 3"], {"refused"}),
        (["UPDATE event SET payload = replace(payload, 'frame', 'build') WHERE seq = 3"], {"refused"}),
        (["UPDATE event SET payload = CAST(x'7bff7d' AS TEXT) WHERE seq = 3"], {"refused"}),
        (["UPDATE event SET payload = NULL WHERE seq = 3"], {"refused"}),
        (["UPDATE event SET id = 'not-a-ulid' WHERE seq = 3"], {"refused"}),
        (["UPDATE event SET version = 'one' WHERE seq = 3"], {"refused"}),
        (["UPDATE event SET hash = 7 WHERE seq = 11"], {"refused", "cut_tail"}),
        (["UPDATE event SET seq = 9223372036854775807 WHERE seq = 11"], {"refused"}),
        (["UPDATE event SET seq = -seq WHERE seq IN (3, 4)"], {"refused"}),
        (["DELETE FROM event WHERE seq = 5"], {"missing_parent"}),
        (["DELETE FROM event WHERE seq = 11"], {"cut_tail"}),
        (["DELETE FROM event WHERE seq = 11", "DELETE FROM head"], {"no_heads"}),
        (["DELETE FROM event"], {"cut_tail"}),
        (["DELETE FROM head"], {"no_heads"}),
        (["UPDATE head SET seq = 5"], {"heads"}),
        ([f"UPDATE event SET parents = {HASH} WHERE seq = 9"], {"refused"}),
        (["UPDATE event SET parents = x'' WHERE seq = 9"], {"refused"}),
        (["UPDATE event SET type = 'coffee_made' WHERE seq = 9"], {"refused"}),
        (["CREATE TABLE loot (x)"], {"integrity"}),
        (["DROP INDEX event_client"], {"integrity"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_each_kind_of_damage_is_named(ledger: Path, statements: list[str], kinds: set[str]) -> None:
    forge(ledger, *statements)
    reported = found(ledger)
    assert {finding.kind for finding in reported} == kinds
    assert all(finding.what and finding.hint for finding in reported)


def test_a_ledger_is_read_as_it_is_at_one_moment(ledger: Path) -> None:
    """What another process appends after the last event was read is not missing."""
    refused: list[Locked] = []

    def append(count: int) -> None:
        read.append(count)
        if len(read) == 11:
            try:
                append_note(ledger)
            except Locked as error:
                refused.append(error)

    read: list[int] = []
    assert list(find_problems(str(ledger), advance=append)) == []
    assert len(refused) == 1


@pytest.mark.parametrize("page", [1, 3])
def test_an_overwritten_page_is_a_finding(ledger: Path, page: int) -> None:
    content = bytearray(ledger.read_bytes())
    content[page * 4096 : page * 4096 + 4096] = bytes(range(256)) * 16
    ledger.write_bytes(content)
    assert {finding.kind for finding in found(ledger)} & {"integrity", "damaged"}


def test_verify_says_that_a_run_is_sound(project: Path) -> None:
    done = verify(project)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{RUN}: sound\n", "")
    assert json.loads(verify(project, "--json").stdout) == {
        "result_version": 1,
        "data": {"runs": [{"run_id": RUN, "findings": []}]},
    }


def without_a_block(project: Path) -> None:
    state = json.loads((folder(project) / "state.json").read_text())
    del state["context_metadata"]
    (folder(project) / "state.json").write_text(json.dumps(state))


def with_another_count(project: Path) -> None:
    state = json.loads((folder(project) / "state.json").read_text())
    state["sessions"]["total_sessions"] = 7
    (folder(project) / "state.json").write_text(json.dumps(state))


def without_a_state(project: Path) -> None:
    (folder(project) / "state.json").unlink()


def with_a_broken_state(project: Path) -> None:
    (folder(project) / "state.json").write_text('{"run_id": ')


@pytest.mark.parametrize("spoil", [without_a_block, with_another_count, without_a_state, with_a_broken_state])
def test_a_state_that_does_not_show_the_log_is_exit_code_21(project: Path, spoil: Callable[[Path], None]) -> None:
    spoil(project)
    done = verify(project)
    assert done.returncode == 21
    assert f"`faber-ledger project {RUN}" in done.stdout
    assert "sound" not in done.stdout


def test_a_damaged_log_is_exit_code_20_whatever_else(project: Path) -> None:
    verify(project)  # which makes the clone's log
    with_another_count(project)
    forge(log_of(project), "UPDATE event SET writer = 'somebody' WHERE seq = 2")
    done = verify(project, "--json")
    assert done.returncode == 20
    (run,) = json.loads(done.stdout)["data"]["runs"]
    assert "refused" in [finding["kind"] for finding in run["findings"]]


def log_of(project: Path, run_id: str = RUN) -> Path:
    return Path(find_run(str(project), run_id).log_path)


def put_coffee(project: Path, **changes: Any) -> str:
    """Append an event of an unknown type by hand, with its hash and as the head; return its id."""
    with Log.open(str(folder(project) / "ledger.db")) as log:
        ((seq, head),) = log.heads()
        row = crafted(seq + 1, head, 1, type="coffee_made", payload="{}", **changes)
        insert_rows(log, [row])
        log.commit()
    return str(row[ID])


def test_an_event_that_cannot_enter_the_log_is_a_note(project: Path) -> None:
    put_coffee(project, id="not-a-ulid")
    done = verify(project)
    assert done.returncode == 0
    assert f"{RUN}: note: 1 file with what did not enter the log" in done.stdout


def test_an_event_of_a_newer_program_is_a_note(project: Path) -> None:
    name = put_coffee(project)
    done = verify(project)
    assert done.returncode == 0
    assert f"{RUN}: sound\n{RUN}: note: event {name}: " in done.stdout


def test_all_runs_are_verified_and_the_worst_counts(project: Path) -> None:
    write_run(project, "other-run")
    verify(project, "--all")
    forge(log_of(project, "other-run"), "UPDATE event SET writer = 'somebody' WHERE seq = 2")
    done = verify(project, "--all")
    assert done.returncode == 20
    assert f"{RUN}: sound" in done.stdout
    assert "\nother-run: " in done.stdout
    assert verify(project, RUN).returncode == 0
    assert verify(project, RUN, "--all").returncode == 2
