"""What a commit of a run's ref has: the message, from which a run is listed without its files, and the files."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.sync.refs import LARGEST, LONGEST_HISTORY, METADATA, STATE, Commit, Remote, list_commits, read
from faber_ledger.cli.ui.attention import pull_request, what_it_waits_for
from faber_ledger.files.text import one_line
from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.ledger.encoding import loads_object, sha256
from faber_ledger.ledger.errors import InvalidRunId, LedgerError, StateMissing
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.queries import summarize
from faber_ledger.projections.fold import newest_open
from faber_ledger.projections.history import machines_of, summarize_sessions
from faber_ledger.recording.server_state import content_of, mask_value, metadata_content
from faber_ledger.runs.active import Here
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.copies import read_in_head
from faber_ledger.runs.git import is_tracked, project_key
from faber_ledger.runs.layouts import find_run, find_run_from
from faber_ledger.runs.progress import STATUSES, current_phase, text_of
from faber_ledger.runs.run import LONGEST_ID, Run
from faber_ledger.runs.seen import shape_of
from faber_ledger.runs.sent import Sent, SentState
from faber_ledger.runs.set_aside import read_or_empty
from faber_ledger.runs.state_file import parse_state, read_state

if TYPE_CHECKING:
    from faber_ledger.projections.fold import Blocks

Warn = Callable[[str], None]
RUN, FOLDER, STATE_PATH = "Run", "Folder", "State"
PURGED = "Purged"  # of a commit that replaces the ref's history after a redaction
LONGEST_FIELD, LONGEST = 200, {RUN: LONGEST_ID, STATE_PATH: 3 * LONGEST_ID}  # of a field; a cut id is another run's
DESCRIBED = (
    *("Work-Item", "Branch", "Status", "Phase", "Writer"),
    *("Target", "Pull-Request", "Agent", "Machine", "Open-Session", "Waits-For"),
)


def message_of(run: Run, state: dict[str, Any], log: Log, blocks: Blocks, *, is_purge: bool) -> str:
    """Return the message of a run's next commit, which `is_purge` if it replaces the ref's history."""
    branches = Here(run.root).branches_of(run, log)
    branch = branches[0] if branches else None
    machine = next(reversed(machines_of(summarize_sessions(blocks))), None)
    values = (
        *(mask_value(state.get("work_id")), branch, *mask_value([state.get("status"), current_phase(state)])),
        *(writer_of(run.root), *mask_value([text_of(state, "target"), pull_request(state)])),
        *(summarize(log).agent, machine, newest_open(blocks), what_it_waits_for(state)),
    )
    place = {RUN: run.run_id, STATE_PATH: _path_of_state(run), FOLDER: project_key(run.root)}
    fields = {**place, **dict(zip(DESCRIBED, values, strict=True)), PURGED: "yes" if is_purge else None}
    lines = [f"{name}: {one_line(value, LONGEST.get(name, LONGEST_FIELD))}" for name, value in fields.items() if value]
    return "\n".join([run.run_id, "", *lines, ""])


def _path_of_state(run: Run) -> str:
    """Return the path of a run's state in the project, even if this work tree lacks the run; empty if it has none."""
    try:
        place = find_run(run.root, run.run_id) if run.is_kept else run
    except InvalidRunId:
        return ""
    return place.shown(place.state_path)


def fields_of(message: str) -> dict[str, str]:
    """Return what a commit's message says of the run; anybody may have written it."""
    pairs = [line.partition(": ")[::2] for line in message.splitlines() if ": " in line]
    return {name: one_line(value, LONGEST.get(name, LONGEST_FIELD)) for name, value in pairs}


def place_of(root: str, run_id: str, commit: Commit | None) -> Run:
    """Return a run at the place that it has here, else at the one that a commit names."""
    return find_run_from(root, run_id, fields_of(commit.message).get(STATE_PATH, "") if commit is not None else "")


def files_to_send(
    remote: Remote, run: Run, sent: Sent, parent: str, due: list[str]
) -> tuple[dict[str, Any], bytes | None]:
    """Return the state and the metadata that go with the log: ours, or the remote's where that is newer and not taken.

    The remote's stay, too, where the run's files are not here, and where the state here is git's. `due` are what
    `due_files` says.
    """
    state: dict[str, Any] = {}
    with suppress(LedgerError):
        state = _readable_state(run)
    ours, here, there = state, sent.here, dict[str, bytes]()
    metadata = metadata_content(_read_metadata(run.metadata_path))
    digest = digest_of_metadata(metadata or b"")
    is_changed = METADATA in due
    is_known = digest == here.metadata and here.metadata_base == parent
    is_gits = STATE not in due and _is_older_and_tracked(run, sent, state)
    is_older = here.base != parent and (here.digest == digest_of(state) or sent.updated_at >= time_of(state))
    keeps_theirs = not state or is_gits or here.seen != parent or is_older
    if parent and (keeps_theirs or not (is_changed or is_known)):
        with read(remote.top, [parent]) as commits:
            commit = next(commits)
            paths = commit.files if commit is not None else {}
            there = {name: read_or_empty(paths[name]) for name in (STATE, METADATA) if name in paths}
    if keeps_theirs and STATE in there:
        with suppress(LedgerError):  # keep ours if the remote's cannot be read or sent
            state = check_state(run, parse_state(run, there[STATE]).value)
    if is_changed:
        here.metadata = digest
    else:
        metadata = metadata_content(there.get(METADATA, b"")) or metadata
    if state and (state is ours or is_gits):
        here.digest = digest_of(ours)
    return state, metadata


