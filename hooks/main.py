"""The program that the client's hooks run, standard library only, and its answer where nothing is recorded.

Its exit code is 0 whatever happens.
"""

from __future__ import annotations

import os
import sys

from faber_ledger.ledger.clock import limit_time, now, time_left, utc_text
from faber_ledger.ledger.disk import append_line
from faber_ledger.ledger.encoding import encoder
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.recording.call import HOOKS, LIMIT, Answer, Call, event_of, subject_of
from faber_ledger.runs.active import count_used_at_work
from faber_ledger.runs.clone import is_set_up_unchecked
from faber_ledger.runs.git import unused_tops
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import ACTIVE_FILES, ATTRIBUTES_FILE, HOOK_LOG, PROJECT_FILE, RUNS, find_root
from faber_ledger.runs.seen import note_delivery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from faber_ledger.hooks.hook import Hook
    from faber_ledger.recording.call import Subject


def main(words: list[str]) -> NoReturn:
    """Run the hook that `words`, the arguments of `faber-ledger-hook`, name, and end this process."""
    name, agent = words[0] if words else "", None
    if len(words) > 1:
        from faber_ledger.hooks.agent_call import agent_in

        agent, name = agent_in(words)
    if agent is None and "COPILOT_PROJECT_DIR" in os.environ:
        agent = "copilot"  # it runs the hooks of the client's settings too, and takes no answer in the client's form
    os._exit(run_hook(name, agent))  # all is written and closed; finalizing the interpreter takes a tenth of a hook


def run_hook(name: str, agent: str | None = None) -> int:
    """Run one hook: read the delivery, record it, print the answer. Return 0: exit code 2 would stop a compaction.

    `agent` names another agent than the client, which has its own forms of both.
    """
    hook = event_of(name) or name
    log = _Log(hook, now())
    try:
        begin(hook)
        call = _read_call(hook, agent)
        limit(call.hook)
        start = _start(call)
        try:
            log.root = find_root(start)
        except LedgerError as error:
            _print(call, _answer_foreign(call, error, _print_error))
            return 0
        if _check_call(call, agent, start, log):
            for one in (*call.before, call):
                _record(one, log)
    except BaseException as error:  # noqa: BLE001 -- whatever it is, the client's session goes on
        log.warn(_message_of(error))
    finally:
        end()
    return 0


class _Log:
    """Where a hook says what is wrong: standard error, and the log of the project at `root`."""

    def __init__(self, hook: str, at: float) -> None:
        self.hook = hook
        self.at = at
        self.root = os.curdir

    def warn(self, message: str) -> None:
        """Print a message, and append it to the log."""
        _print_error(message)
        log_line(self.root, self.at, self.hook, message)


def _read_call(hook: str, agent: str | None) -> Call:
    content = read_input()
    if agent is None:
        return Call(hook, content, os.environ)
    from faber_ledger.hooks.agent_call import read_call  # the client needs no translation

    return read_call(agent, hook, content)


def _check_call(call: Call, agent: str | None, start: str, log: _Log) -> bool:
    """Return whether a delivery can be recorded: it has a hook's name, and a folder; else warn why not."""
    if agent is not None:
        from faber_ledger.hooks.agent_call import prepare_call

        if not prepare_call(call, agent, log.root, log.warn):
            _print(call, None)
            return False
    if call.problem is not None:
        log.warn(call.problem)
    if call.directory is not None and start != call.directory:
        from faber_ledger.runs.worktree_registry import gone_worktree  # rarely needed

        lost = gone_worktree(log.root, call.directory)
        if lost is not None:
            log.warn(f"{call.directory} was in the worktree {lost}, which is gone: nothing is recorded")
            return False
        log.warn(f"{call.directory} does not exist; looking for the run from {start} upwards")
    if call.hook in HOOKS:
        return True
    names, of = [name for name, _ in HOOKS.values()], "faber-ledger"
    if agent is not None:
        from faber_ledger.hooks.agent_call import list_events

        names, of = list_events(agent), agent
    log.warn(f"{call.hook} is not a hook of {of}: {', '.join(names)}")
    _print(call, None)
    return False


