"""Break system calls of the real commands, one at a time, with strace's `--inject`.

strace stops the unchanged program at its N-th call of a kind, and kills it there or makes the call fail. A
preloaded library would need a compiler and would miss calls that bypass libc's wrappers; a VFS layer sees SQLite alone,
not state.json or the inbox; a ptrace loop of our own would be another strace. The calls are first counted in an
undisturbed run: a hook makes the same calls each time.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, NamedTuple

from support.command import Command
from support.fork_server import STOPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

WRITING = (
    *("openat", "write", "pwrite64", "fsync", "fdatasync", "ftruncate", "fchmod", "flock", "link", "mkdir"),
    *("rename", "rmdir", "unlink"),
)
LINE = re.compile(r"^(\w+)\((.*)$")
KILL = "killed"
LONGEST_SECONDS = 120
ERRORS = ("ENOSPC", "EDQUOT", "EROFS", "EACCES", "EFBIG", "EMFILE", "EIO")
RANDOM = re.compile(r"\d{17}-[0-9A-Z]{26}|(?<=\.)[0-9a-f]{16}(?=\.faber-ledger\.tmp)")


class Call(NamedTuple):
    """The `number`-th call of its kind in a process; `file` is its file, as the docs name it."""

    name: str
    number: int
    file: str

    def __str__(self) -> str:
        return f"{self.name} {self.file}"


class Ended(NamedTuple):
    """How a process ended: its exit code, negative for a signal, and what it printed."""

    code: int
    output: str
    errors: str


def list_calls(command: list[str], project: Path, environment: Mapping[str, str], delivery: bytes) -> list[Call]:
    """Run a command; return the calls by which it writes into the project, in order."""
    trace = project.parent / "trace"
    options = ["-o", str(trace), "-y", "-s", "0", "-e", f"trace={','.join(WRITING)}", "-e", "signal=none"]
    ended = run_under_strace(options, command, project, environment, delivery)
    assert ended.code == 0, ended.errors
    counts: dict[str, int] = {}
    found = []
    for line in trace.read_text(errors="replace").splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        name, rest = match.groups()
        counts[name] = counts.get(name, 0) + 1
        arguments = rest.rpartition(") = ")[0].replace(f"AT_FDCWD<{project}>", "AT_FDCWD")
        path = re.search(re.escape(str(project)) + r"[^>\",]*", arguments)
        if path is None or (name == "openat" and "O_CREAT" not in arguments):
            continue
        found.append(Call(name, counts[name], _shown(path.group()[len(str(project)) :])))
    return found


def break_at(
    call: Call, fault: str, command: list[str], project: Path, environment: Mapping[str, str], delivery: bytes
) -> Ended:
    """Run a command and kill it at a call, or make the call fail with the error `fault`."""
    ended, line = break_call(call.name, call.number, fault, command, project, environment, delivery)
    path = re.search(re.escape(str(project)) + r"[^>\",]*", line.replace(f"AT_FDCWD<{project}>", ""))
    assert fault == KILL or (path and _shown(path.group()[len(str(project)) :]) == call.file), (
        f"{call} was missed: {line}"
    )
    return ended


def break_call(
    name: str,
    number: int,
    fault: str,
    command: list[str],
    project: Path,
    environment: Mapping[str, str],
    delivery: bytes,
    about: Path | None = None,
) -> tuple[Ended, str]:
    """Break the `number`-th call of a name, or of those on the file `about`; return strace's line, if any."""
    what = "signal=KILL" if fault == KILL else f"error={fault}"
    trace = project.parent / "trace"
    options = ["-o", str(trace), "-y", "-s", "0", "-e", f"trace={name}", *(["-P", str(about)] if about else [])]
    options += ["-e", f"inject={name}:{what}:when={number}"]
    ended = run_under_strace(options, command, project, environment, delivery)
    return ended, next((line for line in trace.read_text(errors="replace").splitlines() if "(INJECTED)" in line), "")


@contextmanager
def stop_at(
    call: str,
    number: int,
    file: Path,
    command: list[str],
    project: Path,
    environment: Mapping[str, str] | None = None,
    delivery: bytes = b"",
    stdout: IO[bytes] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command, stop it at its `number`-th call of a name on a file, and yield the stopped process."""
    trace = project.parent / "trace"
    trace.unlink(missing_ok=True)
    options = ["-D", "-o", str(trace), "-P", str(file), "-e", f"inject={call}:signal=STOP:when={number}"]
    with tempfile.TemporaryFile() as stdin:
        stdin.write(delivery)
        stdin.seek(0)
        process = subprocess.Popen(
            [_strace(), *options, *command],
            cwd=project,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
        )
    deadline = time.monotonic() + LONGEST_SECONDS
    try:
        while "--- stopped by SIGSTOP ---" not in (trace.read_text() if trace.exists() else ""):
            assert process.poll() is None, "the command has ended without making the call"
            assert time.monotonic() < deadline, "the command does not reach the call"
        yield process
    finally:
        process.kill()
        process.wait()


def run_under_strace(
    options: list[str], command: list[str], project: Path, environment: Mapping[str, str], delivery: bytes
) -> Ended:
    """Run a command under strace, which attaches to the process before it does anything."""
    process = Command(
        command,
        cwd=project,
        env={**environment, STOPS: "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        strace = subprocess.Popen([_strace(), *options, "-p", str(process.pid)], stderr=subprocess.PIPE)
        assert strace.stderr is not None
        assert b"attached" in strace.stderr.readline()
        process.send_signal(signal.SIGCONT)
        output, errors = process.communicate(delivery, timeout=LONGEST_SECONDS)
    except BaseException:
        process.kill()
        raise
    strace.communicate()
    return Ended(process.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))


def _strace() -> str:
    found = shutil.which("strace")
    assert found, "these tests break system calls with strace, which is not installed: `apt-get install strace`"
    return found


def _shown(path: str) -> str:
    """Return the name of a project's file without the parts that differ from run to run."""
    path = RANDOM.sub("…", path.lstrip("/"))
    path = re.sub(r"^\.git/faber-ledger/runs/[^/]+", "private", path)
    path = re.sub(r"^\.git/faber-ledger/inbox/[^/]+", "inbox", path)
    path = re.sub(r"^\.git/faber-ledger/clients/[0-9a-f]{32}", "the client's file", path)
    path = re.sub(r"^\.git/faber-ledger", "common", path)
    path = re.sub(r"^\.fractary/runs/[^/]+/?", "", path)
    return re.sub(r"\.\d+\.tmp", ".tmp", path) or "the run's folder"
