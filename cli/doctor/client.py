"""The programs on both sides of a hook: this one, as the client's shell finds it, and the client."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from faber_ledger.cli.doctor.finding import Finding
from faber_ledger.context.program import UNATTENDED, ProgramFailed, run_program
from faber_ledger.files.text import quote_word
from faber_ledger.hooks.client_plugins import list_unanswered
from faber_ledger.hooks.client_settings import PROGRAM, command_line, handlers, readable_settings, runs_hook
from faber_ledger.recording.call import HOOKS

if TYPE_CHECKING:
    from faber_ledger.cli.doctor.patient import Patient


CLIENT = "claude"
FIRST_WITH_POST_COMPACT = (2, 1, 76)
SECONDS = 10.0
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
NAMED = re.compile(r"""["']?(/[^\s"';&|]*/faber-ledger)["']? +hook\b""")


def program_is_found(patient: Patient) -> Iterator[Finding]:
    """Check that the program is on PATH, and at the paths that hooks name; the client's shell may have another PATH."""
    found, mine = shutil.which(PROGRAM), os.path.abspath(sys.argv[0])
    if found is None:
        what = f"{PROGRAM} is not on PATH or not executable, so the hooks cannot run it"
        yield Finding("error", what, f"add {os.path.dirname(mine)} to the PATH of the shell that starts the client")
    elif os.path.basename(mine) == PROGRAM and os.path.realpath(found) != os.path.realpath(mine):
        what = f"the hooks run {found}, and this is {mine}: their versions may differ"
        yield Finding("note", what, "remove one of them from PATH, or uninstall it")
    for path in _find_programs(patient.root):
        if not os.path.isfile(path):
            yield Finding(
                "error", f"a hook runs {path}, which does not exist", "remove the hook, then run `faber-ledger init`"
            )
        elif not os.access(path, os.X_OK):
            yield Finding("error", f"a hook runs {path}, which is not executable", f"run `chmod +x {quote_word(path)}`")


def client_is_new_enough(patient: Patient) -> Iterator[Finding]:
    """Check the client's version: before 2.1.76 it has no PostCompact."""
    path = shutil.which(CLIENT)
    if path is None or _is_inside(path, patient.root):  # a program that came with the repository is not run
        hint = "run `claude --version` where the client is; before 2.1.76 it has no PostCompact"
        yield Finding("note", f"the client's version is unknown: `{CLIENT}` is not on PATH", hint)
        return
    environment = {**os.environ, **UNATTENDED}
    try:
        printed = run_program([path, "--version"], os.sep, environment, seconds=SECONDS, limit=10_000)
    except ProgramFailed as error:
        yield Finding("note", f"the client's version is unknown: {error}", f"run `{CLIENT} --version`")
        return
    found = VERSION.search(printed.decode("utf-8", "replace"))
    if found is None:
        yield Finding("note", f"`{CLIENT} --version` prints no version", f"run `{CLIENT} --version`")
    elif tuple(map(int, found.groups())) < FIRST_WITH_POST_COMPACT:
        what = f"the client is {found[0]}, and before 2.1.76 it has no PostCompact: summaries are not recorded"
        yield Finding("warning", what, "update the client")
    else:
        yield Finding("ok", f"the client is {found[0]}")


def compactions_are_completed(patient: Patient) -> Iterator[Finding]:
    """Look for compactions of the active run without a PostCompact, for example because the client is too old."""
    if "PostCompact" in list_unanswered(patient.root):
        return  # reported by the check of the hooks
    kinds = [dict(one["event"]) for one in patient.newest_events(2_000)]
    starts = [event for event in kinds if event["type"] == "session_started" and event.get("source") == "compact"]
    if starts and not any([event["type"] == "compaction_completed" for event in kinds]):
        what = f"{patient.active} was compacted {len(starts)} times, but PostCompact never ran"
        hint = "update the client if it is older than 2.1.76; if the hook was installed later, ignore this"
        yield Finding("note", what, hint)


def _find_programs(root: str) -> list[str]:
    """Return the absolute paths at which hooks run the program."""
    found: list[str] = []
    for _, _, text in readable_settings(root):
        ours = [handler for event in HOOKS for _, handler in handlers(text, event) if runs_hook(handler)]
        found += [named for one in ours for named in NAMED.findall(command_line(one))]
    return list(dict.fromkeys(found))


def _is_inside(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return not os.path.isabs(path) or real.startswith(os.path.join(os.path.realpath(root), ""))
