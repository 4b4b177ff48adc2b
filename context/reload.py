"""One reload of context (RELOAD, Steps 3 to 6): which artifacts were loaded, which failed, and which were skipped."""

from __future__ import annotations

import os

from faber_ledger.context import packet
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
    is_named_by_state,
    is_own_state,
    keyed,
    no_value_for,
    read_file,
    source_of,
    source_text,
)
from faber_ledger.context.body import Focus, reading_of
from faber_ledger.context.position import render_position
from faber_ledger.context.selection import (
    HINT_LOAD_ALL,
    MAX_BYTES_READ,
    age_of,
    every_artifact,
    full_trigger,
    is_current,
    limit_for_hook,
    recorded_trigger,
    select,
    specification_not_listed,
)
from faber_ledger.context.workflow import artifacts_without_workflow, load_workflow
from faber_ledger.files.text import escape
from faber_ledger.ledger.clock import OutOfTime, check_time
from faber_ledger.ledger.disk import around
from faber_ledger.ledger.errors import LedgerError, WorkflowNotFound
from faber_ledger.projections.fold import artifacts_in_context
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.progress import resume_point
from faber_ledger.runs.settings import read_user_config
from faber_ledger.runs.state_file import check_status, fields_missing, workflow_id_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any, NotRequired, TypedDict

    from faber_ledger.context.artifact import Content, Loaded, Surroundings
    from faber_ledger.context.body import Given, Part
    from faber_ledger.context.elsewhere import Elsewhere
    from faber_ledger.context.notes import Remembered
    from faber_ledger.context.workflow import Artifact, Workflow
    from faber_ledger.ledger.events import ContextReloaded, Draft, Environment
    from faber_ledger.ledger.log import Log
    from faber_ledger.projections.fold import Blocks
    from faber_ledger.runs.run import Run

    class Failed(TypedDict):
        """An artifact that could not be loaded."""

        artifact: Artifact
        error: ArtifactError

    class Held(TypedDict):
        """A load that gave the agent an artifact whole; an older tool's has no `sha256`."""

        loaded_at: object
        sha256: NotRequired[str]

    class Skipped(TypedDict):
        """An artifact that was loaded some seconds ago; `loaded` is its content now."""

        artifact: Artifact
        loaded: Loaded
        loaded_at: str
        age: float


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
        if isinstance(error, OutOfTime):
            warning = f"⚠️ WARNING: no artifact was read, since {error}; {HINT_LOAD_ALL}"
        else:
            warning = (
                f"⚠️ WARNING: a bug in faber-ledger kept it from loading artifacts, please report it: {error!r:.300}"
            )
        return cls(root, ["session_start"], state, [warning], None)

    @property
    def loaded(self) -> list[Loaded]:
        """What was loaded, in order."""
        return [result for _, result in self.attempts if not isinstance(result, ArtifactError)]

    @property
    def failed(self) -> list[Failed]:
        """What could not be loaded, in order."""
        return [{"artifact": one, "error": error} for one, error in self.attempts if isinstance(error, ArtifactError)]

    @property
    def required_failed(self) -> list[Failed]:
        """The failures of required artifacts, without which the workflow cannot proceed."""
        return [failed for failed in self.failed if failed["artifact"]["required"]]

    def in_context(self) -> list[Loaded]:
        """Return what the agent was given, whole or as an outline; the rest was only named."""
        return [one for one in self.loaded if self.given[one["artifact"]["id"]] in ("inline", "outline")]

    def lacks_room(self) -> bool:
        """Return whether the packet had no room for all that was loaded; False before it is packed."""
        ways = [(self.given.get(one["artifact"]["id"]), one["is_outlined"]) for one in self.loaded]
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
        named = self.named_in_hint() if self.hint else []
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

    def named_in_hint(self) -> list[Loaded]:
        """Return what was loaded that the hint names by its id, if there is any.

        Else what has a word in its id that begins with one of the hint's, as with "spec"; words of less than four
        letters are not looked at.
        """
        ids = "".join([letter if letter.isalnum() or letter in "_-" else " " for letter in self.hint]).split()
        named = [one for one in self.loaded if one["artifact"]["id"] in ids]
        if named:
            return named
        letters = "".join([letter if letter.isalnum() else " " for letter in self.hint.lower()])
        words = tuple([word for word in letters.split() if len(word) > 3])
        return [one for one in self.loaded if any([name.startswith(words) for name in _words(one["artifact"]["id"])])]

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
        missed = [
            failed
            for failed in self.failed
            if not (failed["artifact"]["required"] or (failed["error"].is_missing and not is_named_by_state(**failed)))
        ]
        if not missed:
            return []
        from faber_ledger.context.failures import describe_not_loaded

        return [describe_not_loaded(one["artifact"], one["error"], self.root) for one in missed]

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
        last_line: str = "",
    ) -> str:
        """Return the packet of a session that starts, or loads again; `given` says how each artifact stands in it.

        Notes and another conversation's summary come from `log`, where it can be read. `client` and `source` are the
        session's. `elsewhere` is about other clones; `last_line` is the last before the end.
        """
        parts = self.parts()
        keeper = None if has_summaries_in_git else run
        notes, summary = read_remembered(self.root, log, client, source, keeper) if log else ([], None)
        broken = describe_break(log, client) if log else None
        position = render_position(
            run,
            self.state,
            workflow=self.workflow,
            notes=notes,
            before=[*([broken] if broken else []), *(elsewhere.describe(log, client) if elsewhere is not None else [])],
            on_failure=self._find_rules_of_failure(parts),
        )
        text, given = packet.pack(
            position,
            parts,
            problems,
            budget=budget,
            state=self.state,
            notes=position["other_notes"],
            summary=summary,
            not_loaded=self.not_loaded(),
            also=packet.list_more(run, self.state, parts, budget),
            last_line=last_line,
        )
        names = [loaded["artifact"]["id"] for loaded in self.loaded]
        self.given = {name: given.get(name, "pointer") for name in names}
        self._unnamed = {name for name in names if name not in given}
        return text

    def _find_rules_of_failure(self, parts: list[Part]) -> str:
        """Return where the protocol says what to do after a step has failed; empty if none has, or it does not."""
        point, focus = resume_point(self.state), Focus(self.state)
        protocol = next((part for part in parts if focus.kind(part) == "protocol" and not part.get("deferred")), None)
        if point is None or point["mode"] != "retry" or protocol is None:
            return ""
        from faber_ledger.context.outline import lines_about_failures

        lines = lines_about_failures(protocol["content"], point["phase"] or "")
        return reading_of(protocol, lines) if lines else ""

    def drafts(self, session_id: str, client: str | None, environment: Environment | None = None) -> list[Draft]:
        """Return the events of this reload; without a workflow or a required artifact it does not count as a reload.

        There is none for an artifact that the packet does not name.
        `environment` is given if the session lacks one, as a session of an older tool may (RELOAD, Validation 4).
        """

        def fact(kind: str, artifact: Artifact, **more: object) -> Draft:
            of_all = {"session_id": session_id, "artifact_id": artifact["id"], "trigger": self._trigger_of(artifact)}
            event: Any = {"type": kind, **of_all, **more}
            return {"event": event, "client": client}

        facts = [
            fact(
                "artifact_loaded",
                loaded["artifact"],
                source=loaded["source"],
                size_bytes=loaded["size_bytes"],
                sha256=keyed(self.root, loaded["sha256"]),
                given=self.given[loaded["artifact"]["id"]],
            )
            for loaded in self.loaded
            if loaded["artifact"]["id"] not in self._unnamed
        ]
        inside = os.path.join(self.root, "")  # on other machines, which get these events too, it is another path
        for failed in self.failed:
            artifact, error = failed["artifact"], failed["error"].message.replace(inside, "")
            of_error = {"source": source_of(artifact), "required": artifact["required"], "error": error}
            facts.append(fact("artifact_failed", artifact, **of_error))
        facts += [fact("artifact_skipped", one["artifact"], loaded_at=one["loaded_at"]) for one in self.skipped]
        if self.workflow is not None and not self.required_failed:
            reloaded: ContextReloaded = {
                "type": "context_reloaded",
                "session_id": session_id,
                "trigger": recorded_trigger(self.triggers[0]),
                "loaded": len(self.in_context()),
                "failed": len(self.failed),
                "skipped": len(self.skipped),
            }
            if environment is not None:
                reloaded["environment"] = environment
            facts.append({"event": reloaded, "client": client})
        return facts

    def _trigger_of(self, artifact: Artifact) -> str:
        """Return the trigger that an artifact was loaded for, in the form that is recorded."""
        listed = artifact["reload_triggers"] or self.triggers
        matching = [trigger for trigger in self.triggers if full_trigger(trigger, self.state) in listed]
        return recorded_trigger((matching or self.triggers)[0])


