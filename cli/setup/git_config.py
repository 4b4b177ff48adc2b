"""The clone's own git configuration: which settings `init` makes and `uninstall` takes back.

Git runs no driver that a repository brings along, so each clone is told, in its own config, by its own user.
"""

from __future__ import annotations

from typing import NamedTuple

from faber_ledger.runs.git_command import asked, git

DRIVER = {
    "merge.faber-ledger.name": "the union of a run's events",
    "merge.faber-ledger.driver": "faber-ledger merge-driver %O %A %B -- %P",
    "diff.faber-ledger.textconv": "faber-ledger textconv",
}
OLDER = {"merge.faber-ledger.driver": "faber-ledger merge-driver %O %A %B %P"}  # 0.1.0 set it; it merges as well
STASHES = ("merge.autoStash", "rebase.autoStash")  # a log changes all the time, and git refuses to pull over a change
MARK = "faber-ledger.autoStash"  # names those of STASHES that we have set, so that nobody's own goes with ours


class Setting(NamedTuple):
    """A setting of the clone, and what it shall be; None is none."""

    key: str
    before: str | None
    after: str | None

    @property
    def command(self) -> str:
        """The git command that makes the change."""
        if self.after is None:
            return f"git config --local --unset-all {self.key}"
        return f"git config --local {self.key} '{self.after}'"


def settings_to_make(root: str) -> list[Setting]:
    """Plan what `init` sets; a setting that is right is there with nothing to change, a user's own choice is not."""
    planned = [Setting(key, _local(root, key), value) for key, value in DRIVER.items()]
    ours = _marked(root)
    mine = [key for key in STASHES if key in ours or _effective(root, key) is None]
    planned += [Setting(key, _local(root, key), "true") for key in mine]
    if mine:
        planned.append(Setting(MARK, _local(root, MARK), " ".join(mine)))
    return planned


def settings_to_take_out(root: str) -> list[Setting]:
    """Plan what `uninstall` takes out: the values that are ours, as they are now."""
    ours = DRIVER | {key: "true" for key in STASHES if key in _marked(root)}
    found = [Setting(key, _local(root, key), None) for key in (*ours, MARK)]
    return [
        setting
        for setting in found
        if setting.before is not None
        and setting.before in (ours.get(setting.key, setting.before), OLDER.get(setting.key))
    ]


def make_settings(root: str, settings: list[Setting]) -> None:
    """Make the planned changes; raises GitFailed."""
    for key, before, after in settings:
        if after is None:
            git("config", "--local", "--unset-all", key, at=root)
        elif after != before:
            git("config", "--local", "--replace-all", key, after, at=root)


def overruled(root: str) -> list[str]:
    """Name those of STASHES that the user has switched off."""
    return [key for key in STASHES if _effective(root, key) not in (None, "true")]


def _marked(root: str) -> list[str]:
    return (_local(root, MARK) or "").split()


def _local(root: str, key: str) -> str | None:
    return _answer(asked("config", "--local", "--get", key, at=root).stdout)


def _effective(root: str, key: str) -> str | None:
    return _answer(asked("config", "--type=bool", "--get", key, at=root).stdout)


def _answer(output: bytes) -> str | None:
    return output.decode("utf-8", "replace").removesuffix("\n") if output else None
