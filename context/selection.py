"""Which of a workflow's artifacts are loaded: by triggers, requested ids, conditions and age (RELOAD, Step 3).

A condition is a small grammar, never evaluated as code.
"""

from __future__ import annotations

from faber_ledger.context.artifact import is_own_state
from faber_ledger.context.workflow import artifacts_without_workflow, load_workflow, parse_artifact
from faber_ledger.files.text import escape, one_line
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.errors import WorkflowNotFound
from faber_ledger.projections.fold import artifacts_in_context
from faber_ledger.runs.progress import value_at
from faber_ledger.runs.state_file import fields_missing, workflow_id_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any, NotRequired, TypedDict

    from faber_ledger.context.workflow import Artifact, Workflow
    from faber_ledger.ledger.log import Log
    from faber_ledger.projections.fold import Blocks
    from faber_ledger.runs.run import Run

    class Held(TypedDict):
        """A load that gave the agent an artifact whole; an older tool's has no `sha256`."""

        loaded_at: object
        sha256: NotRequired[str]


RECENT_SECONDS = 300
SPECIFICATION = "artifacts.spec_path"  # in a state
MAX_ARTIFACTS = 200  # in a hook: some ask git, each with a process of its own
MAX_BYTES_READ = 2 * 1024 * 1024  # in a hook, of required artifacts, and as many of optional ones
HINT_LOAD_ALL = "`faber-ledger session-load` loads all"


def select(
    workflow: Workflow,
    state: dict[str, Any],
    triggers: Iterable[str],
    requested_ids: Collection[str] | None,
    warn: Callable[[str], None],
) -> list[Artifact]:
    """Return the artifacts to load, in the workflow's order, each id once (RELOAD, Step 3).

    Requested ids replace the triggers, but not a condition. Warns of conditions that cannot be evaluated, and of
    requested ids that select nothing.
    """
    full = {full_trigger(trigger, state) for trigger in triggers}
    selected: dict[str, Artifact] = {}
    for artifact in _applicable(workflow, state, warn):
        wanted = _is_triggered(artifact, full) if requested_ids is None else artifact["id"] in requested_ids
        known = selected.get(artifact["id"]) if wanted else None
        if known is not None:
            warn(f"Artifact named twice: {escape(artifact['id'])} - one is loaded, a required one if there is one")
        if wanted and (known is None or (artifact["required"] and not known["required"])):
            selected[artifact["id"]] = artifact
    if requested_ids:
        _warn_of_others(requested_ids, selected, workflow, warn)
    return list(selected.values())


def _warn_of_others(
    requested_ids: Collection[str], selected: dict[str, Artifact], workflow: Workflow, warn: Callable[[str], None]
) -> None:
    configured = list(dict.fromkeys([artifact["id"] for artifact in every_artifact(workflow)]))
    for name in dict.fromkeys(requested_ids):
        if name not in configured:
            warn(escape(f"Artifact not configured: {name} - the workflow has {', '.join(configured) or 'none'}"))
        elif name not in selected:
            warn(f"Artifact not selected: {name} - its condition does not hold, or it belongs to another phase")


def every_artifact(workflow: Workflow) -> list[Artifact]:
    """Return all artifacts of a workflow, whatever their condition or phase."""
    critical = workflow["critical_artifacts"]
    phases = [artifact for artifacts in critical["phase_specific"].values() for artifact in artifacts]
    return [*critical["always_load"], *critical["conditional_load"], *phases]


def specification_not_listed(workflow: Workflow, state: dict[str, Any]) -> list[Artifact]:
    """Return the specification that a state names, if no artifact of the workflow is one: a session works from it."""
    place = value_at(state, SPECIFICATION)
    listed = [(one["id"], one["path"], one["path_from_state"] or "") for one in every_artifact(workflow)]
    is_listed = [name == "specification" or path == place or SPECIFICATION in field for name, path, field in listed]
    if not (isinstance(place, str) and place) or any(is_listed):
        return []
    named = {"id": "specification", "type": "markdown", "path_from_state": SPECIFICATION}
    return [parse_artifact({**named, "description": "Named by the run's state alone"}, "state")]


def full_trigger(trigger: str, state: dict[str, Any]) -> str:
    """Return a trigger as artifacts list it: `phase_start` alone means the state's current phase."""
    return f"phase_start:{state.get('current_phase')}" if trigger == "phase_start" else trigger


def recorded_trigger(trigger: str) -> str:
    """Return a trigger as a load records it, without the phase it names (AGENT, Step 7)."""
    return trigger.partition(":")[0]


def age_of(load_entry: Mapping[str, object] | None, now_seconds: float) -> float | None:
    """Return the seconds since an entry was loaded; negative if that is to come, None if its time is unreadable."""
    loaded_at = seconds_of(load_entry.get("loaded_at")) if load_entry is not None else None
    return None if loaded_at is None else now_seconds - loaded_at