BROKE_OFF = (
    "The session before this conversation broke off, or is still open: look first (`git status`, `git log`) whether its"
    " step is half done."
)


def read_remembered(
    root: str, log: Log, client: str | None, source: str, keeper: Run | None
) -> tuple[list[Remembered], Remembered | None]:
    """Return a run's newest notes, and the summary of another conversation (see `notes.summary_for`)."""
    if next(log.newest_notes(), None) is None and next(log.compactions(not_by=client or "", before=None), None) is None:
        return [], None
    from faber_ledger.context.notes import newest_notes, summary_for  # most runs have none yet

    writer = writer_of(root)
    return newest_notes(log, writer), summary_for(log, client, source, keeper, writer)


def describe_break(log: Log, client: str | None) -> str | None:
    """Return a sentence if the last session before this client's first one had no end by then; None otherwise.

    So each start of a conversation gets the same text.
    """
    first = log.first_start_of(client) if client is not None else None
    start = log.last_start(before=first) if client is not None else None
    if start is None or start["client"] == client:
        return None
    ended = log.end_after(start, before=first)
    return None if ended is not None and dict(ended["event"]).get("reason") != "abandoned" else BROKE_OFF


def _words(artifact_id: str) -> list[str]:
    return artifact_id.lower().replace("_", "-").split("-")


