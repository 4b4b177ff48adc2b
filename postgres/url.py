"""The text of a server's URL, taken apart as libpq does it: what in it is ambiguous, and what of it may be shown."""

from __future__ import annotations

from urllib.parse import unquote

SCHEMES = ("postgresql://", "postgres://")
EXAMPLE = "postgresql://USER@HOST/DATABASE"
SECRETS = ("password", "sslpassword", "oauth_client_secret")  # of libpq's parameters
HIDDEN = "***"
HINT = f"it has the form {EXAMPLE}; in a name or password write / as %2F, @ as %40, ? as %3F and : as %3A"
# Of libpq's parameters those that reports show. Not everything else: a misspelt `password` has one, too.
SHOWN = {"host", "hostaddr", "port", "user", "dbname", "sslmode", "sslrootcert", "sslcert", "target_session_attrs"}


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
    return bool(user.partition(":")[2]) or any([name in SECRETS for name in list_options(url)])


def shown_url(url: str) -> str:
    """Return a URL as reports show it: without a password, and without its query if anything in it may be one."""
    if not url.startswith(SCHEMES) or is_ambiguous(url):
        return HIDDEN
    place, question, query = url.partition("?")
    before, at, after = place.partition("@")
    scheme, _, user = (before if at else "").partition("://")
    if at:
        name, colon, _ = user.partition(":")
        place = f"{scheme}://{name}{f':{HIDDEN}' if colon else ''}@{after}"
    is_shown = all([name in SHOWN for name in list_options(url)])
    return f"{place}{question}{query if is_shown else HIDDEN}"


def _without_scheme(url: str) -> str:
    return url.partition("://")[2]


def list_options(url: str) -> list[str]:
    """Return the names of the options in a URL's query."""
    query = url.partition("?")[2]
    return [unquote(one.partition("=")[0]) for one in query.split("&")] if query else []
