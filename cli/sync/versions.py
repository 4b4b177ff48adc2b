"""What a commit of a run's ref has: the message, from which a run is listed without its files, and the files."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.sync.refs import LARGEST, METADATA, STATE, Commit, Remote, list_history, read
from faber_ledger.cli.ui.attention import pull_request, what_it_waits_for
from faber_ledger.files.text import one_line
from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.ledger.encoding import loads, sha256
from faber_ledger.ledger.errors import InvalidRunId, LedgerError
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.queries import summarize
from faber_ledger.projections.fold import newest_open
from faber_ledger.projections.history import machines_of, summarize_sessions
from faber_ledger.recording.server_state import content_of, mask_value, metadata_content
from faber_ledger.runs.active import Here
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.copies import runs_in_other_work_trees
from faber_ledger.runs.git import project_key
from faber_ledger.runs.layouts import find_run, find_run_from
from faber_ledger.runs.progress import current_phase, text_of
from faber_ledger.runs.run import LONGEST_ID, Run
from faber_ledger.runs.sent import Sent
from faber_ledger.runs.set_aside import read_or_empty
from faber_ledger.runs.state_file import parse_state, read_state
from faber_ledger.runs.tree_note import shape_of

if TYPE_CHECKING:
    from faber_ledger.projections.fold import Blocks

RUN, FOLDER, STATE_PATH = "Run", "Folder", "State"
LONGEST_FIELD, LONGEST = 200, {RUN: LONGEST_ID, STATE_PATH: 3 * LONGEST_ID}  # of a field; a cut id is another run's
DESCRIBED = (
    *("Work-Item", "Branch", "Status", "Phase", "Writer"),
    *("Target", "Pull-Request", "Agent", "Machine", "Open-Session", "Waits-For"),
)


def message_of(run: Run, state: dict[str, Any], log: Log, blocks: Blocks) -> str:
    """Return the message of a run's next commit."""
    branches = Here(run.root).branches_of(run, log)
    branch = branches[0] if branches else None
    machine = next(reversed(machines_of(summarize_sessions(blocks))), None)
    values = (
        *(state.get("work_id"), branch, state.get("status"), current_phase(state), writer_of(run.root)),
        *mask_value([text_of(state, "target"), pull_request(state)]),
        *(summarize(log).agent, machine, newest_open(blocks), what_it_waits_for(state)),
    )
    place = {RUN: run.run_id, STATE_PATH: _path_of_state(run), FOLDER: project_key(run.root)}
    fields = {**place, **dict(zip(DESCRIBED, values, strict=True))}
    lines = [f"{name}: {one_line(value, LONGEST.get(name, LONGEST_FIELD))}" for name, value in fields.items() if value]
    return "\n".join([run.run_id, "", *lines, ""])


def _path_of_state(run: Run) -> str:
    """Return the path of a run's state in the project, also where this work tree lacks the run; empty of no place."""
    try:
        place = find_run(run.root, run.run_id) if run.is_kept else run
    except InvalidRunId:
        return ""
    return place.shown(place.state_path)


def fields_of(message: str) -> dict[str, str]:
    """Return what a commit's message, which is anybody's, says of the run."""
    pairs = [line.partition(": ")[::2] for line in message.splitlines() if ": " in line]
    return {name: one_line(value, LONGEST.get(name, LONGEST_FIELD)) for name, value in pairs}


def place_of(root: str, run_id: str, commit: Commit | None) -> Run:
    """Return a run at the place that it has here, else at the one that a commit names."""
    return find_run_from(root, run_id, fields_of(commit.message).get(STATE_PATH, "") if commit is not None else "")


