"""Who needs somebody: which state a run is in, and the columns, the order and the filters of `fleet` and `run list`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from faber_ledger.cli.ui.which_event import Time
from faber_ledger.cli.ui.words import short_age, table, tokens_shown, with_agents
from faber_ledger.ledger.clock import now, seconds_of, utc_text
from faber_ledger.runs.progress import (
    ACTIVE,
    FINISHED,
    STATUSES,
    awaits_feedback,
    branch_name,
    is_rejected,
    newest_errors,
    pending_approvals,
    phases_completed,
    target_of,
    text_of,
    text_of_value,
    value_at,
    words_of_approval,
)
from faber_ledger.runs.seen import changed_at, client_here, is_alive

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

Row: TypeAlias = dict[str, Any]

WORKING_SECONDS = 300.0  # since a client changed its transcript
SECONDS = {"m": 60, "h": 3600, "d": 86400}
ORDER = ("waiting", "failed", "stale", "open", None, "done")  # of states, by who needs somebody
COLUMNS = ("run", "work item", "who", "agent", "phase", "branch", "PR", "last event", "state")
REJECTED = "approval rejected"  # what a run waits for that somebody has to decide anew
NUMBER = re.compile(r"(\d{1,9})/?$")  # of a pull request, at the end of its URL


class Filters(NamedTuple):
    """Which runs are listed: of several states any; `stale` also says after how many seconds an open run is stale."""

    status: str | None = None
    work_id: str | None = None
    mine: bool = False
    waiting: bool = False
    failed: bool = False
    stale: float | None = None
    since: float | None = None
    machine: str | None = None
    is_open: bool = False

    def fit(self, row: Row) -> bool:
        """Return whether a described run is listed."""
        chosen = {"waiting": self.waiting, "failed": self.failed, "stale": self.stale is not None}
        return (
            (chosen.get(row["state"], False) or not any(chosen.values()))
            and (not self.mine or row["is_mine"])
            and (not self.is_open or bool(row["open_sessions"]))
            and self.status in (None, row["status"])
            and self.work_id in (None, text_of_value(row["work_id"]))
            and (self.machine is None or self.machine in (*row["machines"], *row["writers"]))
            and (self.since is None or (seconds_of(row["last_heard_at"]) or 0.0) >= self.since)
        )


def parse_duration(text: str) -> float:
    """Return the seconds of `90m`, `2h` or `3d`; raises UsageError."""
    found = re.fullmatch(r"([0-9]{1,6})([mhd])", text)
    if found is None:
        raise click.UsageError(f"{text!r} is not a duration such as 90m, 2h or 3d")
    return float(int(found[1]) * SECONDS[found[2]])


MINE_HELP = "Only runs with a session of this clone (--url, --remote: whose newest session is yours)."
STALE_HELP = "Only open runs that were not heard of for AGE: 90m, 2h, 3d; without one 24h."
OPTIONS = (
    click.option("--status", type=click.Choice(STATUSES), help="Only runs with this status."),
    click.option("--work-id", help="Only runs of this work item.", metavar="ID"),
    click.option("--mine", is_flag=True, help=MINE_HELP),
    click.option("--waiting", is_flag=True, help="Only runs that wait for feedback, an approval or an answer."),
    click.option("--failed", is_flag=True, help="Only failed runs."),
    click.option("--stale", type=parse_duration, is_flag=False, flag_value="24h", metavar="[AGE]", help=STALE_HELP),
    click.option("--since", type=Time(), metavar="TIME", help="Only runs that were heard of from this time on."),
)


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `Filters` to a command."""
    return reduce(lambda done, option: option(done), reversed(OPTIONS), command)


def decide_state(
    state: dict[str, Any], *, is_open: bool, quiet: float | None, stale_after: float
) -> tuple[str | None, str | None]:
    """Return the state that a run is in, and what it waits for; None for what is not known.

    `is_open` is whether a session is open, `quiet` for how many seconds the run was not heard of.
    """
    status = state.get("status")
    if status in FINISHED or status == "failed":
        return "failed" if status == "failed" else "done", None
    if waits_for := what_it_waits_for(state):
        return "waiting", waits_for
    if not is_open and status not in ("pending", *ACTIVE):
        return None, None
    return "stale" if quiet is not None and quiet >= stale_after else "open", None


def what_it_waits_for(state: dict[str, Any]) -> str | None:
    """Return what somebody has to give before a run goes on, by its state: an approval, an answer, or feedback."""
    if asked := pending_approvals(state):
        return REJECTED if is_rejected(asked[-1]) else "approval"
    if not awaits_feedback(state):
        return None
    return "question" if text_of(state.get("feedback_request"), "prompt") else "feedback"


def reason_of(state: dict[str, Any]) -> str | None:
    """Return what a run waits for in the state's own words, or why it has failed."""
    if asked := pending_approvals(state):
        return words_of_approval(asked[-1])
    if state.get("status") == "awaiting_feedback":
        return text_of(state.get("feedback_request"), "prompt")
    errors = newest_errors(state) if state.get("status") == "failed" else []
    return ": ".join(filter(None, errors[0])) if errors else None