def only_state(workflow: Workflow) -> list[Artifact]:
    """Return the workflow's artifact that is the run's own state; one of ours if it has none."""
    own = [artifact for artifact in every_artifact(workflow) if is_own_state(artifact)]
    return own[:1] or artifacts_without_workflow()


def _is_file(loaded: Loaded) -> bool:
    """Return whether the content is that of one file, whose lines can be named."""
    kind = loaded["artifact"]["type"]
    return kind in FILES or (kind == "directory" and os.path.isfile(loaded["resolved"]))


def load(artifact: Artifact, surroundings: Surroundings) -> Loaded:
    """Load an artifact (RELOAD, Step 5); raises ArtifactError, for an optional one too."""
    if artifact["problem"]:
        raise ArtifactError(artifact["problem"])
    loader = LOADERS.get(artifact["type"])
    if loader is None:
        raise ArtifactError(f"Unknown artifact type: {artifact['type']}")
    where = "a command" if artifact["type"] in COMMAND_TYPES else "a path"
    source = "" if is_own_state(artifact) else source_text(artifact, surroundings)
    empty = empty_placeholders(source, surroundings, where)
    try:
        content = loader(artifact, surroundings)
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
        "is_deferred": content["is_deferred"],
        "notes": [f"{artifact['id']}: {note}" for note in notes],
    }


def _read_directory(artifact: Artifact, surroundings: Surroundings) -> Content:
    from faber_ledger.context.artifact_directory import read_directory  # each kind is loaded only where it is needed

    return read_directory(artifact, surroundings)


def _read_command(artifact: Artifact, surroundings: Surroundings) -> Content:
    from faber_ledger.context.artifact_command import read_command

    return read_command(artifact, surroundings)


def _read_git(artifact: Artifact, surroundings: Surroundings) -> Content:
    from faber_ledger.context.artifact_git import read_git

    return read_git(artifact, surroundings)


