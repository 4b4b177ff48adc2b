"""Read and write `state.json`, which belongs to other tools: only our two blocks are replaced, both or none."""

from __future__ import annotations

import errno
import os
import stat

from faber_ledger.files.json_text import JsonText, lines_grown, lines_of
from faber_ledger.files.untrusted import FileRefused, FileTooLarge, folder_around, read_regular, read_text
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import (
    ForeignState,
    LedgerError,
    StateInvalid,
    StateMissing,
    StateNotWritten,
    StateRefused,
)
from faber_ledger.projections.blocks import NAMES, blocks_of, is_named, text_of
from faber_ledger.projections.fold import PROJECTOR
from faber_ledger.runs.clone import keep_state, read_state_copy
from faber_ledger.runs.run import LARGEST_STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Any

    from faber_ledger.ledger.log import Log
    from faber_ledger.projections.blocks import Blocks
    from faber_ledger.runs.mirror import RunLog
    from faber_ledger.runs.run import Run


CORRECT = "Recovery:\n1. Correct the field in the file\n2. Restore it from git"
TRIES = 20
LARGEST_METADATA = 1_048_576  # bytes of a `metadata.json`
LISTS = {"sessions": "session_history", "context_metadata": "compaction_events"}  # a block's list that only grows

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:
        from _blake2 import blake2b  # a quarter of what SHA-256 costs without OpenSSL, which hooks go without
    except ImportError:
        from hashlib import blake2b


def read_state(run: Run) -> JsonText:
    """Read a run's state.

    Raises StateMissing; StateInvalid if it is not a JSON object or is another run's; LedgerError if it is unreadable.
    """
    return parse_state(run, _bytes_of(run))


def read_known(run: Run, earlier: JsonText | None = None) -> KnownState:
    """Read a run's state under its lock; raises as `read_state`. One that is as it was `earlier` is not decoded."""
    content = _bytes_of(run)
    if earlier is not None and earlier.text.encode() == content:
        return KnownState(earlier)
    return KnownState(parse_state(run, content))


def check_required(run: Run, state: dict[str, Any]) -> None:
    """Raise LedgerError if a state lacks a field that a load needs (RELOAD, Step 2; AGENT, Step 2).

    Fields that only the state schema requires are not checked: real states lack them.
    """
    known = {**state, "workflow_id": workflow_id_of(run, state)}
    for names in (("run_id", "workflow_id"), ("status",)):
        for name in names:
            value = known.get(name)
            if not (value is None or isinstance(value, str)):
                import json

                from faber_ledger.files.text import one_line  # a hook seldom reads a bad state

                message = f"State file has no valid {name}: it must be a text, and is {one_line(json.dumps(value), 80)}"
                hint = f"correct it in {run.shown(run.state_path)}"
                block = f"❌ ERROR: {message}\nPath: {run.shown(run.state_path)}\n\n{CORRECT}"
                raise LedgerError(message, hint=hint, block=block)
        if not all([isinstance(known.get(name), str) and known[name] for name in names]):
            message, hint, block = fields_missing(run, names)
            raise LedgerError(message, hint=hint, block=block)


def workflow_id_of(run: Run, state: dict[str, Any]) -> Any:
    """Return the workflow id in a state; if it has none, the one in the run's `metadata.json`, or None."""
    if state.get("workflow_id") not in (None, ""):
        return state["workflow_id"]
    try:
        inside = folder_around(run.metadata_path, [run.directory])
        text = None if inside is None else read_text(run.metadata_path, LARGEST_METADATA)
        return JsonText(text).value.get("workflow_id") if text is not None else None
    except (FileRefused, ValueError, RecursionError):
        return None


def fields_missing(run: Run, names: tuple[str, ...]) -> tuple[str, str, str]:
    """Return message and hint for missing fields, and the block that is printed instead of both."""
    message = f"State file missing required fields ({', '.join(names)})"
    path = run.shown(run.state_path)
    recovery = f"Path: {path}\n\nRecovery:\n1. Add the missing fields to the file\n2. Restore it from git"
    return message, f"add them to {path}", f"❌ ERROR: {message}\n{recovery}"


def read_backup(run: Run) -> tuple[str, JsonText] | None:
    """Return the path and content of the first readable backup of a run's state, or None."""
    return next(read_backups(run), None)


def read_backups(run: Run) -> Iterator[tuple[str, JsonText]]:
    """Yield the path and content of each readable backup of a run's state."""
    for path in run.backup_paths:
        try:
            yield path, parse_state(run, _bytes_of(run, path))
        except LedgerError:
            continue


