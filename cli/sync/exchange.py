"""Exchange one run with the server: its events, through the gate on their way in, then its state.json.

The state is pushed where it is the newest, and fetched where this clone has none. Local first: whatever the server
does, this clone's files are whole, and the next exchange completes this one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

from faber_ledger.cli.sync.intake import Progress, Taken, take_new
from faber_ledger.cli.sync.versions import Warn, check_state, time_of
from faber_ledger.cli.ui.progress import progress_bars
from faber_ledger.cli.ui.server import pick_server_run, server_address
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.files.text import escape
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import ServerRefused, ServerUnavailable
from faber_ledger.ledger.encoding import PAYLOAD, ROW, sha256
from faber_ledger.ledger.errors import LedgerError, RunNotFound, UnionConflict
from faber_ledger.ledger.union import rows_named
from faber_ledger.postgres.address import Address, translate_read_only
from faber_ledger.postgres.exchange import (
    Pushed,
    ServerState,
    count_events,
    describe_state,
    fetch_named,
    fetch_state,
    has_event,
    push_events,
    put_state,
)
from faber_ledger.postgres.project import (
    ServerProject,
    list_members,
    newest_event,
    open_project,
    time_made,
    who_brought,
)
from faber_ledger.postgres.server import open_server, tell_readers
from faber_ledger.recording.inbox import list_waiting
from faber_ledger.recording.insertion import write_blocks
from faber_ledger.recording.recording import record_waiting
from faber_ledger.recording.server_state import content_of, write_missing_state
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.projecting import STATE_DEFAULTS
from faber_ledger.runs.run import Run
from faber_ledger.runs.settings import project_id, read_user_config
from faber_ledger.runs.state_file import parse_state, read_state
from faber_ledger.runs.synced import SyncNote, known_project, note_project

Row = tuple[Any, ...]


class Exchanged(NamedTuple):
    """What an exchange did to a run.

    `left_out`: of the server's events, by id, why one did not enter the log or not whole. `conflicts`: by its id, who
    wrote and brought each event of which the two have different contents. `not_removed`: events that are redacted here,
    and that the login may not redact on the server. `state`: what was done with its state.json. `waiting`: how many of
    its deliveries could not be recorded for a push. `code`: 0, 1 if any waits or the state was left out, or the exit
    code of blocks that were not written.
    """

    run_id: str
    fetched: int
    pushed: int
    left_out: dict[str, str]
    conflicts: dict[str, str]
    not_removed: list[str]
    state: Moved | None
    waiting: int
    code: int


def exchange_run(
    remote: ServerProject,
    run: Run,
    *,
    fetches: bool,
    pushes: bool,
    warn: Warn,
    progress: Progress,
    with_state: bool = True,
) -> Exchanged:
    """Fetch and push one run's events, and its state; raises what the server, `insert_passing` and `read_log` raise.

    `progress` is called with the number of events and what is done with them, and returns what takes those done.
    """
    run = run_to_exchange(run)
    note = _read_checked_note(remote, run)
    taken, pushed, code = Taken(0, {}, []), Pushed(0, [], []), 0
    moved: Moved | None = None
    if fetches:
        taken = take_new(remote, run, note, warn, progress)
    if pushes:
        record_waiting(run, now(), warn=warn)
    if not lacks_ledger(run):
        if pushes:
            pushed = _push(remote, run, note, progress)
        if with_state:
            moved = exchange_state(remote, run, note, taken, fetches=fetches, pushes=pushes, warn=warn)
    note.is_due |= moved == "fetched"
    if pushed.added > 0 or moved == "pushed":
        tell_readers(remote.server, remote.project)
    if note.is_due and not lacks_ledger(run):
        code = write_blocks(run, warn=warn)
        note.is_due = code != 0
        note.save()
    left = len(list_waiting(run)) if pushes else 0
    names = sorted({*taken.conflicts, *pushed.conflicts})
    conflicts = dict.fromkeys(names, "from an unknown login")
    conflicts |= who_brought(remote.server, remote.project, run.run_id, names) if names else {}
    done = taken.added, pushed.added, taken.left_out, conflicts, pushed.not_removed, moved, left
    return Exchanged(run.run_id, *done, code or int(left > 0 or moved == LEFT_OUT))


def run_to_exchange(run: Run) -> Run:
    """Return a run, or the work tree's if this clone has no state of it: its log came without one."""
    has_state = not run.is_kept or os.path.lexists(run.state_path)
    return run if has_state else find_run(run.root, run.run_id)


def _read_checked_note(remote: ServerProject, run: Run) -> SyncNote:
    """Return what was exchanged before; of a server that was set back since, nothing but whether blocks are due."""
    note = SyncNote(run.root, remote.key, run.run_id)
    anchor = note.anchor
    if anchor is not None and has_event(remote.server, remote.project, *anchor):
        return note
    note.position, note.again, note.roots, note.heads, note.anchor, note.state = 0, (), (), (), None, ""
    return note


