"""One reload of context (RELOAD, Steps 3 to 6): which artifacts were loaded, which failed, and which were skipped."""

from __future__ import annotations

import os

from faber_ledger.context import packet, selection
from faber_ledger.context.artifact import (
    COMMAND_TYPES,
    FILES,
    LARGE_BYTES,
    STRATEGIES,
    SUMMARY,
    ArtifactError,
    build_surroundings,
    content_digest,
    empty_placeholders,
    is_own_state,
    keyed,
    no_value_for,
    read_file,
    source_of,
    source_text,
)
from faber_ledger.context.body import find_rules_of_failure, named_in_hint
from faber_ledger.context.position import WHAT_THIS_IS, render_position
from faber_ledger.context.workflow import SHIPPED, artifacts_without_workflow
from faber_ledger.files.text import escape
from faber_ledger.ledger.clock import OutOfTime, check_time, seconds_of
from faber_ledger.ledger.disk import around
from faber_ledger.ledger.errors import LedgerError, WorkflowNotFound
from faber_ledger.runs.progress import branch_name, current_phase, phase_state, phase_states, text_of_value
from faber_ledger.runs.settings import read_user_config
from faber_ledger.runs.state_file import check_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any, TypedDict

    from faber_ledger.context.artifact import Content, Loaded, Surroundings
    from faber_ledger.context.body import Given, Part
    from faber_ledger.context.elsewhere import Elsewhere
    from faber_ledger.context.notes import Remembered
    from faber_ledger.context.selection import Held
    from faber_ledger.context.workflow import Artifact, Workflow
    from faber_ledger.ledger.events import Draft, Environment, Recorded
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run

    Load = tuple[str, str, object]  # an artifact's id, the digest of its content, and how it is given

    class Failed(TypedDict):
        """An artifact that could not be loaded."""

        artifact: Artifact
        error: ArtifactError

    class Skipped(TypedDict):
        """An artifact that was loaded some seconds ago; `loaded` is its content now."""

        artifact: Artifact
        loaded: Loaded
        loaded_at: str
        age: float


UNCHANGED = (
    "This conversation was given the run's context before; artifacts that have not changed since are left out.\n\n"
)


