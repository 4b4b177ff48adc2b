"""A program that is run for its output: without a shell, with nothing to read, a deadline and a bound."""

from __future__ import annotations

import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

COMPLAINT_BYTES = 4_096


# A program that asks somebody, or colours its answer, has nobody to read it.
UNATTENDED = {"GH_PROMPT_DISABLED": "1", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1", "CLICOLOR": "0"}


class ProgramFailed(Exception):
    """The program gave no output, and why; `code` is its exit code and `complaint` its errors where it ended itself."""

    def __init__(self, message: str, *, code: int | None = None, complaint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.complaint = complaint


def output_of(
    arguments: list[str], directory: str, environment: Mapping[str, str], *, seconds: float, limit: int
) -> bytes:
    """Run a program in a directory and give what it printed, at most `limit` bytes.

    Raises ProgramFailed if it is not there, ends with an error, prints more or takes longer; then it is killed, and
    with it whatever it started, as far as that stayed in its process group. A daemon that left it (setsid) cannot be
    found again with the standard library alone: it lives on, with its output closed, and nobody waits for it.
    """
    deadline = time.monotonic() + seconds
    pid, out, err = _started(arguments, directory, environment)
    ended = False
    try:
        printed, complaint = _printed(out, err, deadline, limit)
        status = _status(pid, deadline)
        ended = True
    except TimeoutError as error:
        raise ProgramFailed(f"it took longer than {seconds:g} seconds") from error
    finally:
        os.close(out)
        os.close(err)
        if not ended:
            _kill(pid)
    if status != 0:
        said = complaint.decode("utf-8", "replace").strip() or printed.decode("utf-8", "replace").strip()
        lines = said.splitlines()
        fatal = [line for line in lines if line.startswith(("fatal: ", "error: "))]
        told = [*fatal, *lines[-1:], f"it ended with status {status}"][0][:300]
        raise ProgramFailed(told, code=status, complaint=said[:COMPLAINT_BYTES])
    if b"\0" in printed:
        raise ProgramFailed("binary content")
    return printed


def text_of_output(printed: bytes) -> str:
    """Give a program's output as text, and say so where there is none; raises ProgramFailed for what is no text."""
    try:
        return printed.decode() or "(no output)\n"
    except UnicodeDecodeError as error:
        raise ProgramFailed(f"not UTF-8 text (byte {error.start:,})") from error


def _started(arguments: list[str], directory: str, environment: Mapping[str, str]) -> tuple[int, int, int]:
    """Start a program in a process group of its own; give its pid, and what to read its output and complaints from."""
    out, to_out = os.pipe()
    err, to_err = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    here = os.open(os.curdir, os.O_RDONLY)
    actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, to_out, 1), (os.POSIX_SPAWN_DUP2, to_err, 2)]
    try:
        os.chdir(directory)  # posix_spawn can name no directory
        pid = os.posix_spawnp(
            arguments[0], arguments, environment, file_actions=actions, setpgroup=0, setsigdef=[signal.SIGPIPE]
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL byte, a lone surrogate
        os.close(out)
        os.close(err)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ProgramFailed(f"{arguments[0]} cannot be run: {reason}") from error
    finally:
        os.fchdir(here)
        for descriptor in (to_out, to_err, null, here):
            os.close(descriptor)
    return pid, out, err


def _printed(out: int, err: int, deadline: float, limit: int) -> tuple[bytes, bytes]:
    read: dict[int, list[bytes]] = {out: [], err: []}
    size, still_open = 0, [out, err]
    while still_open:
        left = deadline - time.monotonic()
        ready = select.select(still_open, [], [], left)[0] if left > 0 else []
        if not ready:
            raise TimeoutError
        for descriptor in ready:
            piece = os.read(descriptor, 65_536)
            if not piece:
                still_open.remove(descriptor)
            elif descriptor == out:
                size += len(piece)
                read[out].append(piece)
            else:
                read[err] = [b"".join([*read[err], piece])[-COMPLAINT_BYTES:]]
        if size > limit:
            raise ProgramFailed(f"it printed more than {limit:,} bytes")
    return b"".join(read[out]), b"".join(read[err])


def _status(pid: int, deadline: float) -> int:
    """Wait for a program that has closed its output; raises TimeoutError."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.001)


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended; macOS says the second of a group whose leader is a zombie
    os.waitpid(pid, 0)
