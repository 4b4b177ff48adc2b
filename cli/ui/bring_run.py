"""Bring a run that this clone does not have, or the state that it lacks, from the team's server: `run resume`.

Everything is fetched before anything is written: a connection that is cut leaves no half of a run.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from faber_ledger.cli.ui.output import say
from faber_ledger.cli.ui.progress import progress_bars
from faber_ledger.cli.ui.server import server_address
from faber_ledger.cli.ui.server_copy import pick_server_run, write_run_log
from faber_ledger.cli.ui.which_state import HERE, Candidate, choice_before_push, choose_state, describe_state
from faber_ledger.files.text import escape
from faber_ledger.ledger.canonical import sha256
from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.command_errors import NotFound
from faber_ledger.ledger.errors import LedgerError, RunNotFound, StateInvalid
from faber_ledger.ledger.log import Log
from faber_ledger.recording.insertion import insert_passing, write_blocks
from faber_ledger.recording.state_document import digest_of, make_content, replace_content, take_content
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.projecting import DEFAULTS
from faber_ledger.runs.run import Run
from faber_ledger.runs.settings import project_id
from faber_ledger.runs.state_file import parse_state
from faber_ledger.runs.synced import (
    is_earlier,
    note_digest,
    note_exchanged,
    note_project,
    read_state_note,
    write_state_note,
)

if TYPE_CHECKING:
    from faber_ledger.postgres.documents import Document
    from faber_ledger.runs.synced import StateNote


class Found(NamedTuple):
    """A run on the server: its folder here, its documents, and the newest of these, each with its content.

    `key` is that of the server's project; `machines` has by the writer where its last session was.
    """

    run: Run
    key: str
    documents: list[Document]
    states: list[tuple[Document, str]]
    machines: dict[str, str]


def bring_run(root: str, text: str, url: str | None, document: str | None) -> str:
    """Bring a run of the server, named by its id or the beginning, and return its id.

    It gets the newest state of the server, or the one whose id begins with `document`; of several, and beside one that
    has changed here, the user is asked. Raises RunNotFound, NotFound for a document, ChoiceNeeded without a terminal,
    and LedgerError.
    """
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        path = os.path.join(folder, "ledger.db")
        found = _fetch(root, text, url, document, path)
        run = found.run
        is_here = os.path.lexists(run.state_path)
        chosen = None if is_here or not found.states else found.states[_choose(found, found.states, None)]
        before = frozenset[bytes]() if lacks_ledger(run) else _log_heads(run)
        note_exchanged(root, run.run_id)
        with Log.read(path) as log:
            insert_passing(run, log, [], say)
    note_project(root, project_id(root))
    if chosen is not None:
        with read_log(run) as log:
            digest = take_content(run, chosen[1], log)
        if digest is not None:
            _note_chosen(found, chosen[0], digest, is_choice=document is not None or len(found.states) > 1)
    elif is_here and not run.is_kept:
        _settle(found, document, before)
    code = write_blocks(run, warn=say, defaults=DEFAULTS)
    if code:
        raise LedgerError(
            f"the run {run.run_id} was brought, and its state.json was not written",
            hint=f"run `faber-ledger project {run.run_id}`",
        )
    return run.run_id


def _settle(found: Found, wanted: str | None, before: frozenset[bytes]) -> None:
    """Keep the state that is here, or replace it by one of the server; `before` are the log's heads as they were."""
    from faber_ledger.postgres.documents import Document
    from faber_ledger.postgres.standing import Basis, compare, find_latest

    run, note = found.run, read_state_note(found.run.root, found.key, found.run.run_id)
    content = make_content(run) or "{}"
    digest, whole = digest_of(content), sha256(content.encode()).digest()
    on_server = [one.id for one in found.documents if one.digest == whole]
    heads, seen = [frozenset(map(bytes.fromhex, group)) for group in (note["heads"], note["seen"])]
    with read_log(run) as log:
        basis = Basis(frozenset([*note["ids"], *on_server]), heads, before, seen)
        standing = compare(found.documents, basis, log)
        latest = find_latest([one for one, _ in found.states], basis, log)
    changed_at = utc_text(os.stat(run.state_path).st_mtime)
    own = Document(HERE, heads, writer_of(run.root), changed_at, len(content.encode()), whole)
    is_newest = any([one.digest == whole for one, _ in found.states]) and not note["is_due"]
    is_put_back = is_earlier(note, digest) and not is_newest
    is_changed = not on_server and digest != note["digest"] and not is_put_back
    states = [*found.states, *([] if on_server else [(own, content)])]
    is_choice, here = False, digest
    if wanted is not None:
        chosen, is_choice = (own, content) if wanted == HERE else found.states[0], True
    elif is_put_back and len(latest) == 1:
        chosen = next((one for one in states if one[0].id == latest[0].id), (own, content))
    elif standing.successor is not None and not is_changed and not note["is_due"]:
        chosen = next((one for one in states if one[0].id == standing.successor.id), (own, content))
    elif standing.apart and len(states) > 1 and is_changed:
        *others, mine = _candidates(found, states, whole)
        raise choice_before_push(run.run_id, mine, others)
    elif (standing.apart or is_put_back) and len(states) > 1:
        chosen, is_choice = states[_choose(found, states, whole)], True
    else:
        return
    if chosen[0].digest != whole:
        if is_changed:
            raise LedgerError(
                f"the state.json of {run.run_id} here has changes that the server does not have",
                hint=f"run `faber-ledger sync --push {run.run_id}` first, or keep it with --document {HERE}",
            )
        with read_log(run) as log:
            replaced = replace_content(run, chosen[1], log, digest, say)
        if replaced is None:
            raise LedgerError(
                f"the state.json of {run.run_id} has just changed here", hint="run the command again to see both"
            )
        digest = replaced
        (taken,) = _candidates(found, [chosen], None)
        say(f"the state.json of {run.run_id} here is now that of the server: {describe_state(taken)}")
    _note_chosen(found, chosen[0], digest, is_choice=is_choice, replaced=here)