def files_to_send(remote: Remote, run: Run, sent: Sent, parent: str) -> tuple[dict[str, Any], dict[str, str | bytes]]:
    """Return the state and the metadata that go with the log: ours, or the remote's where that is newer and not taken.

    Where the run's files are not here, as on another branch, the remote's stay, too.
    """
    state: dict[str, Any] = {}
    metadata = metadata_content(_read_metadata(run.metadata_path))
    is_changed = _digest_in(METADATA, run.metadata_path) not in ("", sent.here.metadata)
    if not (run.is_kept and parent):  # this clone's copy of a state that this work tree lacks may be old
        with suppress(LedgerError):
            state = read_state(run).value
    ours, there = state, dict[str, bytes]()
    is_newer = not state or (sent.here.base != parent and sent.updated_at >= time_of(state))
    if parent and (is_newer or not is_changed):
        with read(remote.top, [parent]) as commits:
            found = next(commits)
            paths = found.files if found is not None else {}
            there = {name: read_or_empty(paths[name]) for name in (STATE, METADATA) if name in paths}
    if is_newer and STATE in there:
        with suppress(LedgerError, RecursionError):  # ours is better than one that nobody can read
            state = parse_state(run, there[STATE]).value
    if is_changed:
        sent.here.metadata = digest_of_metadata(metadata or b"")
    else:
        metadata = metadata_content(there.get(METADATA, b"")) or metadata
    if state and state is ours:
        sent.here.digest = digest_of(state)
    return state, {METADATA: metadata} if metadata is not None else {}


def state_of(path: str | None) -> dict[str, Any]:
    """Return a fetched state; empty if there is none, or it is not readable."""
    try:
        with open(path or os.devnull, "rb") as file:
            found = loads(file.read().decode())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def time_of(state: dict[str, Any]) -> str:
    """Return a state's time in UTC; empty if it says none."""
    seconds = seconds_of(state.get("updated_at"))
    return "" if seconds is None else utc_text(seconds)


def digest_of(state: dict[str, Any]) -> str:
    """Return what tells whether a state has changed, but for what is ours; raises RecursionError."""
    return sha256(content_of(state).encode()).hexdigest()


def digest_of_metadata(content: bytes) -> str:
    """Return what tells whether a `metadata.json` has changed; empty of what is none."""
    found = metadata_content(content)
    return sha256(found).hexdigest() if found is not None else ""


def find_base(run: Run, commit: str, name: str, digest: str) -> str:
    """Return the newest commit, from `commit` back, whose file has a digest; empty if none has."""
    commits = list_history(run.root, commit) if commit else []
    with read(run.root, commits, [name]) as versions:
        for version in versions:
            if version is not None and digest == _digest_in(name, version.files.get(name)):
                return version.name
    return ""


def note_restored(run: Run, *, is_copy: bool) -> None:
    """Note with which commit of its ref a state was exchanged that was restored, and may be older than the ref's.

    Where the ref never had it, the clone's copy was changed since this work tree's last exchange, unless another one
    wrote it; of any other state nothing is known, and the next exchange merges it without a base.
    """
    sent = Sent(run)
    here, base, digest = sent.here, "", ""
    with suppress(LedgerError, RecursionError):
        digest = digest_of(read_state(run).value)
        base = find_base(run, sent.commit, STATE, digest)
    if base or not is_copy or runs_in_other_work_trees(run):
        here.base, here.seen, here.digest, here.state = base, base, digest if base else "", None
        here.save()


def _digest_in(name: str, path: str | None) -> str:
    """Return the digest of a state or `metadata.json`; empty if there is none that can be read."""
    if name == METADATA:
        return digest_of_metadata(_read_metadata(path))
    try:
        return digest_of(state) if (state := state_of(path)) else ""
    except RecursionError:
        return ""


def _read_metadata(path: str | None) -> bytes:
    return read_or_empty(path, LARGEST[METADATA]) if path else b""


def due_files(run: Run, sent: Sent) -> list[str]:
    """Return which of state and `metadata.json` are here as the remote does not have them."""
    if run.is_kept:
        return []
    found = [STATE] if _is_state_due(run, sent) else []
    is_seen = sent.here.metadata_file == shape_of(run.metadata_path)
    is_due = not is_seen and _digest_in(METADATA, run.metadata_path) not in ("", sent.here.metadata)
    return [*found, METADATA] if is_due else found


def _is_state_due(run: Run, sent: Sent) -> bool:
    """Return whether the state here is newer than the remote's, or has changed since it was exchanged."""
    try:
        state = read_state(run).value
        at = time_of(state)
        if sent.here.base != sent.commit or not sent.here.digest:
            return at > sent.updated_at
        return (
            sent.here.state != shape_of(run.state_path) and digest_of(state) != sent.here.digest
        )  # whatever its time is
    except (LedgerError, RecursionError):
        return False
