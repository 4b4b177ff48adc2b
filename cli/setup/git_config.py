"""The clone's own git configuration: which settings `init` adds and `uninstall` removes.

Git runs no driver that comes with a repository, so each clone's user sets them in the clone's own config.
"""

from __future__ import annotations

from typing import NamedTuple

from faber_ledger.runs.git_command import git, run_git

# Without it git shows a ledger too, but converts each version every time. Git keeps the text in commits: where it knows
# no name and email to commit with, `git log -p` would fail.
# Git keeps a `(not shown: …)` as well, until the cache is removed or the textconv line below changes.
CACHE = "diff.faber-ledger.cachetextconv"
DRIVER = {
    "merge.faber-ledger.name": "the union of a run's events",
    "merge.faber-ledger.driver": "faber-ledger merge-driver %O %A %B -- %P",
    "diff.faber-ledger.textconv": "faber-ledger textconv",
    CACHE: "true",
}
STASHES = ("merge.autoStash", "rebase.autoStash")  # a log changes all the time, and git refuses to pull over a change
MARK = "faber-ledger.autoStash"  # names those of STASHES that we have set, so that only these are removed
REFUSED = "no"  # its value if the user wants none of them


class Setting(NamedTuple):
    """A setting of the clone: its value now and the new one; None is unset."""

    key: str
    before: str | None
    after: str | None

    @property
    def command(self) -> str:
        """The git command that makes the change."""
        if self.after is None:
            return f"git config --local --unset-all {self.key}"
        return f"git config --local {self.key} '{self.after}'"


def settings_to_make(root: str, *, autostash: bool | None = None) -> list[Setting]:
    """Return what `init` sets, including settings that are right already, but not those that the user has chosen.

    `autostash` is the user's answer to whether STASHES are switched on; without one an earlier answer holds.
    """
    planned = [Setting(key, _local(root, key), value) for key, value in DRIVER.items() if key != CACHE]
    cached = _local(root, CACHE)
    if cached == "true" or _effective(root, CACHE) is None:
        due = "true" if _can_commit(root) else None
        planned += [Setting(CACHE, cached, due)] if cached or due else []
    ours = _read_marked(root)
    is_wanted = not is_autostash_refused(root) if autostash is None else autostash
    if not is_wanted:
        planned += [Setting(key, "true", None) for key in STASHES if key in ours and _local(root, key) == "true"]
        return [*planned, Setting(MARK, _local(root, MARK), REFUSED)]
    mine = [key for key in STASHES if key in ours or _effective(root, key) is None]
    planned += [Setting(key, _local(root, key), "true") for key in mine]
    if mine:
        planned.append(Setting(MARK, _local(root, MARK), " ".join(mine)))
    return planned


def settings_to_remove(root: str) -> list[Setting]:
    """Return what `uninstall` removes: the settings that still have our values."""
    ours = DRIVER | {key: "true" for key in STASHES if key in _read_marked(root)}
    found = [Setting(key, _local(root, key), None) for key in (*ours, MARK)]
    return [
        setting
        for setting in found
        if setting.before is not None and setting.before == ours.get(setting.key, setting.before)
    ]


def make_settings(root: str, settings: list[Setting]) -> None:
    """Change the settings; raises GitFailed."""
    for key, before, after in settings:
        if after is None:
            git("config", "--local", "--unset-all", key, at=root)
        elif after != before:
            git("config", "--local", "--replace-all", key, after, at=root)


def list_switched_off(root: str) -> list[str]:
    """Return those of STASHES that the user has switched off in git; none after `init --no-autostash`."""
    return [key for key in STASHES if _effective(root, key) == "false" and not is_autostash_refused(root)]


def is_autostash_refused(root: str) -> bool:
    """Return whether the user has chosen to leave STASHES off (`init --no-autostash`)."""
    return _local(root, MARK) == REFUSED


def _can_commit(root: str) -> bool:
    """Return whether git knows a name and an email address to commit with."""
    return all([run_git("var", f"GIT_{role}_IDENT", at=root).returncode == 0 for role in ("AUTHOR", "COMMITTER")])


def _read_marked(root: str) -> list[str]:
    return (_local(root, MARK) or "").split()


def _local(root: str, key: str) -> str | None:
    return _answer(run_git("config", "--local", "--get", key, at=root).stdout)


def _effective(root: str, key: str) -> str | None:
    return _answer(run_git("config", "--type=bool", "--get", key, at=root).stdout)


def _answer(output: bytes) -> str | None:
    return output.decode("utf-8", "replace").removesuffix("\n") if output else None
