"""Canonical JSON, and SHA-256 of it."""

from __future__ import annotations

import sys

from faber_ledger.ledger.plain_json import encoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


_encode = encoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
HASH_DOMAIN = b"faber-ledger event 1\n"


def canonical(value: Any) -> str:
    """Write a value as canonical JSON: sorted keys, no spaces, UTF-8 unescaped; raises ValueError for NaN."""
    return _encode(value)


def clean(value: Any) -> Any:
    """Make a value fit to be hashed: floats become strings, lone surrogates U+FFFD, keys strings."""
    if isinstance(value, str):
        return value if value.isascii() else without_surrogates(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) and key.isascii() else without_surrogates(str(key)): clean(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    return value


def without_surrogates(text: str) -> str:
    """Put U+FFFD in the place of each lone surrogate, which UTF-8 cannot hold."""
    try:
        text.encode()  # much faster than looking at each character
        return text
    except UnicodeEncodeError:
        return "".join(["\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text])


def payload_hash(salt: bytes, payload: str) -> bytes:
    """Hash a payload as it is stored, with its salt (32 bytes)."""
    return sha256(salt + payload.encode()).digest()


def event_hash(
    *,
    seq: int,
    id: str,
    type: str,
    version: int,
    at: str,
    writer: str,
    session_id: str | None,
    client: str | None,
    parents: Sequence[bytes],
    payload_hash: bytes,
) -> bytes:
    """Hash an envelope, the salted hash of its payload and its parents (32 bytes)."""
    envelope = [
        seq,
        id,
        type,
        version,
        at,
        writer,
        session_id,
        client,
        [parent.hex() for parent in parents],
        payload_hash.hex(),
    ]
    return sha256(HASH_DOMAIN + canonical(envelope).encode()).digest()


def keyed_hash(key: bytes, content: bytes) -> bytes:
    """Return the HMAC-SHA256 of a content (32 bytes), for a key of at most 64; the module `hmac` would load hashlib."""
    block = int.from_bytes(key.ljust(64, b"\0"), "big")
    inner, outer = [(block ^ int.from_bytes(pad * 64, "big")).to_bytes(64, "big") for pad in (b"\x36", b"\x5c")]
    return sha256(outer + sha256(inner + content).digest()).digest()


if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:  # to look for a module that is not there takes as long as to load one
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:
        from hashlib import sha256

__all__ = ["sha256"]
