"""A server that asks for the password in clear, and repeats it, gets it printed nowhere."""

from __future__ import annotations

import socket
import threading
from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from support.project import Project
from support.sizes import pair

if TYPE_CHECKING:
    from io import BufferedRWPair
    from pathlib import Path

PASSWORD = "hunter2/secret~word?"  # in base64 it has a letter that URLs have another one for
ENCODED = b64encode(PASSWORD.encode()).decode()
REQUESTS = (80877103, 80877104)  # of TLS, of GSSAPI
ASKS_IN_CLEAR = (3).to_bytes(4, "big")


def packet(kind: bytes, content: bytes) -> bytes:
    return kind + (len(content) + 4).to_bytes(4, "big") + content


class RepeatingServer:
    """A port that speaks PostgreSQL's protocol up to the password, and answers with an error that has it.

    `says` has a message and perhaps a detail and a hint. With `admits` it lets the client in, and refuses what it asks.
    """

    def __init__(self, says: dict[bytes, str], *, admits: bool) -> None:
        self._says = {b"S": "FATAL", b"V": "FATAL", b"C": "28P01", **says}
        self._admits = admits
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.got: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, _ = self._listening.accept()
                with client, suppress(OSError), client.makefile("rwb") as stream:
                    while int.from_bytes(self._read(stream)[:4], "big") in REQUESTS:
                        stream.write(b"N")
                        stream.flush()
                    stream.write(packet(b"R", ASKS_IN_CLEAR))
                    stream.flush()
                    stream.read(1)
                    self.got.append(self._read(stream).rstrip(b"\0").decode())
                    if self._admits:
                        stream.write(packet(b"R", bytes(4)) + packet(b"Z", b"I"))
                        stream.flush()
                        stream.read(1)
                    fields = [name + said.encode() + b"\0" for name, said in self._says.items()]
                    stream.write(packet(b"E", b"".join(fields) + b"\0") + packet(b"Z", b"I") * self._admits)

    @staticmethod
    def _read(stream: BufferedRWPair) -> bytes:
        return stream.read(int.from_bytes(stream.read(4), "big") - 4)

    def close(self) -> None:
        self._listening.close()


SAYS: dict[str, dict[bytes, str]] = {
    "message": {b"M": f'password "{PASSWORD}" is wrong'},
    "base64": {b"M": f"no {ENCODED}, nor {ENCODED.rstrip('=').replace('/', '_').replace('+', '-')}"},
    "detail": {b"M": "no", b"D": f"It was {PASSWORD}."},
    "hint": {b"M": "no", b"H": f"Try another one than {PASSWORD}, or {ENCODED}."},
    "later": {b"M": f"no {PASSWORD}", b"H": PASSWORD},
}
SOURCES = ("URL", "PGPASSWORD", ".pgpass", "PGPASSFILE", "service", "several hosts")


@pytest.mark.long
@pytest.mark.parametrize(("source", "way"), pair(SOURCES, [*SAYS]))
def test_a_password_that_a_server_repeats_is_not_printed(tmp_path: Path, source: str, way: str) -> None:
    server = RepeatingServer(SAYS[way], admits=way == "later")
    project = Project.made(tmp_path / "project")
    place = f"127.0.0.1:{server.port}"
    url, more = f"postgresql://me@{place}/db", {}
    home = tmp_path / "home"
    home.mkdir()
    if source == "URL":
        url = f"postgresql://me:{PASSWORD.replace('/', '%2F').replace('?', '%3F')}@{place}/db"
    elif source == "PGPASSWORD":
        more = {"PGPASSWORD": PASSWORD}
    elif source == "service":
        (home / "services").write_text(
            f"[team]\nhost=127.0.0.1\nport={server.port}\nuser=me\ndbname=db\npassword={PASSWORD}\n"
        )
        url, more = "postgresql:///?service=team", {"PGSERVICEFILE": str(home / "services")}
    else:
        passwords = home / (".pgpass" if source != "PGPASSFILE" else "passwords")
        passwords.write_text(f"{place}:*:me:{PASSWORD}\n")
        passwords.chmod(0o600)
        more = {"PGPASSFILE": str(passwords)} if source == "PGPASSFILE" else {}
        if source == "several hosts":  # the last of which has no password
            url = f"postgresql://me@{place},127.0.0.1:1/db"
    done = project.faber("fleet", env={"HOME": str(home), "FABER_LEDGER_URL": url, **more})
    server.close()
    assert set(server.got) == {PASSWORD}
    assert (done.returncode, done.stdout) in [(13, ""), (14, "")]
    assert "error: " in done.stderr
    for form in (PASSWORD, ENCODED.rstrip("="), ENCODED.replace("/", "_").replace("+", "-").rstrip("=")):
        assert form not in done.stderr
