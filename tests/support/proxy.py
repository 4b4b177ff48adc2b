"""A network that fails: what stands between a client and a server, and cuts or holds what goes through it."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import URL

TO_SERVER, TO_CLIENT = "to the server", "to the client"
AT_ONCE = 4096


class Proxy:
    """A port that forwards each connection to a server, until `after` bytes went in one direction.

    Then it `cuts` the connection, or forwards nothing more while both ends stay open. `is_reached` is set then. Its
    port is closed at once, so that whoever connects again learns that nobody is there.
    """

    def __init__(self, server: URL, direction: str, after: int, *, cuts: bool) -> None:
        self._server = server
        self._direction, self._left, self._cuts = direction, after, cuts
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.is_reached = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def through(self, url: URL) -> str:
        """Return a URL of the server as one that goes through this port."""
        rest = {name: value for name, value in url.query.items() if name not in ("host", "port")}
        port = self._listening.getsockname()[1]
        return url.set(host="127.0.0.1", port=port, query=rest).render_as_string(hide_password=False)

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, _ = self._listening.accept()
                server = self._connect()
                self._open += [client, server]
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _connect(self) -> socket.socket:
        host = self._server.query.get("host") or self._server.host or "localhost"
        port = self._server.port or 5432
        if isinstance(host, str) and host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{host}/.s.PGSQL.{port}")
            return server
        return socket.create_connection((str(host), port))

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        ways = {client: (server, TO_SERVER), server: (client, TO_CLIENT)}
        with suppress(OSError):
            while True:
                for ready in select.select([*ways], [], [])[0]:
                    other, direction = ways[ready]
                    content = ready.recv(AT_ONCE)
                    if not content:
                        return self._close(client, server)
                    if direction == self._direction:
                        if len(content) >= self._left:
                            other.sendall(content[: self._left])
                            return self._fail(client, server)
                        self._left -= len(content)
                    other.sendall(content)
        return self._close(client, server)

    def _fail(self, client: socket.socket, server: socket.socket) -> None:
        self._listening.close()
        if self._cuts:
            self._close(client, server)
        self.is_reached.set()

    @staticmethod
    def _close(*ends: socket.socket) -> None:
        for end in ends:
            end.close()

    def close(self) -> None:
        """Close the port, and all connections."""
        self._close(self._listening, *self._open)


@contextmanager
def proxied(server: URL, direction: str, after: int, *, cuts: bool = True) -> Iterator[Proxy]:
    """Yield a proxy before a server, which is closed after the block."""
    proxy = Proxy(server, direction, after, cuts=cuts)
    try:
        yield proxy
    finally:
        proxy.close()
