"""Prepare what people and models say for git: mask the secrets that a rule knows, and shorten a summary."""

from __future__ import annotations

from faber_ledger.files.text import cut_middle
from faber_ledger.ledger.canonical import without_surrogates
from faber_ledger.recording.secret_forms import mask_forms, mask_random
from faber_ledger.recording.secret_names import find_names
from faber_ledger.recording.tokens import mask_tokens

MAX_LENGTH = 6_000
READ_LENGTH = 32_768  # at each end: much more than is kept, since masking makes room
MAX_NAMES = 1_500  # of secrets in a text, whose time is bounded by them; nobody writes more in 64 KB
PRINTED = "".join([chr(code) for code in range(33, 127)])
INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad"))


def clean_summary(said: str) -> str:
    """Return a client's summary without secrets, in at most 6,000 characters; empty if nothing is left.

    The model's analysis before the summary proper is left out. A longer summary keeps its beginning and its end, where
    the next steps are. What is cut was masked before; of a text too long for that, a token at the cut is left out
    completely: no rule would recognise half of a secret.
    """
    text = _summary(said)
    if len(text) <= 2 * READ_LENGTH:
        text = mask_text(without_surrogates(text))
    else:
        text = f"{mask_text(without_surrogates(_head(text)))}\n…\n{mask_text(without_surrogates(_tail(text)))}"
    return cut_middle(text.strip(), MAX_LENGTH)


def mask_text(text: str) -> str:
    """Return a free text (a summary, a note, a reason) with each secret replaced by its kind."""
    bare = text if text.isascii() else text.translate(INVISIBLE)
    masked = _masked(bare)
    return text if masked == bare else masked  # what nobody sees can be in the middle of a secret


def _masked(text: str) -> str:
    text = mask_forms(mask_tokens(text))
    names = find_names(text)
    if len(names) > MAX_NAMES:
        text = f"{text[: names[MAX_NAMES][0]]} [masked: the rest]"
        names = names[:MAX_NAMES]
    if names:
        from faber_ledger.recording.named_secrets import mask_named  # many patterns

        text = mask_named(text, names)
    return mask_random(text)


def _summary(said: str) -> str:
    start = said.find("<summary>", max(said.find("</analysis>"), 0))
    end = said.rfind("</summary>")
    return said[start + len("<summary>") if start >= 0 else 0 : end if end > start else len(said)].strip()


def _head(text: str) -> str:
    """Return the beginning of a text that is read, without the token at the cut."""
    return text[:READ_LENGTH].rstrip(PRINTED)


def _tail(text: str) -> str:
    """Return the end of a text that is read, without the token at the cut."""
    return text[-READ_LENGTH:].lstrip(PRINTED)