def _push(remote: ServerProject, run: Run, note: SyncNote, progress: Progress) -> Pushed:
    """Push what the server does not have of a run's log, as it is stored: secrets were masked when it was recorded.

    Raises UnionConflict if another run has its id on the server.
    """
    note.save()  # first: a push that is cut leaves some events there
    with read_log(run) as log:
        heads = [digest.hex() for _, digest in log.heads()]
        if heads == note.heads:
            return Pushed(0, [], [])
        since, _ = log.events_since([bytes.fromhex(digest) for digest in note.heads])
        places = [place for place, _, is_new in since if is_new]
        # None is being read while one is sent: whoever reads keeps every hook from writing.
        rows = (log.connection.execute(f"{ROW} WHERE (seq, id) = (?, ?)", one).fetchone() for one in places[::-1])
        advance = progress(len(places), f"pushing {run.run_id}")
        try:
            pushed = push_events(remote.server, remote.project, run.run_id, rows, advance)
        except ServerRefused as error:
            if error.data.get("sqlstate") != TAKEN:
                raise
            hint = "agree who keeps the id: `faber-ledger fleet` shows the other run, and `faber-ledger run list` yours"
            raise UnionConflict(f"{error.message}: nothing of this clone's run was pushed", hint=hint) from None
    newest = newest_event(remote.server, remote.project, run.run_id)
    if count_events(remote.server, remote.project, run.run_id, note.position) == pushed.added and newest is not None:
        note.position = newest[0]  # nobody else has pushed since this clone fetched
    if not pushed.conflicts:
        note.heads = heads
    note.anchor = newest
    note.save()
    return pushed


TAKEN = "23505"  # SQLSTATE
KEPT_ON_SERVER = (
    "the server keeps a payload that is redacted here: only the login whose clone wrote it, or an admin, redacts it"
)


def push_redaction(run: Run, project: str, address: Address, event: str, warn: Warn) -> bool:
    """Push a run's events if the server has others of it; return whether it has removed a redacted event's payload.

    The run's state is not sent: what was removed may still be in it. Raises as `exchange_run`.
    """
    with open_server(address) as server:
        if time_made(server, project) is None or newest_event(server, project, run.run_id) is None:
            return False
        if server.is_read_only:
            raise translate_read_only(server.address)
        remote = open_project(server, project, writer_of(run.root))
        exchange_run(
            remote, run, fetches=False, pushes=True, warn=warn, progress=lambda *_: lambda done: None, with_state=False
        )
        found = [row for batch in fetch_named(server, project, run.run_id, [event]) for _, row in batch]
    is_kept = any([row[PAYLOAD] is not None for row in found])
    if is_kept:
        warn(KEPT_ON_SERVER)
    return not is_kept


def fetch_event(run: Run, name: str, address: Address) -> Iterator[Row]:
    """Yield an event of a run as the server has it; raises as `open_server`."""
    with open_server(address) as server:
        for batch in fetch_named(server, project_id(run.root), run.run_id, [name]):
            yield from [row for _, row in batch]


def meet_project(root: str, remote: ServerProject, say: Callable[[str], None], *, is_sure: bool) -> None:
    """Name the project and its admins at this clone's first exchange with it.

    Raises ServerRefused unless the user `is_sure`, is an admin, or has named one in the configuration: whoever has made
    a project under its id reads what is pushed to it.
    """
    if known_project(root) == remote.project:
        return
    admins = [one.role for one in list_members(remote.server, remote.project) if one.is_admin]
    names = ", ".join(map(escape, admins))
    what = f"this clone's first exchange with project {remote.project}, whose admins are {names}"
    if not is_sure and {*admins}.isdisjoint([remote.server.role, *read_user_config()["admins"]]):
        raise ServerRefused(
            f"{what}: you have named none of them",
            hint='if you know them, add --yes, or `"admins": ["NAME"]` to your configuration; they read what is pushed',
        )
    say(what)
    note_project(root, remote.project)


def bring_run(root: str, text: str, url: str | None, warn: Warn, *, is_sure: bool) -> str:
    """Fetch a run of the server, named by its id or the beginning, and return its id.

    What a fetch that is cut lacks comes with the next one. Raises RunNotFound and LedgerError.
    """
    project = project_id(root)
    with open_server(server_address(url)) as server:
        remote = open_project(server, project, writer_of(root))
        meet_project(root, remote, warn, is_sure=is_sure)
        run_id = pick_server_run(server, project, text)
        run = run_to_exchange(run_here(root, run_id))
        _check_folder(run)
        with progress_bars() as progress:
            found = exchange_run(remote, run, fetches=True, pushes=False, warn=warn, progress=progress)
    if lacks_ledger(run):
        raise RunNotFound(
            f"the server has no valid event of {run_id}", hint=f"run `faber-ledger sync {run_id}` to see why"
        )
    if found.left_out:
        count = events_shown(len(found.left_out))
        warn(f"{run_id}: {count} of the server left out: `faber-ledger sync {run_id}` says why")
    if write_blocks(run, warn=warn, defaults=STATE_DEFAULTS):
        raise LedgerError(
            f"the run {run_id} was brought, and its state.json was not written",
            hint=f"run `faber-ledger project {run_id}`",
        )
    return run_id


