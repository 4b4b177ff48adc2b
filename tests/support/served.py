"""A page that the installed command serves, and a browser's part of HTTP: one cookie, no redirect by itself."""

from __future__ import annotations

import http.client
import subprocess
from typing import TYPE_CHECKING

from support.command import COMMAND

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Served:
    """A running `faber-ledger page`; use it with `with`."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *arguments: str) -> None:
        self.process = subprocess.Popen(
            [COMMAND, "page", "--no-browser", *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://"), self.process.communicate()
        self.host = self.address.removeprefix("http://").partition("/")[0]
        self.cookie = ""
        self._connections: list[http.client.HTTPConnection] = []

    def __enter__(self) -> Served:
        answer = self.ask(self.address.removeprefix(f"http://{self.host}"))
        assert (answer.status, answer.headers["location"]) == (303, "/")
        self.cookie_header = answer.headers["set-cookie"]
        self.cookie = self.cookie_header.partition(";")[0]
        return self

    def __exit__(self, *failure: object) -> None:
        for connection in self._connections:
            connection.close()
        self.process.terminate()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        self.process.wait(timeout=30)
        if failure[0] is None:
            assert (self.process.returncode, "Traceback" in self.errors) == (0, False), self.errors

    def ask(self, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        """Ask once, and return the answer, whose body was not read."""
        connection = http.client.HTTPConnection("127.0.0.1", int(self.host.partition(":")[2]), timeout=30)
        self._connections.append(connection)
        sent = {"Host": self.host, **({"Cookie": self.cookie} if self.cookie else {}), **headers}
        connection.request(method, path, headers=sent)
        return connection.getresponse()

    def read(self, path: str, code: int = 200) -> str:
        """Return the text of a path."""
        answer = self.ask(path)
        text = answer.read().decode()
        assert answer.status == code, text
        return text