def pull_request(state: dict[str, Any]) -> str | None:
    """Return the URL, else the number, of the pull request that a state names."""
    paths = ("artifacts.pr_url", "pr_url", "artifacts.pr_number", "pr_number")
    return next((text for path in paths if (text := text_of_value(value_at(state, path)))), None)


def describe(
    row: Row, state: dict[str, Any], filters: Filters, root: str, start: Recorded | None, *, is_open: bool
) -> Row:
    """Add to a run's row what all lists show, and which state it is in.

    `start` began the session that is open, else the newest one. The row's `last_heard_at` is its newest event's time,
    even if its clock was ahead: then the age is shown as now.
    """
    activity, seen_at = _activity_of(root, start) if is_open else (None, None)
    others = [seconds_of(state.get("updated_at")), seen_at]
    times = [seconds_of(row["last_heard_at"]), *[at for at in others if at is not None and at <= now()]]
    heard_at = max([at for at in times if at is not None], default=None)
    quiet = None if heard_at is None else now() - heard_at
    found, waits_for = decide_state(state, is_open=is_open, quiet=quiet, stale_after=filters.stale or SECONDS["d"])
    return {
        "who": row["machine"],
        "target": text_of_value(state.get("target")) or None,
        "branch": text_of_value(branch_name(state)) or None,
        "pull_request": pull_request(state),
        "phases_completed": phases_completed(state),
        "reason": reason_of(state),
        **row,
        "last_heard_at": None if heard_at is None else utc_text(heard_at),
        "state": found,
        "waits_for": waits_for,
        "activity": activity if found == "open" else None,
    }


def _activity_of(root: str, start: Recorded | None) -> tuple[str | None, float | None]:
    """Return whether the client of an open session is working or idle, and when it was heard of last.

    Both are None for a session of another clone or machine, the first also if the client is not known to live. Before
    its first prompt a client has no transcript.
    """
    if (seen := client_here(root, start)) is None:
        return None, None
    if not is_alive(seen.pid):
        return None, seen.heard_at()
    changed = changed_at(seen.transcript) or seen.last_at
    return "working" if now() - changed < WORKING_SECONDS else "idle", seen.heard_at()


def list_by_need(rows: Iterable[Row]) -> list[Row]:
    """Return the runs in the order of who needs somebody; those in one state stay as they were."""
    return sorted(rows, key=lambda row: ORDER.index(row["state"]))


def attention_table(rows: list[Row], marks: Callable[[Row], str] = lambda _: "", **more: Any) -> Iterator[str]:
    """Yield the table of described runs; `marks` precede their names, and `more` are further columns, with cells."""
    used = [_tokens_of(row) for row in rows]
    last = ("tokens",) if any([row.get("usage") for row in rows]) else ()  # only where any are known
    cells = [
        (*[of(row) for of in more.values()], marks(row) + row["run_id"], *_cells(row), *[tokens or "-" for _ in last])
        for row, tokens in zip(rows, used, strict=True)
    ]
    who = "who" if any(["brought_by" in row for row in rows]) else "machine"  # only the server knows logins
    age = "sent" if any(["last_sent_at" in row for row in rows]) else "last event"  # at a git remote
    titles = [{"who": who, "last event": age}.get(title, title) for title in COLUMNS]
    lines = with_agents([(*more, *titles, *last), *cells], [row["agent"] or None for row in rows])
    yield from table(lines, flexible=(*more, *titles[1:7]))


def _tokens_of(row: Row) -> str | None:
    usage, is_partial = row.get("usage"), bool(row.get("usage_is_partial"))
    if usage is None:
        return "?" if is_partial and (row["ledger_problem"] or not row["events"]) else None
    return f"{'≥' if is_partial else ''}{tokens_shown(usage['tokens'])}"


def total_line(rows: list[Row]) -> str:
    """Return the sum of the tokens of described runs, by what this clone knows."""
    total = sum([row["usage"]["tokens"] for row in rows if row.get("usage")])
    sign = "≥" if any([row.get("usage_is_partial") for row in rows]) else ""
    return f"these runs on all machines: {sign}{tokens_shown(total)}"


def _cells(row: Row) -> tuple[str, ...]:
    work_id, target = text_of_value(row["work_id"]), target_of(row)
    heard_at, number = seconds_of(row["last_heard_at"]), NUMBER.search(row["pull_request"] or "")
    who = "@".join(dict.fromkeys(filter(None, [row["who"], row["machine"]]))) or "-"
    return (
        " ".join(filter(None, [work_id, target])) or "-",
        f"{who} via {row['brought_by']}" if row.get("brought_by") else who,
        row["agent"] or "-",
        row["phase"] or "-",
        row["branch"] or "-",
        f"#{number[1]}" if number else row["pull_request"] or "-",
        "-" if heard_at is None else short_age(now() - heard_at),
        state_words(row) if not row.get("problem") else "unreadable",
    )


def state_words(row: Row) -> str:
    """Return in which state a run is, as a table says it."""
    says = f", says {row['state_by']}" if row.get("state_by") else ""
    if row["state"] == "waiting":
        return f"waiting: {row['waits_for']}{says}"
    if row["state"] in ("failed", "done"):
        return ("cancelled" if row["status"] == "cancelled" else row["state"]) + says
    state = "at work" if row["state"] == "open" else row["state"]
    return row["activity"] or state or "-"
