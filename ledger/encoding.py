"""How values and events become bytes: JSON, canonical JSON, SHA-256, and the row of an event.

JSON is read and written as the `json` package does, without loading it: the patterns of the package cost as much as
Python's start. The functions in C are its own. Whatever is unusual, and every error, goes to the package. Nothing here
asks for the time or a random number, because a fold must not.
"""

from __future__ import annotations

import sys

from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.event_types import redacted_form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from hashlib import sha256
    from json.encoder import encode_basestring as encode_text
    from json.encoder import encode_basestring_ascii as encode_ascii
    from typing import Any

    from faber_ledger.ledger.events import Recorded

    Row = tuple[Any, ...]

    make_encoder: Any
    make_scanner: Any
else:
    from _json import encode_basestring as encode_text
    from _json import encode_basestring_ascii as encode_ascii
    from _json import make_encoder, make_scanner

    try:  # to look for a module that is not there takes as long as to load one
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:
        from hashlib import sha256

__all__ = ["encode_ascii", "encode_text", "sha256"]
SPACE = " \t\n\r"
OPENING = ("{", "[")
CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
CHUNK = 256  # characters per step


class _ScannerOptions:
    """The attributes that the scanner in C asks for: how numbers and constants are read."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_int = int

    def __init__(self, parse_float: Callable[[str], Any], parse_constant: Callable[[str], Any]) -> None:
        self.parse_float = parse_float
        self.parse_constant = parse_constant


def raw_decoder(
    parse_float: Callable[[str], Any] = float, parse_constant: Callable[[str], Any] = CONSTANTS.__getitem__
) -> Callable[[str, int], tuple[Any, int]]:
    """Return a function that reads the value at a place of a text, and returns it with its end."""
    scan = make_scanner(_ScannerOptions(parse_float, parse_constant))

    def raw_decode(text: str, at: int) -> tuple[Any, int]:
        found: tuple[Any, int]
        try:
            try:
                found = scan(text, at)
            except SystemError:  # up to Python 3.11 it has no error to raise unless the package is loaded
                import json.decoder  # noqa: F401 -- for the scanner

                found = scan(text, at)
        except StopIteration as error:
            raise decode_error("Expecting value", text, error.value) from None
        return found

    return raw_decode


def encoder(
    *, sort_keys: bool = False, separators: tuple[str, str] = (", ", ": "), allow_nan: bool = True
) -> Callable[[Any], str]:
    """Return a function that writes a value on one line, with every character as it is."""
    item, key = separators
    make_chunks = make_encoder(None, _refuse, encode_text, None, key, item, sort_keys, False, allow_nan)

    def encode(value: Any) -> str:
        return encode_text(value) if isinstance(value, str) else "".join(make_chunks(value, 0))

    return encode


def _refuse(value: object) -> Any:
    raise TypeError(f"Object of type {value.__class__.__name__} is not JSON serializable")


_raw_decode = raw_decoder()
_scan = make_scanner(_ScannerOptions(float, CONSTANTS.__getitem__))
dumps = encoder()


def loads(text: Any) -> Any:
    """Return the value that a text is, as `json.loads` does."""
    if not isinstance(text, str) or text.startswith("\ufeff"):
        import json

        return json.loads(text)
    start = 0 if text[:1] in OPENING else after_space(text, 0)
    try:
        value, end = _scan(text, start)
    except (StopIteration, SystemError):
        value, end = _raw_decode(text, start)  # raises the right error
    if end != len(text) and (end := after_space(text, end)) != len(text):
        raise decode_error("Extra data", text, end)
    return value


def loads_object(content: bytes | str) -> dict[str, Any]:
    """Return the members of a JSON object; none if the content is not one that can be read."""
    try:
        found = loads(content if isinstance(content, str) else content.decode())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def after_space(text: str, at: int) -> int:
    """Return the first place from `at` on that is not white space."""
    while True:
        chunk = text[at : at + CHUNK]
        spaces = len(chunk) - len(chunk.lstrip(SPACE))
        at += spaces
        if spaces < CHUNK:
            return at


def decode_error(message: str, text: str, at: int) -> ValueError:
    """Return the error of the `json` package for a place of a text."""
    from json import JSONDecodeError

    return JSONDecodeError(message, text, at)


# Write a value as canonical JSON: sorted keys, no spaces, UTF-8 unescaped; raises ValueError for NaN.
canonical = encoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def clean(value: Any) -> Any:
    """Make a value fit to be hashed: floats become strings, lone surrogates U+FFFD, keys strings."""
    if isinstance(value, str):
        return value if value.isascii() else without_surrogates(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) and key.isascii() else without_surrogates(str(key)): (
                item if item is None or (type(item) is str and item.isascii()) else clean(item)
            )
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


def keyed_hash(key: bytes, content: bytes) -> bytes:
    """Return the HMAC-SHA256 of a content (32 bytes), for a key of at most 64; the module `hmac` would load hashlib."""
    block = int.from_bytes(key.ljust(64, b"\0"), "big")
    inner, outer = [(block ^ int.from_bytes(pad * 64, "big")).to_bytes(64, "big") for pad in (b"\x36", b"\x5c")]
    return sha256(outer + sha256(inner + content).digest()).digest()


# An event's row


NULL = type(None)
COLUMNS = {  # each with the types that a ledger writes
    "seq": (int,),
    "id": (str,),
    "type": (str,),
    "version": (int,),
    "at": (str,),
    "writer": (str,),
    "session_id": (str, NULL),
    "client": (str, NULL),
    "parents": (bytes,),
    "salt": (bytes, NULL),
    "payload": (str, NULL),
    "payload_hash": (bytes, NULL),
    "hash": (bytes,),
}
SEQ, ID, TYPE, VERSION, AT, WRITER, SESSION, CLIENT, PARENTS, SALT, PAYLOAD, PAYLOAD_HASH, HASH = range(13)
ROW = f"SELECT {', '.join(COLUMNS)} FROM event"
READ = "SELECT seq, id, type, version, at, writer, session_id, client, payload FROM event"  # what `decode_row` takes
INSERT = "INSERT INTO event VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
HASH_DOMAIN = b"faber-ledger event 1\n"
SALT_BYTES = 16  # with any other length, a letter could move between salt and payload under the same hash


def decode_any(raw: bytes) -> str:
    """Decode a text of SQLite that may not be UTF-8."""
    return raw.decode("utf-8", "surrogateescape")


def compute_hash(row: Row) -> bytes | None:
    """Compute what a row's hash must be; None if it holds neither a payload nor, in its place, a payload's hash."""
    salt, payload, stored = row[SALT], row[PAYLOAD], row[PAYLOAD_HASH]
    if payload is None and salt is None and stored is not None:
        hashed = stored
    elif payload is not None and salt is not None and len(salt) == SALT_BYTES and stored is None:
        hashed = payload_hash(salt, payload)
    else:
        return None
    return hash_with(row, hashed)


def hash_with(row: Row, digest: bytes) -> bytes:
    """Hash a row's envelope, its parents and its payload's hash (32 bytes); raises UnicodeEncodeError."""
    parents = [parent.hex() for parent in split_hashes(row[PARENTS])]
    return sha256(HASH_DOMAIN + canonical([*row[:PARENTS], parents, digest.hex()]).encode()).digest()


def payload_hash(salt: bytes, payload: str) -> bytes:
    """Hash a payload as it is stored, with its salt (32 bytes)."""
    return sha256(salt + payload.encode()).digest()


def split_hashes(parents: bytes) -> list[bytes]:
    """Split joined hashes."""
    return [parents[at : at + 32] for at in range(0, len(parents), 32)]


ENVELOPE = tuple([types[0] for types in COLUMNS.values()][:SESSION])  # the types of the columns before the session's id
NULLABLE = COLUMNS["session_id"]  # and of the client's
HINT_VERIFY = "run `faber-ledger verify`"


def decode_row(row: Row) -> Recorded:
    """Make a row of `READ`'s columns an event; raises IntegrityError for a value of another type.

    If the payload is gone, only the envelope is known; the other fields say nothing.
    """
    if not is_typed(row):
        raise type_error(row)
    try:
        payload: Any = loads(row[8]) if row[8] is not None else {**redacted_form(row[2])}
        if not isinstance(payload, dict):
            raise TypeError("it is another value")
    except (ValueError, TypeError, RecursionError) as error:
        raise IntegrityError(
            f"the payload of event {row[1]} is not a JSON object: {error}", hint=HINT_VERIFY
        ) from error
    one = recorded_of(row, payload)
    if row[8] is None:
        one["redacted"] = True
    return one


def parse_payload(text: str) -> dict[str, Any] | None:
    """Parse a stored payload; None if it is not a canonical JSON object, which is all that a ledger writes."""
    try:
        value = loads(text)
        if isinstance(value, dict) and canonical(value) == text and text.encode() is not None:
            return value
    except (ValueError, RecursionError):  # UnicodeEncodeError, for a lone surrogate, is a ValueError too
        pass
    return None


def type_error(row: Row) -> IntegrityError:
    """Return the error for a row that is not `is_typed`."""
    return IntegrityError(f"event {row[1]!r:.40} has a value of another type than any ledger writes", hint=HINT_VERIFY)


def is_typed(row: Row) -> bool:
    """Return whether a row's envelope, its first eight columns, has values of the types that every ledger writes."""
    seq, name, kind, version, at, writer, session_id, client, *_ = row
    types = (type(seq), type(name), type(kind), type(version), type(at), type(writer))
    return types == ENVELOPE and type(session_id) in NULLABLE and type(client) in NULLABLE


def recorded_of(row: Row, payload: Any) -> Recorded:
    """Put a payload, which is changed in place, into its row's envelope."""
    seq, name, kind, version, at, writer, session_id, client = row[:8]
    payload["type"] = kind
    if session_id is not None:
        payload["session_id"] = session_id
    return {"seq": seq, "id": name, "version": version, "at": at, "writer": writer, "client": client, "event": payload}
