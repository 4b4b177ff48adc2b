"""Output to a file that the user names: the file is replaced completely, or not at all."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from faber_ledger.ledger.disk import OWN, keep_owner
from faber_ledger.ledger.errors import LedgerError, NotWritable
from faber_ledger.ledger.union import remove_database

DATABASE = b"SQLite format 3\0"


@contextmanager
def output_file(path: str | None) -> Iterator[BinaryIO]:
    """Yield a file to write to; when the block ends, it replaces `path` or is copied to standard output.

    It has the permissions of the file that it replaces, else 0600. Raises NotWritable. The output goes to disk first,
    since a slow reader of our standard output would otherwise hold the log open and keep hooks from writing.
    """
    if path is None or path == "-":
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        return
    check_no_database(path)
    with replace_file(path) as temporary:
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), OWN)
        except OSError as error:
            raise _not_writable(path, error) from error
        with open(descriptor, "wb") as file:
            yield file
            try:
                file.flush()
                os.fsync(file.fileno())
            except OSError as error:
                raise _not_writable(path, error) from error


@contextmanager
def replace_file(path: str) -> Iterator[str]:
    """Yield the path of an empty file beside `path`, to write to; when the block ends, that file replaces `path`.

    Its permissions are as for `output_file`; until then only its owner may open it. Raises NotWritable.
    """
    target = os.path.realpath(path)
    is_other = os.path.exists(target) and not os.path.isfile(target)
    if is_other or not os.path.isdir(os.path.dirname(target)):
        why = "it is not a file" if is_other else "its folder does not exist"
        raise NotWritable(f"cannot write {path}: {why}", hint="name a file in a folder that exists")
    temporary = f"{target}.{os.getpid()}.tmp"
    try:
        remove_database(temporary)  # a repository can contain one, and a journal that SQLite would roll back into it
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWN))
        yield temporary
        if os.path.isfile(target):
            keep_owner(temporary, os.stat(target))
        os.replace(temporary, target)
    except OSError as error:
        raise _not_writable(path, error) from error
    finally:
        remove_database(temporary)


def check_no_database(path: str) -> None:
    """Raise LedgerError if `path` is a database: it may be a ledger, and is not overwritten."""
    try:
        if not os.path.isfile(path):
            return
        with open(path, "rb") as file:
            found = file.read(len(DATABASE))
    except OSError as error:
        raise _not_writable(path, error) from error
    if found == DATABASE:
        raise LedgerError(f"{path} is a database, and is not overwritten", hint="name another file")


def _not_writable(path: str, error: OSError) -> NotWritable:
    return NotWritable(f"cannot write {path}: {error.strerror or error}", hint="name a file that you may write")