def choose_backup(run: Run) -> str:
    """Return the path of the backup that exists; if none does, of the one that a write makes."""
    return next((path for path in run.backup_paths if os.path.exists(path)), run.backup_path)


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

    def texts_after(self, blocks: Blocks, touched: Collection[object]) -> dict[str, str]:
        """Return the `texts_of` blocks; if they are its own, only sessions `touched` (by id) and new ones changed."""
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
    warn: Callable[[str], None],
    known: KnownState | None = None,
    touched: Collection[object] = (),
) -> bool:
    """Commit an open log with the blocks that were folded from it, and write them; return whether state.json changed.

    The caller holds the run's lock; `known` is the state if it was read under it, and not written since. The facts that
    were folded onto its blocks since belong to the sessions `touched`. Raises as `RunLog.commit` and `write_members`.
    """
    texts = known.texts_after(blocks, touched) if known else texts_of(blocks)
    commit_with_checkpoint(opened, texts)
    return write_blocks(run, blocks, texts, warn=warn, known=known)


def copy_state(run: Run, content: bytes, warn: Callable[[str], None]) -> None:
    """Write the copy of state.json that this clone keeps beside the mirror, for work trees that lack the run."""
    try:
        keep_state(run, content)
    except OSError as error:
        warn(f"the copy of state.json under the git directory is not written: {error}")


def refresh_copy(run: Run, state: JsonText, warn: Callable[[str], None]) -> None:
    """Write the copy if it differs from the state that was read: another tool has changed its own keys since."""
    content = state.text.encode()
    if read_state_copy(run) != content:
        copy_state(run, content, warn)


def commit_with_checkpoint(opened: RunLog, texts: dict[str, str]) -> None:
    """Commit an open log, and note in it the digest of the blocks that state.json is about to get; write no file.

    `texts` are the blocks as `texts_of` returns them. Raises as `RunLog.commit`.
    """
    with opened.log.writing():
        opened.log.set_checkpoint(PROJECTOR, digest_of(texts))
    opened.commit()


def write_blocks(
    run: Run, blocks: Blocks, texts: dict[str, str], *, warn: Callable[[str], None], known: KnownState | None
) -> bool:
    """Replace the blocks in state.json as `write_members` does; without `known` the file is read first."""
    if known is not None:
        changed = {name: block for name, block in blocks.items() if known.texts.get(name) != texts[name]}
        if not changed:
            refresh_copy(run, known.document, warn)
            return False
        if _replace_if_unchanged(run, known.document, changed, blocks, warn, texts):
            return True
    return write_members(run, dict(blocks), warn=warn)


def write_members(run: Run, members: dict[str, Any], *, warn: Callable[[str], None]) -> bool:
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
        whole_file.sweep(run.state_path)
        temporary = whole_file.own_name(run.state_path)
        whole_file.put(run.state_path, content, like=os.stat(like) if like else None, temporary=temporary)
    except OSError as error:
        raise _not_written(run, error.strerror) from error


def check_writable(run: Run, status: os.stat_result) -> None:
    """Raise StateNotWritten if a state's owner may not write it: a rename does not need that permission (END, Step 6).

    The mode decides, since root may write any file.
    """
    if not status.st_mode & stat.S_IWUSR:
        error = _not_written(run, os.strerror(errno.EACCES))
        error.hint = f"run `chmod u+w {run.shown(run.state_path)}`, then `faber-ledger project {run.run_id}`"
        raise error


def remove_backup(run: Run) -> None:
    """Remove a finished run's backup, which may hold sensitive data (END, Security Considerations)."""
    try:
        os.unlink(run.backup_path)
    except FileNotFoundError:
        pass


def _bytes_of(run: Run, path: str | None = None) -> bytes:
    """Read the state or a backup, which may have come with the repository: no link, no pipe, not too large.

    Raises StateMissing, StateInvalid, LedgerError.
    """
    path = path or run.state_path
    try:
        return read_regular(path, LARGEST_STATE)
    except FileNotFoundError:
        raise StateMissing(f"the run {run.run_id} has no state.json", hint=way_back(run)) from None
    except FileTooLarge as error:
        raise _invalid(run, f"it is larger than 64 MB ({error.size:,} bytes)", StateRefused) from error
    except FileRefused as error:
        what = "it is a link" if os.path.islink(path) else "it is not a regular file"
        raise _invalid(run, what, StateRefused) from error
    except OSError as error:
        raise LedgerError(
            f"cannot read {run.shown(run.state_path)}: {error.strerror}", hint="check the file's permissions"
        ) from error


def is_state_ignored(run: Run) -> bool:
    """Return whether a run has a ledger and no state here because git ignores the state: it stays where it was written.

    That is correct (DECISIONS 1): of such a project's runs the ledger alone must travel.
    """
    if run.is_kept or os.path.lexists(run.state_path) or not os.path.lexists(run.ledger_path):
        return False
    from faber_ledger.runs.git import GitQuery  # only where a state is missing

    return bool(GitQuery(["check-ignore", "--", run.shown(run.state_path)], run.root).answer())