class Reload:
    """The result of one reload; `problems` are what the agent must read first."""

    def __init__(
        self, root: str, triggers: list[str], state: dict[str, Any], problems: list[str], workflow: Workflow | None
    ) -> None:
        self.root = root
        self.triggers = triggers
        self.state = state
        self.attempts: list[tuple[Artifact, Loaded | ArtifactError]] = []
        self.skipped: list[Skipped] = []
        self.given: dict[str, Given] = {}  # how each loaded artifact was given, once it is packed
        self._unnamed: set[str] = set()  # what was loaded, and has no room even for its name
        self.other_problems = problems
        self.workflow = workflow  # that the artifacts were selected from; None if it cannot be used
        self.hint = ""  # what matters now, in the user's or FABER's words: the artifacts that it names come first
        self.mapped: Collection[str] = ()  # commands for which the user has a program

    @classmethod
    def failed_to_gather(cls, root: str, state: dict[str, Any], error: BaseException) -> Reload:
        """Return a reload without artifacts, which says what stopped it: no time, or a bug of ours."""
        what = f"a bug in faber-ledger kept it from loading artifacts, please report it: {error!r:.300}"
        if isinstance(error, OutOfTime):
            what = f"no artifact was read, since {error}; {selection.HINT_LOAD_ALL}"
        return cls(root, ["session_start"], state, [f"⚠️ WARNING: {what}"], None)

    @property
    def loaded(self) -> list[Loaded]:
        """What was loaded, in order."""
        return [result for _, result in self.attempts if not isinstance(result, ArtifactError)]

    @property
    def failed(self) -> list[Failed]:
        """What could not be loaded, in order."""
        return [{"artifact": one, "error": error} for one, error in self.attempts if isinstance(error, ArtifactError)]

    @property
    def missed(self) -> list[Failed]:
        """What failed, without files that are not there and that only our own workflow names as optional."""
        is_ours = self.workflow is not None and os.path.dirname(self.workflow["artifacts_path"]) == SHIPPED
        return [one for one in self.failed if one["artifact"]["required"] or not (is_ours and one["error"].is_missing)]

    @property
    def required_failed(self) -> list[Failed]:
        """The failures of required artifacts, without which the workflow cannot proceed."""
        return [failed for failed in self.failed if failed["artifact"]["required"]]

    def in_context(self) -> list[Loaded]:
        """Return what the agent was given, whole or as an outline; the rest was only named."""
        return [one for one in self.loaded if self.given[one["artifact"]["id"]] in ("inline", "outline")]

    def lacks_room(self) -> bool:
        """Return whether a larger budget gives more of what was loaded; False before it is packed.

        That is not known of the run's state, which has an outline by its own form.
        """
        ways = [(self.given.get(one["artifact"]["id"]), one["is_outlined"] or one["is_state"]) for one in self.loaded]
        return any([how == "pointer" or (how == "outline" and not is_wanted) for how, is_wanted in ways])

    def problems(self) -> list[str]:
        """Return what is missing and how to recover, most important first."""
        failed = [failed for failed in self.required_failed if not failed["error"].is_state]
        if not failed:
            return self.other_problems
        from faber_ledger.context.failures import describe_failure

        return [*self.other_problems, *[describe_failure(**one) for one in failed]]

    def parts(self) -> list[Part]:
        """Return what was loaded as the packet takes it: artifacts that the hint names first, then required ones."""
        named = named_in_hint(self.loaded, self.hint) if self.hint else []
        phases = self.workflow["critical_artifacts"]["phase_specific"] if self.workflow is not None else {}
        of_phase = [artifact["id"] for artifact in phases.get(str(self.state.get("current_phase")), [])]
        ordered = sorted(self.loaded, key=lambda one: (one not in named, not one["artifact"]["required"]))
        return [
            {
                "artifact_id": loaded["artifact"]["id"],
                "description": loaded["artifact"]["description"],
                "source": self._place_of(loaded),
                "size_bytes": loaded["size_bytes"],
                "content": loaded["content"],
                "required": loaded["artifact"]["required"],
                "deferred": self._to_run(loaded) if loaded["is_deferred"] else None,
                "is_state": loaded["is_state"],
                "is_outlined": loaded["is_outlined"],
                "is_hinted": loaded in named,
                "is_of_phase": loaded["artifact"]["id"] in of_phase,
                "is_file": _is_file(loaded),
            }
            for loaded in ordered
        ]

    def _place_of(self, loaded: Loaded) -> str:
        """Return a source that the agent can read: as recorded, or the absolute path of a file in a plugin root."""
        if loaded["artifact"]["type"] in COMMAND_TYPES or around(loaded["resolved"], [self.root]):
            return loaded["source"]
        return loaded["resolved"]

    def _to_run(self, loaded: Loaded) -> str:
        from faber_ledger.context.failures import describe_command

        command = loaded["content"].split()[0]
        return describe_command(loaded, is_mapped=command in self.mapped)

    def not_loaded(self) -> list[str]:
        """Return a line for each optional artifact that is there, or named by the state, but could not be loaded."""
        failed = [one for one in self.failed if not one["artifact"]["required"]]
        if not failed:
            return []
        from faber_ledger.context.failures import describe_not_loaded, is_named_by_state

        missed = [one for one in failed if not one["error"].is_missing or is_named_by_state(**one)]
        return [describe_not_loaded(one["artifact"], one["error"], self.root) for one in missed]

    def _about_earlier(
        self,
        run: Run,
        log: Log | None,
        client: str | None,
        start: Recorded | None,
        others: list[str],
        branch: str | None,
    ) -> list[str | None]:
        """Return sentences about the conversation before, about `others`, and in a run's first one about other runs."""
        if log is None:
            return [*others]
        if start is not None:
            branch = text_of_value(branch_name(self.state)) or branch
            return [packet.describe_break(run.root, log, client, start, branch=branch), *others]
        from faber_ledger.runs.of_work import describe_other_runs  # once a run

        return [*others, *describe_other_runs(run, self.state)]

    def pack(
        self,
        run: Run,
        log: Log | None,
        problems: list[str],
        *,
        client: str | None,
        source: str,
        budget: int,
        has_summaries_in_git: bool,
        elsewhere: Elsewhere | None,
        before: str = "",
        keeps_packets: bool = False,
        branch: str | None = None,
    ) -> str:
        """Return the packet of a session of `client` that starts, or loads again, and note how it gives each artifact.

        Notes and another conversation's summary come from `log`, where it can be read; `elsewhere` is about other
        clones, `before` is a sentence about what must come first, and `branch` is the run's by its log. A conversation
        that is resumed gets the position, the state, and the artifacts that it lacks; if nothing has changed since a
        whole packet the same one, which a client adds no second time unless it `keeps_packets`.
        """
        parts = self.parts()
        keeper = None if has_summaries_in_git else run
        notes, summary = packet.read_remembered(self.root, log, client, source, keeper) if log else ([], None)
        if summary is not None and _is_over(self.state, summary):
            summary = None  # what came next in it is done
        is_begun = source == "compact"  # what the session before left is this conversation's now
        is_asked = log is not None and (elsewhere is not None or not is_begun)
        start = packet.start_before(run.root, log, client) if log is not None and is_asked else None
        others = elsewhere.describe(log, start, client, is_begun=is_begun) if elsewhere is not None else []
        earlier = others if is_begun else self._about_earlier(run, log, client, start, others, branch)
        first = [sentence for sentence in (*earlier, before) if sentence]
        on_failure = find_rules_of_failure(self.state, parts)
        about: Any = {"workflow": self.workflow, "notes": notes, "branch": branch}
        about |= {"before": first, "on_failure": on_failure}
        position = render_position(run, self.state, **about)
        more: Any = {"budget": budget, "state": self.state, "is_copy": run.is_kept}
        more |= {"not_loaded": [] if run.is_kept else self.not_loaded()}
        notes = position["other_notes"]
        text, given = packet.pack(position, parts, problems, notes=notes, summary=summary, **more)
        self._note_given(given)
        held, was_whole = _held_by(log, client) if log is not None and source == "resume" else (set(), False)
        kept = {name for name, *_ in self._loads() & held if name not in self._state_ids()}
        if not kept or (was_whole and not keeps_packets and self._loads() <= held):
            return text
        knows_state = log is not None and not others and _was_last(log, client, self.state)
        position = render_position(run, self.state, **about, knows_state=knows_state)
        position["text"] = position["text"].replace(WHAT_THIS_IS, UNCHANGED, 1)
        position["said"] |= {part["source"] for part in parts}
        lacking = [part for part in parts if part["artifact_id"] not in kept]
        text, given = packet.pack(position, lacking, problems, notes=notes, knows_state=knows_state, **more)
        self.given |= given
        return text

    def _note_given(self, given: dict[str, Given]) -> None:
        """Note how a packet gives each artifact, and which it does not name."""
        names = [loaded["artifact"]["id"] for loaded in self.loaded]
        self.given = {name: given.get(name, "pointer") for name in names}
        self._unnamed = {name for name in names if name not in given}

    def _loads(self) -> set[Load]:
        """Return what the packet gives."""
        given = [(one, self.given[one["artifact"]["id"]]) for one in self.loaded]
        return {(one["artifact"]["id"], keyed(self.root, one["sha256"]), how) for one, how in given if how != "pointer"}

    def _state_ids(self) -> set[str]:
        return {one["artifact"]["id"] for one in self.loaded if one["is_state"]}

    def drafts(self, session_id: str, client: str | None, environment: Environment | None = None) -> list[Draft]:
        """Return the events of this reload, none for an artifact that the packet does not name.

        Without a workflow or a required artifact it does not count as a reload. `environment` is given if the session
        lacks one, as a session of an older tool may (RELOAD, Validation 4).
        """

        def fact(kind: str, artifact: Artifact, **more: object) -> Draft:
            of_all = {"session_id": session_id, "artifact_id": artifact["id"], "trigger": self._trigger_of(artifact)}
            event: Any = {"type": kind, **of_all, **more}
            return {"event": event, "client": client}

        facts = []
        for loaded in [one for one in self.loaded if one["artifact"]["id"] not in self._unnamed]:
            source = loaded["content"] if loaded["is_deferred"] else loaded["source"]
            of_load = {"source": source, "size_bytes": loaded["size_bytes"]}
            of_load |= {"sha256": keyed(self.root, loaded["sha256"]), "given": self.given[loaded["artifact"]["id"]]}
            facts.append(fact("artifact_loaded", loaded["artifact"], **of_load))
        inside = os.path.join(self.root, "")  # which is another path on other machines
        for failed in self.missed:
            artifact, error = failed["artifact"], failed["error"].message.replace(inside, "")
            of_error = {"source": source_of(artifact), "required": artifact["required"], "error": error}
            facts.append(fact("artifact_failed", artifact, **of_error))
        facts += [fact("artifact_skipped", one["artifact"], loaded_at=one["loaded_at"]) for one in self.skipped]
        if self.workflow is not None and not self.required_failed:
            counts = {"loaded": len(self.in_context()), "failed": len(self.missed), "skipped": len(self.skipped)}
            trigger = selection.recorded_trigger(self.triggers[0])
            reloaded: Any = {"type": "context_reloaded", "session_id": session_id, "trigger": trigger, **counts}
            if environment is not None:
                reloaded["environment"] = environment
            facts.append({"event": reloaded, "client": client})
        return facts

    def _trigger_of(self, artifact: Artifact) -> str:
        """Return the trigger that an artifact was loaded for, in the form that is recorded."""
        listed = artifact["reload_triggers"] or self.triggers
        matching = [trigger for trigger in self.triggers if selection.full_trigger(trigger, self.state) in listed]
        return selection.recorded_trigger((matching or self.triggers)[0])


