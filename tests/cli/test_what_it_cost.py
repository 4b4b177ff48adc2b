"""What responses cost is summed by session, phase and run; time at work and weeks for oneself, money by own prices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.clock import now
from faber_ledger.ledger.log import Log

if TYPE_CHECKING:
    from support.project import Project

    from faber_ledger.ledger.events import Draft

WRITER = "f" * 32


def used(session_id: str, phase: str | None, *numbers: int, model: str = "claude-opus-4-1-20250805") -> Any:
    """Return an event: tokens that no cache had, cached ones, and output, then responses and seconds."""
    names = ("input_tokens", "cached_tokens", "output_tokens", "turns", "active_seconds")
    about: Any = {
        "type": "usage_recorded",
        "session_id": session_id,
        "model": model,
        "in_phase": phase,
        "read_files": {},
    }
    return about | dict(zip(names, numbers, strict=True))


def record(project: Project, *events: Any, is_own: bool = True) -> None:
    """Append events to the clone's log of the project, which has a session."""
    writer = project.recorded[-1]["writer"] if is_own else WRITER
    drafts: list[Draft] = [{"event": event, "client": "me"} for event in events]
    with Log.open(str(project.clones_log)) as log:
        log.append(drafts, at=now(), writer=writer)
        log.commit()


def begin(project: Project) -> str:
    """Record the start of a session; return its id."""
    project.deliver("SessionStart.startup.print", client="me")
    return str(project.of_type("session_started")[0]["session_id"])


def test_tokens_are_shown_by_session_phase_and_run(project: Project) -> None:
    session = begin(project)
    assert "okens" not in project.said("status") + project.said("run", "list") + project.said("replay")
    record(project, used(session, "frame", 10_000, 90_000, 500, 2, 30), used(session, None, 0, 0, 7, 1, 0))
    record(project, used(session, "build", 1_000_000, 9_000_000, 45_000, 40, 900, model="claude-haiku-4-5"))
    sums = "10.1M (9.1M cached, 45.5k out) in 43 responses"
    in_phases = "frame 100.5k, build 10M, not split by phase 7"
    line = f"{sums}: {in_phases}; not counted: the open session"
    assert f"tokens: {line}\n" in project.said("replay")
    assert "10.1M" in project.said("replay").splitlines()[1]
    heads, row = project.said("run", "list").splitlines()
    assert (heads.split()[-1], row.split()[-1]) == ("tokens", "≥10.1M")
    assert f"tokens: {sums}: {in_phases}" in project.said("timeline", "-o", "-")
    usage = project.data("status")["usage"]
    assert usage["phases"]["frame"]["tokens"] == 100_500
    assert usage["models"]["claude-haiku-4-5"]["turns"] == 40
    assert usage == project.data("run", "list")[0]["usage"] == project.data("replay")["sessions"][0]["usage"]


def test_time_at_work_and_weeks_are_shown_for_oneself_alone(project: Project) -> None:
    session = begin(project)
    record(project, used(session, "build", 1000, 0, 0, 10, 3700))
    record(project, used(session, "build", 5000, 0, 0, 10, 9999), is_own=False)
    everybody = project.said("status", "--json") + project.said("run", "list", "--json")
    assert "active_seconds" not in everybody
    assert "6000" in everybody
    last = project.said("run", "list", "--mine").splitlines()[-1]
    assert last.endswith(": 1k (0 cached, 0 out) in 10 responses, 1 hour 1 minute at work")
    (week,) = project.data("run", "list", "--mine")[0]["own_weeks"].values()
    assert (week["turns"], week["active_seconds"]) == (10, 3700)


def test_a_week_has_what_a_run_cost_that_went_on_elsewhere(project: Project, tmp_path: Path) -> None:
    record(project, used(begin(project), "build", 1000, 0, 0, 10, 3700))
    project.commit()
    other = project.clone(tmp_path / "other", "desktop")
    assert other.deliver("SessionStart.startup.print", client="another").packet is not None
    assert project.faber("import", str(project.write("events.jsonl", other.said("export")))).returncode == 0
    _, run, total, week = project.said("run", "list", "--mine").splitlines()
    assert "desktop" in run  # its newest session is elsewhere
    assert total == project.said("run", "list", "--since", "2026-01-01T00:00:00Z").splitlines()[-1]
    assert total == "these runs on all machines: ≥1k"  # the session there is open
    reader = project.clone(tmp_path / "reader", "notebook")
    assert reader.said("run", "list", "--mine") == "no run has a session of this clone\n"
    assert week.endswith(": 1k (0 cached, 0 out) in 10 responses, 1 hour 1 minute at work")


def test_money_comes_from_the_users_own_prices(project: Project) -> None:
    """The longest name that a model's name begins with has its price; without one the model is named."""
    session = begin(project)
    record(project, used(session, "build", 1_000_000, 10_000_000, 100_000, 10, 5))
    assert "prices" not in project.said("replay")
    project.configure(prices={"claude": {"input": 100}, "claude-opus-4": {"input": 15, "cached": 1.5, "output": 75}})
    assert "; 37.50 by your prices" in project.said("replay")
    assert "37.50 by your prices" in project.said("run", "list", "--mine")
    assert "prices" not in project.said("timeline", "-o", "-")  # which others read
    record(project, used(session, "build", 1, 1, 1, 1, 1, model="gpt-5"))
    assert "; no price for gpt-5; " in project.said("replay")
    assert "price" not in project.said("timeline", "-o", "-")
    project.configure(prices={"gemini": {"input": 1}})
    assert "price" not in project.said("replay")
    project.configure(prices={"gpt-5": {"inputs": 1}})
    assert "has other keys" in project.faber("doctor").stdout


def test_forged_numbers_change_no_sum(project: Project) -> None:
    session = begin(project)
    record(project, used(session, "build", 5, 0, 0, 1, 0), used(session, "build", -5, 0, 0, 1, 0))
    record(project, used(session, "build", 10**18, 0, 0, 1, 0), used(session, "a\u202eb\n" * 99, 5, 0, 0, 1, 0))
    assert project.data("status")["usage"]["tokens"] == 10
    lines = [line for line in project.said("replay").splitlines() if line.startswith("tokens: ")]
    assert [len(line) < 300 and line.isprintable() for line in lines] == [True]