def _check_folder(run: Run) -> None:
    """Raise LedgerError if a link stands in the place of the run's folder, or of one above it in the project."""
    place = os.path.join(os.path.realpath(run.root), os.path.relpath(run.directory, run.root))
    if not run.is_kept and os.path.realpath(run.directory) != place:
        raise LedgerError(
            f"a link stands in the place of {run.shown(run.directory)}", hint="remove the link, then run it again"
        )


Moved = Literal["fetched", "pushed", "left out"]
LEFT_OUT: Final = "left out"
NO_TIME = "its updated_at is not a time with a zone"


def exchange_state(
    remote: ServerProject, run: Run, note: SyncNote, taken: Taken, *, fetches: bool, pushes: bool, warn: Warn
) -> Moved | None:
    """Exchange a run's state after its events, of which `taken` came; return what was done. Writes the note.

    A state that is broken, too large or refused is left out with a warning, here and on the server. Raises as the
    server does.
    """
    try:
        if not os.path.lexists(run.state_path):
            return "fetched" if fetches and not run.is_kept and _fetch_state(remote, run, note, warn) else None
        return "pushed" if pushes and _push_state(remote, run, note, {*taken.left_out, *taken.conflicts}) else None
    except (ServerUnavailable, ServerRefused):
        raise
    except LedgerError as error:
        warn(f"the state.json of {run.run_id} is left out: {error}")
        return LEFT_OUT


def _fetch_state(remote: ServerProject, run: Run, note: SyncNote, warn: Warn) -> bool:
    found = fetch_state(remote.server, remote.project, run.run_id)
    if found is None:
        return False
    content, pushed_by = found
    try:
        state = check_state(run, parse_state(run, content.encode("utf-8", "backslashreplace")).value)
        if state.get("updated_at") is not None and not time_of(state):
            raise LedgerError(NO_TIME)
    except LedgerError as error:  # any member can put any text there: this exchange has not failed
        why = getattr(error, "reason", error.message)
        warn(f"{run.run_id}: the server's state.json of {escape(pushed_by)} is left out: {why}")
        return False
    is_new = write_missing_state(run, content, warn)
    _note_state(note, _digest_of(content))
    return is_new


def _push_state(remote: ServerProject, run: Run, note: SyncNote, refused: set[str]) -> bool:
    """Push the state if it has changed here, or the server has lost it; return whether the server has taken it.

    `refused` are the server's events that this log does not take: no state has to wait for one of them.
    """
    state = read_state(run).value
    content, at = content_of(state), time_of(state)
    digest = _digest_of(content)
    there = describe_state(remote.server, remote.project, run.run_id)
    is_there = there is not None and there.digest.hex() == digest
    if not is_there:
        if there is not None and (digest == note.state or at < there.at):
            if not at and digest != note.state:
                raise LedgerError(NO_TIME)
            return False
        with read_log(run) as log:
            known = [name for (name,) in log.connection.execute("SELECT id FROM event WHERE type = 'event_redacted'")]
            last = log.connection.execute("SELECT id FROM event ORDER BY seq DESC, id DESC LIMIT 1").fetchone()
            has_grown = [digest.hex() for _, digest in log.heads()] != note.heads
            includes = there is not None and (
                there.digest.hex() == note.state or there.log_end in refused or bool(rows_named(log, there.log_end))
            )
        mine = ServerState(at, last[0] if last else "", b"", "")
        base = there.digest if there is not None and includes else None
        writer = writer_of(run.root)
        if not put_state(remote.server, remote.project, run.run_id, mine, content, writer, base, [*known, *refused]):
            if has_grown:  # since its events were pushed: the next exchange sends both
                return False
            whose = f" (the server's is {escape(there.pushed_by)}'s)" if there is not None else ""
            raise LedgerError(
                "the server has a redaction that is not fetched, a newer state, or a colleague's that is not"
                f" fetched{whose}: `faber-ledger sync` fetches what is missing"
            )
    _note_state(note, digest)
    return not is_there


def _note_state(note: SyncNote, digest: str) -> None:
    if note.state != digest:
        note.state = digest
        note.save()


def _digest_of(content: str) -> str:
    return sha256(content.encode()).hexdigest()
