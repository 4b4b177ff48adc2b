"""The shape of a waiting delivery: a file of this shape counts as a hook's call."""

from __future__ import annotations

from faber_ledger.ledger.clock import is_event_id, utc_text
from faber_ledger.ledger.event_types import EVENT_TYPES
from faber_ledger.recording.call import HOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NotRequired, TypedDict

    from faber_ledger.ledger.events import Draft, Environment
    from faber_ledger.recording.checkout import Checkout
    from faber_ledger.runs.progress import Snapshot

    class Spooled(TypedDict):
        """A hook call with everything that is not in its delivery.

        `id` is the id of its first fact; the other ids, and the salts, derive from `salt`. `at` is in seconds since
        1970. `delivery` is the call's standard input, shortened if it is long, and `digest` what is recorded of all of
        it.
        A session's start adds what it gathered: `session_id` and `loads`. `environment`, `progress` and `status` are
        None if they are not known. `checkout` is left out if it is not known.
        """

        spool: int
        id: str
        salt: str
        run_id: str
        hook: str
        at: float
        writer: str
        environ: dict[str, str]
        delivery: str
        digest: str
        session_id: str
        environment: Environment | None
        checkout: NotRequired[Checkout]
        progress: Snapshot | None
        status: str | None
        loads: list[Draft]


VERSION = 2
LONGEST_DELIVERY = 64 * 1024  # most deliveries have a few hundred bytes; a compaction's summary, some thousand
VARIABLES = ("CLAUDE_CODE_SESSION_ID", "CLAUDE_PID", "CLAUDE_PROJECT_DIR", "AI_AGENT", "CLAUDE_CODE_ENTRYPOINT")
HEX = frozenset("0123456789abcdef")
# A shape is a tuple of types, the members of an object, or the one shape of all items of a list.
TEXT, OPTIONAL = (str,), (str, type(None))
ENVIRONMENT = dict.fromkeys(("hostname", "platform", "cwd", "git_commit"), OPTIONAL)
CHECKOUT = {"has_run": (bool,), "branch": OPTIONAL, "uncommitted": (bool, type(None))}
PROGRESS = {"phase": OPTIONAL, "step": OPTIONAL, "phases_completed": [TEXT]}
SPOOLED = {
    "spool": (int,),
    "id": TEXT,
    "salt": TEXT,
    "run_id": TEXT,
    "hook": TEXT,
    "at": (float,),
    "writer": TEXT,
    "environ": (dict,),
    "delivery": TEXT,
    "digest": TEXT,
    "session_id": TEXT,
    "environment": (dict, type(None)),
    "checkout": (dict,),
    "progress": (dict, type(None)),
    "status": OPTIONAL,
    "loads": [{"event": (dict,), "client": OPTIONAL}],
}
LOADS = {
    kind: {"type": TEXT, "session_id": TEXT} | {name: (type(value),) for name, value in known.redacted.items()}
    for kind, known in EVENT_TYPES.items()
    if known.is_spoolable
}
GIVEN = ("inline", "outline", "pointer", "deferred")


def is_spooled(found: object) -> bool:
    """Return whether a value is what a hook of this version spools, so that it becomes only facts of a hook."""
    return type(found) is dict and _has({"checkout": {}} | found, SPOOLED) and _is_known(found)


def _is_known(found: Any) -> bool:
    try:
        utc_text(found["at"])
    except (ValueError, OverflowError, OSError):
        return False
    return (
        found["spool"] == VERSION
        and found["hook"] in HOOKS
        and is_event_id(found["id"])
        and _is_hex(found["salt"], 32)
        and _is_hex(found["writer"], 32)
        and (_is_hex(found["digest"], 64) or found["digest"] == "")
        and found["session_id"] != ""
        and all([name in VARIABLES and type(value) is str for name, value in found["environ"].items()])
        and (found["environment"] is None or _has(found["environment"], ENVIRONMENT))
        and ("checkout" not in found or _has(found["checkout"], CHECKOUT))
        and (found["progress"] is None or _has(found["progress"], PROGRESS))
        and all([_is_load(load["event"], found["session_id"]) for load in found["loads"]])
    )


def _is_load(event: Any, session_id: str) -> bool:
    """Return whether an event is about an artifact of the session that starts: a delivery brings no other type."""
    kind = event.get("type")
    return (
        type(kind) is str
        and kind in LOADS
        and _has(event, LOADS[kind])
        and event["session_id"] == session_id
        and event.get("given", GIVEN[0]) in GIVEN
    )


def _has(value: Any, shape: Any) -> bool:
    if isinstance(shape, dict):
        return type(value) is dict and value.keys() == shape.keys() and all([_has(value[k], shape[k]) for k in shape])
    if isinstance(shape, list):
        return type(value) is list and all([_has(item, shape[0]) for item in value])
    return type(value) in shape


def _is_hex(text: str, length: int) -> bool:
    return len(text) == length and HEX.issuperset(text)
