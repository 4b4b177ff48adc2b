"""Append events without the secrets in them: every event that this program makes passes here before it is hashed.

What an event says in free text is masked by all rules, what it names (a step, a path, a branch) by those for tokens and
URLs alone. Ids that must match others, hashes and host names stay. So do the blocks of a run that is adopted: they are
in `state.json` anyway, and its state is projected from them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Draft, Recorded
    from faber_ledger.ledger.log import Log


# Fields by their names, the same in every type of event. A field of no set is masked as those in NAMED.
FREE_TEXT = frozenset(["client_reason", "error", "reason", "summary", "text", "told"])
NAMED = frozenset(
    [
        *("branch", "cwd", "source", "phase", "phases_completed", "step"),
        *("agent_id", "mode", "status", "trigger"),
    ]
)
KEPT = frozenset(
    [
        *("type", "kind", "given", "severity", "code", "loaded_at"),
        *("run_id", "workflow_id", "work_id", "session_id", "artifact_id", "also_loaded"),
        *("hostname", "platform", "pid", "git_commit", "hook", "digest", "sha256"),
        *("blocks", "event_id", "fields", "supersedes"),
        "remains",  # a redaction that leaves another text than the payload has is forged
    ]
)
# Free texts that are no secret, the client's and our own: with these alone, a hook does not load the rules.
PLAIN_WORDS = frozenset(
    [
        *("clear", "logout", "prompt_input_exit", "bypass_permissions_disabled", "resume", "other"),
        *("auto", "compaction", "normal", "manual", "abandoned", "repeated", "subagent", "no_session"),
    ]
)
SHORTEST = 12  # as in `tokens`, which is not loaded for shorter texts alone


def append_masked(log: Log, drafts: list[Draft], *, at: float, writer: str) -> list[Recorded]:
    """Append facts in the open transaction, each without the secrets in it; raises as `Log.append`."""
    return log.append(mask_drafts(drafts), at=at, writer=writer)


def mask_drafts(drafts: list[Draft]) -> list[Draft]:
    """Return drafts with each secret in their events replaced; the same drafts if there is none."""
    free: set[str] = set()
    named: set[str] = set()
    for draft in drafts:
        _collect(draft["event"], free, named)
    masked = _mask_free(free), _mask_named(named)
    if not any(masked):
        return drafts
    return [{**draft, "event": _replace(draft["event"], *masked)} for draft in drafts]


def _collect(value: Any, free: set[str], named: set[str], name: str = "") -> None:
    """Add the texts of a value that may hold a secret to the free texts, or to the names."""
    if type(value) is dict:
        for key, item in value.items():
            if key not in KEPT:
                _collect(item, free, named, key)
    elif type(value) is list:
        for item in value:
            _collect(item, free, named, name)
    elif type(value) is str:
        if name in FREE_TEXT:
            if value not in PLAIN_WORDS:
                free.add(value)
        elif len(value) >= SHORTEST:
            named.add(value)


def _replace(value: Any, free: dict[str, str], named: dict[str, str], name: str = "") -> Any:
    if type(value) is dict:
        return {key: item if key in KEPT else _replace(item, free, named, key) for key, item in value.items()}
    if type(value) is list:
        return [_replace(item, free, named, name) for item in value]
    if type(value) is str:
        return (free if name in FREE_TEXT else named).get(value, value)
    return value


def _mask_free(texts: set[str]) -> dict[str, str]:
    """Return each free text that holds a secret with what is recorded in its place."""
    if not texts:
        return {}
    from faber_ledger.recording.masking import mask_text  # most events have no such text

    return {text: masked for text in texts if (masked := mask_text(text)) != text}


def _mask_named(texts: set[str]) -> dict[str, str]:
    """Return each name that holds a secret with what is recorded in its place; first all are tried as one text."""
    if not texts:
        return {}
    from faber_ledger.recording.tokens import mask_tokens

    together = "\n".join(texts)
    if mask_tokens(together) == together:
        return {}
    return {text: masked for text in texts if (masked := mask_tokens(text)) != text}