def _was_last(log: Log, client: str | None, state: dict[str, Any]) -> bool:
    """Return whether a run's last session is a conversation's, has ended, and its state has not changed since."""
    start = log.last_start(before=None)
    if start is None or start["client"] != client:
        return False
    ends = [seconds_of(one["at"]) or 0.0 for one in log.ends_of(start) if dict(one["event"])["reason"] != "abandoned"]
    updated_at = seconds_of(state.get("updated_at"))
    return bool(ends) and updated_at is not None and updated_at <= ends[0]


def _held_by(log: Log, client: str | None) -> tuple[set[Load], bool]:
    """Return what a client's conversation was given since its last start here, and whether that start gave all of it.

    Nothing if a compaction has cut it; the end of one follows the start after it.
    """
    held: set[Load] = set()
    is_cut, reloads = False, 0
    for recorded in log.newest_by(client):
        event: dict[str, Any] = dict(recorded["event"])
        is_cut |= event["type"] == "compaction_completed"
        if event.get("reason") == "compaction":
            return set(), False
        if event["type"] == "artifact_loaded":
            held.add((event["artifact_id"], event["sha256"], event.get("given")))
        reloads += event["type"] == "context_reloaded"  # a second reload came from a command, not from a start
        if event["type"] == "session_started":
            is_whole = event["source"] in ("startup", "clear", "compact", "fork") and reloads <= 1
            return held if not is_cut or event["source"] == "compact" else set(), is_whole
    return held, False


