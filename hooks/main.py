"""The program that the client's hooks run: standard library only, and exit code 0 whatever happens."""

from __future__ import annotations

import os
import sys

from faber_ledger.files.folders import TrackedFolder
from faber_ledger.files.untrusted import append_line
from faber_ledger.ledger.canonical import without_surrogates
from faber_ledger.ledger.clock import now, utc_text
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.plain_json import encoder
from faber_ledger.recording.call import HOOKS, LIMIT, Answer, Call, event_of
from faber_ledger.recording.subject import subject_of
from faber_ledger.runs.clients import note_delivery
from faber_ledger.runs.clone import is_set_up_unchecked
from faber_ledger.runs.run import HOOK_LOG, find_root, find_run


def run_hook(name: str) -> int:
    """Run one hook: read the delivery, record it, print the answer. Return 0: exit code 2 would stop a compaction."""
    at, root = now(), os.curdir
    hook = event_of(name) or name
    try:
        call = Call(hook, _input(), os.environ)
        start = _start(call)
        root = find_root(start)
        held = TrackedFolder(root)

        def warn(message: str) -> None:
            _print_error(message)
            log_line(held.current_path() or root, at, hook, message)

        if call.problem is not None:
            warn(call.problem)
        if call.directory is not None and start != call.directory:
            from faber_ledger.runs.worktree_registry import gone_worktree  # rarely needed

            lost = gone_worktree(root, call.directory)
            if lost is not None:
                warn(f"{call.directory} was in the worktree {lost}, which is gone: nothing is recorded")
                return 0
            warn(f"{call.directory} does not exist; looking for the run from {start} upwards")
        if call.hook not in HOOKS:
            warn(f"{call.hook} is not a hook of faber-ledger: {', '.join([name for name, _ in HOOKS.values()])}")
            return 0
        seen = note_delivery(root, call.client, call.pid, at, is_end=call.hook == "SessionEnd")
        subject = subject_of(call, root, seen)
        if subject.run_id is None and (held.current_path() or root) != root:  # the project was renamed
            root = held.current_path() or root
            subject = subject_of(call, root, seen)
        if subject.run_id is None or subject.is_shown:
            from faber_ledger.hooks.unused import answer_unused  # only where nothing is recorded

            _print(call.hook, _with_set_up_line(call, subject.root, answer_unused(call, subject, warn)))
            return 0
        from faber_ledger.hooks.hook import Hook  # it loads SQLite, which calls outside a run need not wait for

        if subject.root != root:
            root, held = subject.root, TrackedFolder(subject.root)
        run = find_run(root, subject.run_id)
        if not run.is_recorded():
            from faber_ledger.runs.kept import run_here  # only after git has removed the run

            if (here := run_here(root, subject.run_id)).is_kept:
                from faber_ledger.runs.left_state import bring_copy_up_to_date

                bring_copy_up_to_date(run)
            run = here
        answer = Hook(call, run, subject.active, at, warn, held, seen).answer()
        _print(call.hook, _with_set_up_line(call, root, answer))
    except BaseException as error:  # noqa: BLE001 -- whatever it is, the client's session goes on
        message = _message_of(error)
        _print_error(message)
        log_line(root, at, hook, message)
    return 0


def _with_set_up_line(call: Call, root: str, answer: Answer | None) -> Answer | None:
    """Return the answer, at the first start in a clone that was never set up with a line that tells the user."""
    if call.hook != "SessionStart" or call.text("agent_id") is not None or not is_set_up_unchecked(root):
        return answer
    from faber_ledger.runs.set_up import line_to_set_up  # only the first start of a clone looks

    line = line_to_set_up(root)
    if line is None:
        return answer
    before = f"{answer.message}; " if answer is not None and answer.message else "faber-ledger: "
    return Answer(answer.context if answer is not None else None, before + line)


def _message_of(error: BaseException) -> str:
    """Return what stopped a hook, and what to do about it."""
    if isinstance(error, LedgerError):
        return " - ".join([part for part in (error.message, error.hint) if part])
    if isinstance(error, OSError):
        return f"{error.filename or 'the hook'}: {error.strerror or error} - check permissions and space"
    if type(error).__module__ == "sqlite3":
        return f"the ledger cannot be used: {error} - run `faber-ledger verify`"
    return f"a bug in faber-ledger, please report it: {error!r}"


def _input() -> bytes:
    try:
        return sys.stdin.buffer.read(LIMIT + 1)
    except (OSError, AttributeError):  # sys.stdin is None if standard input is closed
        return b""


def _start(call: Call) -> str:
    """Return where to look for the run: where the client was started or, if that is gone, the nearest folder above.

    Never the hook's own working directory: it follows every `cd`, also into other projects.
    """
    directory = call.directory
    if directory is None or os.path.isdir(directory):
        return directory or os.curdir
    at = os.path.abspath(directory)
    while not os.path.isdir(at) and os.path.dirname(at) != at:
        at = os.path.dirname(at)
    return at


def _print(hook: str, answer: Answer | None) -> None:
    """Print an answer: a start's in the client's JSON form, any other hook's text unchanged."""
    if answer is None or (answer.context is None and answer.message is None):
        return
    text = answer.context
    if hook == "SessionStart":
        found: dict[str, object] = {}
        if answer.message is not None:
            found["systemMessage"] = answer.message
        if text is not None:
            found["hookSpecificOutput"] = {"hookEventName": hook, "additionalContext": text}
        text = encoder(separators=(",", ":"))(found)
    if sys.stdout is None:
        raise OSError("standard output is closed")
    if text is not None:
        _write(sys.stdout.fileno(), text.encode() + b"\n")


def _print_error(message: str) -> None:
    line = "".join([letter if letter.isprintable() else "?" for letter in message]) + "\n"
    try:
        if sys.stderr is not None:
            _write(sys.stderr.fileno(), line.encode())
    except OSError:
        pass  # no one is listening


def _write(descriptor: int, content: bytes) -> None:
    """Write around Python's buffers: Python would try again at exit to write what is in them, and fail with 120."""
    while content:
        content = content[os.write(descriptor, content) :]


LONGEST_LOG = 256 * 1024


def log_line(root: str, at: float, hook: str, message: str) -> None:
    """Append one line (time, hook, message) to the hook log; a full log becomes `hooks.log.1`. Never raises."""
    if not os.path.isdir(os.path.join(root, ".fractary")):
        return
    path = os.path.join(root, *HOOK_LOG.split("/"))
    line = f"{utc_text(at)} {hook} {message}"
    line = "".join([letter if letter.isprintable() else "\ufffd" for letter in without_surrogates(line)[:2000]])
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.realpath(os.path.dirname(path)).startswith(os.path.join(os.path.realpath(root), "")):
            return  # the folder is a link, which came with the repository and leads out of it
        if os.path.exists(path) and os.path.getsize(path) > LONGEST_LOG:
            os.replace(path, path + ".1")
        append_line(path, line, mode=0o666)  # the file may have come with the repository
    except OSError:
        pass  # there is nowhere left to report it, and a hook exits 0