def way_back(run: Run) -> str:
    """Return the hint for a missing state: from its backup if there is one, which has more than the ledger."""
    if not run.has_files():
        return "run `faber-ledger run list` to see the runs of this project"
    backup = choose_backup(run)
    if os.path.exists(backup):
        return f"run `faber-ledger project {run.run_id} --restore` to take its backup {run.shown(backup)}"
    if is_state_ignored(run):
        return (
            f"git ignores it in this project; run `faber-ledger run resume {run.run_id}` to write one from the ledger"
        )
    return f"restore it from git, or write one from the ledger with `faber-ledger project {run.run_id}`"


def parse_state(run: Run, content: bytes) -> JsonText:
    """Decode a state; raises StateInvalid if it is not a JSON object, or is another run's."""
    try:
        document = JsonText(content.decode(), NAMES)
    except UnicodeDecodeError as error:
        raise _invalid(run, f"not UTF-8 at byte {error.start}") from error
    except ValueError as error:
        if _is_unmerged(run, content):
            reason = "a merge has stopped at it"
            hint = "run `faber-ledger resolve`, which unites the two sides; a backup would lose keys of one"
            raise StateInvalid(reason, path=run.shown(run.state_path), hint=hint) from error
        raise _invalid(run, _reason(error, content)) from error
    named = document.value.get("run_id")
    if named is not None and named != run.run_id:
        raise ForeignState(
            f"it is the state of another run, {named!r:.80}",
            path=run.shown(run.state_path),
            hint="restore the run's own state.json from git, or move this one to its own run",
        )
    return document


def _is_unmerged(run: Run, content: bytes) -> bool:
    """Return whether a merge stopped at the file: it has conflict markers, or the index has an unmerged entry."""
    if b"\n<<<<<<<" in b"\n" + content:
        return True
    from faber_ledger.runs.git import GitQuery  # only for a file that cannot be read

    return bool(GitQuery(["ls-files", "-u", "--", run.state_path], run.directory).answer_bytes())


def _invalid(run: Run, reason: str, kind: type[StateInvalid] = StateInvalid) -> StateInvalid:
    hint = f"correct the file, or take its newest backup with `faber-ledger project {run.run_id} --restore`"
    return kind(reason, path=run.shown(run.state_path), hint=hint)


def _reason(error: ValueError, content: bytes) -> str:
    if not content.strip():
        return "the file is empty"
    line = getattr(error, "lineno", None)
    return f"Invalid JSON at line {line}: {error}" if line else str(error)


def _is_shown(block: object, name: str, state: dict[str, Any]) -> bool:
    """Return whether a state has a block with this value: same order of keys, and `true` is not 1."""
    return name in state and state[name] == block and text_of({name: state[name]}) == text_of({name: block})


def _replace_if_unchanged(
    run: Run,
    document: JsonText,
    changed: dict[str, Any],
    members: dict[str, Any],
    warn: Callable[[str], None],
    texts: dict[str, str] | None = None,
) -> bool:
    """Write the changed members into the document that was read; return False if the file has changed since.

    `texts` are the `texts_of` members, if they are known. Other tools write `state.json.tmp` and rename it, without our
    lock: the names here are ours alone.
    """
    before, after = document.text.encode(), document.with_members(changed, texts).encode()
    replaced = False
    temporary = whole_file.own_name(run.state_path)
    try:
        try:
            like = os.stat(run.state_path, follow_symlinks=False)
        except FileNotFoundError:
            return False  # removed since it was read
        check_writable(run, like)
        whole_file.sweep(run.state_path)
        whole_file.write(temporary, after, like=like)
        _check_written(run, temporary, members, texts or {})
        try:
            beside = whole_file.own_name(run.backup_path)
            whole_file.put(run.backup_path, before, like=like, durable=False, temporary=beside)
        except OSError:
            warn("Could not create backup")
        seen = _version(run.state_path)
        if _bytes_of(run) != before or _version(run.state_path) != seen:  # reading takes longer than this last check
            return False
        os.replace(temporary, run.state_path)
        replaced = True
        whole_file.sync_directory(run.directory)
    except OSError as error:
        raise _not_written(run, error.strerror) from error
    finally:
        if not replaced:
            whole_file.remove(temporary)
    copy_state(run, after, warn)
    return True


def _version(path: str) -> tuple[int, int, int]:
    """Return what differs after each rewrite of a file; costs one system call."""
    status = os.stat(path, follow_symlinks=False)
    return status.st_ino, status.st_mtime_ns, status.st_size


def _check_written(run: Run, path: str, members: dict[str, Any], texts: dict[str, str]) -> None:
    """Read back what was written (END, Step 6); raises StateNotWritten, and the old file stays."""
    try:
        with open(path, "rb") as file:
            written = JsonText(file.read().decode(), tuple(texts))
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
            "State file write verification failed",
            hint=f"the old file stays; run `faber-ledger project {run.run_id}`",
        )


def _not_written(run: Run, reason: str | None) -> StateNotWritten:
    return StateNotWritten(
        f"Failed to write state file: {reason or 'unknown error'}",
        hint=f"free the disk or the folder's permissions, then run `faber-ledger project {run.run_id}`",
    )
