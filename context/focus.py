"""What the work of a phase needs most: which artifacts have room first, and which sections of them come first."""

from __future__ import annotations

from faber_ledger.files.text import shares
from faber_ledger.runs.progress import current_phase, current_step, value_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.context.body import Part

KINDS = {  # words that an artifact's id begins with, or has after a dash
    "specification": ("spec", "design"),
    "issue": ("issue", "ticket", "work-item"),
    "changes": ("commit", "branch", "diff", "changes", "git"),
    "protocol": ("protocol", "orchestration"),
}
FIRST = {
    "frame": ("issue", "protocol"),
    "architect": ("issue", "specification", "protocol"),
    "build": ("specification", "issue", "protocol"),
    "evaluate": ("specification", "changes", "protocol"),
    "release": ("changes", "specification", "protocol"),
}
SECTIONS = ("summary", "acceptance_criteria", "requirements", "out of scope", "non-goals", "files", "phases")
SECTIONS_OF = {
    "build": ("summary", "requirements", "phases", "acceptance_criteria", "out of scope", "non-goals", "files"),
    "evaluate": ("acceptance_criteria", "summary", "requirements", "out of scope", "non-goals", "files", "phases"),
    "release": ("acceptance_criteria", "summary", "requirements", "out of scope", "non-goals", "files", "phases"),
}
FAIR_SHARE = 0.4  # of the room that is shared alike, however important some are


class Focus:
    """The current phase and step of a state, and what they make important."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.phase = current_phase(state) or ""
        self.step = current_step(state) or ""
        self.specification = value_at(state, "artifacts.spec_path")

    def rank(self, part: Part) -> int:
        """Return how important an artifact is, 0 most in the phase; the user's hint counts more, required ones next."""
        if part.get("is_hinted"):
            return -1
        first = FIRST.get(self.phase, ())
        kind = self._kind(part)
        if kind in first:
            return first.index(kind)
        return len(first) + (0 if part["required"] else 1 if part.get("is_of_phase") else 2)

    def sections(self, part: Part) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Return what comes first in an artifact: words of headings, else kinds of sections, and words that always do.

        A specification has no part about a step of the workflow; what to do about errors holds in each of them.
        """
        if self._kind(part) == "specification":
            return (), SECTIONS_OF.get(self.phase, SECTIONS), ()
        return tuple([word for word in (self.step, self.phase) if word]), SECTIONS, ("error",)

    def _kind(self, part: Part) -> str | None:
        if part["source"] == self.specification:
            return "specification"
        name = f"-{part['artifact_id'].lower().replace('_', '-')}"
        return next((kind for kind, words in KINDS.items() if any([f"-{word}" in name for word in words])), None)


def share_by_rank(wanted: list[int], ranks: list[int], room: int, least: list[int]) -> list[int]:
    """Split room: everything keeps its `least` and a part of a fair share; the rest goes to the lowest rank first.

    Those of one rank share alike.
    """
    given = list(least)
    room -= sum(given)
    rounds = [(list(range(len(wanted))), int(room * FAIR_SHARE))]
    rounds += [([at for at, one in enumerate(ranks) if one == rank], room) for rank in sorted(set(ranks))]
    for chosen, most in rounds:
        for at, more in zip(chosen, shares([wanted[at] - given[at] for at in chosen], min(most, room)), strict=True):
            given[at] += more
            room -= more
    return given
