"""Messages about artifacts, as the requirement documents word them, for the packet and the commands."""

from __future__ import annotations

import os

from faber_ledger.context.artifact import COMMAND_TYPES, REFUSED
from faber_ledger.files.text import LONGEST_ID, LONGEST_QUOTE, escape, one_line, quoted
from faber_ledger.ledger.errors import StateInvalid, StateRefused
from faber_ledger.runs.run import is_name
from faber_ledger.runs.settings import is_slash_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.context.artifact import Artifact, ArtifactError, Loaded
    from faber_ledger.ledger.errors import LedgerError
    from faber_ledger.runs.run import Run


def source_of(artifact: Artifact) -> str:
    """Return where an artifact comes from, as its workflow says it."""
    return artifact["path"] or artifact["path_from_state"] or artifact["command"] or ""


def required_failed(artifact: Artifact, error: ArtifactError) -> str:
    """Return the message for a required artifact that failed (RELOAD, Step 5; AGENT, Session Load, Error Handling)."""
    if artifact["type"] in COMMAND_TYPES:
        return f"""\
❌ ERROR: Required artifact {_failed_command(artifact, error)}

Recovery:
1. Correct its command in the workflow config
2. Run the command yourself to see what it says"""
    return f"""\
❌ ERROR: Required artifact {_failed_file(error)}
Artifact: {escape(artifact["id"])}
Path: {escape(error.resolved or source_of(artifact))}
Source: {escape(error.resolved or source_of(artifact))}
Error: {escape(error.message)}

Recovery:
{_recovery(error)}"""


def _recovery(error: ArtifactError) -> str:
    """Return the steps that help with a file: the documents' are for one that is missing."""
    if error.is_missing:
        steps = """\
1. Check if path is correct in workflow config
2. Check if artifact was created in earlier phase
3. Run the phase that creates this artifact"""
        if error.resolved is None:  # the state does not name it
            return steps
        return f"""\
{steps}
4. If a plugin brings it, name the plugin's folder in plugin_roots of ~/.config/faber-ledger/config.json"""
    if error.has_room_in:
        strategies = " or ".join([f'"{name}"' for name in error.has_room_in])
        return f"""\
1. Give it load_strategy {strategies} in the workflow config, or name a shorter file there
2. Until then, read the parts that you need where it stands"""
    if error.resolved is not None:
        return """\
1. Correct what the error says about the file
2. Check if path is correct in workflow config"""
    return "1. Correct what the error says, in the workflow config or in the run's state"


def optional_failed(artifact: Artifact, error: ArtifactError) -> str:
    """Return the message for an optional artifact that failed (RELOAD, Step 5; AGENT, Session Load, Error Handling)."""
    if artifact["type"] in COMMAND_TYPES:
        return f"""\
⚠️ WARNING: Optional artifact {_failed_command(artifact, error)}

Workflow will continue without this artifact."""
    return f"""\
⚠️ WARNING: Optional artifact {_failed_file(error)}
Artifact: {escape(artifact["id"])}
Path: {escape(error.resolved or source_of(artifact))}
Source: {escape(error.resolved or source_of(artifact))}
Error: {escape(error.message)}

Workflow will continue without this artifact."""


def _failed_file(error: ArtifactError) -> str:
    """Return how a path failed; the documents say "not found" always, also where a file cannot be read."""
    return "not found" if error.is_missing else "cannot be loaded"


def not_loaded(artifact: Artifact, error: ArtifactError, root: str) -> str:
    """Return a line for the packet's list about an optional artifact that could not be loaded."""
    inside = os.path.join(root, "")
    place = one_line((error.resolved or source_of(artifact)).replace(inside, ""), LONGEST_QUOTE)
    reason = error.message.replace(f"Cannot read {error.resolved}: ", "").replace(f": {error.resolved}", "")
    reason = reason.replace(inside, "")
    where = f", {place}" if place else ""
    return f"{one_line(artifact['id'], LONGEST_ID)} (optional): not loaded{where}: {one_line(reason, LONGEST_QUOTE)}"


def _failed_command(artifact: Artifact, error: ArtifactError) -> str:
    """Return how a command failed; the documents only word the failure of a path."""
    refused = error.message.startswith(REFUSED)
    return f"""\
{"refused: its command may not be run" if refused else "not loaded: its command failed"}
Artifact: {escape(artifact["id"])}
Command: {one_line(artifact["command"] or "-")}
Error: {escape(error.message)}"""


def large_artifact(loaded: Loaded) -> str:
    """Return the warning about an artifact of over 100 KB (AGENT, Session Load, Error Handling)."""
    return f"""\
⚠️ WARNING: Large artifact detected
Artifact: {escape(loaded["artifact"]["id"])}
Size: {loaded["size_bytes"] / 1048576:.1f} MB

Consider using load_strategy: "summary" for large files."""


def to_run(loaded: Loaded, *, is_mapped: bool, problem: str | None) -> str:
    """Return what the agent should run for content that only it, or only `session-load`, can fetch.

    `is_mapped`: the user mapped a program to the command, which a hook does not run. `problem` is why it cannot be run.
    """
    if problem:
        command, reason = quoted(loaded["content"]), one_line(problem, LONGEST_QUOTE)
        return (
            f"The program that is mapped to {command} cannot be run ({reason}):"
            f" correct commands in ~/.config/faber-ledger/config.json, or run {command} yourself"
        )
    if is_mapped:
        name = loaded["artifact"]["id"]
        load = f"`faber-ledger session-load --artifacts {name if is_name(name) else 'ID'}`"  # an agent may well run it
        return f"No hook runs the program that is mapped to {quoted(loaded['content'])}. To load it, run {load}"
    if not is_slash_command(loaded["content"]):
        return f"The workflow's instruction for it is {quoted(loaded['content'])}"
    return f"Only a client can run a slash command. To load it, run {quoted(loaded['content'])}"


def state_broken(run: Run, error: LedgerError, backup: str) -> str:
    """Return the message for a state that a load cannot read (RELOAD, Step 2; AGENT, Session Load, Error Handling)."""
    is_json = isinstance(error, StateRefused) or not isinstance(error, StateInvalid)
    reason = escape(error.reason if isinstance(error, StateInvalid) else error.message)
    path = run.shown(run.state_path)
    if "faber-ledger resolve" in error.hint:  # a backup has only one side
        return f"❌ ERROR: Cannot read state file\nPath: {path}\nError: {reason}\n\nRecovery:\n1. {error.hint}"
    has_backup = os.path.exists(backup)
    back = "" if has_backup else f"\n3. There is no backup: {escape(error.hint)}"
    return f"""\
❌ ERROR: Cannot read state file{"" if is_json else " - invalid JSON"}
Path: {path}
Error: {reason}
Check backup: {run.shown(backup)}
Restore from backup if available

Recovery:
1. Check if backup exists: {run.shown(backup)}
2. Restore from backup if available [faber-ledger project {run.run_id} --restore]{back}"""


def described(description: str) -> str:
    """Return a description as it follows an artifact's id; nothing if it has none."""
    return f" - {description}" if description else ""


def kilobytes(size: int) -> str:
    """Return a size in bytes as the documents write it, in KB of 1,024 bytes; what is not empty has at least 0.1 KB."""
    return f"{max(size / 1024, 0.1) if size else 0:.1f} KB"


def size_words(size: int) -> str:
    """Return a size in bytes in words: in KB, from 1 MB on in MB."""
    return kilobytes(size) if size < 1048576 else f"{size / 1048576:,.1f} MB"
