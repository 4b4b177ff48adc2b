"""Whole processes measured side by side: each next to its peer, in turn, so that a busy machine slows both."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from subprocess import DEVNULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COLLECTED = re.compile(r"Collected : (\d+)")


class Process:
    """A command as it is run: where, with which variables, and with which file as its standard input."""

    def __init__(self, command: list[str], cwd: Path, environment: dict[str, str], stdin: Path | None = None) -> None:
        self.command = command
        self.cwd = cwd
        self.environment = environment
        self.stdin = stdin or Path("/dev/null")

    def output(self, before: Sequence[str] = ()) -> bytes:
        """Run it, after other words where there are some, and give what it printed."""
        command = [*before, *self.command]
        with self.stdin.open("rb") as stdin:
            return subprocess.check_output(command, cwd=self.cwd, env=self.environment, stdin=stdin, stderr=DEVNULL)

    def seconds(self) -> tuple[float, float]:
        """Run it; give how long it took, and its processor time with that of its children."""
        with self.stdin.open("rb") as stdin:
            start = time.perf_counter()
            running = subprocess.Popen(
                self.command, cwd=self.cwd, env=self.environment, stdin=stdin, stdout=DEVNULL, stderr=DEVNULL
            )
            _, status, usage = os.wait4(running.pid, 0)
            took = time.perf_counter() - start
        running.returncode = os.waitstatus_to_exitcode(status)
        if running.returncode:
            raise SystemExit(f"{' '.join(self.command)} ended with {running.returncode}")
        return took, usage.ru_utime + usage.ru_stime

    def instructions(self, out: Path) -> int | None:
        """Count the instructions of this process, children apart; None without valgrind."""
        if shutil.which("valgrind") is None:
            return None
        log = out / "callgrind.log"
        file = f"--callgrind-out-file={out / 'callgrind.out'}"
        self.output(["valgrind", "--tool=callgrind", file, f"--log-file={log}"])
        found = COLLECTED.search(log.read_text())
        return int(found[1]) if found else None


class Row:
    """One line of the result: what was measured, against what, and each round's ratio."""

    def __init__(self, what: str, peer: str, goal: float | None) -> None:
        self.what = what
        self.peer = peer
        self.goal = goal
        self.ratios: list[float] = []
        self.processor: list[float] = []
        self.instructions: float | None = None
        self.count: int | None = None

    def add(self, seconds: tuple[float, float], peer: tuple[float, float]) -> None:
        """Add a round: each time is how long it took and its processor time."""
        self.ratios.append(seconds[0] / peer[0])
        self.processor.append(seconds[1] / peer[1])


def measure(contenders: list[tuple[Row, Process, Process]], rounds: int, restore: Callable[[], None]) -> None:
    """Run each contender right after its peer, round after round, from the same start each round."""
    for _ in range(rounds):
        restore()
        for row, process, peer in contenders:
            peer_seconds = peer.seconds()
            row.add(process.seconds(), peer_seconds)


def count_instructions(contenders: list[tuple[Row, Process, Process]], restore: Callable[[], None], out: Path) -> None:
    """Count each contender's instructions as a multiple of its peer's; they repeat exactly, so once is enough."""
    peers: dict[int, int | None] = {}
    restore()
    for row, process, peer in contenders:
        if id(peer) not in peers:
            peers[id(peer)] = peer.instructions(out)
        peer_count, count = peers[id(peer)], process.instructions(out)
        if peer_count and count:
            row.instructions, row.count = count / peer_count, count
