"""The steps of a workflow with those that it inherits, in the order in which they are done.

What is not as it should be is passed over: a packet says what can be said of a workflow.
"""

from __future__ import annotations

from faber_ledger.runs.progress import PHASES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    class WorkflowStep(TypedDict):
        """A step, or a phase without steps (`name` is None); `does` says what it is, and `path` is where that stands.

        `is_gated` says whether its phase begins only after somebody has approved it.
        """

        phase: str
        name: str | None
        does: str
        path: str
        is_gated: bool


def steps_in_order(lineage: list[tuple[str, dict[str, Any]]]) -> list[WorkflowStep]:
    """Return the steps of all enabled phases; of a phase without steps, the phase alone.

    `lineage` has the path and the object of the workflow, then of each one that it extends. As FABER merges them, what
    comes before a phase's steps is inherited, the oldest ancestor's first; the steps are the workflow's own alone; what
    comes after them is inherited, too, the oldest ancestor's last. A step that the workflow skips is not there.
    """
    path, own = lineage[0]
    phases = [(where, _objects(config, "phases")) for where, config in lineage]
    ordered = dict.fromkeys([*PHASES, *[name for _, of_config in phases for name in of_config]])
    gated = _gated_phases([config for _, config in lineage])
    skipped = {name for name in _items(own, "skip_steps") if isinstance(name, str)}
    in_order: list[WorkflowStep] = []
    for phase in ordered:
        defined = [(where, of_config[phase]) for where, of_config in phases if phase in of_config]
        nearest: dict[str, Any] = {}
        for _, held in reversed(defined):
            nearest |= held
        if not defined or nearest.get("enabled") is False:
            continue
        read = [step for where, held in reversed(defined) for step in _read_steps(held, "pre_steps", phase, where)]
        read += _read_steps(phases[0][1].get(phase, {}), "steps", phase, path)
        read += [step for where, held in defined for step in _read_steps(held, "post_steps", phase, where)]
        steps: dict[str | None, WorkflowStep] = {}
        for step in read:
            if step["name"] not in skipped:
                steps.setdefault(step["name"], step)
        does = nearest.get("description")
        alone: WorkflowStep = {
            "phase": phase,
            "name": None,
            "does": does if isinstance(does, str) else "",
            "path": path,
            "is_gated": False,
        }
        is_gated = phase in gated or nearest.get("require_approval") is True
        in_order += [{**step, "is_gated": is_gated} for step in steps.values() or [alone]]
    return in_order


def _read_steps(held: dict[str, Any], kind: str, phase: str, path: str) -> list[WorkflowStep]:
    """Return the steps in one of a phase's lists."""
    return [step for raw in _items(held, kind) if (step := _read_step(raw, phase, path)) is not None]


def _read_step(raw: object, phase: str, path: str) -> WorkflowStep | None:
    if isinstance(raw, str):
        return {"phase": phase, "name": raw, "does": "", "path": path, "is_gated": False}
    if not isinstance(raw, dict):
        return None
    name = _text(raw, "id") or _text(raw, "name")
    return {"phase": phase, "name": name, "does": _what_it_does(raw), "path": path, "is_gated": False} if name else None


def _what_it_does(raw: dict[str, Any]) -> str:
    """Return a step's prompt, which counts before its command and its skill, with its context; else its description.

    A command alone says little: the description stands before it.
    """
    described = _text(raw, "description") or _text(raw, "name")
    command = _text(raw, "prompt") or _text(raw, "command") or _text(raw, "skill")
    if not command:
        return described
    more = _text(raw, "context")
    is_worded = " " in command and not command.startswith("/")
    said = command if is_worded or not described else f"{described}: {command}"
    return f"{said} ({more})" if more else said


def _gated_phases(configs: list[dict[str, Any]]) -> set[str]:
    """Return the phases that the nearest `autonomy` with such a list wants approved."""
    for config in configs:
        autonomy = config.get("autonomy")
        named = autonomy.get("require_approval_for") if isinstance(autonomy, dict) else None
        if isinstance(named, list):
            return {name for name in named if isinstance(name, str)}
    return set()


def _objects(config: dict[str, Any], name: str) -> dict[str, dict[str, Any]]:
    held = config.get(name)
    return {key: value for key, value in held.items() if isinstance(value, dict)} if isinstance(held, dict) else {}


def _items(config: dict[str, Any], name: str) -> list[Any]:
    held = config.get(name)
    return held if isinstance(held, list) else []


def _text(raw: dict[str, Any], name: str) -> str:
    found = raw.get(name)
    return found.strip() if isinstance(found, str) else ""
