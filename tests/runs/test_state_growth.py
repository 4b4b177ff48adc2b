"""A long history grows in `state.json` without being written again: the bytes are those of folding everything."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.project import RUN, Project
from support.sizes import few

from faber_ledger.files import json_text
from faber_ledger.files.json_text import JsonText
from faber_ledger.projections.fold import NAMES, blocks_of, fold, session_history, text_of
from faber_ledger.recording.recording import Recording
from faber_ledger.runs import state_file, state_write
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import read_log

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 60
START = 1767623422.0
TEXTS = ["plain", "é", 'a "quoted" one', "back\\slash", "two\nlines", "\u2028", "\x00", "],", "      {", "}]", "𝄞", ""]


class Walk:
    """A run on which facts are recorded while other tools edit its state, drawn from a seed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.project = Project.made(folder / f"project-{seed}", self.first_state())
        self.run = find_run(str(self.project.root), RUN)
        self.sessions: list[str] = []
        self.at = START

    def first_state(self) -> str:
        state = {"run_id": RUN, "workflow_id": "default", "status": "in_progress", "notes": self.anything(2)}
        return self.laid_out(state, self.chance.choice([2, 2, 2, 4, "\t", None]))

    def laid_out(self, state: dict[str, Any], indent: int | str | None) -> str:
        """Write a state as one of many tools would."""
        separators = self.chance.choice([None, None, (",", ":")]) if indent is None else None
        text = json.dumps(state, indent=indent, separators=separators, ensure_ascii=self.chance.random() < 0.3)
        text = text.encode("utf-8", "replace").decode() + self.chance.choice(["\n", ""])
        text = text.replace("\n", "\r\n") if self.chance.random() < 0.1 else text
        return self.chance.choice(["\ufeff", *[""] * 9]) + text

    def anything(self, depth: int) -> Any:
        """Draw a value as other tools keep one, with the names that we look for in it."""
        kinds: list[Callable[[], Any]] = [
            lambda: self.chance.choice(TEXTS),
            lambda: self.chance.choice([0, 1, -7, 2.5, True, None, "sessions", "\x00"]),
        ]
        if depth:
            names = ["sessions", "context_metadata", "session_history", "compaction_events", *TEXTS]
            kinds.append(lambda: {self.chance.choice(names): self.anything(depth - 1) for _ in range(3)})
            kinds.append(lambda: [self.anything(depth - 1) for _ in range(self.chance.randrange(3))])
        return self.chance.choice(kinds)()

    def facts(self) -> list[dict[str, Any]]:
        """Draw what one hook records."""
        facts = [self.fact() for _ in range(self.chance.choice([1, 1, 2, 5]))]
        return [{"event": event, "client": self.chance.choice(["one", "two"])} for event in facts]

    def fact(self) -> dict[str, Any]:
        kind = self.chance.choice(["start", "start", "load", "load", "reload", "end", "end", "adopt"])
        if kind == "adopt" and self.chance.random() < 0.7:
            kind = "start"
        if kind == "start" or not self.sessions:
            self.sessions.append(f"claude-session-{len(self.sessions)}")
            return {
                "type": "session_started",
                "session_id": self.sessions[-1],
                "source": self.chance.choice(["startup", "compact", "compact"]),
                "environment": {
                    "hostname": self.chance.choice([None, *TEXTS]),
                    "platform": "linux",
                    "cwd": self.chance.choice(TEXTS),
                    "git_commit": "abc",
                },
                "phase": "build",
                "step": self.chance.choice([None, *TEXTS]),
                "phases_completed": ["frame"],
                "empties_context": self.chance.random() < 0.7,
                "pid": "1",
            }
        recent = self.sessions[-1] if self.chance.random() < 0.8 else self.chance.choice([*self.sessions, "unknown"])
        if kind == "load":
            return {
                "type": "artifact_loaded",
                "session_id": recent,
                "artifact_id": self.chance.choice(TEXTS),
                "trigger": "manual",
                "source": self.chance.choice(TEXTS),
                "size_bytes": 1,
                "sha256": "0" * 64,
                "given": "inline",
            }
        if kind == "reload":
            return {
                "type": "context_reloaded",
                "session_id": recent,
                "trigger": "manual",
                "loaded": 1,
                "failed": 0,
                "skipped": 0,
            }
        if kind == "end":
            return {
                "type": "session_ended",
                "session_id": recent,
                "reason": "normal",
                "client_reason": None,
                "inferred": self.chance.random() < 0.3,
                "phase": "build",
                "step": None,
                "phases_completed": ["frame", "architect"],
            }
        entry = {"session_id": f"adopted-{self.chance.randrange(9)}", "more": self.anything(2)}
        blocks = {"sessions": {"current_session_id": None, "total_sessions": 1, "session_history": [entry]}}
        return {"type": "run_adopted", "run_id": RUN, "blocks": json.dumps(blocks)}

    def edit(self) -> None:
        """Let another tool write the state, with our blocks as they are, laid out anew, or changed."""
        path = self.project.state_path
        text = path.read_bytes().decode()
        state = json.loads(text.removeprefix("\ufeff"))
        what = self.chance.choice(["key", "key", "key", "layout", "sort", "block", "entry", "lost", "twice", "escape"])
        history = session_history(state)
        if what == "key":
            text = JsonText(text).with_members({self.chance.choice(["notes", "phases", "é"]): self.anything(3)})
        elif what == "layout":
            text = self.laid_out(state, self.chance.choice([2, 2, 2, 2, 4, "\t", None]))
        elif what == "sort":
            text = self.laid_out(dict(self.chance.sample(sorted(state.items()), len(state))), 2)
        elif what == "block":
            state[self.chance.choice(NAMES)] = self.anything(2)
            text = self.laid_out(state, 2)
        elif what == "entry" and history:
            history[self.chance.randrange(len(history))] = self.chance.choice([{"x": 1}, 1, {"session_id": ["x"]}, {}])
            text = self.laid_out(state, 2)
        elif what == "lost":
            text = self.laid_out({name: value for name, value in state.items() if name != "sessions"}, 2)
        elif what == "twice" and text.rstrip().endswith("}"):
            name = self.chance.choice(NAMES)
            value = json.dumps(state.get(name) if self.chance.random() < 0.5 else self.anything(2))
            text = f'{text.rstrip()[:-1]}, "{name}": {value}}}'
        elif what == "escape":
            text = text.replace('"sessions"', '"sess\\u0069ons"', 1)
        path.write_bytes(text.encode("utf-8", "backslashreplace"))

    def warn(self, text: str) -> None:
        if not text.startswith("state.json differed from the ledger in "):
            pytest.fail(text)

    def record(self) -> None:
        """Record facts, and compare the file with the one that folding everything and writing both blocks makes.

        A hook may have read the state before, and another tool may have written it since.
        """
        self.at += self.chance.choice([0, 1, 60])
        if self.chance.random() < 0.5:
            state_file.look_at_state(self.run)
        if self.chance.random() < 0.1:
            self.edit()
        before = self.project.state_path.read_bytes().decode()
        with Recording(self.run, at=self.at, writer="5f" * 16, warn=self.warn) as recording:
            recording.append(self.facts())  # type: ignore[arg-type]  # the drafts are drawn
        with read_log(self.run) as log:
            folded = fold(log.stream())
            assert state_write.read_known(self.run).shows(log)
        document = JsonText(before)
        found = blocks_of(document.value)
        differing = {
            name: block
            for name, block in folded.items()
            if name not in found or text_of({name: found[name]}) != text_of({name: block})
        }
        expected = document.with_members(differing).encode()
        assert self.project.state_path.read_bytes() == expected


def take(folder: Path, seed: int) -> None:
    """Walk, and name the seed if the bytes differ."""
    walk = Walk(folder, seed)
    try:
        walk.record()
        for _ in range(STEPS):
            if walk.chance.random() < 0.25:
                walk.edit()
            walk.record()
    except BaseException:
        sys.stderr.write(f"the walk with seed {seed} differs: take(folder, {seed})\n")
        raise


@pytest.mark.long
@pytest.mark.parametrize("seed", few([None, *range(6)], 3))
def test_a_history_that_grows_is_the_one_that_is_written_whole(
    tmp_path: Path, seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown: list[int] = []

    def count(before: str, value: dict[str, Any], name: str, kept: int, dropped: int) -> str:
        grown.extend([kept] if kept else [])
        return once(before, value, name, kept, dropped)

    once = json_text.lines_grown
    monkeypatch.setattr(state_write, "lines_grown", count)
    drawn = random.SystemRandom().randrange(10**9) if seed is None else seed
    sys.stdout.write(f"seed {drawn}\n")
    take(tmp_path, drawn)
    assert seed is None or len(grown) > STEPS / 4
