"""Take what a commit of a run's ref has: its ledger into the log, and its state where ours is older and unchanged."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, NamedTuple

from faber_ledger.cli.sync.refs import LARGEST, LEDGER, METADATA, SENT, STATE, Commit, delete_refs, ref_name
from faber_ledger.cli.sync.versions import (
    FOLDER,
    PURGED,
    RUN,
    Warn,
    check_state,
    digest_of,
    digest_of_metadata,
    due_files,
    fields_of,
    find_base,
    state_of,
    time_of,
)
from faber_ledger.ledger import disk
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.disk import folder_around
from faber_ledger.ledger.encoding import PAYLOAD
from faber_ledger.ledger.errors import LedgerError, NewerFormat
from faber_ledger.ledger.file import check_file
from faber_ledger.ledger.foreign import event_ids
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.redaction import effective_redactions
from faber_ledger.ledger.union import rows_in_file
from faber_ledger.recording.insertion import write_blocks
from faber_ledger.recording.server_state import (
    content_of,
    metadata_content,
    metadata_to_write,
    replace_state,
    write_missing_state,
)
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.git import is_tracked, project_key
from faber_ledger.runs.git_command import run_git
from faber_ledger.runs.in_git import GitSurvey, command_to_pull, way_to_completed
from faber_ledger.runs.log import open_run_log, read_log
from faber_ledger.runs.progress import FINISHED, current_phase
from faber_ledger.runs.run import Run
from faber_ledger.runs.seen import shape_of
from faber_ledger.runs.sent import Sent
from faber_ledger.runs.set_aside import read_or_empty, report
from faber_ledger.runs.state_file import read_state
from faber_ledger.runs.state_merge import OURS, THEIRS, merge_states
from faber_ledger.runs.state_write import remove_backup

MERGED = "merged"  # what a state is that has something of both sides


class Taken(NamedTuple):
    """What came of a commit: how many events, what the state is that replaced ours, and whether its metadata did.

    The state is empty if none did.
    """

    added: int
    state: str
    has_metadata: bool


def absorb_commit(
    run: Run,
    commit: Commit | None,
    remote: str,
    warn: Warn,
    *,
    may_purge: bool = True,
    brings: bool = False,
    is_heard: bool = True,
) -> Taken:
    """Absorb a commit's ledger, note what the remote has, and take its state; return what came.

    A payload in it that is redacted here makes the next sending replace the ref, if that `may_purge`. If it `brings`
    the run here, missing files are written. What a merge does not use is kept for the next start unless `warn`
    `is_heard`. Raises LedgerError, NewerFormat among them, where the ref is not one that
    this clone may continue: then nothing of it is used, its state neither.
    """
    checked, offered = _check(run, commit, remote)
    files = checked.files
    whole: tuple[float, list[int] | None] | None = None  # when the remote had all of the log, and its file then
    sent = Sent(run)
    sent.remote, sent.commit, sent.heads, sent.events, sent.log = remote, checked.name, "", 0, None
    with lock_run(run), open_run_log(run, warn) as opened:
        before = opened.log.count_events()
        sent.heads = opened.absorb_fetched(files[LEDGER])
        added = opened.log.count_events() - before
        sent.events = len(opened.log.ids_of() & offered)
        if sent.heads == opened.log.heads_text():
            whole = now(), shape_of(run.log_path)
        sent.must_purge |= may_purge and _has_redacted(opened.log, files[LEDGER])
    if opened.redacted:
        delete_refs(run.root, [SENT + ref_name(run.run_id)])  # what this clone has sent reaches the payload
    theirs = _usable_state(run, files.get(STATE), remote, warn)
    sent.updated_at, sent.asked_at, sent.problem = time_of(theirs), now(), ""
    sent.is_completed = theirs.get("status") == "completed"
    if brings and theirs and not os.path.lexists(run.state_path):
        write_missing_state(run, content_of(theirs), warn)
    tell = warn if is_heard else partial(report, run, warn)
    state = _take_state(run, sent, theirs, remote, warn, tell)
    has_metadata = _take_metadata(run, sent, files.get(METADATA), remote, tell, brings=brings)
    write_blocks(run, warn=warn)
    if state and theirs.get("status") in FINISHED and not run.is_kept:
        remove_backup(run)
    if whole is not None:
        sent.noted_at, log = whole
        if not due_files(run, sent):
            sent.log = log
            sent.here.note_files(run)
    sent.save()
    return Taken(added, state, has_metadata)


def _check(run: Run, commit: Commit | None, remote: str) -> tuple[Commit, set[str]]:
    """Return a commit of a run's ref if this clone may absorb it, and its events' ids; raises LedgerError."""
    forget = f"run `faber-ledger run forget --remote {run.run_id}` if nobody needs it"
    if commit is None:
        raise LedgerError(f"its ref at {remote} is not a commit", hint=forget)
    fields = fields_of(commit.message)
    if fields.get(FOLDER, "") != project_key(run.root) or fields.get(RUN, run.run_id) != run.run_id:
        what = f"its ref at {remote} belongs to another run or project"
        raise LedgerError(what, hint="the runs of all projects that share a remote need ids of their own")
    if LEDGER in commit.files:
        try:
            check_file(commit.files[LEDGER])
        except NewerFormat as error:  # what it has must not be replaced
            what = f"its ledger at {remote} has a newer format than this program knows"
            raise NewerFormat(what, hint=error.hint) from error
        except LedgerError:
            pass  # it has no event that can be read
    found = event_ids(commit.files.get(LEDGER, ""))
    if not found:
        raise LedgerError(f"its ref at {remote} has no ledger that can be read", hint=forget)
    return commit, found


def _has_redacted(log: Log, path: str) -> bool:
    """Return whether a fetched ledger has a payload that the log's redactions have removed."""
    gone = effective_redactions(log.connection)
    return any([row[PAYLOAD] is not None for row in (gone and rows_in_file(path, gone)) or ()])


