"""`faber-ledger page`: a live page of a project's runs, in the browser of this machine."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from faber_ledger.cli.ui.output import say, tell
from faber_ledger.cli.ui.server import server_address, url_option
from faber_ledger.cli.worktrees.git import require_project
from faber_ledger.files.text import escape
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.postgres.address import missing_extra
from faber_ledger.runs.run import find_root

if TYPE_CHECKING:
    from faber_ledger.cli.page.source import Source

OPENER = '<!doctype html><meta http-equiv="refresh" content="0; url={}"><title>faber-ledger</title>\n'


@click.command()
@url_option
@click.option("--project", metavar="PROJECT", help="With a server: one project's runs, by its id or name.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="PORT", help="The port; without one, a free one."
)
@click.option("--no-browser", is_flag=True, help="Print the page's address, which is good once, and open no browser.")
def page(url: str | None, project: str | None, port: int, no_browser: bool) -> None:
    """Show the runs of this project in the browser, live, until Ctrl-C: what is at work, what waits, what happened.

    With --url or --project the runs of the team's server.

    Nothing can be changed there. Only this machine reaches the page, and only the browser that was opened.

    \b
    Example: faber-ledger page
    Exit codes: 0 done, also after Ctrl-C; 1 outside a project, no extra, or the port is taken; 2 wrong usage;
    10 the server shows no such project; 12 the server is newer than this program; 13 the server is not available;
    14 it refuses.
    """
    try:
        import uvicorn

        from faber_ledger.cli.page.app import build_app
        from faber_ledger.cli.page.guard import Guard
    except ImportError as error:
        raise missing_extra("the live page", "page") from error
    with _listening(port) as listener, _source_of(url, project) as source:
        number = listener.getsockname()[1]
        app = build_app(source)
        guard = Guard(app, number)
        address = f"http://{guard.host}/?token={guard.token}"
        settings = uvicorn.Config(
            guard, log_level="warning", lifespan="off", server_header=False, timeout_graceful_shutdown=1
        )
        with _opener(address) as path:
            other = "; for another browser --no-browser prints the whole address"
            if no_browser or not webbrowser.open(f"file://{path}"):
                tell(address)
                other = ""
            say(f"http://{guard.host}/ shows the runs of {escape(source.title)}, until Ctrl-C{other}")
            for number in (signal.SIGTERM, signal.SIGHUP):  # else what is temporary would stay
                signal.signal(number, signal.default_int_handler)
            with suppress(KeyboardInterrupt):
                app.state.server = uvicorn.Server(settings)
                app.state.server.run([listener])


@contextmanager
def _source_of(url: str | None, project: str | None) -> Iterator[Source]:
    """Yield what is shown: the server's runs where one is named, else those of the project here."""
    root = find_root(os.getcwd())
    if url is None and project is None:
        from faber_ledger.cli.page.source import Project

        require_project(root)
        yield Project(root, os.path.basename(os.path.realpath(root)))
        return
    from faber_ledger.cli.page.team import Team

    team = Team(server_address(url), project, root)
    try:
        yield team
    finally:
        team.close()


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    """Yield a socket on loopback; raises LedgerError if the port is taken."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()
        except OSError as error:
            what = f"the port {port} cannot be used: {error.strerror}"
            raise LedgerError(what, hint="leave out --port, and a free one is taken") from error
        yield listener


@contextmanager
def _opener(address: str) -> Iterator[str]:
    """Yield the path of a private file that redirects to an address: every user can read a command line."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        path = os.path.join(folder, "page.html")
        with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(OPENER.format(address))
        yield path
