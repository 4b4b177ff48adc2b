"""The digest that is recorded of a delivery, or of an artifact."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def keyed_digest(common: Path, content: bytes) -> str:
    """Return the digest of a content with the key of the clone whose git directory is given; "" before it has one."""
    path = common / "faber-ledger" / "key"
    if not path.exists():
        return ""
    return hmac.new(path.read_bytes(), hashlib.sha256(content).digest(), "sha256").hexdigest()
