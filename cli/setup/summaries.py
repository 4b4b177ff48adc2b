"""Whether what a compaction came to goes with git: what `init` writes of it into the project's settings."""

from __future__ import annotations

import json
import os

from faber_ledger.cli.setup.git_files import FILES
from faber_ledger.files.change import FileChange, has_block, read_file
from faber_ledger.files.json_text import JsonText
from faber_ledger.files.untrusted import folder_around
from faber_ledger.hooks.client_settings import decode_settings, has_hooks, settings_path
from faber_ledger.ledger.errors import LedgerError, SettingsInvalid
from faber_ledger.runs.settings import PATH

NAME = "summaries"


def summaries_change(root: str, choice: bool | None) -> FileChange | None:
    """Plan the project's settings with the choice, if there is one; None where nothing is chosen and nothing says it.

    Without a choice, a project that is set up for the first time gets false, unless its settings say something. One
    that was set up before keeps what holds in it. Raises LedgerError for a file that would be changed and cannot be.
    """
    path = os.path.join(root, *PATH.split("/"))
    is_due = choice is not None or not is_set_up(root)
    try:
        if folder_around(path, [root]) is None:
            raise LedgerError(f"{PATH} is a link that leads out of the project", hint="put a file in its place")
        before = read_file(path)
        settings = JsonText(_decoded(before))
    except (LedgerError, ValueError) as error:
        if not is_due:
            return None
        if isinstance(error, LedgerError):
            raise
        hint = "mend the file, then run the command again; it was left as it is"
        raise SettingsInvalid(f"{PATH}: {error}", hint=hint) from error
    if choice is None and NAME in settings.value:
        return FileChange(path, before, before)
    if not is_due:
        return None
    value = choice is True
    after = settings.with_members({NAME: value}).encode() if before is not None else _alone(value)
    return FileChange(path, before, before if settings.value.get(NAME) is value else after)


def summaries_removal(root: str) -> FileChange | None:
    """Plan to remove the project's settings if they say what `init` would have written and nothing else."""
    path = os.path.join(root, *PATH.split("/"))
    before = None if os.path.islink(path) or not os.path.isfile(path) else read_file(path)
    return FileChange(path, before, None) if before in (_alone(False), _alone(True)) else None


def is_set_up(root: str) -> bool:
    """Return whether `init` has set the project up before, in this clone or in one that it was pulled from.

    The user's own settings do not count: they hold the hooks of all projects.
    """
    for name in FILES:
        if has_block(read_file(os.path.join(root, *name.split("/"))) or b""):
            return True
    for scope in ("project", "local"):
        try:
            content = read_file(settings_path(scope, root))
            if content is not None and has_hooks(decode_settings(content, scope)):
                return True
        except LedgerError:
            continue  # settings that cannot be read hold no hook of ours; `init` tells of those that it would change
    return False


def _alone(value: bool) -> bytes:
    return f"{json.dumps({NAME: value})}\n".encode()


def _decoded(content: bytes | None) -> str:
    return "{}" if content is None else content.decode()
