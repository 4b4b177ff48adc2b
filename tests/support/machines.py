"""The machines of a guide: a shell on each, with a home of its own; they share a git server and a PostgreSQL server."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shown_commands import HOME, environment_of

from support.postgres import network_settings, started_server
from support.program import program_folder
from support.project import PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GIT_SERVER = "https://git.example.com/"  # its repositories are in a folder here
END = "---- end of a command ----"


class Shell:
    """A shell that stays, with a home of its own, and prints what its commands print, standard error included."""

    def __init__(self, name: str, home: Path, environment: dict[str, str]) -> None:
        home.mkdir()
        self.home = home
        self.process = subprocess.Popen(
            ["bash"],
            cwd=home,
            env=environment_of(home, name) | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def printed_by(self, command: str) -> str:
        """Run a command, which reads nothing, and return what it prints."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{{ {command}\n}} < /dev/null\nprintf '%s\\n' '{END}'\n")
        self.process.stdin.flush()
        lines: list[str] = []
        for line in self.process.stdout:
            if line == f"{END}\n":
                return "".join(lines).replace(str(self.home), HOME)
            lines.append(line)
        raise AssertionError("".join(lines))

    def close(self) -> None:
        """End the shell, once its commands have."""
        self.process.communicate(timeout=60)


@contextmanager
def machines(folder: Path, names: list[str]) -> Iterator[dict[str, Shell]]:
    """Yield a shell for each name; the git server, in the same folder, has a project `shop` without any run."""
    settings = network_settings()
    with started_server(settings=settings) as server:
        _make_origin(folder / "git" / "shop.git")
        environment = {
            "PATH": f"{program_folder()}:{environment_of(folder, '')['PATH']}:{server.programs}",
            # Whatever host a URL names, it is this one.
            "PGHOSTADDR": "127.0.0.1",
            "PGPORT": settings["port"],
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{folder / 'git'}/.insteadOf",
            "GIT_CONFIG_VALUE_0": GIT_SERVER,
        }
        shells = {name: Shell(name, folder / name, environment) for name in names}
        try:
            yield shells
        finally:
            for shell in shells.values():
                shell.close()


def _make_origin(origin: Path) -> None:
    environment = environment_of(origin.parent, "git")
    work = origin.with_suffix(".made")
    protocol = work / PROTOCOL
    protocol.parent.mkdir(parents=True)
    protocol.write_text("# Workflow orchestration protocol\n")
    for command in (
        ["git", "init", "--quiet", "--initial-branch=main", str(work)],
        ["git", "-C", str(work), "add", "."],
        ["git", "-C", str(work), "commit", "--quiet", "--message", "A project"],
        ["git", "clone", "--quiet", "--bare", str(work), str(origin)],
    ):
        subprocess.run(command, env=environment, check=True)
