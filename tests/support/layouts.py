"""A run in every layout, in clones without the merge driver."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from support.clones import Clone
from support.project import usual_state

PLAN = ".fractary/faber/runs/plan-258"


class Layout(NamedTuple):
    """Where a run's files are, and its id."""

    state: str
    ledger: str
    run_id: str


LAYOUTS = {
    "ours": Layout(".fractary/runs/issue-258/state.json", ".fractary/runs/issue-258/ledger.db", "issue-258"),
    "fabers": Layout(
        ".fractary/faber/runs/issue-258/state.json", ".fractary/faber/runs/issue-258/ledger.db", "issue-258"
    ),
    "plan": Layout(f"{PLAN}/2026-04-17/state.json", f"{PLAN}/2026-04-17/ledger.db", "plan-258-run-2026-04-17"),
    "shared": Layout(f"{PLAN}/state-2026-04-17.json", f"{PLAN}/ledger-2026-04-17.db", "plan-258-run-2026-04-17"),
    "shared, by its path": Layout(
        f"{PLAN}/state-2026-04-17.json", f"{PLAN}/ledger-2026-04-17.db", "plan-258/2026-04-17"
    ),
}


def seen(clone: Clone, layout: Layout) -> Clone:
    clone.state_path, clone.ledger = clone.root / layout.state, clone.root / layout.ledger
    return clone


def begin(root: Path, layout: Layout) -> Clone:
    """Make a repository without the merge driver, with a run that has one session, all committed."""
    clone = seen(Clone(root), layout)
    root.mkdir()
    clone.git("init", "-q", "-b", "main")
    clone.faber("init", "--git-only", "--no-pre-commit")
    clone.forget_driver()
    clone.state_path.parent.mkdir(parents=True)
    clone.put({**usual_state(layout.run_id), "updated_at": "2026-01-05T14:30:22Z", "notes": {"a": 1, "b": 2, "c": 3}})
    clone.name_run(layout.run_id)
    clone.record("first")
    clone.commit("begin")
    return clone


def begin_two(tmp_path: Path, layout: Layout = LAYOUTS["ours"]) -> tuple[Clone, Clone]:
    one = begin(tmp_path / "one", layout)
    other = seen(one.clone("other", driver=False), layout)
    other.name_run(layout.run_id)
    return one, other