def _choose(found: Found, states: list[tuple[Document, str]], here: bytes | None) -> int:
    return choose_state(found.run.run_id, _candidates(found, states, here))


def _candidates(found: Found, states: list[tuple[Document, str]], here: bytes | None) -> list[Candidate]:
    """Return states as they are shown; `here` is the digest of the one that state.json has here."""
    writer = writer_of(found.run.root)
    return [
        Candidate(one, content, found.machines.get(one.writer), one.writer == writer, one.digest == here)
        for one, content in states
    ]


def _note_chosen(found: Found, document: Document, digest: str, *, is_choice: bool, replaced: str = "") -> None:
    """Note which state this clone has; one that the user has chosen supersedes all others with the next sync.

    `replaced` is the digest of the state that was here, empty if there was none.
    """
    run = found.run
    known = [one for one in found.documents if one.digest is not None and (is_choice or one.id == document.id)]
    before = read_state_note(run.root, found.key, run.run_id)
    note: StateNote = {
        "ids": [one.id for one in known],
        "digest": before["digest"],
        "heads": sorted({head.hex() for one in known for head in one.heads}),
        "seen": sorted([head.hex() for head in _log_heads(run)]),
        "earlier": before["earlier"],
        "is_apart": False,
        "is_due": is_choice and [one.id for one in known] != [document.id],
    }
    for one in (replaced, digest):
        note_digest(note, one)
    write_state_note(run.root, found.key, run.run_id, note)


def _log_heads(run: Run) -> frozenset[bytes]:
    with read_log(run) as log:
        return frozenset([digest for _, digest in log.heads()])


def _fetch(root: str, text: str, url: str | None, document: str | None, path: str) -> Found:
    """Fetch a run's log into a new file at `path`, and the states that it may get; nothing is written here."""
    from faber_ledger.postgres.documents import choose_newest, fetch_content, list_documents
    from faber_ledger.postgres.project import open_project
    from faber_ledger.postgres.server import open_server

    project = project_id(root)
    with open_server(server_address(url)) as server:
        key = f"{project} {open_project(server, project, '', writing=False)}"
        run_id = pick_server_run(server, project, text)
        run = run_here(root, run_id)
        if run.is_kept and not os.path.lexists(run.state_path):
            run = find_run(root, run_id)  # its log came without a state
        _check_folder(run)
        with progress_bars() as progress:
            write_run_log(server, project, run_id, path, progress)
        with Log.read(path) as log:
            if not log.heads():
                raise RunNotFound(
                    f"the server has no event of {run_id} that a ledger takes",
                    hint=f"run `faber-ledger sync {run_id}` to see why",
                )
            machines = _machines(log)
            known = [] if run.is_kept else list_documents(server, project, run_id)
            newest = choose_newest(known, log)
            if document == HERE and not os.path.lexists(run.state_path):
                raise NotFound(f"{run_id} has no state.json here", hint="leave out --document to see its states")
            if document not in (None, HERE):
                newest = [_named(known, document or "", run_id)]
        states = [(one, fetch_content(server, project, run_id, one)) for one in newest]
    readable = [one for one in states if _is_readable(run, one[1])]
    if document not in (None, HERE) and not readable:
        raise NotFound(f"the state that --document names is none of {run_id}", hint="leave out --document")
    return Found(run, key, known, readable, machines)


def _machines(log: Log) -> dict[str, str]:
    """Return the machine of each writer's last session."""
    found = {}
    for recorded in log.stream():
        event = recorded["event"]
        if event["type"] == "session_started" and isinstance(name := event["environment"].get("hostname"), str):
            found[recorded["writer"]] = name
    return found


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
