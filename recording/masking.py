"""A conversation's summary as it may travel in git: bounded, and without the secrets that a rule knows."""

from __future__ import annotations

import re

from faber_ledger.files.text import cut_middle
from faber_ledger.ledger.canonical import without_surrogates
from faber_ledger.recording.secret_rules import KEYWORDS, RULES

LONGEST = 6_000
MARGIN = 4_096  # looked at beyond the longest, since masking makes room
LOOKED_AT = LONGEST // 2 + MARGIN  # of each end
PRINTED = "".join([chr(code) for code in range(33, 127)])
REST_OF_KEY = r"\A(?:(?!-----BEGIN).)*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-*"
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
# What a secret is called besides what the library knows: a header's name has dashes, and prose has none.
NAMES = (*KEYWORDS, "token", "api-key", "auth-key", "access[-_]?key")
# A value in quotes with spaces is a secret if not all of it is prose; one without, if it is no call, as in code.
QUOTED = r"""(["'`])(?=(?:(?!\2)[^\n]){0,200}?[\d@$!%^&*#?+=/\\_])(?!\[masked)(?:(?!\2)[^\n]){6,200}\2"""
BARE = r"""(["'`]?)(?!\[masked|[A-Za-z_][\w.]{0,80}[(\[])[^\s"'`,;]{6,}"""
CALLED = (
    rf"""((?:{"|".join(NAMES)})\w{{0,40}}[\]'"`*]{{0,4}}\s{{0,3}}(?::=|={{1,3}}>?|:)[\s*]{{0,4}})(?:{QUOTED}|{BARE})"""
)
# A variable of any key with a value that no person would write; a password in prose, by a digit among its letters.
KEY_VARIABLE = r"""(\b[A-Z0-9_]{1,40}_KEY["']?\s{0,3}[=:]\s{0,3}["'`]?)(?=[\w+/=.-]{0,200}\d)[\w+/=.-]{16,}"""
IN_PROSE = r"""(\bpass(?:word|phrase|wd)\s{1,3}(?:is|was)\s{1,3}["'`]?)(?=[^\s"'`]{0,200}\d)(?!\d+\b)[^\s"'`,;]{6,}"""
# Rules that find a secret by its name, which stays: what is put there, the pattern, and as above.
BY_NAME = (
    (r"\1\2\3[masked]\2", CALLED, re.IGNORECASE, ("key", "pass", "pwd", "secret", "contrase", "token")),
    (r"\1[masked]", KEY_VARIABLE, re.ASCII, ("_KEY",)),
    (r"\1[masked]", IN_PROSE, re.IGNORECASE, ("password", "passphrase", "passwd")),
)
LIKE_ASCII = str.maketrans("İıſ", "iis")  # what `re` takes for these letters where case is ignored, and `lower` not


def bounded_summary(said: str) -> str:
    """Give what a client's summary says, without secrets, in at most 6,000 characters; empty if nothing is left.

    The model's thoughts before the summary proper are left out. Of a longer one beginning and end are kept, since what
    is next stands last. Where the text is cut, a token that may go on beyond the cut is left out whole, so that no half
    of a secret stands where no rule knows it.
    """
    text = _summary(said)
    if len(text) <= 2 * LOOKED_AT:
        text = masked(without_surrogates(text))
    else:
        text = f"{masked(without_surrogates(_head(text)))}\n…\n{masked(without_surrogates(_tail(text)))}"
    return cut_middle(text.strip(), LONGEST)


def masked(text: str) -> str:
    """Put the kind of each secret in its place.

    To compile all patterns takes longer than the rest of a hook: one whose words the text has not is left out.
    """
    for kind, pattern, flags, words in (*OURS, *RULES):
        if _has_one(text, flags, words):
            goes_on = f"(?:(?<={TOKEN}){TOKEN}*)"  # some rules know how a secret begins, not how long it is
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
    """Cut a text where it is looked at no further, without the token that stands at the cut."""
    return text[:LOOKED_AT].rstrip(PRINTED)


def _tail(text: str) -> str:
    """Give a text's end, without the token that stands at the cut, and without the rest of a key that began before."""
    return re.sub(REST_OF_KEY, "[masked: Private Key]", text[-LOOKED_AT:].lstrip(PRINTED), flags=re.DOTALL)
