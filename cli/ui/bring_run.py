"""Bring a run that this clone does not have, or the state that it lacks, from the team's server: `run resume`.

Everything is fetched before anything is written: a connection that is cut leaves no half of a run.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from faber_ledger.cli.ui.output import ask_number, say, tell
from faber_ledger.cli.ui.progress import progress_bars
from faber_ledger.cli.ui.server import server_address
from faber_ledger.cli.ui.server_copy import pick_server_run, write_run_log
from faber_ledger.files.text import escape, quote_word
from faber_ledger.ledger.command_errors import ChoiceNeeded, NotFound
from faber_ledger.ledger.errors import LedgerError, RunNotFound, StateInvalid
from faber_ledger.ledger.log import Log
from faber_ledger.recording.insertion import insert_passing, write_blocks
from faber_ledger.recording.state_document import take_content
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.projecting import DEFAULTS
from faber_ledger.runs.settings import project_id
from faber_ledger.runs.state_file import parse_state
from faber_ledger.runs.united import read_log

if TYPE_CHECKING:
    from faber_ledger.postgres.documents import Document
    from faber_ledger.runs.run import Run


class Found(NamedTuple):
    """A run on the server: its folder here, and the states that it may get, each with its document."""

    run: Run
    states: list[tuple[Document, str]]


def bring_run(root: str, text: str, url: str | None, document: str | None) -> str:
    """Bring a run of the server, named by its id or the beginning, and return its id.

    Without a state here it gets the newest one of the server, or the one whose id begins with `document`. Of several
    the user is asked. Raises RunNotFound, NotFound for a document, ChoiceNeeded without a terminal, and LedgerError.
    """
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        path = os.path.join(folder, "ledger.db")
        found = _fetch(root, text, url, document, path)
        run = found.run
        content = found.states[_choose(run.run_id, found.states)][1] if found.states else None
        with Log.read(path) as log:
            insert_passing(run, log, [], say)
    if content is not None and not os.path.lexists(run.state_path):
        with read_log(run) as log:
            take_content(run, content, log)
    code = write_blocks(run, redacted=False, warn=say, defaults=DEFAULTS)
    if code:
        raise LedgerError(
            f"the run {run.run_id} was brought, and its state.json was not written",
            hint=f"run `faber-ledger project {run.run_id}`",
        )
    return run.run_id


def _fetch(root: str, text: str, url: str | None, document: str | None, path: str) -> Found:
    """Fetch a run's log into a new file at `path`, and the states that it may get; nothing is written here."""
    from faber_ledger.postgres.documents import choose_newest, fetch_content, list_documents
    from faber_ledger.postgres.project import open_project
    from faber_ledger.postgres.server import open_server

    project = project_id(root)
    with open_server(server_address(url)) as server:
        open_project(server, project, "", writing=False)
        run_id = pick_server_run(server, project, text)
        run = run_here(root, run_id)
        _check_folder(run)
        with progress_bars() as progress:
            write_run_log(server, project, run_id, path, progress)
        with Log.read(path) as log:
            if not log.heads():
                raise RunNotFound(
                    f"the server has no event of {run_id} that a ledger takes",
                    hint=f"run `faber-ledger sync {run_id}` to see why",
                )
            if run.is_kept or os.path.lexists(run.state_path):
                return Found(run, [])
            known = list_documents(server, project, run_id)
            newest = choose_newest(known, log) if document is None else [_named(known, document, run_id)]
        states = [(one, fetch_content(server, project, run_id, one)) for one in newest]
    return Found(run, [one for one in states if _is_readable(run, one[1])])


def _check_folder(run: Run) -> None:
    """Raise LedgerError if a link stands in the place of the run's folder, or of one above it in the project."""
    place = os.path.join(os.path.realpath(run.root), os.path.relpath(run.directory, run.root))
    if not run.is_kept and os.path.realpath(run.directory) != place:
        raise LedgerError(
            f"a link stands in the place of {run.shown(run.directory)}", hint="remove the link, then run it again"
        )


def _named(known: list[Document], wanted: str, run_id: str) -> Document:
    found = [one for one in known if wanted and one.id.startswith(wanted) and one.digest is not None]
    if len(found) != 1:
        raise NotFound(
            f"{len(found) or 'no'} states of {run_id} on the server have ids that begin with {escape(wanted)}",
            hint="leave out --document to see them",
        )
    return found[0]


def _is_readable(run: Run, content: str) -> bool:
    """Return whether a content is a state of the run; say what is wrong with it if it is none."""
    try:
        parse_state(run, content.encode("utf-8", "backslashreplace"))
    except StateInvalid as error:
        say(f"a state.json of {run.run_id} on the server is left out: {error}")
        return False
    return True


def _choose(run_id: str, states: list[tuple[Document, str]]) -> int:
    """Return the number of the state to take; of several the user is asked. Raises ChoiceNeeded."""
    if len(states) == 1:
        return 0
    question = f"{run_id} has {len(states)} states on the server that do not include each other"
    lines = [f"{number}. {_line(one, content)}" for number, (one, content) in enumerate(states, 1)]
    if not sys.stdin.isatty():
        commands = [
            f"  faber-ledger run resume {run_id} --document {quote_word(escape(one.id))}  ({_line(one, content)})"
            for one, content in states
        ]
        block = "\n".join([f"{question}. Choose one:", *commands])
        ids = [one.id for one, _ in states]
        raise ChoiceNeeded(question, hint="choose one with --document ID", block=block, data={"documents": ids})
    for line in [f"{question}. Please select:", *lines]:
        tell(line)
    return ask_number(len(states)) - 1


def _line(document: Document, content: str) -> str:
    """Describe a state in one line in which no character hides."""
    state = json.loads(content.removeprefix("\ufeff"))
    said = [f"{name} {state[name]}" for name in ("status", "current_phase") if isinstance(state.get(name), str)]
    return escape(f"{', '.join([*said, f'of {document.at}', f'by {document.writer[:12]}'])[:200]}")
