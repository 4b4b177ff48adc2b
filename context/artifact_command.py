"""A slash command as an artifact: the user's program for it is run, or the agent is asked to run the command.

A program has empty input, a deadline, and a bound on what it prints.
"""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import time

from faber_ledger.context.artifact import MAX_BYTES, NO_SOURCE, PLACEHOLDERS, ArtifactError, fill_command
from faber_ledger.ledger.clock import check_time, time_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from faber_ledger.context.artifact import Content, Surroundings
    from faber_ledger.context.workflow import Artifact


SECONDS = 30.0


def read_command(artifact: Artifact, surroundings: Surroundings) -> Content:
    """Run the program that the user mapped to a slash command (AGENT, Step 6); raises ArtifactError.

    Only the client can run a slash command. Without a mapping the text is the command itself, for the agent to run,
    and its size is 0; so is the text of an instruction in words.
    """
    command = artifact["command"]
    if not command:
        raise ArtifactError(NO_SOURCE)
    resolved = slash_command(command, surroundings)
    program = surroundings["commands"].get(resolved.split()[0])
    if program is None:
        return {"text": resolved, "source": command, "resolved": resolved, "size_bytes": 0, "is_deferred": True}
    arguments = fill_program(program, surroundings)  # without the command's own: the user's list has placeholders
    try:
        environment = os.environ | UNATTENDED
        printed = run_program(arguments, surroundings["root"], environment, seconds=SECONDS, limit=MAX_BYTES)
        text = decode_output(printed)
        if not printed.strip():
            raise ProgramFailed("it printed nothing")
    except ProgramFailed as error:
        raise ArtifactError(f"`{program[0]}` failed: {error}", resolved) from error
    return {"text": text, "source": command, "resolved": resolved, "size_bytes": len(printed), "is_deferred": False}


def slash_command(command: str, surroundings: Surroundings) -> str:
    """Return a slash command, or an instruction in words, in one line, with its placeholders filled.

    FABER's newer workflows say in words which skill to use. Raises ArtifactError for an unknown placeholder.
    """
    named = dict.fromkeys(re.findall(r"\{[A-Za-z_]\w*\}", command))
    if unknown := [name for name in named if name[1:-1] not in PLACEHOLDERS]:
        raise ArtifactError(f"unknown placeholder: {', '.join(unknown)}")
    filled = " ".join(fill_command(command, surroundings).split())
    if not filled:
        raise ArtifactError(NO_SOURCE)
    return filled


def fill_program(program: list[str], surroundings: Surroundings) -> list[str]:
    """Return a program from the user's configuration with its placeholders filled; raises ArtifactError."""
    return [fill_command(word, surroundings) for word in program]


def check_mapped(program: list[str], surroundings: Surroundings) -> None:
    """Raise ArtifactError, as running it would, if a mapped program cannot be run; it is not started."""
    name = fill_program(program, surroundings)[0]
    try:
        find_program(name, surroundings["root"])
    except ProgramFailed as error:
        raise ArtifactError(f"`{program[0]}` failed: {error}", " ".join(program)) from error


COMPLAINT_BYTES = 4_096
SHELL = "/bin/sh"
# posix_spawn cannot name a directory, and os.chdir would move this process. The shell becomes the program.
EXEC_IN_DIRECTORY = 'cd "$1" && shift && exec "$@"'
# No person answers a program's question or sees its colours.
UNATTENDED = {"GH_PROMPT_DISABLED": "1", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1", "CLICOLOR": "0"}


class ProgramFailed(Exception):
    """A program failed, and why; `code` is its exit code and `complaint` what it printed, if it was not killed."""

    def __init__(self, message: str, *, code: int | None = None, complaint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.complaint = complaint


def run_program(
    arguments: list[str], directory: str | None, environment: Mapping[str, str], *, seconds: float, limit: int
) -> bytes:
    """Run a program in a directory (None: in ours) and return what it printed, at most `limit` bytes.

    Raises ProgramFailed if the program does not exist, ends with an error, prints more or takes longer, and OutOfTime
    at a hook's deadline. It is then
    killed together with everything it started that stayed in its process group. A daemon that left the group (setsid)
    cannot be found again with the standard library alone: it lives on, its output closed, and we do not wait for it.
    """
    deadline = time.monotonic() + seconds
    pid, out, err = _start(arguments, directory, environment)
    ended = False
    try:
        printed, complaint = _read_output(out, err, deadline, limit)
        status = _wait(pid, deadline)
        ended = True
    except TimeoutError as error:
        check_time()
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
        reason = [*fatal, *lines[-1:], f"it ended with status {status}"][0][:300]
        raise ProgramFailed(reason, code=status, complaint=said[:COMPLAINT_BYTES])
    if b"\0" in printed:
        raise ProgramFailed("binary content")
    return printed


def decode_output(printed: bytes) -> str:
    """Return a program's output as text, "(no output)" if it is empty; raises ProgramFailed if it is not UTF-8."""
    try:
        return printed.decode() or "(no output)\n"
    except UnicodeDecodeError as error:
        raise ProgramFailed(f"not UTF-8 text (byte {error.start:,})") from error


def find_program(name: str, directory: str) -> str:
    """Return the path of a program as a shell in `directory` finds it; raises ProgramFailed."""
    folders = [""] if os.sep in name else os.get_exec_path()
    places = [os.path.join(directory, folder, name) for folder in folders]
    files = [place for place in places if os.path.isfile(place)]
    for place in files:
        if os.access(place, os.X_OK):
            return place
    raise ProgramFailed(f"{name} cannot be run: {os.strerror(errno.EACCES if files else errno.ENOENT)}")


def _start(arguments: list[str], directory: str | None, environment: Mapping[str, str]) -> tuple[int, int, int]:
    """Start a program in its own process group; returns its pid, and descriptors of its output and its errors."""
    command = [find_program(arguments[0], directory or os.curdir), *arguments[1:]]
    if directory is not None:
        command = [SHELL, "-c", EXEC_IN_DIRECTORY, SHELL, directory, *command]
    out, to_out = os.pipe()
    err, to_err = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, to_out, 1), (os.POSIX_SPAWN_DUP2, to_err, 2)]
    try:
        pid = os.posix_spawn(
            command[0], command, environment, file_actions=actions, setpgroup=0, setsigdef=[signal.SIGPIPE]
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL byte, a lone surrogate
        os.close(out)
        os.close(err)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ProgramFailed(f"{arguments[0]} cannot be run: {reason}") from error
    finally:
        for descriptor in (to_out, to_err, null):
            os.close(descriptor)
    return pid, out, err


def _read_output(out: int, err: int, deadline: float, limit: int) -> tuple[bytes, bytes]:
    read: dict[int, list[bytes]] = {out: [], err: []}
    size, still_open = 0, [out, err]
    while still_open:
        left = time_left(deadline - time.monotonic())
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


def _wait(pid: int, deadline: float) -> int:
    """Return the exit code of a program that has closed its output; raises TimeoutError."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time_left(deadline - time.monotonic()) <= 0:
            raise TimeoutError
        time.sleep(0.001)


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended; on macOS a group whose leader is a zombie raises PermissionError
    os.waitpid(pid, 0)
