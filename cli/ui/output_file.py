"""Output to a file that the user names: the file is replaced completely, or not at all."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from faber_ledger.ledger.disk import OWN, put
from faber_ledger.ledger.errors import NotWritable


@contextmanager
def output_file(path: str | None) -> Iterator[BinaryIO]:
    """Yield a file to write to; when the block ends, it replaces `path` or is copied to standard output.

    It has the permissions of the file that it replaces, else 0600. Raises NotWritable. The output goes to disk first,
    since a slow reader of our standard output would otherwise hold the log open and keep hooks from writing.
    """
    target = None if path is None or path == "-" else os.path.realpath(path)
    if target is not None and os.path.exists(target) and not os.path.isfile(target):
        raise NotWritable(f"cannot write {path}: it is not a file", hint="name a file in a folder that exists")
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        if target is None:
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        try:
            like = os.stat(target) if os.path.exists(target) else None
            put(target, file.read(), like=like, mode=OWN, locked=False)
        except OSError as error:
            why = f"cannot write {path}: {error.strerror or error}"
            raise NotWritable(why, hint="name a file that you may write") from error