def _is_over(state: dict[str, Any], summary: Remembered) -> bool:
    """Return whether a phase was completed after a summary was made.

    If the time is not known, its own phase is once the run has gone on to another one.
    """
    of_phase, at = phase_state(state, summary["phase"]), seconds_of(summary["at"]) or 0.0
    if any([(seconds_of(one.get("completed_at")) or 0.0) > at for one in phase_states(state).values()]):
        return True
    return (
        "completed_at" not in of_phase
        and of_phase.get("status") == "completed"
        and current_phase(state) != summary["phase"]
    )


def _is_file(loaded: Loaded) -> bool:
    """Return whether the content is that of one file, whose lines can be named."""
    kind = loaded["artifact"]["type"]
    return kind in FILES or (kind == "directory" and os.path.isfile(loaded["resolved"]))


def load(artifact: Artifact, surroundings: Surroundings) -> Loaded:
    """Load an artifact (RELOAD, Step 5); raises ArtifactError, for an optional one too."""
    if artifact["problem"]:
        raise ArtifactError(artifact["problem"])
    where = "a command" if artifact["type"] in COMMAND_TYPES else "a path"
    source = "" if is_own_state(artifact) else source_text(artifact, surroundings)
    empty = empty_placeholders(source, surroundings, where)
    try:
        content = _read(artifact, surroundings)
    except ArtifactError as error:
        if empty and no_value_for(empty) not in error.message:
            reason = f"{error.message} ({no_value_for(empty)})"
            raise ArtifactError(reason, error.resolved, is_missing=error.is_missing) from error
        raise
    is_state = artifact["type"] in FILES and content["resolved"] == surroundings["state_path"]
    is_outlined = artifact["type"] in FILES and artifact["load_strategy"] == SUMMARY
    notes = [no_value_for(empty)] if empty else []
    if artifact["load_strategy"] not in STRATEGIES:
        unknown = f"{artifact['load_strategy']!r:.80} is not a load_strategy ({', '.join(STRATEGIES)})"
        notes.append(f'{unknown}: "all" is used')
    return {
        "artifact": artifact,
        "content": content["text"],
        "size_bytes": content["size_bytes"],
        "sha256": content_digest(content["text"]),
        "source": content["source"],
        "resolved": content["resolved"],
        "is_large": content["size_bytes"] > LARGE_BYTES and not (is_state or is_outlined),
        "is_state": is_state,
        "is_outlined": is_outlined,
        "is_deferred": content.get("is_deferred", False),
        "notes": [f"{artifact['id']}: {note}" for note in notes],
    }


def _read(artifact: Artifact, surroundings: Surroundings) -> Content:
    kind = artifact["type"]
    if kind in FILES:
        return read_file(artifact, surroundings)
    if kind == "directory":  # each of the others is loaded only where it is needed
        from faber_ledger.context.artifact_directory import read_directory as read
    elif kind in ("work_plugin", "skill"):
        from faber_ledger.context.artifact_command import read_command as read
    elif kind == "git_info":
        from faber_ledger.context.artifact_git import read_git as read
    else:
        raise ArtifactError(f"Unknown artifact type: {kind}")
    return read(artifact, surroundings)


