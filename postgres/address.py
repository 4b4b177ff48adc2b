"""Which server is meant: its URL, where that comes from, and its passwords, which nothing that is printed contains."""

from __future__ import annotations

import os
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from urllib.parse import quote, quote_plus

from faber_ledger.files.text import escape
from faber_ledger.ledger.command_errors import UsageFailed
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.postgres.url import EXAMPLE, HIDDEN, HINT, SCHEMES, SECRETS, is_ambiguous, list_options

VARIABLE = "FABER_LEDGER_URL"
WORD = re.compile("[a-z_]{1,40}")
found_passwords: set[str] = set()  # that libpq took from elsewhere: ~/.pgpass, a service file
found_users: set[str] = set()  # and the names that it logged in with
SHORT = 8  # letters: a shorter password may be a part of many words
AS_WORD = r"(?<![\w-])(?<!\w\.){}(?![\w-]|\.\w)"
AS_PASSWORD = r"(?i:(password\W{{1,3}})){0}(?![\w-])|(?<=\w:){0}(?=@)"
WITHOUT_PASSWORD = (
    f"put the URL into {VARIABLE} or into the user's configuration, or leave the password out of it: PGPASSWORD and"
    " ~/.pgpass are read"
)


class Address:
    """A server's address. Neither its text nor its representation has a password: only `parameters` does."""

    def __init__(self, parameters: Mapping[str, str], source: str) -> None:
        """Keep libpq's parameters, and where they come from: `--url`, the variable, or a file's path."""
        self.parameters = dict(parameters)
        self.source = source

    def __str__(self) -> str:
        """Return the URL without passwords and options, as one line in which no character hides."""
        given = self.parameters
        user = f"{given['user']}@" if "user" in given else ""
        hosts, database = given.get("host", given.get("hostaddr", "")), given.get("dbname", "")
        if hosts.startswith("/"):  # the folder of a socket
            return SCHEMES[0] + self.screen(f"{user}/{database}?host={hosts}")
        port = f":{given['port']}" if "port" in given else ""
        return SCHEMES[0] + self.screen(f"{user}{hosts}{port}/{database}")

    def __repr__(self) -> str:
        return f"Address({str(self)!r}, from {self.source})"

    def screen(self, message: str) -> str:
        """Return a message of libpq or the server as one line without passwords, in which no character hides.

        A password is hidden wherever it stands; a short one, which may be a part of any word, only as a whole word. The
        name of the user, host or database, which each error shows, is hidden where it stands as a password.
        """
        given = [*[self.parameters.get(name) for name in SECRETS], os.environ.get("PGPASSWORD"), *found_passwords]
        names = self._list_names()
        hidden = {form: secret for secret in given if secret for form in _forms_of(secret)}
        for form in sorted(hidden, key=len, reverse=True):
            secret = hidden[form]
            if form in names:
                message = re.sub(AS_PASSWORD.format(re.escape(form)), lambda found: (found[1] or "") + HIDDEN, message)
            elif secret in names or len(secret) < SHORT:
                message = re.sub(AS_WORD.format(re.escape(form)), HIDDEN, message)
            else:
                message = message.replace(form, HIDDEN)
        return escape(_join_lines(message))

    def _list_names(self) -> set[str]:
        """Return what an address shows of a connection: the user, hosts, ports and the database."""
        listed = [self.parameters.get(name, "").split(",") for name in ("host", "hostaddr", "port")]
        single = [self.parameters.get("user", ""), self.parameters.get("dbname", ""), os.environ.get("PGUSER", "")]
        return {*found_users, *single, *[one for several in listed for one in several]} - {""}


def _join_lines(message: str) -> str:
    """Return a message as one line: a line that libpq indents explains the one before it, the others are errors."""
    parts: list[str] = []
    is_open = False  # whether the last part ends with a parenthesis of ours
    for line in message.splitlines():
        text = " ".join(line.split())
        if not text:
            continue
        is_more = line[:1] == "\t" and bool(parts)
        if is_more:
            explained = f"{parts[-1][:-1]} " if is_open else f"{parts[-1]} ("
            parts[-1] = f"{explained}{text.rstrip('.')})"
        else:
            parts.append(text)
        is_open = is_more
    return "; ".join(parts).replace(":; ", ": ")


def _forms_of(secret: str) -> set[str]:
    """Return a password as it stands in a message, in a URL, and in base64."""
    raw = os.fsencode(secret)
    encoded = [encode(raw).decode().rstrip("=") for encode in (b64encode, urlsafe_b64encode)]
    return {secret, quote(raw, safe=""), quote(raw), quote_plus(raw), *encoded}


def find_address(given: str | None, environ: Mapping[str, str], configured: str | None, path: str) -> Address:
    """Return the address of the server that is meant: `given` by the option, else the variable's, else the user's.

    `configured` is the `url` in the user's configuration, which is at `path`. Raises UsageFailed if no server is named,
    for a URL that is none, and for a password in the option, which the list of processes shows to everybody;
    LedgerError without psycopg.
    """
    if given is not None:
        address = Address(parse_url(given, "--url"), "--url")
        if any([name in address.parameters for name in SECRETS]):
            raise UsageFailed("--url has a password, which the list of processes shows", hint=WITHOUT_PASSWORD)
        return address
    if environ.get(VARIABLE):
        return Address(parse_url(environ[VARIABLE], VARIABLE), VARIABLE)
    if not configured:
        raise UsageFailed(
            "no server is named", hint=f"give --url {EXAMPLE}, or set {VARIABLE}, or `url` in the user's configuration"
        )
    return Address(parse_url(configured, path), path)


def parse_url(url: str, source: str) -> dict[str, str]:
    """Return libpq's parameters of a URL; raises UsageFailed, which does not repeat it, and LedgerError."""
    if not url.startswith(SCHEMES):
        raise UsageFailed(f"{escape(source)} is not a PostgreSQL URL", hint=f"it has the form {EXAMPLE}")
    if is_ambiguous(url):
        raise UsageFailed(f"{escape(source)} is not a PostgreSQL URL that can be read in one way", hint=HINT)
    load_driver()
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import Conninfo

    known = {one.keyword.decode() for one in Conninfo.get_defaults()} | {"ssl"}
    unknown = [name for name in list_options(url) if name not in known]
    if unknown and WORD.fullmatch(unknown[0]):
        raise UsageFailed(
            f"{escape(source)} is not a PostgreSQL URL: libpq has no option {unknown[0]}",
            hint="what follows the ? are options of libpq, such as sslmode=verify-full",
        )
    try:
        return {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except (Error, ValueError):
        # libpq's message quotes the part that it does not understand, which may be the password.
        raise UsageFailed(
            f"{escape(source)} is not a PostgreSQL URL that libpq understands",
            hint=HINT,
        ) from None


def load_driver() -> None:
    """Load psycopg; raises LedgerError if it is not installed."""
    try:
        import psycopg  # noqa: F401  # the extra that most users do not need
    except ImportError as error:
        raise LedgerError(
            "PostgreSQL needs the extra faber-ledger[postgres]",
            hint="install faber-ledger again, as before, with the extra after the file or folder: "
            "`pipx install --force '.[postgres]'`, or `pip install 'faber_ledger-VERSION-py3-none-any.whl[postgres]'`",
        ) from error
