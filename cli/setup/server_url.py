"""The address of the team's server in the user's configuration, and whether others can read its password there."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from faber_ledger.runs.settings import UserConfig


HIDDEN = "***"


def has_password(url: str) -> bool:
    """Return whether a URL has a password, or cannot be taken apart, so that it may have one."""
    try:
        parts = urlsplit(url)
        return parts.password is not None or "password" in dict(parse_qsl(parts.query))
    except ValueError:
        return True


def shown_url(url: str) -> str:
    """Return a URL as reports show it: without a password, and without its query if that has one."""
    try:
        parts = urlsplit(url)
        has_secret = "password" in dict(parse_qsl(parts.query))
        user, at, place = parts.netloc.rpartition("@")
    except ValueError:
        return HIDDEN
    user, colon, _ = user.partition(":")
    shown = parts._replace(netloc=f"{user}{f':{HIDDEN}' if colon else ''}{at}{place}", fragment="")
    return shown._replace(query=HIDDEN).geturl() if has_secret else shown.geturl()


def list_exposed(config: UserConfig) -> list[str]:
    """Return a message if others can read the password in the user's configuration, else nothing."""
    if config["url"] is None or not has_password(config["url"]):
        return []
    try:
        mode = stat.S_IMODE(os.stat(config["path"]).st_mode)
    except OSError:
        return []
    if not mode & 0o077:
        return []
    return [f"{config['path']} has a password, and others can read it (mode {mode:04o}): run `chmod 600` on it"]
