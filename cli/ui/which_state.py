"""Which of several states of a run is meant: what a person is shown of each, and asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli.ui.output import ask_number, tell
from faber_ledger.files.text import escape, one_line, quote_word
from faber_ledger.ledger.clock import LATEST, is_event_id, seconds_of, utc_text
from faber_ledger.ledger.command_errors import ChoiceNeeded
from faber_ledger.recording.state_document import OWN

if TYPE_CHECKING:
    from faber_ledger.postgres.documents import Document

HERE = "here"  # as the id of the state that this clone has
MOST_KEYS = 5
LONGEST_KEY, LONGEST_LINE = 40, 250
BOOKKEEPING = {*OWN, "updated_at"}  # the first are not exchanged; the time is shown for each


class Candidate(NamedTuple):
    """A state to choose, with the machine of its clone's last session.

    `is_own`: this clone has pushed it; `is_here`: it is what state.json says here.
    """

    document: Document
    content: str
    machine: str | None
    is_own: bool
    is_here: bool


def choose_state(run_id: str, candidates: Sequence[Candidate]) -> int:
    """Return the number of the state to take, from 0; of several the user is asked. Raises ChoiceNeeded."""
    if len(candidates) == 1:
        return 0
    where = "here and on the server" if candidates[-1].document.id == HERE else "on the server"
    question = f"{run_id} has {len(candidates)} states {where} that do not include each other"
    keys = find_differences([one.content for one in candidates])
    differences = f"; they differ in {_shown_keys(keys)}" if keys else ""
    if not sys.stdin.isatty():
        commands = [_command(run_id, one) for one in candidates]
        raise ChoiceNeeded(
            question,
            hint="choose one with --document ID",
            block="\n".join([f"{question}{differences}. Choose one:", *commands]),
            data={"documents": [_data(one) for one in candidates], "differ_in": keys},
        )
    lines = [f"{number}. {describe_state(one)}" for number, one in enumerate(candidates, 1)]
    for line in [f"{question}{differences}. Please select:", *lines]:
        tell(line)
    return ask_number(len(candidates)) - 1


def choice_before_push(run_id: str, own: Candidate, others: Sequence[Candidate]) -> ChoiceNeeded:
    """Return the error for a state with changes that no server has: to take another one would lose them."""
    question = (
        f"the state.json of {run_id} here has changes that the server does not have, and a state of the server does not"
        " include them"
    )
    keys = find_differences([own.content, *[one.content for one in others]])
    push = f"faber-ledger sync --push {quote_word(run_id)}"
    lines = [
        f"{question}{f'; they differ in {_shown_keys(keys)}' if keys else ''}. Keep it, or push it first:",
        _command(run_id, own),
        f"  {push}  (then `run resume` asks which one to take)",
        *[f"on the server: {describe_state(one)}" for one in others],
    ]
    return ChoiceNeeded(
        question,
        hint=f"keep it with --document {HERE}, or run `{push}`, then this command again",
        block="\n".join(lines),
        data={"documents": [_data(own)], "after_push": [_data(one) for one in others], "differ_in": keys},
    )


def find_differences(contents: Sequence[str]) -> list[str]:
    """Return the names at the outermost level at which states differ, sorted; `updated_at` only if no other does."""
    states = [_read(content) for content in contents]
    names = {name for state in states for name in state}
    differing = {name for name in names if len({_canonical(state, name) for state in states}) > 1}
    return sorted(differing - BOOKKEEPING or differing & {"updated_at"})


def describe_state(candidate: Candidate) -> str:
    """Describe a state in one line in which no character hides."""
    data, is_here = _data(candidate), candidate.document.id == HERE
    said = [f"{name} {data[name]}" for name in ("status", "current_phase") if data[name] is not None]
    said += [f"updated {data['updated_at']}"] if data["updated_at"] is not None else []
    if is_here:
        said += [f"as it is here, changed {candidate.document.at}"]
    else:
        who = [f"from {candidate.machine}"] if candidate.machine else []
        said += [f"pushed {data['pushed_at']}"]
        said += ["from this clone"] if candidate.is_own else [*who, f"by {candidate.document.writer[:12]}"]
        said += ["as it is here"] if candidate.is_here else []
    return one_line(escape(", ".join(said)), LONGEST_LINE)


def _data(candidate: Candidate) -> dict[str, Any]:
    state, document = _read(candidate.content), candidate.document
    texts = {
        name: one_line(state[name], LONGEST_KEY) if isinstance(state.get(name), str) else None
        for name in ("status", "current_phase", "updated_at")
    }
    if seconds_of(texts["updated_at"]) is None:
        texts["updated_at"] = None
    when = {"changed_at": document.at} if document.id == HERE else {"pushed_at": _pushed_at(document)}
    whose = {"machine": candidate.machine, "writer": document.writer}
    return {"id": document.id, **texts, **when, **whose, "is_own": candidate.is_own, "is_here": candidate.is_here}


def _pushed_at(document: Document) -> str:
    """Return when a document was made, from its id; `at` is the time of the clone's last event before that."""
    from ulid import ULID  # only for a choice

    if not is_event_id(document.id):
        return document.at
    return utc_text(min(ULID.from_str(document.id).milliseconds / 1000, LATEST))


def _command(run_id: str, candidate: Candidate) -> str:
    name = HERE if candidate.is_here else candidate.document.id
    command = f"faber-ledger run resume {quote_word(run_id)} --document {quote_word(escape(name))}"
    return f"  {command}  ({describe_state(candidate)})"


def _shown_keys(keys: Sequence[str]) -> str:
    names = [one_line(escape(name), LONGEST_KEY) for name in keys[:MOST_KEYS]]
    return ", ".join(names) + (f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else "")


def _read(content: str) -> dict[str, Any]:
    found = json.loads(content.removeprefix("\ufeff"))
    return found if isinstance(found, dict) else {}


def _canonical(state: dict[str, Any], name: str) -> str:
    return json.dumps(state[name], sort_keys=True) if name in state else ""