def _usable_state(run: Run, path: str | None, remote: str, warn: Warn) -> dict[str, Any]:
    """Return a fetched state; empty if there is none, or if it cannot be this run's, after a warning."""
    found = state_of(path)
    try:
        if path is not None and not found:
            raise LedgerError("it is not a JSON object, or it is empty")
        return check_state(run, found) if found else {}
    except LedgerError as error:
        warn(f"{run.run_id}: the state.json at {remote} is not used: {error.message}")
    return {}


def _take_state(run: Run, sent: Sent, theirs: dict[str, Any], remote: str, warn: Warn, tell: Warn) -> str:
    """Replace a state that git does not track by the ref's if only that has changed, or by the merge of both.

    Changed means: since the state that both had. What cannot be taken now is not `seen`, and is tried again. A kept
    run's copy that has not changed stays: a file that comes back is still compared with what its work tree had. `tell`
    is called with what a merge does not use.

    Return what the state is then, empty if ours stays.
    """
    if not theirs:
        sent.here.seen = sent.commit
        return ""
    others = digest_of(theirs)
    if others == sent.here.digest:
        sent.note_shared(others)
        return ""
    words = ", ".join([str(one) for one in (theirs.get("status"), current_phase(theirs)) if one])
    try:
        ours = read_state(run).value
        found = digest_of(ours)
        if found == others:
            sent.note_shared(others)
        elif not run.is_kept and is_tracked(run.state_path) is not False:
            sent.here.seen = sent.commit
            if time_of(theirs) > time_of(ours):
                survey = GitSurvey(run.root)
                what = f"the run has gone on ({words}) after the commit that is here: `{command_to_pull(survey)}`"
                if sent.is_completed:
                    what = f"the run was completed elsewhere{way_to_completed(survey, run)}"
                warn(f"{run.run_id}: {what}")
        elif _is_set_back(run, sent, sent.here.base):
            common = run_git("merge-base", sent.here.base, sent.commit, at=run.root).stdout.decode().strip()
            return _merge_state(run, sent, common, ours, theirs, tell)
        elif not _is_unchanged(run, sent, STATE, found, sent.here.digest):
            return _merge_state(run, sent, sent.here.base, ours, theirs, tell)
        elif not run.is_kept:
            with read_log(run) as log:
                if replace_state(run, content_of(theirs), content_of(ours), log, warn):
                    sent.note_shared(others)
                    return words or "without a status"
    except LedgerError as error:
        if sent.here.digest and os.path.lexists(run.state_path):
            warn(f"{run.run_id}: the state at {remote} ({words}) is taken by a later sync: {error.message}")
    return ""


