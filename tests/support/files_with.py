"""Look for a text in files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def files_with(folder: Path, *texts: str) -> list[str]:
    """Return the files below a folder, git's among them, that hold one of some texts, as it is or as JSON writes it."""
    forms = {form.encode() for text in texts for form in (text, json.dumps(text)[1:-1])}
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [str(path.relative_to(folder)) for path in paths if any(form in path.read_bytes() for form in forms)]
