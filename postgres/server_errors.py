"""What the driver raises, as an error with a code, an exit code and a way out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from faber_ledger.ledger.command_errors import ServerRefused, ServerUnavailable, UsageFailed
from faber_ledger.ledger.errors import LedgerError

if TYPE_CHECKING:
    from faber_ledger.postgres.address import Address

LATER = "local work goes on; run the command again when the server is back, and nothing is lost or doubled"
NO_RIGHT = "42501"  # SQLSTATE
# SQLSTATE: classes, and single conditions. Everything else is a refusal.
UNAVAILABLE_CLASSES = ("08", "40", "53", "57", "58", "XX")
UNAVAILABLE = {"25006", "25P03", "25P04", "55P03"}  # read-only, too long without a word, a lock not to be had in time
HINTS = {
    "28": "check the password (PGPASSWORD, ~/.pgpass) and that the role may log in",
    "3D": "check the name of the database in the URL",
    "42": "check that the role has been granted faber_ledger_member, and that `faber-ledger db current` is up to date",
    NO_RIGHT: "the owner of the database grants the role faber_ledger_member, and an admin of the project runs"
    " `faber-ledger db admit ROLE`",
    "53100": f"free space on the server's disk; {LATER}",
    "53300": f"the server has no connection left; {LATER}",
    "25006": f"connect to the server that takes changes, not to a replica; {LATER}",
    "57014": f"the server took too long; {LATER}",
}
# What libpq says of TLS, and the server of a login that none of its rules is for, without a SQLSTATE.
OF_TLS = ("certificate", "SSL", "sslmode", "sslrootcert", "sslcert", "sslkey")
OF_NO_RULE = ("pg_hba.conf", "no encryption")
INVALID_OPTION = re.compile(
    'invalid .* for connection option "|invalid [a-z_]+ value: "|invalid port number: "'
    '|definition of service ".*" not found|service file ".*"'
)
HINT_TLS = "check `sslmode` and `sslrootcert` in the URL, and the server's certificate; local work goes on"
HINT_NO_RULE = (
    "the server's pg_hba.conf has no rule for this login, database and address, or only one with TLS"
    " (`?sslmode=require`): ask its administrator"
)
NO_PASSWORD = "no password supplied"
HINT_NO_PASSWORD = (
    "libpq found no password: set PGPASSWORD, or write into ~/.pgpass a line whose host, port (5432 where the URL has"
    " none), database and user are those of the URL, letter by letter"
)
# A server that refuses a login says so before there is any SQLSTATE, and perhaps in its own language.
BUSY = ("starting up", "shutting down", "in recovery", "recovery mode", "too many", "remaining connection slots")
NO_LOGIN = ("FATAL", "password", "fe_sendauth")


def is_interrupted(error: Exception) -> bool:
    """Return whether the driver raised an error while it gave up a question because of an interrupt."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__context__
    return found is not None


def translate(error: Exception, address: Address) -> LedgerError:
    """Return the error that a command ends with in place of one of psycopg's."""
    state: str | None = getattr(error, "sqlstate", None)
    diagnosis = getattr(error, "diag", None)
    # Not the whole text: its details may have the row that was refused, with its payload.
    message = address.screen(getattr(diagnosis, "message_primary", None) or str(error).strip())
    hint = address.screen(getattr(diagnosis, "message_hint", None) or "")
    if state is None:
        return _translate_lost(error, message, address)
    known = hint or HINTS.get(state) or HINTS.get(state[:2])
    if state in UNAVAILABLE or state[:2] in UNAVAILABLE_CLASSES:
        later = HINTS.get(state) or HINTS.get(state[:2]) or (f"{hint.rstrip('.')}; {LATER}" if hint else LATER)
        return ServerUnavailable(f"{address}: {message}", hint=later, data={"sqlstate": state})
    return ServerRefused(f"{address}: {message}", hint=known or "", data={"sqlstate": state})


def translate_read_only(address: Address) -> LedgerError:
    """Return the error for a server that takes no change."""
    return ServerUnavailable(f"{address}: the server is read-only", hint=HINTS["25006"], data={"sqlstate": "25006"})


def _translate_lost(error: BaseException, message: str, address: Address) -> LedgerError:
    """Return the error for a connection that was not made, or is lost."""
    import psycopg

    if INVALID_OPTION.search(message):
        return UsageFailed(f"{address}: {message}", hint=f"check the options in the URL ({address.source})")
    if isinstance(error, psycopg.DataError):
        return ServerRefused(f"{address}: {message}")
    is_refused = any([sign in message for sign in NO_LOGIN]) and not any([sign in message for sign in BUSY])
    if is_refused and any([sign in message for sign in OF_NO_RULE]):
        return ServerRefused(f"{address}: {message}", hint=HINT_NO_RULE)
    if is_refused and NO_PASSWORD in message:
        return ServerRefused(f"{address}: {message}", hint=HINT_NO_PASSWORD)
    if is_refused:
        hint = HINTS["3D"] if "database" in message and "does not exist" in message else HINTS["28"]
        return ServerRefused(f"{address}: {message}", hint=hint)
    if any([sign in message for sign in OF_TLS]) and "closed" not in message:
        return ServerUnavailable(f"{address}: {message}", hint=HINT_TLS)
    return ServerUnavailable(f"{address}: {message}", hint=f"check the network and the server; {LATER}")
