"""The program as git, a hook and a shell find it on PATH: forked from a process that has imported it already.

The file of that name in the folder is a small client: it hands its arguments, environment and open files to the process
of `fork_server.listen`, and ends as the command there ends. Where that would make a difference (another user, or
variables that Python reads at its start), it runs the installed program itself.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys

from support import fork_server
from support.command import COMMAND, READ_AT_START
from support.folders import make_folder

LONGEST_ADDRESS = 100  # of a socket
CLIENT = """\
#!/bin/sh
'''exec' "{python}" -IS "$0" "$@"
' '''
import os, socket, sys
start = {{name: value for name, value in os.environ.items() if name.startswith({names})}}
start.pop("PYTHONUTF8", None)  # the standard files are UTF-8 in either case
try:
    assert (start, os.geteuid()) == ({start}, {user})
    directory = os.getcwd()
    channel = socket.socket(socket.AF_UNIX)
    channel.connect({socket!r})
except (AssertionError, OSError):
    os.execv({command!r}, [{command!r}, *sys.argv[1:]])
import json
umask = os.umask(0)
request = {{"arguments": sys.argv, "directory": directory, "umask": umask}}
content = json.dumps(request | {{"environment": dict(os.environ)}}).encode()
socket.send_fds(channel, [len(content).to_bytes(8, "big")], [0, 1, 2])
channel.sendall(content)
code = int(channel.recv(16) or 1)
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@functools.cache
def program_folder() -> str:
    """Return the folder that has the program, to be put first on PATH."""
    folder = make_folder()
    path = str(folder / "socket")
    if sys.platform != "linux" or len(path) > LONGEST_ADDRESS:
        return str(COMMAND.parent)
    server = subprocess.Popen(
        [sys.executable, fork_server.__file__, path, "commands"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdout.read()  # to its end: then it listens
    atexit.register(server.communicate)
    client = folder / "faber-ledger"
    start = {name: value for name, value in os.environ.items() if name.startswith(READ_AT_START)}
    start.pop("PYTHONUTF8", None)
    text = CLIENT.format(
        python=sys.executable,
        names=READ_AT_START,
        start=start,
        user=os.geteuid(),
        socket=path,
        command=str(COMMAND),
    )
    client.write_text(text)
    client.chmod(0o755)
    (folder / "faber-ledger-hook").symlink_to(f"{COMMAND}-hook")  # which runs the client
    return str(folder)


def path_with_program() -> str:
    """Return the caller's PATH with the program first."""
    return f"{program_folder()}{os.pathsep}{os.environ['PATH']}"
