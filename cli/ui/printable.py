"""Make text from a repository safe for a terminal."""

from __future__ import annotations

CONTROLS = {code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)] if chr(code) not in "\n\t"}
DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))  # they reverse text
CONTROLS |= {code: f"\\u{code:04x}" for code in DIRECTIONS}


def printable(text: str) -> str:
    """Make control characters visible, so that none from a repository reaches a terminal; lone surrogates too."""
    return text.translate(CONTROLS).encode("utf-8", "backslashreplace").decode()
