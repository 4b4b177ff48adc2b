"""What a project may set, in `.fractary/faber/ledger.json`, and a run in the `ledger.json` of its folder.

These files come with a repository, so they set nothing that runs a program or opens a path.
"""

from __future__ import annotations

import json
import os

from faber_ledger.files.text import one_line
from faber_ledger.files.untrusted import FileRefused, folder_around, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from faber_ledger.context.project import Run

PATH = ".fractary/faber/ledger.json"
HOOK_BUDGET = 9_500  # UTF-16 code units: at 10,001 the client shows the model a preview of 2 KB instead
LEAST_BUDGET = 1_000
LIMIT = 65_536
MOST_TOLD = 5
NAMES = ("packet_budget", "summaries", "precompact_hint")
SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def unknown_keys(values: dict[str, Any], names: Iterable[str]) -> list[str]:
    """Say which keys of a configuration mean nothing, and what is near; `$schema` is an editor's."""
    unknown = [key for key in values if key not in names and key != "$schema"]
    if not unknown:
        return []
    from difflib import get_close_matches  # rarely asked for

    known = list(names)
    told = []
    for key in unknown:
        near = get_close_matches(key[:80], known, n=1)
        told.append(f"{one_line(key, 80)!r} is no setting" + (f"; did you mean {near[0]!r}?" if near else ""))
    return told[:MOST_TOLD]


class Settings:
    """What holds for a run; `problems` tells what could not be taken, each with the file or variable it stands in."""

    def __init__(self, run: Run, environ: Mapping[str, str]) -> None:
        """Read the project's settings, then the run's, then the variables `FABER_LEDGER_…`: the last one holds."""
        self.packet_budget = HOOK_BUDGET
        self.summaries = True
        self.precompact_hint = True
        self.problems: list[str] = []
        self.places = dict.fromkeys(NAMES, "default")  # where each value stands
        self._read(run.root, os.path.join(run.root, *PATH.split("/")))
        self._read(run.root, os.path.join(run.directory, "ledger.json"))
        for name in NAMES:
            variable = f"FABER_LEDGER_{name.upper()}"
            text = environ.get(variable, "").strip().lower()
            if text:
                value: object = int(text) if name == "packet_budget" and text.isdecimal() else SWITCHES.get(text)
                self._set(name, value, variable)

    def _read(self, root: str, path: str) -> None:
        try:
            if folder_around(path, [root]) is None:
                raise FileRefused("a link that leads out of the project")
            text = text_of(path, LIMIT)
            values = {} if text is None else json.loads(text)
            if not isinstance(values, dict):
                raise ValueError("it is no JSON object")
        except (FileRefused, ValueError, RecursionError) as error:
            self.problems.append(f"{os.path.relpath(path, root)}: {error}")
            self.summaries = False  # perhaps that is what it would say
            self.places["summaries"] = os.path.relpath(path, root)
            return
        self.problems += [f"{os.path.relpath(path, root)}: {told}" for told in unknown_keys(values, NAMES)]
        for name in NAMES:
            if name in values:
                self._set(name, values[name], f"{os.path.relpath(path, root)}: {name}")

    def _set(self, name: str, value: object, place: str) -> None:
        if name == "packet_budget":
            if type(value) is int and LEAST_BUDGET <= value <= HOOK_BUDGET:
                self.packet_budget = value
            else:
                self.problems.append(f"{place} must be a number from {LEAST_BUDGET} to {HOOK_BUDGET}")
                return
        elif not isinstance(value, bool):
            self.problems.append(f"{place} must be true or false")
            if name != "summaries":
                return
            self.summaries = False
        elif name == "summaries":
            self.summaries = value
        else:
            self.precompact_hint = value
        self.places[name] = place.partition(": ")[0]
