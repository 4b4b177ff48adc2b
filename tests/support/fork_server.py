"""A process that has imported what commands import, or what hooks import, and forks one for each request.

It has no threads and never runs a command itself, so that each child begins as a fresh process does. Two things differ:
the modules are imported already, and all children of one server share a hash seed. So tests of what a command imports,
and of the order of sets, start their processes themselves.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import marshal
import os
import pkgutil
import platform
import random
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

WITHOUT_IMPORT = ("__main__", ".generate", ".env")  # programs
SELDOM = "migrations"  # whose Alembic and SQLAlchemy would make each fork take twice as long
HOOKS = "hooks"  # the argument of a server for hooks; one with all modules takes five times as long to fork
HOOK_FOLDERS = ("context", "files", "hooks", "projections", "recording", "runs")
CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())  # the system call's number
CLONE_PARENT = 0x8000
CLOCK = "FABER_LEDGER_TEST_CLOCK"  # a variable with the time that a forked command takes for the present one
STOPS = "FABER_LEDGER_TEST_STOPS"  # a variable with which a forked command stops at once, for strace to attach to it
PR_SET_PTRACER, ANY = 0x59616D61, ctypes.c_ulong(-1)


def send(channel: socket.socket, message: dict[str, Any], descriptors: list[int]) -> None:
    """Send a message and copies of open files."""
    content = marshal.dumps(message)
    socket.send_fds(channel, [len(content).to_bytes(8, "big")], descriptors)
    channel.sendall(content)


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return the next message and the open files that came with it; raise EOFError at the end."""
    head, descriptors, _, _ = socket.recv_fds(channel, 8, 3)
    if not head:
        raise EOFError
    length, content = int.from_bytes(head, "big"), b""
    while len(content) < length:
        piece = channel.recv(length - len(content))
        if not piece:
            raise EOFError
        content += piece
    return marshal.loads(content), descriptors


def serve(channel: socket.socket, listener: socket.socket) -> None:
    """Fork a command for each request, until the other side of `channel` is gone.

    Those who connect to `listener` wait for their command's end, which is told them.
    """
    waiting: dict[int, socket.socket] = {}
    while True:
        watched: list[Any] = [channel, listener, *waiting]
        ready = select.select(watched, [], [])[0]
        if channel in ready:
            try:
                send(channel, {"pid": _fork(*receive(channel), is_sibling=True)}, [])
            except EOFError:
                return
        if listener in ready:
            client = listener.accept()[0]
            with contextlib.suppress(EOFError):  # it was killed before it asked
                waiting[os.pidfd_open(_fork(*receive(client), is_sibling=False))] = client
        for ended in [process for process in waiting if process in ready]:
            end = os.waitid(os.P_PIDFD, ended, os.WEXITED)
            assert end is not None
            code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
            os.close(ended)
            with waiting.pop(ended) as client, contextlib.suppress(BrokenPipeError):
                client.sendall(str(code).encode())


def _fork(request: dict[str, Any], descriptors: list[int], *, is_sibling: bool) -> int:
    """Return the id of a new process that runs a command."""
    assert len(os.listdir("/proc/self/task")) == 1  # a fork copies the locks of other threads, and not the threads
    pid = _fork_sibling() if is_sibling else os.fork()
    if pid == 0:
        random.seed()
        _run(request, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    return pid


def _fork_sibling() -> int:
    """Fork a child of our parent's, which asked for it and waits for it."""
    assert CLONE is not None
    # With one thread no lock is held that a child would have to make again; `os.fork` has no way to name the parent.
    pid = ctypes.PyDLL(None, use_errno=True).syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == -1:
        raise OSError(ctypes.get_errno(), "clone")
    return int(pid)


def _run(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Be the command: its files, directory, environment and arguments, and its end."""
    for at, descriptor in enumerate(descriptors):
        os.dup2(descriptor, at)
    os.closerange(3, 4096)
    os.chdir(request["directory"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    sys.path[0] = os.path.dirname(sys.argv[0])
    sys.stdin, sys.stdout, sys.stderr = _reopened(0, sys.stdin), _reopened(1, sys.stdout), _reopened(2, sys.stderr)
    if CLOCK in os.environ:
        present = float(os.environ[CLOCK])
        time.time = lambda: present
    if os.environ.pop(STOPS, None):
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY)  # where only a parent may trace
        os.kill(os.getpid(), signal.SIGSTOP)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]  # Final in typeshed
    from faber_ledger.cli import entry

    code = 0
    try:
        entry.main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if isinstance(stop.code, str):
            sys.stderr.write(f"{stop.code}\n")
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 -- as the interpreter does at the top
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    try:
        if not sys.stdout.closed:
            sys.stdout.flush()
    except OSError:
        code = 120  # as Python's own end says it
    os._exit(code & 0xFF)


def _reopened(descriptor: int, like: Any) -> io.TextIOWrapper:
    """Open a standard file as Python does at its start."""
    file = io.FileIO(descriptor, "r" if descriptor == 0 else "w", closefd=False)
    buffer = io.BufferedReader(file) if descriptor == 0 else io.BufferedWriter(file)
    return io.TextIOWrapper(
        buffer,
        encoding=like.encoding,
        errors=like.errors,
        line_buffering=descriptor == 2 or os.isatty(descriptor),
        write_through=descriptor == 2,
    )


def _import(kind: str) -> None:
    import faber_ledger
    import faber_ledger.cli.entry
    import faber_ledger.cli.ui.event_words  # what git's `textconv` runs

    for module in pkgutil.walk_packages(faber_ledger.__path__, "faber_ledger."):
        folder = module.name.split(".")[1]
        is_wanted = folder in HOOK_FOLDERS if kind == HOOKS else folder != SELDOM
        if is_wanted and not module.name.endswith(WITHOUT_IMPORT):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _import(sys.argv[3])
    serve(*[socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:3]])
