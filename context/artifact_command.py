"""A slash command as an artifact: the user's program for it is run, or the agent is asked to run the command."""

from __future__ import annotations

import os

from faber_ledger.context.artifact import MAX_BYTES, ArtifactError
from faber_ledger.context.artifact_source import NO_SOURCE, fill_command, unknown_placeholders
from faber_ledger.context.program import UNATTENDED, ProgramFailed, decode_output, find_program, run_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.context.artifact import Artifact, Content, Loaded, Surroundings


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
    printed = run_mapped(program, surroundings)
    try:
        text = decode_output(printed)
    except ProgramFailed as error:
        raise ArtifactError(f"`{program[0]}` failed: {error}", resolved) from error
    if not printed.strip():
        raise ArtifactError(f"`{program[0]}` failed: it printed nothing", resolved)
    return {
        "text": text,
        "source": command,
        "resolved": resolved,
        "size_bytes": len(printed),
        "is_deferred": False,
    }


def slash_command(command: str, surroundings: Surroundings) -> str:
    """Return a slash command, or an instruction in words, in one line, with its placeholders filled.

    FABER's newer workflows say in words which skill to use. Raises ArtifactError for an unknown placeholder.
    """
    unknown = unknown_placeholders(command)
    if unknown:
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


def mapped_programs(
    loads: list[Loaded], commands: dict[str, list[str]], surroundings: Surroundings
) -> dict[str, str | None]:
    """Return the deferred commands that have a mapped program, each with the reason why it cannot be run, or None."""
    found: dict[str, str | None] = {}
    for command in {loaded["content"].split()[0] for loaded in loads if loaded["is_deferred"]} & commands.keys():
        try:
            check_mapped(commands[command], surroundings)
            found[command] = None
        except ArtifactError as error:
            found[command] = error.message
    return found


def run_mapped(program: list[str], surroundings: Surroundings) -> bytes:
    """Run a program from the user's configuration in the project and return what it prints; raises ArtifactError.

    The slash command's arguments are not passed on: the user's list has placeholders for what it needs.
    """
    arguments = fill_program(program, surroundings)
    try:
        return run_program(arguments, surroundings["root"], os.environ | UNATTENDED, seconds=SECONDS, limit=MAX_BYTES)
    except ProgramFailed as error:
        raise ArtifactError(f"`{program[0]}` failed: {error}", " ".join(program)) from error
