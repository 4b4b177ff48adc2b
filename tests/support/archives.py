"""Extract tar files of our own on every Python that is supported."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def extract(archive: tarfile.TarFile, into: Path) -> None:
    """Extract an archive into a folder; Python 3.11.0 to 3.11.3 have no filters."""
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    archive.extractall(into)