def _record(call: Call, log: _Log) -> None:
    """Record a delivery on the run that it is about, and print the answer."""
    is_end = call.hook == "SessionEnd"
    seen = note_delivery(log.root, call.client, call.pid, log.at, call.transcript(), is_end=is_end)
    if unused_tops and call.hook == "SessionStart":
        from faber_ledger.runs.ownership import describe_unused  # only below a repository of another user

        log.warn(" - ".join(describe_unused()))
    subject = subject_of(call, log.root, seen)
    if subject.run_id is None:
        answer = _answer_unused(call, subject, log.warn)
        _print(call, _with_set_up_line(call, subject.root, answer, PROJECT_FILE))
        return
    log.root = subject.root
    run = find_run(log.root, subject.run_id)
    if not run.is_recorded():
        from faber_ledger.runs.kept import run_here  # only after git has removed the run

        run = run_here(log.root, subject.run_id)
    hook = _kind_of(call)(call, run, subject.active, log.at, log.warn, seen)
    if subject.active is not None and subject.active.problem and call.hook == "SessionStart":
        hook.warn(subject.active.problem)
    answer = hook.answer()
    _print(call, answer if hook.is_repeat else _with_set_up_line(call, log.root, answer))
    hook.finish()


def _kind_of(call: Call) -> type[Hook]:
    """Return the class of a call's hook: it loads SQLite, which calls outside a run need not wait for."""
    from faber_ledger.hooks.hook import Hook, Start

    return Start if call.hook == "SessionStart" and call.text("agent_id") is None else Hook


def _with_set_up_line(call: Call, root: str, answer: Answer | None, *more: str) -> Answer | None:
    """Return the answer, at the first start in a clone that was never set up with a line that tells the user.

    One of the files `more` says, too, that the project was set up. The line of a start about a run says it itself.
    """
    is_said = answer is not None and answer.message is not None
    is_start = call.hook == "SessionStart" and call.text("agent_id") is None
    if not is_start or is_said or not is_set_up_unchecked(root, *more):
        return answer
    from faber_ledger.runs.publish import carries_refs
    from faber_ledger.runs.set_up import line_to_agree, line_to_set_up  # only the first start of a clone looks

    line = line_to_agree(root) if carries_refs(root) else line_to_set_up(root)
    if line is None:
        return answer
    return Answer(None, f"faber-ledger: {line}")


def _message_of(error: BaseException) -> str:
    """Return what stopped a hook, and what to do about it."""
    if isinstance(error, LedgerError):
        return " - ".join([part for part in (error.message, error.hint) if part])
    if isinstance(error, OSError):
        return f"{error.filename or 'the hook'}: {error.strerror or error} - check permissions and space"
    if type(error).__module__ == "sqlite3":
        return f"the ledger cannot be used: {error} - run `faber-ledger verify`"
    return f"a bug in faber-ledger, please report it: {error!r}"


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


def _print(call: Call, answer: Answer | None) -> None:
    """Print an answer: a start's in the client's JSON form, any other hook's text unchanged; or as another agent's."""
    if not call.is_answered:
        return
    if call.agent is not None:
        from faber_ledger.hooks.agent_call import render

        text = render(call, answer)
    elif answer is None or (answer.context is None and answer.message is None):
        return
    elif call.hook == "SessionStart":
        found: dict[str, object] = {}
        if answer.message is not None:
            found["systemMessage"] = _escape(answer.message)
        if answer.context is not None:
            found["hookSpecificOutput"] = {"hookEventName": call.hook, "additionalContext": answer.context}
        text = encoder(separators=(",", ":"))(found)
    else:
        text = answer.context
    if text is None:
        return
    if sys.stdout is None:
        raise OSError("standard output is closed")
    try:
        _write(sys.stdout.fileno(), text.encode() + b"\n")
    except BrokenPipeError:
        if call.hook == "SessionStart":
            raise  # nobody got the context


def _print_error(message: str) -> None:
    line = _escape(message) + "\n"
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
LONGEST_LINE = 2000


def _escape(line: str) -> str:
    """Return a message, which may hold text from a repository, as one line in which nothing hides."""
    if line.isascii() and line.isprintable():
        return line
    from faber_ledger.files.text import escape  # rarely needed

    return escape(line)


def _is_used(root: str) -> bool:
    """Return whether a project was set up, has runs, or a file that names one as active."""
    return any([os.path.lexists(os.path.join(root, name)) for name in (ATTRIBUTES_FILE, *ACTIVE_FILES, *RUNS)])


