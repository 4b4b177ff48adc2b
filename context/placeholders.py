"""Placeholders in artifacts' paths and commands, filled from the run and its state (SPEC, section 8)."""

from __future__ import annotations

import re

from faber_ledger.context.artifacts import ArtifactError
from faber_ledger.runs.run import is_run_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.context.artifact_source import Surroundings

NAMES = ("project_root", "run_id", "plan_id", "work_id", "run_suffix")
VALUE = r"[A-Za-z0-9][A-Za-z0-9._#-]{0,63}"  # few need it: compiled at first use
OF_PLAN = "-run-"


def filled(text: str, surroundings: Surroundings) -> str:
    """Fill a text's placeholders in one pass, so that a value that looks like one stays a value.

    One without a value becomes empty (RELOAD, Step 5). Raises ArtifactError for a value that could be more than a name:
    the state comes with the repository.
    """
    first, *others = text.split("{")
    for piece in others:
        name, _, rest = piece.partition("}")
        first += _value(name, surroundings) + rest if _is_placeholder(piece) else "{" + piece
    return first


def filled_command(text: str, surroundings: Surroundings) -> str:
    """Fill a command's placeholders; raises ArtifactError for one without a value, too: that would ask for all."""
    empty = empty_in(text, surroundings, "a command")
    if empty:
        raise ArtifactError(without_value(empty))
    return filled(text, surroundings)


def empty_in(text: str, surroundings: Surroundings, where: str = "a path") -> list[str]:
    """Give the names of a text's placeholders that have no value, in their order; raises ArtifactError."""
    names = dict.fromkeys([piece.partition("}")[0] for piece in text.split("{")[1:] if _is_placeholder(piece)])
    return [name for name in names if not _value(name, surroundings, where)]


def unknown_in(text: str) -> list[str]:
    """Give what is written in a text as a placeholder, braces and all, and is none, in its order."""
    return [name for name in dict.fromkeys(re.findall(r"\{[A-Za-z_]\w*\}", text)) if name[1:-1] not in NAMES]


def _is_placeholder(piece: str) -> bool:
    """Tell whether what follows a brace is a placeholder's name and the brace that closes it."""
    name, brace, _ = piece.partition("}")
    return bool(brace) and name in NAMES


def without_value(names: list[str]) -> str:
    """Say which placeholders have no value."""
    return f"no value in the run's state for {', '.join([f'{{{name}}}' for name in names])}"


def run_suffix(run_id: str) -> str:
    """Give what tells a run from others of its plan: what follows the last `-run-`, else the last `-`.

    Ids of the form `<plan>-run-<suffix>` are those of tools that keep several runs' states in one plan's folder.
    """
    last = run_id.rpartition("/")[2]
    return last.rpartition(OF_PLAN)[2] if OF_PLAN in last else last.rpartition("-")[2]


def _value(name: str, surroundings: Surroundings, where: str = "a path") -> str:
    if name == "project_root":
        return surroundings["root"]
    is_of_run = name in ("run_id", "run_suffix")
    value = surroundings["state"].get("run_id" if is_of_run else name)
    if value is None:
        return ""
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else "/"
    if is_of_run:
        safe = is_run_id(text)
        text = run_suffix(text) if name == "run_suffix" else text
    else:
        safe = text == "" or re.fullmatch(VALUE, text) is not None
    if not safe:
        raise ArtifactError(f"State field cannot stand in {where}: {name}")
    return text
