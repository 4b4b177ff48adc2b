"""What is said of an artifact that is not given: it failed, is large, or is for the agent to fetch."""

from __future__ import annotations

import os

from faber_ledger.context.artifact import COMMAND_TYPES, REFUSED, ArtifactError, source_of
from faber_ledger.files.text import LONGEST_ID, LONGEST_QUOTE, escape, one_line, quoted
from faber_ledger.ledger.errors import StateInvalid, StateRefused
from faber_ledger.runs.run import is_name
from faber_ledger.runs.settings import is_slash_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.context.artifact import Loaded
    from faber_ledger.context.workflow import Artifact
    from faber_ledger.ledger.errors import LedgerError
    from faber_ledger.runs.run import Run

OF_COMMAND = """\
1. Correct its command in the workflow config
2. Run the command yourself to see what it says"""


def describe_failure(artifact: Artifact, error: ArtifactError) -> str:
    """Return the message for an artifact that failed (RELOAD, Step 5; AGENT, Session Load, Error Handling)."""
    sign, kind = ("❌ ERROR", "Required") if artifact["required"] else ("⚠️ WARNING", "Optional")
    is_command = artifact["type"] in COMMAND_TYPES
    place = escape(error.resolved or source_of(artifact))
    failed = f"""\
{"not found" if error.is_missing else "cannot be loaded"}
Artifact: {escape(artifact["id"])}
Path: {place}
Source: {place}
Error: {escape(error.message)}"""
    if is_command:  # the documents only word the failure of a path
        failed = f"""\
{"refused: its command may not be run" if error.message.startswith(REFUSED) else "not loaded: its command failed"}
Artifact: {escape(artifact["id"])}
Command: {one_line(artifact["command"] or "-")}
Error: {escape(error.message)}"""
    way_on = "Workflow will continue without this artifact."
    if artifact["required"]:
        way_on = f"Recovery:\n{OF_COMMAND if is_command else _recovery(error)}"
    return f"{sign}: {kind} artifact {failed}\n\n{way_on}"


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


def describe_not_loaded(artifact: Artifact, error: ArtifactError, root: str) -> str:
    """Return a line for the packet's list about an optional artifact that could not be loaded."""
    inside = os.path.join(root, "")
    place = one_line((error.resolved or source_of(artifact)).replace(inside, ""), LONGEST_QUOTE)
    reason = error.message.replace(f"Cannot read {error.resolved}: ", "").replace(f": {error.resolved}", "")
    reason = reason.replace(inside, "")
    where = f", {place}" if place else ""
    return f"{one_line(artifact['id'], LONGEST_ID)} (optional): not loaded{where}: {one_line(reason, LONGEST_QUOTE)}"


def describe_large(loaded: Loaded) -> str:
    """Return the warning about an artifact of over 100 KB (AGENT, Session Load, Error Handling)."""
    return f"""\
⚠️ WARNING: Large artifact detected
Artifact: {escape(loaded["artifact"]["id"])}
Size: {loaded["size_bytes"] / 1048576:.1f} MB

Consider using load_strategy: "summary" for large files."""


def describe_command(loaded: Loaded, *, is_mapped: bool) -> str:
    """Return what the agent should run for content that only it, or only `session-load`, can fetch.

    `is_mapped`: the user mapped a program to the command, which a hook does not run.
    """
    if is_mapped:
        name = loaded["artifact"]["id"]
        load = f"`faber-ledger session-load --artifacts {name if is_name(name) else 'ID'}`"  # an agent may well run it
        return f"No hook runs the program that is mapped to {quoted(loaded['content'])}. To load it, run {load}"
    if not is_slash_command(loaded["content"]):
        return f"The workflow's instruction for it is {quoted(loaded['content'])}"
    return f"run {quoted(loaded['content'])}"


def is_named_by_state(artifact: Artifact, error: ArtifactError) -> bool:
    """Return whether the state names the missing file: it was then removed, or never written."""
    return bool(artifact["path_from_state"]) and not artifact["path"] and error.resolved is not None


def state_broken(run: Run, error: LedgerError, backup: str) -> str:
    """Return the message for a state that a load cannot read (RELOAD, Step 2; AGENT, Session Load, Error Handling)."""
    is_json = isinstance(error, StateRefused) or not isinstance(error, StateInvalid)
    reason = escape(error.reason if isinstance(error, StateInvalid) else error.message)
    path = run.shown(run.state_path)
    if "faber-ledger resolve" in error.hint:  # a backup has only one side
        return f"❌ ERROR: Cannot read state file\nPath: {path}\nError: {reason}\n\nRecovery:\n1. {error.hint}"
    has_backup = os.path.exists(backup)
    restore = f" [faber-ledger project {run.run_id} --restore]" if has_backup else ""
    back = "" if has_backup else f"\n3. There is no backup: {escape(error.hint)}"
    return f"""\
❌ ERROR: Cannot read state file{"" if is_json else " - invalid JSON"}
Path: {path}
Error: {reason}
Check backup: {run.shown(backup)}
Restore from backup if available

Recovery:
1. Check if backup exists: {run.shown(backup)}
2. Restore from backup if available{restore}{back}"""