LOADERS: dict[str, Callable[[Artifact, Surroundings], Content]] = {
    "json": read_file,
    "markdown": read_file,
    "directory": _read_directory,
    "work_plugin": _read_command,
    "skill": _read_command,
    "git_info": _read_git,
}


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

    `held` has those loads, by artifact id. The answer of a user's program can only be known by running it: such an
    artifact is skipped if the program answered in the last five minutes, so that a `dry_run`, which starts no program,
    shows what the load would do. After `max_bytes` of required artifacts no more of these are read, and likewise for
    optional ones, the run's state aside; after a hook's deadline none is. `problems` and `workflow` are the
    result's.
    """
    result = Reload(surroundings["root"], triggers, surroundings["state"], problems or [], workflow)
    without_programs: Surroundings = {**surroundings, "commands": {}}
    left = {True: max_bytes, False: max_bytes}
    for artifact in selected:
        known = held.get(artifact["id"])
        try:
            check_time()
            if left[artifact["required"]] <= 0:
                raise ArtifactError(
                    f"Not read, since a hook has read {max_bytes / 1048576:.0f} MB of artifacts; {HINT_LOAD_ALL}"
                )
            loaded = load(artifact, without_programs)
            left[artifact["required"]] -= 0 if loaded["is_state"] else loaded["size_bytes"]
            command = surroundings["commands"].get(loaded["content"].split()[0]) if loaded["is_deferred"] else None
            before = known.get("sha256") if known is not None and command is None else None
            digest = keyed(result.root, loaded["sha256"]) if before else ""
            is_fresh = known is not None and is_current(known, at, digest or None, before or None)
            if command is not None and not is_fresh:
                if dry_run:
                    from faber_ledger.context.artifact_command import check_mapped  # most projects map no program

                    check_mapped(command, surroundings)
                else:
                    loaded = load(artifact, surroundings)
        except OutOfTime as error:
            result.attempts.append((artifact, ArtifactError(f"Not read, since {error}; {HINT_LOAD_ALL}")))
        except ArtifactError as error:
            result.attempts.append((artifact, error))
        else:
            if known is not None and is_fresh:
                loaded_at, age = str(known["loaded_at"]), age_of(known, at) or 0.0
                result.skipped.append({"artifact": artifact, "loaded": loaded, "loaded_at": loaded_at, "age": age})
            else:
                result.attempts.append((artifact, loaded))
    return result


def gather_for_hook(
    run: Run, state: dict[str, Any], *, compacted: bool, at: float, is_state_read: bool = False, dry_run: bool = False
) -> Reload:
    """Load what a session start in the client needs; whatever goes wrong is a problem in the result, never an error.

    `is_state_read` means that `state` is the content of its file, which is then not read again for its artifact.
    """
    triggers = ["session_start", "compaction_detected"] if compacted else ["session_start"]
    config = read_user_config()
    problems = [f"⚠️ WARNING: {config['problem']}"] if config["problem"] else []
    workflow: Workflow | None = None
    try:
        check_status(run, state)
    except LedgerError as error:
        problems.append(error.block)
    try:
        workflow = limit_for_hook(workflow_of(run, state, config["plugin_roots"]), state, problems.append)
        problems += workflow["warnings"]
        selected = select(workflow, state, triggers, None, problems.append)
        selected += specification_not_listed(workflow, state)
    except WorkflowNotFound as error:
        workflow, selected = None, artifacts_without_workflow() if state else []
        problems.append(error.block or f"❌ ERROR: {escape(error.message)}\n\nRecovery: {escape(error.hint)}")
    surroundings = build_surroundings(run, state, config["plugin_roots"])
    surroundings["is_state_read"] = is_state_read
    result = gather(
        selected,
        surroundings,
        triggers=triggers,
        at=at,
        held={},  # a new session has nothing in context yet
        dry_run=dry_run,
        max_bytes=MAX_BYTES_READ,
        problems=problems,
        workflow=workflow,
    )
    result.mapped = config["commands"]
    return result


def workflow_of(run: Run, state: dict[str, Any], plugin_roots: list[str]) -> Workflow:
    """Load the workflow that a run's state names, or its metadata; raises WorkflowNotFound."""
    workflow_id = workflow_id_of(run, state)
    if not isinstance(workflow_id, str):
        message, hint, block = fields_missing(run, ("run_id", "workflow_id"))
        raise WorkflowNotFound(message, hint=hint, block=block)
    return load_workflow(run.root, workflow_id, plugin_roots)


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
