"""Output to a file that the user names: the file is replaced completely, or not at all."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from faber_ledger.ledger.disk import OWN, keep_owner, remove
from faber_ledger.ledger.errors import LedgerError, NotWritable

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
    target = os.path.realpath(path)
    is_other = os.path.exists(target) and not os.path.isfile(target)
    if is_other or not os.path.isdir(os.path.dirname(target)):
        why = "it is not a file" if is_other else "its folder does not exist"
        raise NotWritable(f"cannot write {path}: {why}", hint="name a file in a folder that exists")
    temporary = f"{target}.{os.getpid()}.tmp"
    try:
        remove(temporary)  # a repository can contain one
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWN), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if os.path.isfile(target):
            keep_owner(temporary, os.stat(target))
        os.replace(temporary, target)
    except OSError as error:
        raise _not_writable(path, error) from error
    finally:
        remove(temporary)


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
