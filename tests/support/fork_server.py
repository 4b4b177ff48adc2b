"""A process that has imported what commands import, or what hooks import, and forks one for each request.

It has no threads and never runs a command itself, so that each child begins as a fresh process does. Two things differ:
the modules are imported already, and all children of one server share a hash seed. So tests of what a command imports,
and of the order of sets, start their processes themselves.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import io
import json
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
HOOKS = "hooks"  # the argument of a server for hooks; one with all modules takes five times as long to fork
HOOK_FOLDERS = ("context", "files", "hooks", "projections", "recording", "runs")
CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())  # the system call's number
CLONE_PARENT = 0x8000
CLOCK = "FABER_LEDGER_TEST_CLOCK"  # a variable with the time that a forked command takes for the present one


def send(channel: socket.socket, message: dict[str, Any], descriptors: list[int]) -> None:
    """Send a message and copies of open files."""
    content = json.dumps(message).encode()
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
    return json.loads(content), descriptors


def serve(channel: socket.socket) -> None:
    """Fork a command for each request until the other side is gone."""
    while True:
        try:
            request, descriptors = receive(channel)
        except EOFError:
            return
        assert len(os.listdir("/proc/self/task")) == 1  # a fork copies the locks of other threads, and not the threads
        pid = _fork_sibling()
        if pid == 0:
            channel.close()
            _run(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        send(channel, {"pid": pid}, [])


def listen(path: str) -> None:
    """Fork a command for each that connects to a socket and waits for its end, until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that nobody has to wait for the children
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(64)
        os.dup2(2, 1)  # standard output ends: it listens
        waiting: list[Any] = [server, 0]
        while server in select.select(waiting, [], [])[0]:
            channel = server.accept()[0]
            if os.fork() == 0:
                server.close()
                _serve_one(channel)
            channel.close()


def _serve_one(channel: socket.socket) -> NoReturn:
    """Run the command that is asked for, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, descriptors = receive(channel)
    pid = os.fork()
    if pid == 0:
        channel.close()
        random.seed()
        _run(request, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    channel.sendall(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    os._exit(0)


def _fork_sibling() -> int:
    """Fork a child of our parent's, which asked for it and waits for it."""
    assert CLONE is not None
    # With one thread no lock is held that a child would have to make again; `os.fork` has no way to name the parent.
    pid = ctypes.PyDLL(None, use_errno=True).syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == -1:
        raise OSError(ctypes.get_errno(), "clone")
    if pid == 0:
        random.seed()
    return int(pid)


def _run(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Be the command: its files, directory, environment and arguments, and its end."""
    for at, descriptor in enumerate(descriptors):
        os.dup2(descriptor, at)
    for descriptor in descriptors:
        os.close(descriptor)
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
        is_wanted = kind != HOOKS or module.name.split(".")[1] in HOOK_FOLDERS
        if is_wanted and not module.name.endswith(WITHOUT_IMPORT):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _import(sys.argv[2])
    if sys.argv[1].isdigit():
        serve(socket.socket(fileno=int(sys.argv[1])))
    else:
        listen(sys.argv[1])
