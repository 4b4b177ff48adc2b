"""The program as git, a hook and a shell find it on PATH: forked from a process that has imported it already.

The file of that name in the folder is a small client: it hands its arguments, environment and open files to the process
of `fork_server`, and ends as the command there ends. Where that would make a difference (another user, or variables
that Python reads at its start), it runs the installed program itself. Its modules are those that Python has built in.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

from support.command import COMMAND, LONGEST_ADDRESS, READ_AT_START, get_fork_server
from support.folders import make_folder

if TYPE_CHECKING:
    from pathlib import Path

CLIENT = """\
#!/bin/sh
'''exec' "{python}" -IS "$0" "$@"
' '''
import _socket, marshal, posix, sys
environment = {{
    name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
    for name, value in posix.environ.items()
}}
is_utf8 = environment.get("PYTHONUTF8") == "1"  # then the standard files are UTF-8 whatever the locale
names = ("PYTHON", "LD_", "TZ") if is_utf8 else {names}
start, here = [
    {{name: value for name, value in one.items() if name.startswith(names) and name != "PYTHONUTF8"}}
    for one in ({environment}, environment)
]
try:
    assert (start, {user}) == (here, posix.geteuid())
    directory = posix.getcwd()
    channel = _socket.socket(_socket.AF_UNIX)
    channel.connect({socket!r})
except (AssertionError, OSError):
    posix.execv({command!r}, [{command!r}, *sys.argv[1:]])
umask = posix.umask(0)
request = {{"arguments": sys.argv, "directory": directory, "environment": environment, "umask": umask}}
content = marshal.dumps(request)
files = b"".join(file.to_bytes(4, sys.byteorder) for file in (0, 1, 2))
channel.sendmsg([len(content).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
channel.sendall(content)
code = int(channel.recv(16) or 1)
if code < 0:
    posix.kill(posix.getpid(), -code)
posix._exit(code)
"""


@functools.cache
def program_folder() -> str:
    """Return the folder that has the program, to be put first on PATH."""
    address = get_fork_server([]).address if sys.platform == "linux" else ""
    if not 0 < len(address) <= LONGEST_ADDRESS:
        return str(COMMAND.parent)
    folder = make_folder()
    client = folder / "faber-ledger"
    text = CLIENT.format(
        python=sys.executable,
        names=READ_AT_START,
        environment={name: value for name, value in os.environ.items() if name.startswith(READ_AT_START)},
        user=os.geteuid(),
        socket=address,
        command=str(COMMAND),
    )
    client.write_text(text)
    client.chmod(0o755)
    (folder / "faber-ledger-hook").symlink_to(f"{COMMAND}-hook")  # which runs the client
    return str(folder)


def make_program(path: Path, script: str) -> Path:
    """Write a shell's program, in a folder that is made; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def path_with_program() -> str:
    """Return the caller's PATH with the program first."""
    return f"{program_folder()}{os.pathsep}{os.environ['PATH']}"