def log_line(root: str, at: float, hook: str, message: str) -> None:
    """Append one line (time, hook, message) to the hook log, with secrets masked; a full log becomes `hooks.log.1`.

    None of a plugin's hook in a project that was never set up and has no run: the plugin may be for all of the user's
    projects, and git would show the file. Never raises.
    """
    if not os.path.isdir(os.path.join(root, ".fractary")):
        return
    path = os.path.join(root, *HOOK_LOG.split("/"))
    if "CLAUDE_PLUGIN_ROOT" in os.environ and not (os.path.lexists(path) or _is_used(root)):
        return
    from faber_ledger.recording.secrets.mask import mask_text  # most hooks have nothing to say

    said = f"{hook[:LONGEST_LINE]} {message[: 4 * LONGEST_LINE]}"
    line = _escape(f"{utc_text(at)} {mask_text(said)}")[:LONGEST_LINE]
    try:
        if not os.path.realpath(os.path.dirname(path)).startswith(os.path.join(os.path.realpath(root), "")):
            return  # behind a link, which came with the repository and leads out of it
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > LONGEST_LOG:
            os.replace(path, path + ".1")
        append_line(path, line)  # the file may have come with the repository
    except OSError:
        pass  # there is nowhere left to report it, and a hook exits 0


if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the module around it costs as much as a third of `json`

SECONDS = 10.0
SECONDS_AT_THE_END = 0.9  # the client kills a SessionEnd after 1.5 seconds
SECONDS_TO_ANSWER = 0.4  # after its deadline
INPUT_SHARE = 0.5  # of this time, which a client may take for its delivery
PIECE = 65_536


def begin(hook: str) -> None:
    """Set the time that a hook has, and let an interrupt end this process at once, as any other signal does."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    limit(hook)


def limit(hook: str) -> None:
    """Set the time that a hook has, and end this process a little later, whatever it waits for then."""
    limit_time(SECONDS_AT_THE_END if hook == "SessionEnd" else SECONDS)
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, time_left() + SECONDS_TO_ANSWER)


def end() -> None:
    """Let nothing end this process from here on."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def read_input() -> bytes:
    """Read standard input to its end, to more than `LIMIT` bytes, or as long as there is time."""
    if sys.stdin is None:  # closed
        return b""
    import select

    pieces: list[bytes] = []
    size, reserved = 0, INPUT_SHARE * time_left()
    try:
        while size <= LIMIT and select.select([0], [], [], max(time_left() - reserved, 0.0))[0]:
            piece = os.read(0, PIECE)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
    except (OSError, ValueError):
        pass  # what has come may be a whole delivery, and the client's variables say as much
    return b"".join(pieces)


SKIPPED = {"SessionStart": "prime-context", "PreCompact": "session-end", "SessionEnd": "session-end"}


LONGEST_START = 120  # characters that a start tells the user
UNUSABLE = "faber-ledger: no run is active here, since the active file cannot be used: faber-ledger doctor"


def _answer_unused(call: Call, subject: Subject, warn: Callable[[str], None]) -> Answer | None:
    """Warn that no run is active, and return what a start shows to the user."""
    problem = subject.active.problem if subject.active is not None else ""
    skipped = SKIPPED.get(call.hook, "the compaction")
    warn(f"No active workflow found, skipping {skipped}{': ' if problem else ''}{problem}")
    if call.hook != "SessionStart" or call.text("agent_id") is not None:
        return None
    count = count_used_at_work(subject.root) if subject.active is not None else 0
    if not (problem or count):
        return None
    runs = "1 run is" if count == 1 else f"{count} runs are"
    found = f"{runs} at work that this clone has recorded on: `faber-ledger run list`"
    line = f"faber-ledger: {problem or f'no run is active here; {found}'}"
    return Answer(None, line if len(line) <= LONGEST_START else UNUSABLE)


def _answer_foreign(call: Call, error: LedgerError, say: Callable[[str], None]) -> Answer | None:
    """Say that the project is another user's, if there is anything to use in it, and return what a start shows.

    Nothing is written there, not even the hook log.
    """
    if not error.data["has_runs"]:
        return None
    line = f"{error.message} - {error.hint}"
    say(line)
    is_shown = call.hook == "SessionStart" and call.text("agent_id") is None
    return Answer(None, f"faber-ledger: {line}") if is_shown else None
