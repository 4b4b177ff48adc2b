"""Which server is meant, and the errors about it: neither its URL nor a message of the driver shows a password."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import quote, unquote, urlencode

from faber_ledger.files.text import escape
from faber_ledger.ledger.command_errors import ServerRefused, ServerUnavailable, UsageFailed
from faber_ledger.ledger.encoding import dumps, sha256
from faber_ledger.ledger.errors import LedgerError

VARIABLE = "FABER_LEDGER_URL"
WITHOUT_PASSWORD = (
    f"put the URL into {VARIABLE} or into the user's configuration, or leave the password out of it: PGPASSWORD and"
    " ~/.pgpass are read"
)


class Address:
    """A server's address. Neither its text nor its representation has a password: only `parameters` does."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self.parameters = dict(parameters)

    def __str__(self) -> str:
        """Return the URL without passwords and options, as one line with control characters escaped."""
        given = self.parameters
        user = f"{quote(given['user'], '')}@" if "user" in given else ""
        database = quote(given.get("dbname", ""), "")
        places: dict[str, str] = {name: given[name] for name in ("host", "hostaddr", "port") if name in given}
        if "hostaddr" in places or {*places.get("host", "")} & {*"/:,"}:  # a socket's folder, an IPv6 one, or several
            return escape(f"{SCHEMES[0]}{user}/{database}?{urlencode(places, safe='/:,')}")
        port = f":{given['port']}" if "port" in given else ""
        return escape(f"{SCHEMES[0]}{user}{places.get('host', '')}{port}/{database}")

    @property
    def with_options(self) -> str:
        """The URL with its options, such as TLS, but without secrets."""
        shown = ("user", "host", "hostaddr", "port", "dbname", *SECRETS)
        options = {name: value for name, value in self.parameters.items() if name not in shown}
        return (
            f"{self}{'&' if '?' in str(self) else '?'}{urlencode(options, quote_via=quote)}" if options else str(self)
        )

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def digest(self) -> str:
        """Return a digest of the server that libpq reaches from here, and of the login.

        It covers libpq's variables, since `PGHOSTADDR` leads to another server, but no password.
        """
        from psycopg.pq import Conninfo  # the extra; an address is made with it

        given = [one for one in Conninfo.get_defaults() if one.val and one.val != one.compiled]
        known = {one.keyword.decode(): os.fsdecode(one.val or b"") for one in given} | self.parameters
        named = {name: known[name] for name in sorted(known) if name not in (*SECRETS, "passfile")}
        return sha256(dumps(named).encode("utf-8", "surrogatepass")).hexdigest()

    def screen(self, message: str) -> str:
        """Return a message of libpq or the server as one line, without passwords, with control characters escaped."""
        for secret in [*[self.parameters.get(name) for name in SECRETS], os.environ.get("PGPASSWORD")]:
            if secret:
                message = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, message)
        return escape("; ".join([" ".join(line.split()) for line in message.splitlines() if line.strip()]))


def find_address(
    given: str | None, environ: Mapping[str, str], configured: str | None, path: str, option: str = "--url"
) -> Address:
    """Return the address of the server that is meant: `given` by the option, else the variable's, else the user's.

    `configured` is the `url` in the user's configuration, which is at `path`; `option` is what errors call `given`.
    Raises UsageFailed if no server is named, for an invalid URL, and for a password in the option, which the list of
    processes shows to everybody; LedgerError without psycopg.
    """
    if given is not None:
        address = Address(parse_url(given, option))
        if any([name in address.parameters for name in SECRETS]):
            raise UsageFailed(f"{option} has a password, which the list of processes shows", hint=WITHOUT_PASSWORD)
        return address
    if environ.get(VARIABLE):
        return Address(parse_url(environ[VARIABLE], VARIABLE))
    if not configured:
        raise UsageFailed(
            "no server is named",
            hint=f"give {option} {EXAMPLE}, or set {VARIABLE}, or `url` in the user's configuration; without a server,"
            " `faber-ledger run list` has this clone's runs",
        )
    return Address(parse_url(configured, path))


