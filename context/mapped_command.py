"""A slash command that the user's own configuration maps to a program, run without a shell and within bounds."""

from __future__ import annotations

import os
import re
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class Outcome(TypedDict):
        """What a program printed and how it ended; `code` is None where it was stopped or is not there (`problem`)."""

        code: int | None
        output: str
        errors: str
        problem: str | None


SECONDS = 20.0
MAX_OUTPUT = 4_000_000
MAX_ERRORS = 64_000
UNATTENDED = {"GH_PROMPT_DISABLED": "1", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1", "CLICOLOR": "0"}

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def filled(command: list[str], values: dict[str, str]) -> list[str]:
    """Fill `{name}` in each word of a command. A word stays one argument, whatever the value is."""
    return [PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), word) for word in command]


def outcome_of(command: list[str], seconds: float = SECONDS) -> Outcome:
    """Run a program to its end, its standard input empty; it and its children are stopped after `seconds`."""
    (read_out, write_out), (read_err, write_err) = os.pipe(), os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    pid = 0
    try:
        pid = os.posix_spawnp(
            command[0],
            command,
            os.environ | UNATTENDED,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, write_out, 1),
                (os.POSIX_SPAWN_DUP2, write_err, 2),
            ],
            setpgroup=0,
        )
    except (OSError, ValueError) as error:
        os.close(read_out)
        os.close(read_err)
        return _stopped(f"cannot run {command[0]}: {getattr(error, 'strerror', None) or error}")
    finally:
        for descriptor in (write_out, write_err, null):
            os.close(descriptor)
    return _gathered(pid, read_out, read_err, time.monotonic() + seconds, f"Network timeout ({seconds:g} s)")


def _gathered(pid: int, read_out: int, read_err: int, deadline: float, too_slow: str) -> Outcome:
    pieces: dict[int, list[bytes]] = {read_out: [], read_err: []}
    sizes = dict.fromkeys(pieces, 0)
    waiting = [read_out, read_err]
    problem = None
    try:
        while waiting and problem is None:
            left = deadline - time.monotonic()
            ready = select.select(waiting, [], [], left)[0] if left > 0 else []
            if not ready:
                problem = too_slow
            for descriptor in ready:
                piece = os.read(descriptor, 65536)
                if not piece:
                    waiting.remove(descriptor)
                elif sizes[descriptor] < (MAX_OUTPUT if descriptor == read_out else MAX_ERRORS):
                    pieces[descriptor].append(piece)
                    sizes[descriptor] += len(piece)
                elif descriptor == read_out:
                    problem = f"it printed more than {MAX_OUTPUT:,} bytes"
    finally:
        os.close(read_out)
        os.close(read_err)
        if problem is not None or waiting:
            _stop(pid)
    status = _ended(pid, deadline)
    if problem is None and status is None:
        problem = too_slow
    if problem is not None:
        return _stopped(problem)
    texts = [b"".join(pieces[descriptor]).decode("utf-8", "replace") for descriptor in (read_out, read_err)]
    code = None if status is None else os.waitstatus_to_exitcode(status)
    return {"code": code, "output": texts[0], "errors": texts[1], "problem": None}


def _ended(pid: int, deadline: float) -> int | None:
    """Wait for a program that has closed its output; None if it does not end in time, and is stopped."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        if time.monotonic() >= deadline:
            _stop(pid)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.005)


def _stop(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _stopped(problem: str) -> Outcome:
    return {"code": None, "output": "", "errors": "", "problem": problem}
