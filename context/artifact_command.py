"""What a slash command tells, as an artifact: by the user's own program for it, else by the agent itself."""

from __future__ import annotations

import os
import re

from faber_ledger.context.artifact import MAX_BYTES, ArtifactError
from faber_ledger.context.artifact_source import NO_SOURCE, filled_command, unknown_in
from faber_ledger.context.program import UNATTENDED, ProgramFailed, find_program, output_of, text_of_output
from faber_ledger.runs.settings import SLASH_COMMAND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.context.artifact import Artifact, Content, Loaded, Surroundings


SECONDS = 30.0


def read_command(artifact: Artifact, surroundings: Surroundings) -> Content:
    """Run the program that the user has mapped to a slash command (AGENT, Step 6); raises ArtifactError.

    No shell can run a slash command. Without a mapping the text is the command itself, for the agent to run, and its
    size is 0.
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
        text = text_of_output(printed)
    except ProgramFailed as error:
        raise ArtifactError(f"`{program[0]}` failed: {error}", resolved) from error
    return {
        "text": text,
        "source": command,
        "resolved": resolved,
        "size_bytes": len(printed),
        "is_deferred": False,
    }


def slash_command(command: str, surroundings: Surroundings) -> str:
    """Give a slash command in one line, its placeholders filled; raises ArtifactError for anything else."""
    unknown = unknown_in(command)
    if unknown:
        raise ArtifactError(f"{', '.join(unknown)} is no placeholder")
    words = filled_command(command, surroundings).split()
    if not words or not re.fullmatch(SLASH_COMMAND, words[0]):
        raise ArtifactError(f"Command is no slash command: {command:.200}")
    return " ".join(words)


def mapped_arguments(program: list[str], surroundings: Surroundings) -> list[str]:
    """Fill the placeholders of a program in the user's configuration; raises ArtifactError."""
    return [filled_command(word, surroundings) for word in program]


def check_mapped(program: list[str], surroundings: Surroundings) -> None:
    """Raise ArtifactError, as running it would, if a mapped program cannot be run; it is not started."""
    name = mapped_arguments(program, surroundings)[0]
    try:
        find_program(name, surroundings["root"])
    except ProgramFailed as error:
        raise ArtifactError(f"`{program[0]}` failed: {error}", " ".join(program)) from error


def mapped_programs(
    loads: list[Loaded], commands: dict[str, list[str]], surroundings: Surroundings
) -> dict[str, str | None]:
    """Give the deferred commands that a program is mapped to, and why it cannot be run where that is so."""
    found: dict[str, str | None] = {}
    for command in {loaded["content"].split()[0] for loaded in loads if loaded["is_deferred"]} & commands.keys():
        try:
            check_mapped(commands[command], surroundings)
            found[command] = None
        except ArtifactError as error:
            found[command] = error.message
    return found


def run_mapped(program: list[str], surroundings: Surroundings) -> bytes:
    """Run a program of the user's configuration in the project and give what it prints; raises ArtifactError.

    The slash command's own arguments are not passed on: the user's list has placeholders for what it needs.
    """
    arguments = mapped_arguments(program, surroundings)
    try:
        return output_of(arguments, surroundings["root"], os.environ | UNATTENDED, seconds=SECONDS, limit=MAX_BYTES)
    except ProgramFailed as error:
        raise ArtifactError(f"`{program[0]}` failed: {error}", " ".join(program)) from error
