"""The requirement documents' slash commands, as files of the client: the texts are those of the plugin's skills.

The last line of a file has the digest of the lines above it. So every version knows what any other version wrote, and
replaces and removes only files that nobody has changed since.
"""

from __future__ import annotations

import hashlib
import os
import re

import faber_ledger
from faber_ledger.cli.setup.changes import display_path
from faber_ledger.context.plugins import list_here
from faber_ledger.files.change import FileChange, read_file
from faber_ledger.files.untrusted import folder_around
from faber_ledger.hooks.client_plugins import list_plugins
from faber_ledger.ledger.errors import LedgerError

FOLDER = ".claude/commands/fractary-faber"
# Each command and its skill: SPEC and RELOAD have their own names for what AGENT calls session-load and session-save.
SKILL_OF = {
    "session-load": "session-load",
    "session-save": "session-save",
    "prime-context": "session-load",
    "session-end": "session-save",
}
FABER = re.compile(r"(?:fractary-)?faber@[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FABERS_TREE = "plugins/faber"
SIGNATURE = "<!-- written by faber-ledger init --commands, removed by faber-ledger uninstall; sha256 {} -->\n"


def add_commands(root: str) -> tuple[list[FileChange], list[str]]:
    """Return the changes that write the commands, and what to say.

    Where FABER's own plugin has them, those that an earlier call wrote are removed instead. Raises LedgerError for a
    file that is not ours, or that somebody has changed.
    """
    faber = _find_faber(root)
    if faber is not None:
        ours = [change for change in remove_commands(root) if change.action == "removed"]
        return ours, [f"no slash commands are written: FABER's own plugin has them ({faber})"]
    return [_command_change(root, name) for name in SKILL_OF], []


def remove_commands(root: str) -> list[FileChange]:
    """Return the changes that remove the commands; a file that is not ours, or was changed, stays."""
    paths = [os.path.join(root, path) for path in list_commands()]
    inside = [path for path in paths if os.path.isfile(path) and folder_around(path, [root]) is not None]
    changes = [(path, read_file(path) or b"") for path in inside]
    return [FileChange(path, before, None if _is_ours(before) else before) for path, before in changes]


def list_commands() -> list[str]:
    """Return the paths of all commands in a project."""
    return [f"{FOLDER}/{name}.md" for name in SKILL_OF]


def describe_command(path: str) -> str | None:
    """Return what the command of a path in the project is for; None if it is not one of ours."""
    folder, _, name = path.rpartition("/")
    skill = SKILL_OF.get(name.removesuffix(".md"))
    return f"/fractary-faber:{name.removesuffix('.md')} runs `faber-ledger {skill}`" if folder == FOLDER else None


def _find_faber(root: str) -> str | None:
    """Return FABER's own plugin, where the project or the client has it: its folder or its name; else None."""
    tree = os.path.join(root, FABERS_TREE)
    if any([os.path.lexists(os.path.join(tree, name)) for name in (".claude-plugin", "commands")]):
        return FABERS_TREE
    named = {plugin.name: plugin.is_enabled for plugin in list_plugins(root, FABER) if plugin.scope is not None}
    enabled = [name for name, is_enabled in named.items() if is_enabled]
    installed = [name for name in list_here(root) if FABER.fullmatch(name) and name not in named]
    return next(iter([*enabled, *installed]), None)


def _command_change(root: str, name: str) -> FileChange:
    path = os.path.join(root, FOLDER, f"{name}.md")
    if folder_around(path, [root]) is None:
        raise LedgerError(
            f"{display_path(path, root)} is behind a link that leads out of the project, to {os.path.realpath(path)}",
            hint="replace the link with the folder itself",
        )
    before = read_file(path)
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
