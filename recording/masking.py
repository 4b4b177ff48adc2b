"""Prepare a conversation's summary for git: shorten it, and mask the secrets that a rule knows."""

from __future__ import annotations

import re

from faber_ledger.files.text import cut_middle
from faber_ledger.ledger.canonical import without_surrogates
from faber_ledger.recording.secret_rules import KEYWORDS, RULES

MAX_LENGTH = 6_000
MARGIN = 4_096  # read beyond the longest, since masking makes room
READ_LENGTH = MAX_LENGTH // 2 + MARGIN  # at each end
PRINTED = "".join([chr(code) for code in range(33, 127)])
REST_OF_KEY = r"\A(?:(?!-----BEGIN).)*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-*"
TOKEN = r"[\w\-./+=~%]"
# `curl -u name:password`, quoted or not; the numbers of user and group in `docker run -u 1000:1000` are not a secret.
USER_OPTION = r"(?:(?<=\s)-[A-Za-z]{0,8}u|--(?:proxy-)?user)[\s=]{0,3}"
USER_AND_PASSWORD = (
    r'"[^"\n:]{0,80}:[^"\n]{1,200}"',
    r"'[^'\n:]{0,80}:[^'\n]{1,200}'",
    r"(?!\d+:\d+\b)[^\s:\"'`/]{1,80}:(?!/)[^\s\"'`]{3,200}",
)
# The kind of secret, its pattern, the flags of `re`, and words of which each match has one; RULES has the same form.
OUR_RULES = (
    # The library finds a key by its first line; this masks all of it, also if its end is missing.
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
    # The library does not know those below: tokens by their beginnings, and credentials in a command.
    ("npm Token", r"\bnpm_[A-Za-z0-9]{20,}", 0, ("npm_",)),
    ("Hugging Face Token", r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}", 0, ("hf_", "api_org_")),
    ("DigitalOcean Token", r"\bdo[opr]_v1_[0-9a-f]{32,}", 0, ("doo_v1_", "dop_v1_", "dor_v1_")),
    ("PyPI Token", r"\bpypi-(?:AgE[\w-]{16,}|(?=\w{0,200}\d)\w{32,})", 0, ("pypi-",)),
    ("Google OAuth Secret", r"\bGOCSPX-[\w-]{20,}", 0, ("GOCSPX-",)),
    ("age Key", r"\bAGE-SECRET-KEY-1[A-Z0-9]{20,}", 0, ("AGE-SECRET-KEY-1",)),
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
# Names of secrets that the library does not know: a header's name has dashes, and prose has none.
NAMES = (*KEYWORDS, "token", "api-key", "auth-key", "access[-_]?key")
# A quoted value with spaces is a secret unless all of it is prose; one without spaces, unless it is a call in code.
QUOTED = r"""(["'`])(?=(?:(?!\2)[^\n]){0,200}?[\d@$!%^&*#?+=/\\_])(?!\[masked)(?:(?!\2)[^\n]){6,200}\2"""
BARE = r"""(["'`]?)(?!\[masked|[A-Za-z_][\w.]{0,80}[(\[])[^\s"'`,;]{6,}"""
CALLED = (
    rf"""((?:{"|".join(NAMES)})\w{{0,40}}[\]'"`*]{{0,4}}\s{{0,3}}(?::=|={{1,3}}>?|:)[\s*]{{0,4}})(?:{QUOTED}|{BARE})"""
)
# A variable for a key with a value that no person would type; in prose, a password that has a digit.
KEY_VARIABLE = r"""(\b[A-Z0-9_]{1,40}_KEY["']?\s{0,3}[=:]\s{0,3}["'`]?)(?=[\w+/=.-]{0,200}\d)[\w+/=.-]{16,}"""
IN_PROSE = r"""(\bpass(?:word|phrase|wd)\s{1,3}(?:is|was)\s{1,3}["'`]?)(?=[^\s"'`]{0,200}\d)(?!\d+\b)[^\s"'`,;]{6,}"""
# Rules that find a secret by its name, which stays: the replacement, the pattern, and the rest as above.
BY_NAME = (
    (r"\1\2\3[masked]\2", CALLED, re.IGNORECASE, ("key", "pass", "pwd", "secret", "contrase", "token")),
    (r"\1[masked]", KEY_VARIABLE, re.ASCII, ("_KEY",)),
    (r"\1[masked]", IN_PROSE, re.IGNORECASE, ("password", "passphrase", "passwd")),
)
LIKE_ASCII = str.maketrans("İıſ", "iis")  # `re` treats them as these letters if case is ignored; `lower` does not


def clean_summary(said: str) -> str:
    """Return a client's summary without secrets, in at most 6,000 characters; empty if nothing is left.

    The model's analysis before the summary proper is left out. A longer summary keeps its beginning and its end, where
    the next steps are. At a cut, a token that may go on beyond it is left out completely: no rule would recognise half
    of a secret.
    """
    text = _summary(said)
    if len(text) <= 2 * READ_LENGTH:
        text = mask_secrets(without_surrogates(text))
    else:
        text = f"{mask_secrets(without_surrogates(_head(text)))}\n…\n{mask_secrets(without_surrogates(_tail(text)))}"
    return cut_middle(text.strip(), MAX_LENGTH)


def mask_secrets(text: str) -> str:
    """Return a text with each secret replaced by its kind.

    Compiling all patterns takes longer than the rest of a hook, so a pattern is skipped if the text has none of its
    words.
    """
    for kind, pattern, flags, words in (*OUR_RULES, *RULES):
        if _has_one(text, flags, words):
            goes_on = f"(?:(?<={TOKEN}){TOKEN}*)"  # some rules know how a secret begins, but not how long it is
            text = re.sub(f"(?:{pattern}){goes_on}?", f"[masked: {kind}]", text, flags=flags | re.ASCII)
    for shown, pattern, flags, words in BY_NAME:
        if _has_one(text.translate(LIKE_ASCII), flags, words):
            text = re.sub(pattern, shown, text, flags=flags)
    return text


def _has_one(text: str, flags: int, words: tuple[str, ...]) -> bool:
    looked_at = text.lower() if flags & re.IGNORECASE else text
    return not words or any([word in looked_at for word in words])


def _summary(said: str) -> str:
    start = said.find("<summary>", max(said.find("</analysis>"), 0))
    end = said.rfind("</summary>")
    return said[start + len("<summary>") if start >= 0 else 0 : end if end > start else len(said)].strip()


def _head(text: str) -> str:
    """Return the beginning of a text that is read, without the token at the cut."""
    return text[:READ_LENGTH].rstrip(PRINTED)


def _tail(text: str) -> str:
    """Return the end of a text that is read, without the token at the cut and the rest of a key that began before."""
    return re.sub(REST_OF_KEY, "[masked: Private Key]", text[-READ_LENGTH:].lstrip(PRINTED), flags=re.DOTALL)