def check_state(run: Run, state: dict[str, Any]) -> dict[str, Any]:
    """Return a state if every clone may have it; raises LedgerError for another one (DECISIONS 5, 41)."""
    parse_state(run, content_of(state).encode("utf-8", "backslashreplace"))
    if state.get("run_id") is None or state.get("status") not in STATUSES:
        raise LedgerError("it lacks the run's id, or its status is none that FABER knows")
    return state


def state_of(path: str | None) -> dict[str, Any]:
    """Return a fetched state; empty if there is none, or it is not readable."""
    return loads_object(read_or_empty(path, LARGEST[STATE])) if path is not None else {}


def time_of(state: dict[str, Any]) -> str:
    """Return a state's time in UTC; empty if it says none."""
    seconds = seconds_of(state.get("updated_at"))
    return "" if seconds is None else utc_text(seconds)


def digest_of(state: dict[str, Any]) -> str:
    """Return a digest of a state without our blocks; raises as `content_of`."""
    return sha256(content_of(state).encode()).hexdigest()


def digest_of_metadata(content: bytes) -> str:
    """Return a digest of a `metadata.json`; empty if it is not JSON."""
    found = metadata_content(content)
    return sha256(found).hexdigest() if found is not None else ""


def find_base(run: Run, commit: str, name: str, digest: str) -> str:
    """Return the newest commit, from `commit` back, whose file has this digest; empty if none has."""
    commits = list_commits(run.root, commit, LONGEST_HISTORY) if commit else []
    with read(run.root, commits, [name]) as versions:
        for version in versions:
            if version is not None and digest == _digest_in(name, version.files.get(name)):
                return version.name
    return ""


def _digest_in(name: str, path: str | None) -> str:
    """Return the digest of a state or `metadata.json`; empty if there is none that can be read."""
    if name == METADATA:
        return digest_of_metadata(_read_metadata(path))
    try:
        return digest_of(state) if (state := state_of(path)) else ""
    except LedgerError:
        return ""


def _read_metadata(path: str | None) -> bytes:
    return read_or_empty(path, LARGEST[METADATA]) if path else b""


def is_changed(run: Run) -> bool:
    """Return whether a state has changed since it was exchanged."""
    with suppress(LedgerError):
        return SentState(run).digest not in ("", digest_of(read_state(run).value))
    return False


def _is_older_and_tracked(run: Run, sent: Sent, state: dict[str, Any]) -> bool:
    """Return whether git tracks the state here and it is older than the ref's, as after a checkout."""
    is_older = time_of(state) < sent.updated_at and digest_of(state) != sent.here.digest
    return is_older and is_tracked(run.state_path) is not False


def due_files(run: Run, sent: Sent, warn: Warn = lambda _: None) -> list[str]:
    """Return which of state and `metadata.json` differ from what the remote has.

    `warn` is called with why a file cannot be sent as it is here.
    """
    found = [STATE] if _is_state_due(run, sent, warn) else []
    is_seen = sent.here.metadata_file == shape_of(run.metadata_path) or sent.here.seen != sent.commit
    return [*found, METADATA] if not is_seen and _is_metadata_changed(run, sent.here, warn) else found


def _is_metadata_changed(run: Run, here: SentState, warn: Warn) -> bool:
    """Return whether a `metadata.json` is neither the one that was exchanged nor the one in git's last commit."""
    digest = _digest_in(METADATA, run.metadata_path)
    if not digest and os.path.lexists(run.metadata_path):
        warn(f"its {METADATA} is not sent: it is not a JSON object of at most {LARGEST[METADATA] >> 20} MB")
    if digest in ("", here.metadata):
        return False
    return not here.metadata or digest != digest_of_metadata(read_in_head(run, run.metadata_path) or b"")


def _is_state_due(run: Run, sent: Sent, warn: Warn) -> bool:
    """Return whether the state here is newer than the remote's, or has changed since it was exchanged."""
    try:
        state = _readable_state(run)
        at = time_of(state)
        if sent.here.seen != sent.commit:
            return False  # it was written while the ref's was compared with it: a later exchange merges them
        if sent.here.base != sent.commit or not sent.here.digest:
            return at > sent.updated_at
        is_same = sent.here.state == shape_of(run.state_path) or digest_of(state) == sent.here.digest
        return not is_same and not _is_older_and_tracked(run, sent, state)
    except StateMissing:
        return False
    except LedgerError as error:
        warn(f"its {STATE} is not sent: {getattr(error, 'reason', error.message)}")
        return False


def _readable_state(run: Run) -> dict[str, Any]:
    """Return a run's state if it can be sent; raises as `read_state` and `check_state`."""
    return check_state(run, read_state(run).value)