def parse_url(url: str, source: str) -> dict[str, str]:
    """Return libpq's parameters of a URL; raises UsageFailed, without the URL in its message, and LedgerError."""
    if not url.startswith(SCHEMES):
        raise UsageFailed(f"{escape(source)} is not a PostgreSQL URL", hint=f"it has the form {EXAMPLE}")
    if is_ambiguous(url):
        raise UsageFailed(f"{escape(source)} is ambiguous as a PostgreSQL URL", hint=HINT)
    load_driver()
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    try:
        return {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except (Error, ValueError):
        # libpq's message quotes the part that it does not understand, which may be the password.
        raise UsageFailed(f"{escape(source)} is not a PostgreSQL URL that libpq understands", hint=HINT) from None


def load_driver() -> None:
    """Load psycopg; raises LedgerError if it is not installed."""
    try:
        import psycopg  # noqa: F401  # the extra that most users do not need
    except ImportError as error:
        raise missing_extra("PostgreSQL", "postgres") from error


def missing_extra(what: str, extra: str) -> LedgerError:
    """Return the error for something that needs an extra, with the command that installs it."""
    return LedgerError(
        f"{what} needs the extra faber-ledger[{extra}]",
        hint="install faber-ledger again, as before, with the extra after the file or folder: "
        f"`pipx install --force '.[{extra}]'`, or `pip install 'faber_ledger-VERSION-py3-none-any.whl[{extra}]'`",
    )


SCHEMES = ("postgresql://", "postgres://")
EXAMPLE = "postgresql://USER@HOST/DATABASE"
SECRETS = ("password", "sslpassword", "oauth_client_secret")  # of libpq's parameters
HIDDEN = "***"
HINT = f"it has the form {EXAMPLE}; in a name or password write / as %2F, @ as %40, ? as %3F and : as %3A"


def is_ambiguous(url: str) -> bool:
    """Return whether a URL may have a sign in its user part for which libpq reads another host than was meant.

    libpq ends the user part at the first `@`, and knows none after the first `/`: the rest of a password that has one
    of them would be the host, the port or the database, which errors name. A `?` before the `@` may begin the query.
    """
    rest = _without_scheme(url)
    before, at, after = rest.partition("@")
    if at and ("/" in before or "?" in before or "@" in after):
        return True
    places = after if at else rest
    for sign in "/?":
        places = places.partition(sign)[0]
    return any([not _is_port(place) for place in places.split(",")])


def _is_port(place: str) -> bool:
    """Return whether what follows a host is a number, or nothing; an IPv6 address is in brackets."""
    _, bracket, tail = place.rpartition("]")
    if place.startswith("[") != bool(bracket):
        return False
    _, colon, port = tail.rpartition(":")
    return not colon or not port or (port.isascii() and port.isdigit())


def has_password(url: str) -> bool:
    """Return whether a URL has a password, or cannot be taken apart, so that it may have one."""
    if is_ambiguous(url):
        return True
    user = _without_scheme(url).rpartition("@")[0]
    options = [unquote(one.partition("=")[0]) for one in url.partition("?")[2].split("&")]
    return bool(user.partition(":")[2]) or not {*SECRETS}.isdisjoint(options)


def _without_scheme(url: str) -> str:
    return url.partition("://")[2]


LATER = "local work goes on; run the command again when the server is back, and nothing is lost or doubled"
HINT_CONNECT = (
    "check the URL, the network, the password (PGPASSWORD, ~/.pgpass), that the server runs, and that the role may log"
    f" in; {LATER}"
)
CONNECTING = "connection failed: "  # what the driver puts before libpq's words
USED_PASSWORD = "used_password"  # in the data of an error: a connection failed after the server was given a password
NO_RIGHT = "42501"  # SQLSTATE
# SQLSTATE: classes, and single conditions. Everything else is a refusal.
UNAVAILABLE_CLASSES = ("08", "40", "53", "57", "58", "XX")
UNAVAILABLE = {"25006", "25P03", "25P04", "55P03"}  # read-only, too long without a word, a lock timeout
HINTS = {
    "42": "check that the role has been granted faber_ledger_member, and that `faber-ledger db upgrade` was run",
    NO_RIGHT: "the owner of the database grants the role faber_ledger_member, and an admin of the project runs"
    " `faber-ledger db admit ROLE`",
    "53100": f"free space on the server's disk; {LATER}",
    "53300": f"the server has no connection left; {LATER}",
    "25006": f"connect to the server that takes changes, not to a replica; {LATER}",
    "57014": f"the server took too long; {LATER}",
}


def is_interrupted(error: Exception) -> bool:
    """Return whether an error of the driver came from an interrupt."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__context__
    return found is not None


def translate(error: Exception, address: Address) -> LedgerError:
    """Return the error that a command ends with in place of one of psycopg's.

    What the server says, its hint too, is quoted as the server's. The driver gives no code for a connection that fails.
    """
    import psycopg

    state: str | None = getattr(error, "sqlstate", None)
    diagnosis = getattr(error, "diag", None)
    # Not the whole text: its details may have the row that was refused, with its payload.
    primary = getattr(diagnosis, "message_primary", None)
    advice = getattr(diagnosis, "message_hint", None)
    if not primary:
        message = f"{address}: {_quote_answer(address, str(error).strip())}"
        if isinstance(error, psycopg.DataError):
            return ServerRefused(message)
        is_connecting = str(error).startswith(CONNECTING)
        used_password = is_connecting and getattr(getattr(error, "pgconn", None), "used_password", False)
        return ServerUnavailable(message, hint=HINT_CONNECT, data={USED_PASSWORD: True} if used_password else None)
    said = "; ".join([address.screen(text) for text in (primary, advice) if text])
    message, data = f'{address}: the server says "{said}"', {"sqlstate": state}
    known = HINTS.get(state or "") or HINTS.get((state or "")[:2])
    if state in UNAVAILABLE or (state or "")[:2] in UNAVAILABLE_CLASSES:
        return ServerUnavailable(message, hint=known or LATER, data=data)
    return ServerRefused(message, hint=known or "", data=data)


def _quote_answer(address: Address, said: str) -> str:
    """Return libpq's message about a connection, with the part that may come from the server in quotes."""
    place, failed, why = said.removeprefix(CONNECTING).partition(" failed: ")
    if not failed or not place.startswith("connection to server "):
        return address.screen(said)
    who = "the server says " if ":  " in why else ""  # libpq writes two blanks after a server's severity
    return f'{address.screen(place)} failed: {who}"{address.screen(why)}"'


def translate_read_only(address: Address) -> LedgerError:
    """Return the error for a read-only server."""
    return ServerUnavailable(f"{address}: the server is read-only", hint=HINTS["25006"], data={"sqlstate": "25006"})
