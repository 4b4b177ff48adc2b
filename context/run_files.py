"""The JSON files that FABER's own tools leave in a run's folder: listed in order, read with care."""

from __future__ import annotations

import os
import re

from faber_ledger.files.json_text import JsonText
from faber_ledger.files.untrusted import FileRefused, folder_around, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.runs.run import Run

MAX_BYTES = 1024 * 1024
DIGITS = re.compile(r"([0-9]+)")


def json_files(run: Run, folder: str) -> list[str] | None:
    """List a folder's JSON files as paths below the run's, numbers in names by value; None if there is no folder.

    After `999-…` comes `1000-…`; files without a leading number come first, as the numbered ones are newer. Raises
    FileRefused if the folder cannot be listed, or is a link that leads out of the run's folder.
    """
    place = os.path.join(run.directory, folder)
    if not os.path.lexists(place):
        return None
    if folder_around(place, [run.directory]) is None:
        raise FileRefused("a link that leads out of the run's folder")
    try:
        names = os.listdir(place)
    except OSError as error:
        raise FileRefused(error.strerror or str(error)) from error
    kept = [name for name in names if name.endswith(".json") and not name.startswith(".")]
    return [f"{folder}/{name}" for name in sorted(kept, key=_natural)]


def json_object(run: Run, path: str) -> dict[str, Any] | None:
    """Read a JSON object in the run's folder; None if there is no file.

    Raises FileRefused if it is not read, for what it is or where a link leads, and ValueError for malformed content.
    """
    place = os.path.join(run.directory, path)
    if not os.path.lexists(place):
        return None
    if folder_around(place, [run.directory]) is None:
        raise FileRefused("a link that leads out of the run's folder")
    text = text_of(place, MAX_BYTES)
    if text is None:
        raise FileRefused("a link to nothing")
    return JsonText(text).value


def check_texts(found: dict[str, Any], names: tuple[str, ...]) -> None:
    """Check that members are texts where they are there; raises ValueError."""
    for name in names:
        if not isinstance(found.get(name), (str, type(None))):
            raise ValueError(f"its {name} is no text")


def _natural(name: str) -> tuple[bool, list[tuple[int, str]]]:
    parts = DIGITS.split(name)
    key = [(int(part), "") if count % 2 else (0, part) for count, part in enumerate(parts)]
    return parts[0] == "" and len(parts) > 1, key