def _is_set_back(run: Run, sent: Sent, base: str) -> bool:
    """Return whether the ref does not have the commit that was exchanged last, though no redaction replaced it.

    Somebody has deleted the ref, and another clone has sent what it had; or the host has an older one again. So what
    the ref's files lack was not removed from them.
    """
    if not base or run_git("merge-base", "--is-ancestor", base, sent.commit, at=run.root).returncode == 0:
        return False
    first = run_git("rev-list", "--max-parents=0", "--format=%B", sent.commit, "--", at=run.root).stdout
    return PURGED not in fields_of(first.decode("utf-8", "replace"))


def _merge_state(run: Run, sent: Sent, base: str, ours: dict[str, Any], theirs: dict[str, Any], warn: Warn) -> str:
    """Write the merge of two states that have both changed since the commit `base`, if any; return what it is.

    (DECISIONS 54)
    """
    before = run_git("cat-file", "blob", f"{base}:{STATE}", at=run.root).stdout if base else b""
    merged = merge_states(before, content_of(ours).encode(), content_of(theirs).encode(), None)
    with read_log(run) as log:
        if not replace_state(run, merged.content.decode(), content_of(ours), log, warn):
            return ""
    for line in merged.lines({OURS: "the one here", THEIRS: f"the one at {sent.remote}"}):
        warn(f"{run.run_id}: state.json: {line}")
    sent.note_shared(digest_of(theirs))  # so that the merge is sent
    return MERGED


def _is_unchanged(run: Run, sent: Sent, name: str, found: str, noted: str) -> bool:
    """Return whether a file is as it was last exchanged; if that is not noted, whether the ref once had it."""
    return found == noted if noted else bool(find_base(run, sent.commit, name, found))


def _take_metadata(run: Run, sent: Sent, path: str | None, remote: str, warn: Warn, *, brings: bool) -> bool:
    """Replace a `metadata.json` that git does not track by the ref's if only that has changed; return whether it was.

    Where both have changed, ours is sent.
    """
    largest = LARGEST[METADATA]
    theirs = metadata_content(read_or_empty(path, largest)) if path is not None else None
    found, others = digest_of_metadata(read_or_empty(run.metadata_path, largest)), digest_of_metadata(theirs or b"")
    noted = sent.here.metadata
    if others == noted:
        sent.here.metadata_base = sent.commit
    is_missing = brings and not os.path.lexists(run.metadata_path)
    if theirs is None or not (found or is_missing):
        return False
    is_new = is_missing or others not in (found, noted)
    is_kept = is_new and not is_missing
    is_ours = is_kept and (
        _is_set_back(run, sent, sent.here.metadata_base) or not _is_unchanged(run, sent, METADATA, found, noted)
    )
    if is_ours:
        what = f"it was changed here and at {remote}" if noted else f"it differs from the one at {remote}"
        warn(f"{run.run_id}: metadata.json: {what}: the one here is used")
    elif is_new and (
        run.is_kept
        or is_tracked(run.metadata_path) is not False
        or folder_around(run.own_directory, [run.root]) is None
    ):
        return False  # not here, git's, or behind a link that leads out of the project: the ref's goes on in the ref
    elif is_new:
        os.makedirs(run.own_directory, exist_ok=True)
        disk.put(run.metadata_path, metadata_to_write(theirs, read_or_empty(run.metadata_path, largest)))
    sent.here.metadata, sent.here.metadata_base = others, sent.commit
    return is_new and not is_ours
