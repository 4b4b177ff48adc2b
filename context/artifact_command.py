"""A slash command as an artifact: the user's program for it is run, or the agent is asked to run the command.

A program has empty input, a deadline, and a bound on what it prints.
"""

from __future__ import annotations

import os
import re
import signal

from faber_ledger.context.artifact import MAX_BYTES, NO_SOURCE, PLACEHOLDERS, ArtifactError, fill_command, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
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
        text = run_program(arguments, surroundings["root"], seconds=SECONDS, limit=MAX_BYTES)
    except ProgramFailed as error:
        raise ArtifactError(f"`{program[0]}` failed: {error}", resolved) from error
    return {"text": text, "source": command, "resolved": resolved, "size_bytes": len(text.encode())}


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
    from shutil import which  # as subprocess finds it

    name = fill_program(program, surroundings)[0]
    if which(os.path.join(surroundings["root"], name) if os.sep in name else name) is None:
        raise ArtifactError(f"`{program[0]}` failed: {name} cannot be run", " ".join(program))


COMPLAINT_LETTERS = 4_096
# No person answers a program's question or sees its colours.
UNATTENDED = {"GH_PROMPT_DISABLED": "1", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1", "CLICOLOR": "0"}


class ProgramFailed(Exception):
    """A program failed, and why; `code` is its exit code and `complaint` what it printed, if it was not killed."""

    def __init__(self, message: str, *, code: int | None = None, complaint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.complaint = complaint


def run_program(arguments: list[str], directory: str, *, seconds: float, limit: int) -> str:
    """Run a program of the user in a directory, and return what it printed, at most `limit` bytes.

    Raises ProgramFailed if the program does not exist, ends with an error, prints nothing, more, or no text, or takes
    longer. It is then killed with everything that it started in its process group; a daemon that left the group lives
    on, and is not waited for.
    """
    from contextlib import suppress
    from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired  # no hook runs a program of the user

    try:
        given = os.environ | UNATTENDED
        process = Popen(arguments, cwd=directory, env=given, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, process_group=0)
    except (OSError, ValueError) as error:  # ValueError: a NUL byte, a lone surrogate
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ProgramFailed(f"{arguments[0]} cannot be run: {reason}") from error
    with process:
        try:
            printed, complaint = process.communicate(timeout=seconds)
        except BaseException as error:  # an interrupt too
            with suppress(ProcessLookupError, PermissionError):  # it has ended; macOS refuses a group of zombies
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, TimeoutExpired):
                raise
            raise ProgramFailed(f"it took longer than {seconds:g} seconds") from error
    if process.returncode != 0:
        said = (complaint.strip() or printed.strip()).decode("utf-8", "replace")
        reason = [*said.splitlines()[-1:], f"it ended with status {process.returncode}"][0][:300]
        raise ProgramFailed(reason, code=process.returncode, complaint=said[-COMPLAINT_LETTERS:])
    if not printed.strip():
        raise ProgramFailed("it printed nothing")
    if len(printed) > limit:
        raise ProgramFailed(f"it printed more than {limit:,} bytes")
    try:
        return text_of(printed)
    except ValueError as error:
        raise ProgramFailed(str(error)) from error
