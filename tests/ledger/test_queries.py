"""Queries on a log, and the command that makes them."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest
from support.attacked_clones import crafted
from support.command import COMMAND, run_command
from support.sample_log import CLIENT, FIRST, RUN, SECOND, START, append_sample, history, write_run

from faber_ledger.ledger.log import Log
from faber_ledger.ledger.queries import PAGE, EventQuery, find_events
from faber_ledger.ledger.union import insert_rows


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    append_sample(tmp_path / "ledger.db")
    return str(tmp_path / "ledger.db")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_run(tmp_path)
    return tmp_path


def seqs(path: str, wanted: EventQuery, limit: int | None = None, newest_first: bool = False) -> list[int]:
    return [one["seq"] for one in find_events(partial(Log.read, path), wanted, limit=limit, newest_first=newest_first)]


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command([COMMAND, *arguments], cwd=project, capture_output=True, text=True, check=False)


def test_a_log_of_many_pages_is_complete_in_both_directions(ledger: str) -> None:
    with Log.open(ledger) as log:
        log.append([{"event": history()[8]} for _ in range(2 * PAGE - 11)], at=START + 900, writer="w")
        log.commit()
    whole = list(range(1, 2 * PAGE + 1))
    for wanted in (EventQuery(), EventQuery(since=0.0)):
        assert seqs(ledger, wanted) == whole
        assert seqs(ledger, wanted, newest_first=True) == whole[::-1]
        assert seqs(ledger, wanted, newest_first=True, limit=PAGE + 1) == whole[: -PAGE - 2 : -1]
        assert seqs(ledger, wanted, limit=PAGE + 1) == whole[-PAGE - 1 :]


def test_log_prints_one_line_per_event(project: Path) -> None:
    done = run(project, "log")
    assert (done.returncode, done.stderr) == (0, "")
    *lines, left_out = done.stdout.splitlines()
    assert left_out == "(loads, checkouts, tokens and the like are left out; --json has all)"
    assert [int(line[:5]) for line in lines] == [1, 3, 5, 9, 10, 11]
    columns = "    3  2026-01-05T14:30:42Z  session_started       abc123  "
    assert lines[1] == columns + "session started (startup) on dev-machine-1, in frame"
    assert lines[4].endswith("session ended: normal (logout), in build")


def test_log_prints_the_newest_events_in_either_order(project: Path) -> None:
    def shown(*arguments: str) -> list[int]:
        return [json.loads(line)["seq"] for line in run(project, "log", "--json", *arguments).stdout.splitlines()]

    assert shown("-n", "2") == [10, 11]
    assert shown("-n", "2", "--reverse") == [11, 10]
    assert shown("--reverse")[0] == 11
    assert shown("--machine", "desktop") == [1, 2, 9, 11]  # also what no session recorded
    assert shown("--session", CLIENT) == list(range(1, 12))
    assert shown("--session", FIRST, "--type", "session_ended") == [10]
    assert shown("--type", "session_started", "--phase", "build") == [11]
    assert shown(RUN[:20], "--session", SECOND) == [11]
    assert shown("--session", SECOND[:-2]) == [11]
    assert shown("--phase", "frame", "-n", "1") == [3]
    assert shown("--phase", "release") == []  # a phase that FABER has and the run has not reached
    assert shown("--since", "2026-01-05T15:31:42+01:00", "--until", "2026-01-05T14:31:42Z") == [9]


def test_log_as_json_is_one_complete_event_per_line(project: Path) -> None:
    with Log.read(str(project / ".fractary" / "runs" / RUN / "ledger.db")) as log:
        assert [json.loads(line) for line in run(project, "log", "--json").stdout.splitlines()] == list(log.stream())


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--since", "2026-01-05T14:30:22"], 2, "has no time zone"),
        (["--since", "yesterday"], 2, "not a time with a zone"),
        (["--type", "coffee_made"], 2, "coffee_made"),
        (["-n", "0"], 2, "0"),
        (["--since", "2026-01-06T00:00:00Z", "--until", "2026-01-05T00:00:00Z"], 2, "--since is later than --until"),
        (["--session", "abc124"], 10, "there is no session abc124"),
        (["--session", "claude"], 10, "may be several things"),
        (["no-such-run"], 10, "there is no run no-such-run"),
        (["../x"], 1, "is not a run id"),
    ],
)
def test_log_reports_what_it_cannot_do(project: Path, arguments: list[str], exit_code: int, message: str) -> None:
    done = run(project, "log", *arguments)
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert message in done.stderr


def test_an_event_of_a_newer_program_is_shown(project: Path) -> None:
    with Log.open(str(project / ".fractary" / "runs" / RUN / "ledger.db")) as log:
        ((seq, head),) = log.heads()
        insert_rows(log, [crafted(seq + 1, head, 1, type="coffee_made", payload='{"cups":2}')])
        log.commit()
    assert run(project, "log").stdout.splitlines()[-2].endswith('coffee_made           -       {"cups":2}')
