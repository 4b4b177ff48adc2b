"""The installed command: started as a user starts it, or forked from a process that has imported it already.

Most of a command's time is the start of Python and the import of click, pydantic, SQLAlchemy and Alembic. On Linux,
`Command` asks a process that has imported them, has no threads and has run nothing, to fork: the child is a process of
its own, with its own arguments, directory, environment and files, and a child of ours, so that it is waited for and
signalled as any other. Tests of how a command or a hook starts use `subprocess` instead.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support import fork_server
from support.folders import make_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMMAND = Path(sys.executable).with_name("faber-ledger")
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ")  # variables that Python or the loader reads at its start
STARTING = threading.Lock()  # threads want their first command at the same time
LONGEST_ADDRESS = 100  # of a socket
LIGHT = {"hook", "textconv"}  # answered without click
# What `subprocess.Popen` hands to its private `_execute_child`, which Python 3.11 to 3.14 call by position.
CHILD_PARAMETERS = tuple(inspect.signature(subprocess.Popen._execute_child).parameters)[1:]  # type: ignore[attr-defined]  # private
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
PLAIN: dict[str, Any] = {
    "executable": None,
    "shell": False,
    "preexec_fn": None,
    "pass_fds": (),
    "start_new_session": False,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "process_group": -1,
}
assert sys.platform == "win32" or {*PIPES, *PLAIN, "args", "cwd", "env"} <= {*CHILD_PARAMETERS}


class _ForkServer:
    """The process that forks commands, or hooks."""

    def __init__(self, kind: str) -> None:
        self.environment = dict(os.environ)
        self.lock = threading.Lock()
        self.address = str(make_folder() / "socket")  # of those that are started by other programs
        self.channel, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX) as listener:
            if len(self.address) <= LONGEST_ADDRESS:
                listener.bind(self.address)
            listener.listen(64)
            passed = [theirs.fileno(), listener.fileno()]
            program = [sys.executable, fork_server.__file__, *map(str, passed), kind]
            self.process = subprocess.Popen(program, pass_fds=passed, stdin=subprocess.DEVNULL)
        atexit.register(self.stop)

    def stop(self) -> None:
        """End the process: it ends when nobody can ask it any more."""
        self.channel.close()
        self.process.wait()

    def has_same_start(self, environment: Mapping[str, str]) -> bool:
        """Return whether Python would start in this environment as it started here."""
        names = {name for name in {*environment, *self.environment} if name.startswith(READ_AT_START)}
        return all(environment.get(name) == self.environment.get(name) for name in names)

    def fork(self, words: list[str], directory: str, environment: Mapping[str, str], descriptors: list[int]) -> int:
        """Return the id of a new process that runs a command with these standard files."""
        umask = os.umask(0)
        os.umask(umask)
        request = {"arguments": words, "directory": directory, "environment": dict(environment), "umask": umask}
        with self.lock:
            fork_server.send(self.channel, request, descriptors)
            return int(fork_server.receive(self.channel)[0]["pid"])


@functools.cache
def _start_fork_server(kind: str) -> _ForkServer:
    return _ForkServer(kind)


def get_fork_server(words: list[str]) -> _ForkServer:
    """Return the process that forks this command; it is started for the first."""
    with STARTING:
        return _start_fork_server(fork_server.HOOKS if LIGHT.intersection(words) else "commands")


class Command(subprocess.Popen[Any]):
    """A process of the installed command, forked where that makes no difference to it."""

    def _execute_child(self, *values: Any) -> None:
        given = dict(zip(CHILD_PARAMETERS, values, strict=True))
        words = [os.fsdecode(word) for word in given["args"]]
        env = os.environ if given["env"] is None else given["env"]
        environment = {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}
        is_forked = (
            sys.platform == "linux"
            and fork_server.CLONE is not None
            and words[0] == str(COMMAND)
            and all(given[name] == value for name, value in PLAIN.items())
            and get_fork_server(words).has_same_start(environment)
        )
        if not is_forked:
            super()._execute_child(*values)  # type: ignore[misc]  # private, so typeshed does not have it
            return
        standard = (given["p2cread"], given["c2pwrite"], given["errwrite"])
        descriptors = [at if descriptor == -1 else descriptor for at, descriptor in enumerate(standard)]
        self.pid = get_fork_server(words).fork(words, os.fspath(given["cwd"] or Path.cwd()), environment, descriptors)
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in PIPES))  # type: ignore[attr-defined]  # as above


def run_command(
    arguments: Sequence[str | Path],
    *,
    input: Any = None,
    capture_output: bool = False,
    check: bool = False,
    timeout: float = 60,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end, as `subprocess.run` does."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Command(arguments, **options) as process:
        try:
            output, errors = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


def is_waiting_for_lock(process: subprocess.Popen[Any], path: Path) -> bool:
    """Return whether a process has a lock's file open, which it tries again and again while we have the lock."""
    folder = Path(f"/proc/{process.pid}/fd")
    with suppress(FileNotFoundError):  # it has closed a file meanwhile, or has ended
        return any([one.readlink() == path.resolve() for one in folder.iterdir()])
    return False
