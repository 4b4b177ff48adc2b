"""What the agent is given at a session's start: the position, then each artifact, in a bounded text.

The same state and artifacts give the same bytes: no time, no counter, no session id. A text that changed at every
resume would be put into the conversation anew each time, and stay there.
"""

from __future__ import annotations

from faber_ledger.context.messages import kilobytes
from faber_ledger.context.resume import resume_point
from faber_ledger.context.state import current_phase, current_step, phases_completed
from faber_ledger.ledger.canonical import without_surrogates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, TypedDict

    class Part(TypedDict):
        """An artifact to give: its content whole if it fits, else where to read it."""

        artifact_id: str
        description: str
        source: str
        size_bytes: int
        content: str

    Given = Literal["inline", "pointer"]

HOOK_BUDGET = 9_500  # UTF-16 code units: at 10,001 the client shows the model a preview of 2 KB instead
COMMAND_BUDGET = 25_000
LONGEST_LINE = 300
MOST_PROBLEMS = 5
TRUNCATED = "… (more was cut)"


def units(text: str) -> int:
    """Count a text's UTF-16 code units, which is how the client counts."""
    return len(text) + sum([letter > "\uffff" for letter in text]) if not text.isascii() else len(text)


def pack(
    run_id: str, state: dict[str, Any], parts: list[Part], problems: list[str], *, budget: int
) -> tuple[str, dict[str, Given]]:
    """Pack position and artifacts into at most `budget` UTF-16 units, and tell how each artifact was given.

    What is missing comes first, then the position, then each artifact whole where it fits, in the order given; the
    others are named with their size and path.
    """
    head = [*_problem_lines(problems), *position(run_id, state), ""]
    text = _clipped("\n".join(head), budget)
    pointers = {part["artifact_id"]: _pointer(part) for part in parts}
    left = budget - units(text) - sum([units(line) for line in pointers.values()])
    given: dict[str, Given] = {}
    bodies = []
    for part in parts:
        name = part["artifact_id"]
        body = _body(part)
        fits = units(body) - units(pointers[name]) <= left
        given[name] = "inline" if fits else "pointer"
        left -= units(body) - units(pointers[name]) if fits else 0
        bodies.append(body if fits else pointers[name])
    return _clipped(text + "".join(bodies), budget), given


def position(run_id: str, state: dict[str, Any]) -> list[str]:
    """Say where the run stands, as plain facts."""
    point = resume_point(state)
    completed = phases_completed(state)
    facts = [
        ("Work item", state.get("work_id")),
        ("Target", state.get("target")),
        ("Workflow", state.get("workflow_id")),
        ("Status", state.get("status")),
        ("Phase", current_phase(state)),
        ("Step", current_step(state)),
        ("Phases completed", ", ".join(completed)),
        ("Resume point", _point(point) if point else None),
    ]
    return [
        f"# FABER run {run_id}",
        "",
        *[_line(f"{name}: {value}") for name, value in facts if value not in (None, "")],
    ]


def _point(point: Any) -> str:
    place = ":".join([part for part in (point["phase"], point["step"]) if part])
    return f"{place or 'unknown'} ({point['mode']})"


def _problem_lines(problems: list[str]) -> list[str]:
    shown = [line for problem in problems[:MOST_PROBLEMS] for line in problem.split("\n")]
    more = [f"… and {len(problems) - MOST_PROBLEMS} more"] if len(problems) > MOST_PROBLEMS else []
    return [*[_line(line) for line in [*shown, *more]], ""] if shown else []


def _body(part: Part) -> str:
    source = f"Source: {_line(part['source'])} ({kilobytes(part['size_bytes'])})"
    return f"{_title(part)}{source}\n\n" + without_surrogates(part["content"]).rstrip("\n") + "\n"


def _pointer(part: Part) -> str:
    size = kilobytes(part["size_bytes"])
    return f"{_title(part)}Not shown here ({size}). It stands in {_line(part['source'])}\n"


def _title(part: Part) -> str:
    return f"\n## {_line(part['artifact_id'])} - {_line(part['description'])}\n"


def _line(text: str) -> str:
    """Make one bounded line of a text that came from a repository."""
    text = " ".join(without_surrogates(text).split())
    return text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE] + "…"


def _clipped(text: str, budget: int) -> str:
    """Cut a text to a budget, never inside a character, and say so."""
    if units(text) <= budget:
        return text
    kept, left = [], max(budget - units(TRUNCATED) - 1, 0)
    for letter in text:
        left -= 2 if letter > "\uffff" else 1
        if left < 0:
            break
        kept.append(letter)
    return "".join(kept) + "\n" + TRUNCATED if budget > units(TRUNCATED) else "".join(kept)
