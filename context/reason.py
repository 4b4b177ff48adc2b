"""Whether the reason of a redaction would keep what the redaction takes out."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LONG = 6  # letters: a shorter word stands within many others
WORD = re.compile(r"\w+")
# Reasons are given in these, and they tell nothing of anybody's.
COMMON = frozenset(
    [
        "account",
        "address",
        "customer",
        "customers",
        "delete",
        "deleted",
        "detail",
        "details",
        "directory",
        "employee",
        "folder",
        "hostname",
        "internal",
        "leaked",
        "machine",
        "machines",
        "message",
        "mistake",
        "number",
        "passphrase",
        "password",
        "passwords",
        "people",
        "person",
        "personal",
        "private",
        "project",
        "redact",
        "redacted",
        "remove",
        "removed",
        "repository",
        "secret",
        "secrets",
        "sensitive",
        "server",
        "session",
        "should",
        "string",
        "summary",
        "username",
    ]
)


def shared_word(reason: str, texts: Iterable[str]) -> str | None:
    """Give what a reason has of the texts that are taken out: a whole text, or a word; None for nothing.

    Words of six letters and more are looked for in the other's words too, whatever their case: a part of a password is
    one that is too much. A shorter text, as the host name `vm`, must stand there as a word of its own. Words in which
    reasons are given, as `password`, may stand in both.
    """
    said = reason.casefold()
    words = _long_words(said)
    for text in sorted(texts):
        gone = text.casefold()
        if len(gone) < LONG:
            if gone.strip() and re.search(rf"(?<!\w){re.escape(gone)}(?!\w)", said):
                return text
        elif gone in said:
            return text
        else:
            for word in sorted(_long_words(gone)):
                if word in said:
                    return word
            for word in sorted(words):
                if word in gone:
                    return word
    return None


def _long_words(text: str) -> set[str]:
    return {word for word in WORD.findall(text) if len(word) >= LONG} - COMMON