def is_current(
    load_entry: Mapping[str, object] | None, now_seconds: float, sha256: str | None, last_sha256: str | None
) -> bool:
    """Return whether a load is under five minutes old (RELOAD, Step 3), and its content not known to have changed.

    One from the future, or without a readable time, is not.
    """
    age = age_of(load_entry, now_seconds)
    changed = sha256 is not None and last_sha256 is not None and sha256 != last_sha256
    return age is not None and 0 <= age < RECENT_SECONDS and not changed


def workflow_of(run: Run, state: dict[str, Any], plugin_roots: list[str]) -> Workflow:
    """Load the workflow that a run's state names, or its metadata; raises WorkflowNotFound."""
    workflow_id = workflow_id_of(run, state)
    if not isinstance(workflow_id, str):
        message, hint, block = fields_missing(run, ("run_id", "workflow_id"))
        raise WorkflowNotFound(message, hint=hint, block=block)
    return load_workflow(run.root, workflow_id, plugin_roots)


def only_state(workflow: Workflow) -> list[Artifact]:
    """Return the workflow's artifact that is the run's own state; one of ours if it has none."""
    own = [artifact for artifact in every_artifact(workflow) if is_own_state(artifact)]
    return own[:1] or artifacts_without_workflow()


def loads_held(log: Log, session_id: str) -> dict[str, Held]:
    """Return the newest load of each artifact that gave it whole in a session, by artifact id."""
    held: dict[str, Held] = {}
    for recorded in log.newest_loads(session_id):
        event: dict[str, Any] = {**recorded["event"]}
        name, sha256 = event.get("artifact_id"), event.get("sha256")
        if event.get("given") == "inline" and isinstance(name, str) and name not in held:
            held[name] = {"loaded_at": recorded["at"], "sha256": sha256 if isinstance(sha256, str) else ""}
    return held


def loads_noted(blocks: Blocks) -> dict[str, Held]:
    """Return the loads that the blocks have as in context, by artifact id: all that is known of a run without a log."""
    entries = artifacts_in_context(blocks)
    return {str(entry.get("artifact_id")): {"loaded_at": entry.get("loaded_at")} for entry in entries}


def _applicable(workflow: Workflow, state: dict[str, Any], warn: Callable[[str], None]) -> list[Artifact]:
    critical = workflow["critical_artifacts"]
    conditional = [artifact for artifact in critical["conditional_load"] if _holds(artifact, state, warn)]
    phase = state.get("current_phase")
    of_phase = critical["phase_specific"].get(phase, []) if isinstance(phase, str) else []
    return [*critical["always_load"], *conditional, *of_phase]


def _holds(artifact: Artifact, state: dict[str, Any], warn: Callable[[str], None]) -> bool:
    condition = artifact["condition"]
    if condition is None:
        return True
    try:
        if not isinstance(condition, str):
            raise ConditionError(condition)
        return evaluate(condition, state)
    except ConditionError as error:
        part = f"\n   Not understood: {error.part}" if error.part else ""
        warn(f"{escape(str(error))}\n   Artifact: {escape(artifact['id'])}{part}")
        return False


def _is_triggered(artifact: Artifact, triggers: set[str]) -> bool:
    """Return whether an artifact lists one of the triggers; without a list, every trigger loads it (AGENT, Step 4)."""
    listed = artifact["reload_triggers"]
    return listed is None or "manual" in triggers or not triggers.isdisjoint(listed)


def limit_for_hook(artifacts: list[Artifact], warn: Callable[[str], None]) -> list[Artifact]:
    """Return at most `MAX_ARTIFACTS`, the required ones first, and warn if there are more."""
    if len(artifacts) > MAX_ARTIFACTS:
        count = f"the workflow names {len(artifacts):,} artifacts, and a hook loads at most {MAX_ARTIFACTS}"
        warn(f"⚠️ WARNING: {count}, required ones first; {HINT_LOAD_ALL}")
        return sorted(artifacts, key=lambda artifact: not artifact["required"])[:MAX_ARTIFACTS]
    return artifacts


MAX_QUOTED = 200  # characters of a condition in a message
MAX_CHARACTERS = 2000  # of a condition: a hook must not be noticed
MAX_DEPTH = 50  # of parentheses: each level takes a few frames of the interpreter's stack
WORDS = {"null": None, "true": True, "false": False}
OPERATORS = (("||",), ("&&",), ("===", "!==", "==", "!="), ("<=", ">=", "<", ">"))  # each binds more than those before
SIGNS = ("===", "!==", "==", "!=", "<=", ">=", "<", ">", "||", "&&", "!", "(", ")")
LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$.[]-")


class ConditionError(ValueError):
    """The text is not a condition of this grammar; the message is worded by the documents.

    `part` is what was not understood: the rest of the text from there on, or empty if it is the whole text.
    """

    def __init__(self, expression: object, reason: str = "", part: str = "") -> None:
        self.part = one_line(part, MAX_QUOTED)
        super().__init__(f"Cannot evaluate condition: {one_line(expression, MAX_QUOTED)}{reason}")


