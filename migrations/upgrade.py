"""Upgrade an older ledger to the newest format, on a verified copy that then replaces it."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import NamedTuple

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from faber_ledger.ledger import file
from faber_ledger.ledger.disk import LOCK_SECONDS, RunLock
from faber_ledger.ledger.errors import IntegrityError, LedgerError, RunNotFound
from faber_ledger.ledger.file import connect
from faber_ledger.ledger.union import move_into_place, remove_database

SCRIPTS = os.path.dirname(os.path.abspath(__file__))
LEDGER = "ledger"  # the folder of the revisions of a ledger file
EVENTS = "SELECT seq, id, hash FROM event ORDER BY seq, id"


class Format(NamedTuple):
    """A format: the Alembic revision that leads to it, and the text of its schema."""

    revision: str
    text: str

    @property
    def schema(self) -> list[str]:
        """The format's statements as `check_schema` compares them."""
        return sorted(file.statements(self.text))


class Outcome(NamedTuple):
    """A ledger's format before and after; they are equal if there was nothing to do."""

    before: int
    after: int


FORMATS: Mapping[int, Format] = {file.FORMAT: Format(file.REVISION, file.FORMAT_1)}


def migrate_file(path: str, lock_path: str, *, dry_run: bool = False) -> Outcome:
    """Upgrade the ledger at `path` to the newest known format, under its run's lock.

    A dry run upgrades and checks the copy, and does not touch the ledger. Raises RunNotFound if there is no ledger,
    what `check_file` raises, Locked, and IntegrityError if the ledger or the copy is wrong.
    """
    newest = max(FORMATS)
    if _format(path) == newest:
        with closing(connect(path, "ro")) as current:
            file.check_schema(current, path, FORMATS[newest].schema)
        return Outcome(newest, newest)
    with RunLock(lock_path, LOCK_SECONDS):
        before = _format(path)  # again: another process may have upgraded it
        if before == newest:
            return Outcome(newest, newest)
        if before not in FORMATS:
            raise IntegrityError(
                f"{path} has format {before}, which does not exist", hint="restore the ledger from git"
            )
        with closing(connect(path, "rw")) as old, _temporary(path) as copy:
            file.check_schema(old, path, FORMATS[before].schema)
            _copy(old, copy, mode=stat.S_IMODE(os.stat(path).st_mode))
            run_revisions(copy, revision=FORMATS[newest].revision)
            _check_copy(old, copy, FORMATS[newest])
            if not dry_run:
                _put_in_place(copy, path)
        return Outcome(before, newest)


def run_revisions(path: str, *, revision: str = file.REVISION) -> None:
    """Run Alembic's revisions up to `revision` on the database at `path`, which may be empty, in one transaction."""
    config = make_config(LEDGER)
    engine = create_engine("sqlite://", creator=lambda: connect(path, "rwc"), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            connection.commit()
    except DBAPIError as error:
        raise IntegrityError(f"{path} cannot be upgraded: {error.orig}", hint="run `faber-ledger verify`") from error
    finally:
        engine.dispose()


def make_config(folder: str) -> Config:
    """Return Alembic's settings for the revisions in a folder of `SCRIPTS`."""
    config = Config()
    config.set_main_option("script_location", SCRIPTS.replace("%", "%%"))
    config.set_main_option("version_locations", os.path.join(SCRIPTS, folder).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")  # which no sane path has, but for a colon or a space
    return config


def _format(path: str) -> int:
    if not file.check_file(path):
        raise RunNotFound(f"there is no ledger at {path}", hint="run `faber-ledger run list` to see the runs")
    return file.format_of(path)


@contextmanager
def _temporary(path: str) -> Iterator[str]:
    """Yield a path for the copy, beside the ledger so that a rename can put it in place, and remove it afterwards."""
    copy = path + ".migrating"
    remove_database(copy)
    try:
        yield copy
    finally:
        remove_database(copy)


def _copy(old: sqlite3.Connection, copy: str, *, mode: int) -> None:
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    os.fchmod(descriptor, mode)
    os.close(descriptor)
    with closing(sqlite3.connect(copy)) as new:
        old.backup(new)


def _check_copy(old: sqlite3.Connection, copy: str, wanted: Format) -> None:
    """Check the copy's schema text and its integrity, and that no event is missing, added or changed."""
    with closing(connect(copy, "ro")) as new:
        file.check_schema(new, copy, wanted.schema)
        if [row for (row,) in new.execute("PRAGMA quick_check")] != ["ok"]:
            raise IntegrityError(f"the upgraded copy {copy} is damaged", hint="run the command again")
        kept = new.execute(EVENTS)
        for event in old.execute(EVENTS):
            if kept.fetchone() != event:
                raise IntegrityError(f"the upgrade would change event {event[1]}", hint="run `faber-ledger verify`")
        if kept.fetchone() is not None:
            raise IntegrityError("the upgrade would add an event", hint="run `faber-ledger verify`")


def _put_in_place(copy: str, path: str) -> None:
    try:
        move_into_place(copy, path)  # synced, as SQLite leaves what it commits
    except OSError as error:
        raise LedgerError(f"cannot replace {path}: {error.strerror}", hint="check the folder's permissions") from error
