"""The client's plugin `faber-ledger`, as its settings and its list of installed plugins name it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.project import Project

NAME = "faber-ledger@faber-ledger"
FILES = {"project": ".claude/settings.json", "local": ".claude/settings.local.json"}


def home_of(project: Project) -> Path:
    return Path(project.environment()["HOME"])


def plugin_environment(project: Project) -> dict[str, str]:
    """Return the variables that a plugin's hook has besides those of a settings hook."""
    folder = home_of(project) / ".claude/plugins"
    return {
        "CLAUDE_PLUGIN_ROOT": str(folder / "cache/faber-ledger/faber-ledger/0.1.0"),
        "CLAUDE_PLUGIN_DATA": str(folder / "data/faber-ledger-faber-ledger"),
    }


def change_settings(project: Project, scope: str, **members: Any) -> Path:
    """Set members of a scope's settings, and keep the others."""
    path = home_of(project) / ".claude/settings.json" if scope == "user" else project.root / FILES[scope]
    values = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**values, **members}, indent=2) + "\n")
    return path


def list_plugin(project: Project, name: str = NAME) -> None:
    """Put the plugin on the client's list of installed ones, as `claude plugin install` does."""
    plugin, _, marketplace = name.partition("@")
    path = home_of(project) / ".claude/plugins/installed_plugins.json"
    folder = path.parent / "cache" / marketplace / plugin / "0.1.0"
    folder.mkdir(parents=True, exist_ok=True)
    entry = {"scope": "user", "installPath": str(folder)}
    path.write_text(json.dumps({"version": 2, "plugins": {name: [{**entry, "version": "0.1.0"}]}}))


def install_plugin(project: Project, scope: str = "user", *, name: str = NAME) -> Path:
    """Install and enable the plugin in a scope; return the settings file that enables it."""
    list_plugin(project, name)
    return change_settings(project, scope, enabledPlugins={name: True})
