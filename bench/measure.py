"""Measure complete processes, each right after its peer, so that a busy machine slows both."""

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
    from collections.abc import Callable

# A hook that computes for longer than it may, as under valgrind, ends before it has recorded.
UNHURRIED = "from faber_ledger.hooks import main as hook; hook.SECONDS = hook.SECONDS_AT_THE_END = 1000.0"
CALL_OF_HOOK = "main(sys.argv[1:])"  # in the launcher
COLLECTED = re.compile(r"Collected : (\d+)")


class Process:
    """A command with its directory, environment and standard input."""

    def __init__(self, command: list[str], cwd: Path, environment: dict[str, str], stdin: Path | None = None) -> None:
        self.command = command
        self.cwd = cwd
        self.environment = environment
        self.stdin = stdin or Path("/dev/null")

    def output(self) -> bytes:
        """Run the command, and return what it printed."""
        with self.stdin.open("rb") as stdin:
            return subprocess.check_output(
                self.command, cwd=self.cwd, env=self.environment, stdin=stdin, stderr=DEVNULL
            )

    def seconds(self) -> tuple[float, float]:
        """Run the command; return its time and its processor time, both in seconds and with its children's."""
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
        """Return the number of instructions of this process, without its children; None without valgrind."""
        if shutil.which("valgrind") is None:
            return None
        valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={out}/callgrind.%p"]
        valgrind += ["--trace-children=yes", "--trace-children-skip=*git"]  # a shell may become the program
        with self.stdin.open("rb") as stdin:
            running = subprocess.Popen(
                [*valgrind, *_unhurried(self.command)],
                cwd=self.cwd,
                env=self.environment,
                stdin=stdin,
                stdout=DEVNULL,
                stderr=DEVNULL,
            )
            if running.wait():
                raise SystemExit(f"{' '.join(self.command)} ended with {running.returncode}")
        found = COLLECTED.search((out / f"callgrind.{running.pid}").read_text())
        return int(found[1]) if found else None


def _unhurried(command: list[str]) -> list[str]:
    """Return the command with a launcher of hooks beside its own, which has no time limit; another command as it is."""
    launcher = Path(command[0])
    if launcher.name != "faber-ledger-hook":
        return command
    copy, text = launcher.with_name("hook-without-limit"), launcher.read_text()
    assert text.count(CALL_OF_HOOK) == 1
    copy.write_text(text.replace(CALL_OF_HOOK, f"{UNHURRIED}\n{CALL_OF_HOOK}"))
    copy.chmod(0o755)
    return [str(copy), *command[1:]]


class Row:
    """One line of the results: what was measured, its peer, and the ratio of each round."""

    def __init__(self, what: str, peer: str, goal: float | None) -> None:
        self.what = what
        self.peer = peer
        self.goal = goal
        self.ratios: list[float] = []
        self.processor: list[float] = []
        self.instructions: float | None = None
        self.count: int | None = None

    def add(self, seconds: tuple[float, float], peer: tuple[float, float]) -> None:
        """Add a round; each pair is a time and a processor time."""
        self.ratios.append(seconds[0] / peer[0])
        self.processor.append(seconds[1] / peer[1])


def measure(contenders: list[tuple[Row, Process, Process]], rounds: int, restore: Callable[[], None]) -> None:
    """Run each contender right after its peer; each round begins with `restore`."""
    for _ in range(rounds):
        restore()
        for row, process, peer in contenders:
            peer_seconds = peer.seconds()
            row.add(process.seconds(), peer_seconds)


def count_instructions(contenders: list[tuple[Row, Process, Process]], restore: Callable[[], None], out: Path) -> None:
    """Count each contender's instructions as a multiple of its peer's, once: they repeat exactly."""
    peers: dict[int, int | None] = {}
    restore()
    for row, process, peer in contenders:
        if id(peer) not in peers:
            peers[id(peer)] = peer.instructions(out)
        peer_count, count = peers[id(peer)], process.instructions(out)
        if peer_count and count:
            row.instructions, row.count = count / peer_count, count
