"""Write `state.json`, which belongs to other tools: only our two blocks are replaced, both or none.

The file is replaced by a rename, with a backup beside it and a copy below the git directory. A work tree's checkpoint
is the digest of the blocks' texts, with the heads of the log that they were folded from.
"""

from __future__ import annotations

import os
import stat

from faber_ledger.files.json_text import JsonText, lines_grown, lines_of
from faber_ledger.ledger import disk
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.encoding import split_hashes
from faber_ledger.ledger.errors import StateNotWritten
from faber_ledger.projections.fold import FOLDED, PROJECTOR, blocks_of, fold, is_named, text_of
from faber_ledger.runs.clone import is_empty
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.publish import publish, why_not_published
from faber_ledger.runs.seen import shape_of
from faber_ledger.runs.state_file import (
    keep_state,
    look_at_copy,
    parse_state,
    read_bytes,
    read_state,
    read_state_copy,
    take_looked_at,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from faber_ledger.ledger.errors import Warn
    from faber_ledger.ledger.log import Log
    from faber_ledger.projections.fold import Blocks
    from faber_ledger.runs.log import RunLog
    from faber_ledger.runs.run import Run


TRIES = 20
LISTS = {"sessions": "session_history", "context_metadata": "compaction_events"}  # a block's list that only grows

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:
        from _blake2 import blake2b  # a quarter of what SHA-256 costs without OpenSSL, which hooks go without
    except ImportError:
        from hashlib import blake2b


def read_known(run: Run) -> KnownState:
    """Read a run's state under its lock; raises as `read_state`. A state just looked at is not decoded again."""
    content = read_bytes(run)
    return KnownState(take_looked_at(run, content) or parse_state(run, content))


class KnownState:
    """A state as it was read under the run's lock, and the texts of its blocks before anything was folded onto them."""

    def __init__(self, document: JsonText) -> None:
        self.document = document
        self._texts: dict[str, str] | None = None
        self._lengths = {name: len(_grown_list(name, block)) for name, block in blocks_of(document.value).items()}

    @property
    def value(self) -> dict[str, Any]:
        """The state's members."""
        return self.document.value

    @property
    def texts(self) -> dict[str, str]:
        """The `texts_of` its blocks; empty if they are nested more deeply than Python writes: as if it had none."""
        if self._texts is None:
            try:
                self._texts = texts_of(blocks_of(self.value))
            except RecursionError:
                self._texts = {}
        return self._texts

    def shows(self, log: Log) -> bool:
        """Return whether its blocks are what this version of the projector made of the log as it is now.

        Usually the file has them as we wrote them, so the digest matches without encoding them again.
        """
        blocks = blocks_of(self.value)
        texts = {name: text for name in blocks if (text := self.document.text_of(name)) is not None}
        if len(texts) == len(blocks) and log.is_checkpoint(PROJECTOR, digest_of(texts)):
            self._texts = texts
            return True
        return log.is_checkpoint(PROJECTOR, digest_of(self.texts))

    def fold_news(self, log: Log) -> tuple[Blocks, set[object]] | None:
        """Fold what a log has since its checkpoint onto the blocks; return them, and the sessions of those events.

        None if the blocks are not the checkpoint's, a redaction is new, or what is new is not to be folded last.
        """
        from faber_ledger.ledger.redaction import KINDS  # no hook folds what others recorded

        projector, heads, digest = log.checkpoint or (0, "", "")
        if not heads or projector != PROJECTOR or digest != digest_of(self.texts).hex():
            return None
        newest, is_whole = log.events_since(split_hashes(bytes.fromhex(heads)))
        folded = [(place, is_new) for place, kind, is_new in newest if kind in FOLDED]
        new = [place for place, is_new in folded if is_new]
        is_redacted = any([is_new and kind in KINDS for _, kind, is_new in newest])
        if not is_whole or is_redacted or not all([is_new for _, is_new in folded[: len(new)]]):
            return None
        names = {name for _, name in new}
        events = [one for one in log.stream(new[-1]) if one["id"] in names] if new else []
        return fold(events, blocks_of(self.value)), {one["event"].get("session_id") for one in events}

    def texts_after(self, blocks: Blocks, touched: Collection[object]) -> dict[str, str]:
        """Return the texts of blocks; if they are ours, only `touched` sessions (by id) and new ones may differ."""
        return {name: self._text_after(name, block, touched) for name, block in blocks.items()}

    def _text_after(self, name: str, block: Any, touched: Collection[object]) -> str:
        length = self._lengths.get(name)
        if not length or block is not self.value[name] or name not in self.texts:
            return lines_of(block)
        items = _grown_list(name, block)
        changed = [at for at in range(length) if is_named(items[at]) and items[at]["session_id"] in touched]
        kept = min(changed, default=length) if name == "sessions" else length
        return lines_grown(self.texts[name], block, LISTS[name], kept, length - kept)


def _grown_list(name: str, block: Any) -> list[Any]:
    items = block.get(LISTS[name]) if isinstance(block, dict) else None
    return items if isinstance(items, list) else []


def texts_of(blocks: Blocks) -> dict[str, str]:
    """Return each block's text as a file has it that is written with two spaces."""
    return {name: lines_of(block) for name, block in blocks.items()}


def digest_of(texts: Mapping[str, str]) -> bytes:
    """Hash blocks by their `texts_of` (BLAKE2b, 32 bytes), for the checkpoint."""
    hashed = blake2b(digest_size=32)
    for name, text in texts.items():
        hashed.update(f'"{name}":'.encode())
        hashed.update(text.encode())
    return hashed.digest()


def project_blocks(
    run: Run,
    opened: RunLog,
    blocks: Blocks,
    *,
    warn: Warn,
    known: KnownState | None = None,
    touched: Collection[object] = (),
    on_purpose: bool = False,
) -> bool:
    """Commit an open log, and publish it: the work tree's file and the blocks; return whether state.json changed.

    The caller holds the run's lock; `known` is the state if it was read under it, and not written since. The facts that
    were folded onto its blocks since belong to the sessions `touched`. Where this clone does not publish the run, its
    events stay in the log; with `on_purpose` they are published everywhere. Raises as `RunLog.commit` and
    `write_members`.
    """
    texts = known.texts_after(blocks, touched) if known else texts_of(blocks)
    opened.commit()
    if not run.is_kept:
        state = known.value if known is not None else None
        why = why_not_published(run, state, opened.note, opened.log, on_purpose=on_purpose)
        if why is not None:
            return False
        publish(run, opened, warn)
    try:
        changed = write_blocks(run, blocks, texts, warn=warn, known=known)
    except BaseException:
        opened.note.save()
        raise
    note_shown(opened, texts)
    return changed


def note_shown(opened: RunLog, texts: dict[str, str]) -> None:
    """Note that state.json shows the log as it is; `texts` are the blocks as `texts_of` returns them."""
    opened.note.checkpoint = (PROJECTOR, opened.log.heads_text(), digest_of(texts).hex())
    opened.log.checkpoint = opened.note.checkpoint
    opened.note.save()


def refresh_copy(run: Run, state: JsonText, warn: Warn) -> None:
    """Write the copy if it differs from the state that was read: another tool has changed its own keys since."""
    content = state.text.encode()
    if read_state_copy(run) != content:
        keep_state(run, content, warn)


def refresh_copy_if_newer(run: Run, state: JsonText, warn: Warn) -> None:
    """Write the copy as `refresh_copy` does from a state that was only read, unless that is older: another branch's.

    The backup of a run that was finished elsewhere is removed.
    """
    copy = {} if run.is_kept else look_at_copy(run)
    if _updated_at(state.value) >= _updated_at(copy):
        refresh_copy(run, state, warn)
        is_ours = not (run.is_kept or is_empty(run.log_path))  # another tool may have left one
        if is_ours and state.value.get("status") in FINISHED:
            remove_backup(run)


def finished_copy(run: Run, state: dict[str, Any]) -> dict[str, Any] | None:
    """Return this clone's copy of a run's state if it is finished there, and the one here is older and is not.

    A branch that was cut while the run was at work has such an old state for ever.
    """
    copy = {} if run.is_kept or state.get("status") in FINISHED else look_at_copy(run)
    return copy if copy.get("status") in FINISHED and _updated_at(state) < _updated_at(copy) else None


def _updated_at(state: dict[str, Any]) -> float:
    return seconds_of(state.get("updated_at")) or 0.0


def write_blocks(run: Run, blocks: Blocks, texts: dict[str, str], *, warn: Warn, known: KnownState | None) -> bool:
    """Replace the blocks in state.json as `write_members` does; without `known` the file is read first."""
    if known is not None:
        changed = {name: block for name, block in blocks.items() if known.texts.get(name) != texts[name]}
        if not changed:
            refresh_copy(run, known.document, warn)
            return False
        if _replace_if_unchanged(run, known.document, changed, blocks, warn, texts):
            return True
    return write_members(run, dict(blocks), warn=warn)


def write_members(run: Run, members: dict[str, Any], *, warn: Warn) -> bool:
    """Replace members in state.json; return whether it changed. The caller holds the run's lock.

    Every other key keeps its bytes. Just before the rename the file is compared with what was read; if another tool
    has changed it, its change is read and kept. Raises as `read_state`, and StateNotWritten: the old file stays then.
    """
    for _ in range(TRIES):
        document = read_state(run)
        changed = {name: value for name, value in members.items() if not _is_shown(value, name, document.value)}
        if not changed:
            return False
        if _replace_if_unchanged(run, document, changed, members, warn):
            return True
    raise StateNotWritten(
        f"another program keeps rewriting {run.shown(run.state_path)}",
        hint=f"run `faber-ledger project {run.run_id}` when it has ended",
    )


def write_new(run: Run, text: str, *, like: str | None = None) -> None:
    """Write a missing state.json, with owner and permissions of the file `like`; raises StateNotWritten.

    A lone surrogate, as in a path that is not UTF-8, is written as a JSON escape.
    """
    try:
        content = text.encode("utf-8", "backslashreplace")
        disk.sweep(run.state_path)
        temporary = disk.own_name(run.state_path)
        disk.put(run.state_path, content, like=os.stat(like) if like else None, temporary=temporary)
    except OSError as error:
        raise _not_written(run, error.strerror) from error


def check_writable(run: Run, status: os.stat_result) -> None:
    """Raise StateNotWritten if a state's owner may not write it: a rename does not need that permission (END, Step 6).

    The mode decides, since root may write any file.
    """
    if not status.st_mode & stat.S_IWUSR:
        from errno import EACCES  # rarely needed

        error = _not_written(run, os.strerror(EACCES))
        error.hint = f"run `chmod u+w {run.shown(run.state_path)}`, then `faber-ledger project {run.run_id}`"
        raise error


def remove_backup(run: Run) -> None:
    """Remove a finished run's backup, which may hold sensitive data (END, Security Considerations)."""
    disk.remove(run.backup_path)


def _is_shown(block: object, name: str, state: dict[str, Any]) -> bool:
    """Return whether a state has a block with this value: same order of keys, and `true` is not 1."""
    return name in state and state[name] == block and text_of({name: state[name]}) == text_of({name: block})


def _replace_if_unchanged(
    run: Run,
    document: JsonText,
    changed: dict[str, Any],
    members: dict[str, Any],
    warn: Warn,
    texts: dict[str, str] | None = None,
    text: str | None = None,
) -> bool:
    """Write the changed members into the document that was read; return False if the file has changed since.

    `texts` are the `texts_of` members, if they are known; `text` replaces the whole document. Other tools write
    `state.json.tmp` and rename it, without our lock: the names here are ours alone.
    """
    before, after = document.text.encode(), (text or document.with_members(changed, texts)).encode()
    is_clear = all(map(document.has_place, changed))  # only values in places that reading had shown were replaced
    replaced = False
    temporary = disk.own_name(run.state_path)
    try:
        try:
            like = os.stat(run.state_path, follow_symlinks=False)
        except FileNotFoundError:
            return False  # removed since it was read
        check_writable(run, like)
        disk.sweep(run.state_path)
        disk.write(temporary, after, like=like)
        _check_written(run, temporary, after, {} if is_clear else members, texts or {})
        try:
            beside = disk.own_name(run.backup_path)
            disk.put(run.backup_path, before, like=like, durable=False, temporary=beside)
        except OSError:
            warn("Could not create backup")
        seen = shape_of(run.state_path)
        if read_bytes(run) != before or shape_of(run.state_path) != seen:  # reading takes longer than this last check
            return False
        os.replace(temporary, run.state_path)
        replaced = True
    except OSError as error:
        raise _not_written(run, error.strerror) from error
    finally:
        if not replaced:
            disk.remove(temporary)
    keep_state(run, after, warn)
    return True


def replace_document(run: Run, document: JsonText, text: str, warn: Warn) -> bool:
    """Replace a state.json by a text; return False if it has changed since `document` was read.

    The caller holds the run's lock. Raises StateNotWritten.
    """
    writable = text.encode("utf-8", "backslashreplace").decode()
    return _replace_if_unchanged(run, document, {}, {}, warn, text=writable)


def _check_written(run: Run, path: str, content: bytes, members: dict[str, Any], texts: dict[str, str]) -> None:
    """Read back what was written (END, Step 6), decoded if there are `members` to look for; raises StateNotWritten."""
    try:
        with open(path, "rb") as file:
            verified = file.read() == content
        if verified and members:
            written = JsonText(content.decode(), tuple(texts))
            verified = all(
                [
                    texts.get(name, "") == written.text_of(name) or _is_shown(block, name, written.value)
                    for name, block in members.items()
                ]
            )
    except (OSError, ValueError):
        verified = False
    if not verified:
        raise StateNotWritten(
            "State file write verification failed", hint=f"the old file stays; run `faber-ledger project {run.run_id}`"
        )


def _not_written(run: Run, reason: str | None) -> StateNotWritten:
    return StateNotWritten(
        f"Failed to write state file: {reason or 'unknown error'}",
        hint=f"free the disk or the folder's permissions, then run `faber-ledger project {run.run_id}`",
    )