def evaluate(expression: str, state: dict[str, Any]) -> bool:
    """Return whether a condition holds for a state, in time linear in its length; raises only ConditionError."""
    if len(expression) > MAX_CHARACTERS:
        raise ConditionError(expression, f" ({len(expression):,} characters; the limit is {MAX_CHARACTERS:,})")
    return _is_true(_Reader(expression, state).value())


class _Reader:
    """Evaluates an expression from left to right without a tree: each rule returns the value of what it read."""

    def __init__(self, expression: str, state: dict[str, Any]) -> None:
        self.expression = expression
        self.state = state
        self.depth = 0
        self.at = 0  # of the tokens
        self.tokens = self._split()

    def _split(self) -> list[tuple[str, int]]:
        """Return the words, strings and signs of the expression, each with its place, and an empty one at the end."""
        text, at, tokens = self.expression, 0, []
        while at < len(text):
            start = at
            if text[at].isspace():
                at += 1
                continue
            if text[at] in "\"'":
                at = text.find(text[at], at + 1) + 1
                if not at or "\\" in text[start:at]:
                    raise self._error(start)
            elif sign := next((sign for sign in SIGNS if text.startswith(sign, at)), ""):
                at += len(sign)
            else:
                while text[at : at + 1] in LETTERS:
                    at += 1
                if at == start:
                    raise self._error(start)
            tokens.append((text[start:at], start))
        return [*tokens, ("", at)]

    def _error(self, start: int | None = None) -> ConditionError:
        start = self.tokens[self.at][1] if start is None else start
        return ConditionError(self.expression, part=self.expression[start:].strip() or "its end")

    def value(self) -> Any:
        value = self._operation(0)
        if self.tokens[self.at][0]:
            raise self._error()
        return value

    def _take(self, *signs: str) -> str:
        """Return the next token if it is one of the signs, and go on behind it; else an empty text."""
        token = self.tokens[self.at][0]
        if token not in signs:
            return ""
        self.at += 1
        return token

    def _operation(self, level: int) -> Any:
        """Return the value of operations of a level of `OPERATORS`, whose operands are of the next one."""
        is_last = level == len(OPERATORS) - 1
        value = self._single() if is_last else self._operation(level + 1)
        while sign := self._take(*OPERATORS[level]):
            value = _apply(value, sign, self._single() if is_last else self._operation(level + 1))
        return value

    def _single(self) -> Any:
        negations = 0
        while self._take("!"):
            negations += 1
        value = self._operand()
        return value if negations == 0 else _is_true(value) is (negations % 2 == 0)

    def _operand(self) -> Any:
        if self._take("("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise self._error()
            value = self._operation(0)
            if not self._take(")"):
                raise self._error()
            self.depth -= 1
            return value
        token, start = self.tokens[self.at]
        if token in WORDS:
            value = WORDS[token]
        elif token[:1] in "\"'" and token:
            value = token[1:-1]
        elif token[:1].isdecimal() or token[:1] == "-":
            try:
                value = float(token)
            except ValueError:
                raise self._error(start) from None
        elif _is_path(token):
            value = value_at(self.state, token)
        else:
            raise self._error(start)
        self.at += 1
        return value


def _is_path(token: str) -> bool:
    """Return whether a token is a name, then any number of `.name` and `[0]`."""
    names = token.replace("[", ".[").split(".")
    for place, name in enumerate(names):
        is_index = place > 0 and name[:1] == "[" and name[-1:] == "]" and name[1:-1].isdecimal()
        if not is_index and not name.replace("$", "_").isidentifier() and not (place and name.isdecimal()):
            return False
    return True


# Truth is as in JavaScript, since the workflow format calls a condition a JavaScript expression. Comparisons are
# stricter: a number and its text are neither equal nor in an order.


def _apply(one: Any, sign: str, other: Any) -> Any:
    if sign in ("||", "&&"):
        return one if _is_true(one) is (sign == "||") else other
    return _is_ordered(one, sign, other) if sign[0] in "<>" else _is_same(one, other) is (sign[0] == "=")


def _is_true(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return True
    return bool(value) and value == value  # NaN is false


def _is_same(one: Any, other: Any) -> bool:
    if _is_number(one) and _is_number(other):
        return bool(one == other)
    if type(one) is not type(other):
        return False
    return one is other if isinstance(one, (dict, list)) else bool(one == other)


def _is_ordered(one: Any, sign: str, other: Any) -> bool:
    """Compare two numbers or two strings by their order; anything else is in none."""
    if not (_is_number(one) and _is_number(other)) and not (isinstance(one, str) and isinstance(other, str)):
        return False
    is_less = one < other if sign[0] == "<" else one > other
    return bool(is_less or (sign[1:] and one == other))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
