"""A conversation's summary as it may travel in git: bounded, and without the secrets that a rule knows."""

from __future__ import annotations

import re

from faber_ledger.context.secret_rules import KEYWORDS, RULES
from faber_ledger.context.units import clipped
from faber_ledger.ledger.canonical import without_surrogates

LONGEST = 6_000
MARGIN = 4_096  # looked at beyond the longest, since masking makes room
TOKEN = r"[\w\-./+=~%]"
# `curl -u name:password`, quoted or not; a user's and a group's number, as `docker run -u 1000:1000`, are no secret.
USER_OPTION = r"(?:(?<=\s)-[A-Za-z]{0,8}u|--(?:proxy-)?user)[\s=]{0,3}"
USER_AND_PASSWORD = (
    r'"[^"\n:]{0,80}:[^"\n]{1,200}"',
    r"'[^'\n:]{0,80}:[^'\n]{1,200}'",
    r"(?!\d+:\d+\b)[^\s:\"'`/]{1,80}:(?!/)[^\s\"'`]{3,200}",
)
# The kind of secret, its pattern, the flags of `re`, and words of which each match has one, as RULES has them too.
OURS = (
    # The library finds a key by its first line; here all of it goes, also where its end is not there.
    (
        "Private Key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-*|\Z)",
        re.DOTALL,
        ("-----BEGIN ",),
    ),
    ("Private Key", r"PuTTY-User-Key-File-\d.*", re.DOTALL, ("PuTTY-User-Key-File-",)),
    ("Anthropic Token", r"sk-ant-[\w-]{16,}", 0, ("sk-ant-",)),
    ("OpenAI Token", r"\bsk-[\w-]{32,}", 0, ("sk-",)),
    ("GitHub Token", r"github_pat_\w{20,}", 0, ("github_pat_",)),
    ("Google API Key", r"AIza[\w-]{35}", 0, ("AIza",)),
    # Those below the library does not know: tokens by their beginnings, and credentials that stand in a command.
    ("npm Token", r"\bnpm_[A-Za-z0-9]{20,}", 0, ("npm_",)),
    ("Hugging Face Token", r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}", 0, ("hf_", "api_org_")),
    ("Credentials", r"://[^\s/@:?#]{0,100}:[^\s/@]{1,200}@(?:[^\s/@]{1,200}@)?", 0, ("://",)),
    ("Credentials", r"://[\w.~%+-]{16,200}@", 0, ("://",)),
    ("Credentials", rf"{USER_OPTION}(?:{'|'.join(USER_AND_PASSWORD)})", 0, ("-",)),
    (
        "Authorization",
        r"\b(?:bearer|basic)\s{1,3}(?=[\w.~+/-]{0,200}\d)[\w.~+/-]{16,}=*",
        re.IGNORECASE,
        ("bearer", "basic"),
    ),
)
CALLED = (
    rf"""((?:{"|".join(KEYWORDS)}|token)\w{{0,40}}[\]'"`*]{{0,4}}\s{{0,3}}(?::=|={{1,3}}>?|:)[\s*]{{0,4}}["'`]?)"""
    r"""(?!\[masked)([^\s"'`,;]{6,})"""
)
CALLING = ("key", "pass", "pwd", "secret", "contrase", "token")
LIKE_ASCII = str.maketrans("İıſ", "iis")  # what `re` takes for these letters where case is ignored, and `lower` not


def bounded_summary(said: str) -> str:
    """Give what a client's summary says, without secrets, in at most 6,000 characters; empty if nothing is left.

    The model's thoughts before the summary proper are left out. Where the text is cut, a token that may go on beyond
    the cut is left out whole, so that no half of a secret stands where no rule knows it.
    """
    return clipped(masked(_head(_summary(said))).strip(), LONGEST, "…")


def masked(text: str) -> str:
    """Put the kind of each secret in its place.

    To compile all patterns takes longer than the rest of a hook: one whose words the text has not is left out.
    """
    for kind, pattern, flags, words in (*OURS, *RULES):
        if _has_one(text, flags, words):
            goes_on = f"(?:(?<={TOKEN}){TOKEN}*)"  # some rules know how a secret begins, not how long it is
            text = re.sub(f"(?:{pattern}){goes_on}?", f"[masked: {kind}]", text, flags=flags | re.ASCII)
    if _has_one(text.translate(LIKE_ASCII), re.IGNORECASE, CALLING):
        text = re.sub(CALLED, r"\1[masked]", text, flags=re.IGNORECASE)
    return text


def _has_one(text: str, flags: int, words: tuple[str, ...]) -> bool:
    looked_at = text.lower() if flags & re.IGNORECASE else text
    return not words or any([word in looked_at for word in words])


def _summary(said: str) -> str:
    start = said.find("<summary>", max(said.find("</analysis>"), 0))
    end = said.rfind("</summary>")
    return said[start + len("<summary>") if start >= 0 else 0 : end if end > start else len(said)].strip()


def _head(text: str) -> str:
    """Cut a text where it is looked at no further, without the token that stands at the cut."""
    if len(text) <= LONGEST + MARGIN:
        return without_surrogates(text)
    text = text[: LONGEST + MARGIN]
    return without_surrogates(text.rstrip("".join([chr(code) for code in range(33, 127)])))