def gather(
    selected: Iterable[Artifact],
    surroundings: Surroundings,
    *,
    triggers: list[str],
    at: float,
    held: dict[str, Held],
    dry_run: bool,
    max_bytes: float = float("inf"),
    workflow: Workflow | None,
    problems: list[str] | None = None,
) -> Reload:
    """Load artifacts; one that the agent was given whole in the last five minutes is skipped if it has not changed.

    `held` has those loads, by artifact id. The answer of a user's program is skipped if it came in the last five
    minutes, so that a `dry_run`, which starts no program, shows what the load would do. After `max_bytes` of required
    artifacts no more of these are read, and likewise for optional ones; after a hook's deadline none is.
    """
    result = Reload(surroundings["root"], triggers, surroundings["state"], problems or [], workflow)
    left = {True: max_bytes, False: max_bytes}
    for artifact in selected:
        known = held.get(artifact["id"])
        try:
            check_time()
            if left[artifact["required"]] <= 0:
                read = f"a hook has read {max_bytes / 1048576:.0f} MB of artifacts"
                raise ArtifactError(f"Not read, since {read}; {selection.HINT_LOAD_ALL}")
            loaded, is_fresh = _load_or_skip(artifact, surroundings, known, at, dry_run=dry_run)
            left[artifact["required"]] -= 0 if loaded["is_state"] else loaded["size_bytes"]
        except OutOfTime as error:
            result.attempts.append((artifact, ArtifactError(f"Not read, since {error}; {selection.HINT_LOAD_ALL}")))
        except ArtifactError as error:
            result.attempts.append((artifact, error))
        else:
            if known is not None and is_fresh:
                loaded_at, age = str(known["loaded_at"]), selection.age_of(known, at) or 0.0
                result.skipped.append({"artifact": artifact, "loaded": loaded, "loaded_at": loaded_at, "age": age})
            else:
                result.attempts.append((artifact, loaded))
    return result


def _load_or_skip(
    artifact: Artifact, surroundings: Surroundings, known: Held | None, at: float, *, dry_run: bool
) -> tuple[Loaded, bool]:
    """Load an artifact, and return whether the load that is `known` still holds: then no program of the user is run."""
    loaded = load(artifact, {**surroundings, "commands": {}})
    command = surroundings["commands"].get(loaded["content"].split()[0]) if loaded["is_deferred"] else None
    before = known.get("sha256") if known is not None and command is None else None
    digest = keyed(surroundings["root"], loaded["sha256"]) if before else ""
    is_fresh = known is not None and selection.is_current(known, at, digest or None, before or None)
    if command is not None and not is_fresh and dry_run:
        from faber_ledger.context.artifact_command import check_mapped  # most projects map no program

        check_mapped(command, surroundings)
    elif command is not None and not is_fresh:
        loaded = load(artifact, surroundings)
    return loaded, is_fresh


def gather_for_hook(
    run: Run, state: dict[str, Any], *, compacted: bool, at: float, is_state_read: bool = False, dry_run: bool = False
) -> Reload:
    """Load what a session start in the client needs; whatever goes wrong is a problem in the result, never an error."""
    triggers = ["session_start", "compaction_detected"] if compacted else ["session_start"]
    config = read_user_config()
    problems = [f"⚠️ WARNING: {config['problem']}"] if config["problem"] else []
    workflow: Workflow | None = None
    try:
        check_status(run, state)
    except LedgerError as error:
        problems.append(error.block)
    try:
        workflow = selection.workflow_of(run, state, config["plugin_roots"])
        problems += workflow["warnings"]
        selected = selection.limit_for_hook(
            selection.select(workflow, state, triggers, None, problems.append)
            + selection.specification_not_listed(workflow, state),
            problems.append,
        )
    except WorkflowNotFound as error:
        workflow, selected = None, artifacts_without_workflow() if state else []
        problems.append(error.block or f"❌ ERROR: {escape(error.message)}\n\nRecovery: {escape(error.hint)}")
    surroundings = build_surroundings(run, state, config["plugin_roots"])
    surroundings["is_state_read"] = is_state_read
    more: Any = {"held": {}, "max_bytes": selection.MAX_BYTES_READ}  # a new session has nothing in context yet
    more |= {"triggers": triggers, "at": at, "dry_run": dry_run, "problems": problems, "workflow": workflow}
    result = gather(selected, surroundings, **more)
    result.mapped = config["commands"]
    return result
