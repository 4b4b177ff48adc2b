"""What `init` writes into the project itself: its settings, and the slash commands."""

import hashlib
import json
import os
from collections.abc import Mapping

import faber_ledger
from faber_ledger.cli.setup.git import FILES
from faber_ledger.cli.ui.changes import display_path
from faber_ledger.files.change import FileChange, has_block, read_file, read_inside
from faber_ledger.files.json_text import JsonText
from faber_ledger.hooks.client_settings import has_hooks, readable_settings
from faber_ledger.ledger.clock import is_event_id
from faber_ledger.ledger.command_errors import SettingsInvalid
from faber_ledger.ledger.disk import folder_around
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.run import CARRY
from faber_ledger.runs.settings import PATH, PROJECT, project_settings
from faber_ledger.runs.synced import known_project

# The project's settings

NAME, USAGE = "summaries", "usage"
LARGEST = 1024 * 1024  # bytes of committed settings
# What a project gets that is set up where nobody can be asked.
RECORDED_BY_DEFAULT = True
QUESTION = "Record summaries of compactions, so that they are {travel}?"
# What the question means, before it is asked.
CHOICE = (
    "When the client compacts a conversation, its summary is kept for the next session: in the run's ledger, which git"
    " takes to every clone, or in this clone alone. Masked before: tokens and keys of known forms, passwords in URLs,"
    " private keys, and what follows a word such as password. Not masked: a secret without a known form or such a word"
    " before it, names of people and customers, code, and whatever else was said."
)


def travel_word(root: str) -> str:
    """Return what becomes of a recorded summary: with its ledger it is committed, or sent."""
    return "sent" if carries_refs(root) else "committed"


def project_change(root: str, summaries: bool | None, usage: bool | None, carry: str | None) -> FileChange | None:
    """Return the change that writes the choices, and the project's id, into its settings; None if they stay.

    Without a choice, a project that is set up for the first time gets RECORDED_BY_DEFAULT. The id is the one by which a
    team's server knows the project, if this clone has exchanged with one, else that of the checked-out commit. Raises
    LedgerError for a file that must change and cannot; where nothing is due, settings that cannot be used stay as they
    are: Settings reports them.
    """
    path = os.path.join(root, *PATH.split("/"))
    is_first = not is_set_up(root)
    try:
        before = read_inside(path, root)
        settings = JsonText("{}" if before is None else before.decode())
    except (LedgerError, ValueError) as error:
        if (summaries, usage, carry) == (None, None, None) and not is_first:
            return None
        if isinstance(error, LedgerError):
            raise
        hint = "correct the file, then run the command again; it was not changed"
        raise SettingsInvalid(f"{PATH}: {error}", hint=hint) from error
    members: dict[str, object] = {}
    if summaries is not None or (is_first and NAME not in settings.value):
        members[NAME] = RECORDED_BY_DEFAULT if summaries is None else summaries
    members |= {name: value for name, value in ((USAGE, usage), (CARRY, carry)) if value is not None}
    if PROJECT not in settings.value:
        members[PROJECT] = known_project(root) or _committed_project(root) or _make_project_id()
    if all([settings.value.get(name) == value for name, value in members.items()]):
        return FileChange(path, before, before)
    after = _alone(members) if before is None else settings.with_members(members).encode()
    return FileChange(path, before, after)


def _make_project_id() -> str:
    from ulid import ULID  # expensive to import

    return str(ULID())


def _committed_project(root: str) -> str | None:
    """Return the project's id in the commit that is checked out; None if it has none."""
    committed = GitQuery(["cat-file", "blob", f"HEAD:./{PATH}"], root, limit=LARGEST).answer()
    try:
        found = JsonText(committed or "{}").value.get(PROJECT)
    except (LedgerError, ValueError):
        return None
    return found if isinstance(found, str) and is_event_id(found) else None


def is_choice_due(root: str) -> bool:
    """Return whether a project is set up for the first time, and its settings do not say what happens to summaries."""
    return not is_set_up(root) and project_settings(root, {}).places[NAME] == "default"


def summaries_removal(root: str) -> FileChange | None:
    """Return the change that removes the project's settings, if they are only what `init` writes; None if not."""
    path = os.path.join(root, *PATH.split("/"))
    is_there = os.path.isfile(path) and not os.path.islink(path) and folder_around(path, [root]) is not None
    before = read_file(path) if is_there else None
    return FileChange(path, before, None) if before is not None and _is_ours_alone(before) else None


def _is_ours_alone(content: bytes) -> bool:
    try:
        value = JsonText(content.decode()).value
    except ValueError:
        return False
    made = {one: value.get(one) for one in (NAME, USAGE, PROJECT, CARRY)}
    kept = {name: made[name] for name in value if name in made}
    return bool(kept) and content == _alone(kept) and all([type(kept.get(one, True)) is bool for one in (NAME, USAGE)])


def is_set_up(root: str) -> bool:
    """Return whether `init` has set the project up before, in this clone or in one that it was pulled from.

    The user's own settings do not count: they hold the hooks of all projects.
    """
    for name in FILES:
        if has_block(read_file(os.path.join(root, *name.split("/"))) or b""):
            return True
    return any([scope != "user" and has_hooks(text) for scope, _, text in readable_settings(root)])


def _alone(members: Mapping[str, object]) -> bytes:
    return f"{json.dumps(members)}\n".encode()


# The slash commands

FOLDER = ".claude/commands/fractary-faber"
# Each command and its skill: SPEC and RELOAD have their own names for what AGENT calls session-load and session-save.
SKILL_OF = {
    "session-load": "session-load",
    "session-save": "session-save",
    "prime-context": "session-load",
    "session-end": "session-save",
}
SIGNATURE = "<!-- written by faber-ledger init --commands, removed by faber-ledger uninstall; sha256 {} -->\n"


def add_commands(root: str) -> list[FileChange]:
    """Return the changes that write the commands; raises LedgerError for a file that is not ours, or was changed."""
    return [_command_change(root, name) for name in SKILL_OF]


def remove_commands(root: str) -> list[FileChange]:
    """Return the changes that remove the commands; a file that is not ours, or was changed, stays."""
    paths = [os.path.join(root, FOLDER, f"{name}.md") for name in SKILL_OF]
    inside = [path for path in paths if os.path.isfile(path) and folder_around(path, [root]) is not None]
    changes = [(path, read_file(path) or b"") for path in inside]
    return [FileChange(path, before, None if _is_ours(before) else before) for path, before in changes]


def _command_change(root: str, name: str) -> FileChange:
    path = os.path.join(root, FOLDER, f"{name}.md")
    before = read_inside(path, root)
    if before is not None and not _is_ours(before):
        raise LedgerError(
            f"{display_path(path, root)} is there already, and is not as `init --commands` writes it",
            hint="keep it and leave out `--commands`, or move it away first",
        )
    with open(os.path.join(os.path.dirname(faber_ledger.__file__), "skills", SKILL_OF[name], "SKILL.md"), "rb") as file:
        text = file.read()
    return FileChange(path, before, text + _signature(text))


def _is_ours(content: bytes) -> bool:
    """Return whether a file is as some version of this program wrote it; git may have changed its line ends."""
    lines = content.replace(b"\r\n", b"\n").splitlines(keepends=True)
    return bool(lines) and lines[-1] == _signature(b"".join(lines[:-1]))


def _signature(text: bytes) -> bytes:
    return SIGNATURE.format(hashlib.sha256(text).hexdigest()).encode()
