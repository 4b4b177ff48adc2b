"""Clones that append apart and exchange their logs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from faber_ledger.ledger.encoding import ROW
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import write_union
from faber_ledger.ledger.verify import find_problems
from faber_ledger.projections.fold import fold, text_of
from support.sample_log import START, every_type

EVENTS = [event for event in every_type() if event["type"] not in ("event_redacted", "redaction_undone")]


class Clones:
    """Clones of one run, each with its log, its clock, and the id that its events carry."""

    def __init__(self, folder: Path, clocks: list[int], writers: list[int]) -> None:
        self.folder = folder
        self.clocks = clocks
        self.writers = [f"{number:032x}" for number in writers]
        self.paths = [str(folder / f"{number}.db") for number in range(len(clocks))]
        for path in self.paths:
            with Log.open(path, "OFF") as log:
                log.commit()

    def begin(self) -> None:
        """Give all the same first event, which makes them clones of one run."""
        self.append(0, 0, 0)
        for clone in range(1, len(self.paths)):
            self.pull(clone, 0)

    def append(self, clone: int, kind: int, drift: int) -> None:
        """Append one event, `drift` seconds after the clone's last one: below 0, its clock ran backwards."""
        self.clocks[clone] += drift
        with Log.open(self.paths[clone], "OFF") as log:
            log.append(
                [{"event": EVENTS[kind], "client": "c"}], at=START + self.clocks[clone], writer=self.writers[clone]
            )
            log.commit()

    def pull(self, clone: int, other: int) -> None:
        """Unite one clone's log with another's."""
        write_union([self.paths[clone], self.paths[other]], self.paths[clone])

    def restore(self, clone: int, other: int) -> None:
        """Restore a clone from a copy of another; both write under the same id afterwards."""
        Path(self.paths[clone]).write_bytes(Path(self.paths[other]).read_bytes())
        self.writers[clone] = self.writers[other]


clones = st.integers(0, 3)
steps = st.one_of(
    st.tuples(st.just("append"), clones, st.integers(0, len(EVENTS) - 1), st.integers(-40_000, 40_000)),
    st.tuples(st.just("append"), clones, st.integers(0, len(EVENTS) - 1), st.integers(0, 60)),
    st.tuples(st.just("pull"), clones, clones),
    st.tuples(st.just("restore"), clones, clones),
)
worked = st.tuples(
    st.lists(st.integers(-40_000, 40_000), min_size=4, max_size=4),
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
    st.lists(steps, max_size=20),
)
Work = tuple[list[int], list[int], list[tuple[Any, ...]]]


def do_work(folder: Path, work: Work) -> Clones:
    """Do the work, and return the clones."""
    made = Clones(folder, list(work[0]), list(work[1]))
    made.begin()
    for name, *arguments in work[2]:
        getattr(made, name)(*arguments)
    return made


def rows(path: str) -> list[tuple[Any, ...]]:
    with Log.read(path) as log:
        return log.connection.execute(f"{ROW} ORDER BY seq, id").fetchall()


def blocks(path: str) -> str:
    with Log.read(path) as log:
        return text_of(fold(log.stream()))


def unite(*paths: str) -> bytes:
    """Return the bytes of the union of logs."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/united.db"
        write_union(paths, out)
        found = [item for item in find_problems(out) if not item.is_note]
        # A test cut out a payload by hand, or two clones redacted the same event.
        assert [item for item in found if not item.is_note] == []
        return Path(out).read_bytes()


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)
