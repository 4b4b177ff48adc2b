"""The content of a reconstitution for an agent: where the run stands, then what was decided, noted and done, bounded.

What matters most comes first. Texts of the repository are quoted, so that none of their lines is one of ours.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict

from faber_ledger.context.elsewhere import Elsewhere
from faber_ledger.context.grants import ANSWERS
from faber_ledger.context.markdown import sections_naming, sections_of
from faber_ledger.context.notes import is_gone, note_of, summaries_of, words_of_note
from faber_ledger.context.packet import describe_break, start_before
from faber_ledger.context.position import recorded_branch
from faber_ledger.context.reconstitution.faber_files import DECISION_TYPES, Compacted, LedgerFacts, words_of_event
from faber_ledger.context.reconstitution.journal import list_in_line, text_or_na
from faber_ledger.context.reconstitution.steps import FETCH
from faber_ledger.context.reconstitution.work import COMMIT, Start
from faber_ledger.files.text import clip, defuse_tags, one_line, plain, quote_lines, quote_word, share_room, units
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.encoding import dumps
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.event_types import is_foldable
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.queries import EventQuery, find_events
from faber_ledger.projections.fold import fold, session_history
from faber_ledger.projections.history import summarize_sessions
from faber_ledger.runs import progress
from faber_ledger.runs.git import default_branch
from faber_ledger.runs.log import read_log
from faber_ledger.runs.progress import text_of, text_of_value
from faber_ledger.runs.run import Run, is_name
from faber_ledger.runs.settings import Settings

if TYPE_CHECKING:
    from faber_ledger.context.notes import Note
    from faber_ledger.context.position import Position
    from faber_ledger.ledger.log import Log
    from faber_ledger.projections.fold import Blocks


class Sources(TypedDict):
    """What the content is made from: `context` is RECON's, `known` the ledger's."""

    context: dict[str, Any]
    state: dict[str, Any]
    position: Position
    known: Known


class Known(LedgerFacts):
    """What a ledger has besides: all notes and the newest summaries, newest first.

    `before` has sentences about the session before, and about other clones; `branch_to_switch` is as `recorded_branch`.
    """

    branch_to_switch: str | None
    notes: list[Note]
    summaries: list[Compacted]
    before: list[str]


MIN_PART = 300  # units: less of a part says nothing
LONGEST_LINE, LONGEST_VALUE = 500, 300
NEWEST_FAILURES = 10
DECISION = "decision"  # the kind of a note
# After the word at the beginning of a sentence, up to the next step or the line's end.
DECIDED = re.compile(
    r"(?:^[-*> ]*|[.;!?] +)\**(?:decisions?|decided)\**:[* ]*([^*\s].*?)(?= next(?: steps?)?: |$)", re.I | re.M
)
SECONDS_APART = 3600  # of an approval in the state and FABER's event of it, at most
ASKED = ("", "pending", "requested")  # statuses of an undecided approval, which the position shows
OF_QUESTION = ("prompt", "request_id", "type", "requested_at", "notification_sent")  # of these the position tells


def render_content(sources: Sources, *, budget: int, only: Collection[str]) -> str:
    """Return all parts, or those that `only` names, in at most `budget` UTF-16 units; a cut one says how to see more.

    The text has no control character but newline and tab, whatever the repository contains.
    """
    chosen = [name for name in PARTS if not only or name in only]
    command = f"faber-ledger reconstitute {quote_word(sources['context']['run_id'])} --only"
    most = budget - units(_left_out(chosen, command))
    head = clip(sources["position"]["text"], most, "… (more was cut)\n") if "position" in chosen else ""
    parts = {name: list(PARTS[name][1](sources)) for name in chosen}
    if "decisions" in parts and ("spec" not in parts or sum(map(units, _texts(parts).values())) > budget - units(head)):
        parts["decisions"] += _decisions_of_specification(sources)
    lacking = [name for name in only if not parts.get(name, True) and name != "position"]
    if "decisions" in parts:
        parts["events"] = [block for block in parts.get("events", []) if block not in parts["decisions"]]
    texts = _texts(parts)
    wanted = [units(text) for text in texts.values()]
    room = budget - units(head)
    room -= units(_left_out([*texts], command)) if sum(wanted) > room else 0
    limits = share_room([(0, min(MIN_PART, whole), whole) for whole in wanted], room)
    shown = [
        clip(text, limit, f"\n… (cut; `{command} {name} --budget {2 * whole}` shows more)\n")
        for (name, text), whole, limit in zip(texts.items(), wanted, limits, strict=True)
    ]
    end = _left_out([name for name, limit in zip(texts, limits, strict=True) if not limit], command)
    end += _lacking(lacking, sources)
    return clip(plain(defuse_tags(head + "".join(shown) + end)).strip("\n"), budget)


def _texts(parts: dict[str, list[str]]) -> dict[str, str]:
    return {name: f"\n## {PARTS[name][0]}\n\n{''.join(blocks)}" for name, blocks in parts.items() if blocks}


def _left_out(names: list[str], command: str) -> str:
    named = ["position (its rest)" if name == "position" else name for name in names]
    return f"\nNo room for: {', '.join(named)} (`{command} PART`)\n" if names else ""


def _lacking(names: list[str], sources: Sources) -> str:
    """Return which parts have no content, and the command that has it, if there is one."""
    context, end = sources["context"], ""
    if "events" in names and sources["known"]["events"]:
        log = f"`faber-ledger log {context['run_id']}`"
        end = f"\nFABER's own tools wrote no events here; {log} lists the ledger's.\n"
        names = [name for name in names if name != "events"]
    work_id = context["work_id"]
    is_known = "issue" in names and work_id is not None and is_name(work_id)
    how = f" (no program is mapped, or it failed: run `{FETCH} {work_id}`)" if is_known else ""
    named = [f"issue{how}" if name == "issue" else name for name in names]
    return f"{end}\nThere is nothing here for: {', '.join(named)}\n" if names else end


def _line(text: str) -> str:
    return f"- {one_line(text, LONGEST_LINE)}\n"


def _block(line: str, text: object) -> str:
    """Return what somebody said: behind the line if it is short, else quoted below it."""
    said = text if isinstance(text, str) else _value(text)
    short = one_line(f"{line} {said}", LONGEST_LINE)
    if "\n" not in said.strip() and not short.endswith("…"):
        return f"- {short}\n"
    return _quote(line, said)


def _quote(line: str, text: str) -> str:
    return f"{_line(line)}{quote_lines(text.strip(chr(10)))}\n"


def _value(value: object) -> str:
    """Return a value of a JSON file as a text."""
    try:
        return value if isinstance(value, str) else dumps(value)
    except RecursionError:
        return "…"


def _by_time(timed: list[tuple[object, str]]) -> list[str]:
    """Return blocks, newest first; those without a readable time keep their order, at the end."""
    return [block for _, block in sorted(timed, key=lambda one: -(seconds_of(one[0]) or 0.0))]


def _open_questions(sources: Sources) -> Iterator[str]:
    """Yield what the position lacks: when the run ended, the whole question and instructions, the last error event."""
    context, state, position = sources["context"], sources["state"], sources["position"]
    if context["resume_point"] is None and (at := progress.finished_at(state)):
        yield _line(f"Finished: {at}")
    request = context["feedback_request"] or {}
    if request and f": {one_line(request.get('prompt'), LONGEST_LINE)}\n" not in position["text"]:
        yield _block("The whole question to the user:", request.get("prompt"))
    said = (*OF_QUESTION, *progress.ANSWERS) if progress.answer_of(state) else OF_QUESTION
    if more := {name: value for name, value in request.items() if name not in said}:
        yield _block("With the question:", more)
    instructions = state.get("additional_instructions")
    if instructions and f": {one_line(instructions, LONGEST_LINE)}\n" not in position["text"]:
        yield _block("All instructions from the user:", instructions)
    for place, message in progress.newest_errors(state):
        if f": {one_line(message, LONGEST_LINE)}\n" not in position["text"]:
            yield _block(f"The whole error{f' ({place})' if place else ''}:", message)
    yield from _failures(state)
    errors = [event for event in context["events"] if event["type"].endswith("_error")]
    messages = [one_line(message, LONGEST_LINE) for _, message in progress.newest_errors(state)]
    if errors and one_line(words_of_event(errors[-1]) or "", LONGEST_LINE) not in messages:
        newest = _event_block(errors[-1]).removeprefix("- ").replace("\n> ", " ")
        yield _line(f"Last error among the events: {newest}")


def _failures(state: dict[str, Any]) -> Iterator[str]:
    """Yield the state's errors, newest first, each once, but for those that stand elsewhere here."""
    errors = state.get("errors")
    known = progress.newest_errors(state)
    newest: dict[tuple[str, str], object] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for error in reversed(errors) if isinstance(errors, list) else ():
        named = (progress.place_of_error(error), progress.error_message(error))
        if named[1] and named not in known:
            newest.setdefault(named, error)
            counts[named] += 1
    for (place, message), error in islice(newest.items(), NEWEST_FAILURES):
        count = counts[place, message]
        times = f" {count} times" if count > 1 else ""
        then = " before it was done" if progress.is_settled(state, error) else ""
        yield _block(f"{place or 'A step'} failed{times}{then}:", message)
    if len(counts) > NEWEST_FAILURES:
        yield _line(f"… and {len(counts) - NEWEST_FAILURES} more in state.json")


def _decisions(sources: Sources) -> Iterator[str]:
    """Yield what was decided, by session summaries, events, notes, and the answers that the state has."""
    context, state = sources["context"], sources["state"]
    history = context["session_history"]
    said: dict[str, object] = {}  # each decision with its newest time
    for summary in reversed(history["all_summaries"] if history else []):
        for decision in summary["decisions"]:
            said.setdefault(decision, summary["timestamp"])
    timed: list[tuple[object, str]] = [
        (at, _block(f"[{text_or_na(at)}] session summary:", decision)) for decision, at in said.items()
    ]
    events = [event for event in reversed(context["events"]) if event["type"] in DECISION_TYPES]
    events += reversed(context["older_decisions"])
    known = sources["known"]
    timed += [(note["at"], _note_block(note)) for note in known["notes"] if note["kind"] == DECISION]
    for kind, texts in (("compaction", known["summaries"]), ("note", _plain_notes(known))):
        timed += [
            (one["at"], _block(f"[{one['at']}] {kind}:", said)) for one in texts for said in decided_in(one["text"])
        ]
    lists = [state.get("pending_approvals"), state.get("approvals")]  # one that was given may stay in the former
    for one in [one for some in lists if isinstance(some, list) for one in some if isinstance(one, dict)]:
        status = text_of_value(one.get("status") or one.get("decision"))
        is_given = progress.is_granted(one)
        if (is_given or status not in ASKED) and not any([_is_of_approval(event, one) for event in events]):
            label = f"approval, {'given' if is_given else status}"
            timed.append(_answered(one, label, progress.words_of_approval(one)))
    if answer := progress.answer_of(state):
        question = state["feedback_request"]
        who = text_of_value(question.get("answered_by"))
        answered = f"{text_of_value(question.get('prompt'))} Answer: {answer}{f' ({who})' if who else ''}"
        of_answer = {name: value for name, value in question.items() if not name.startswith("request")}
        timed.append(_answered(of_answer, "question to the user", answered))
    timed += [(event.get("timestamp"), _event_block(event)) for event in events]
    yield from dict.fromkeys(_by_time(timed))  # the state may have one approval in two lists


def _decisions_of_specification(sources: Sources) -> Iterator[str]:
    """Yield the sections of the specification that are about decisions."""
    if spec := sources["context"]["spec"]:
        lines = (spec.get("content") or "").split("\n")
        end = 0
        for section in sections_naming(sections_of(lines), "decision"):
            text = "\n".join(lines[section["start"] + 1 : section["end"]]).strip()
            if text and section["start"] >= end and not section["title"].lower().startswith("open"):
                end = section["end"]
                yield _quote(f"{_value(spec['path'])}:", text)


def decided_in(text: str) -> list[str]:
    """Return what a text calls a decision: what follows the word and a colon, up to the next step or the line's end."""
    return DECIDED.findall(text)


def _is_of_approval(event: dict[str, Any], approval: dict[str, Any]) -> bool:
    """Return whether one of FABER's events tells an approval that the state has: its answer, phase, person and time."""
    kind = ANSWERS[0] if progress.is_granted(approval) else ANSWERS[1]
    is_same = (event["type"], event.get("phase")) == (kind, approval.get("phase"))
    metadata = event.get("metadata")
    people = [event.get("user"), *(metadata.values() if isinstance(metadata, dict) else ())]
    times = [seconds_of(event.get("timestamp")), seconds_of(_newest_time(approval))]
    is_apart = None not in times and abs((times[0] or 0) - (times[1] or 0)) > SECONDS_APART
    return is_same and not is_apart and approval.get("approved_by") in people


def _newest_time(one: dict[str, Any]) -> Any:
    return max([value for name, value in one.items() if progress.is_time(name) and seconds_of(value)], default=None)


def _answered(one: dict[str, Any], label: str, text: str) -> tuple[object, str]:
    """Return an answer of the state's with its newest time."""
    at = _newest_time(one)
    return at, _block(f"[{text_or_na(at)}] {label}:", text)


def _notes(sources: Sources) -> Iterator[str]:
    """Yield the notes of earlier sessions, without the decisions, which are a part of their own."""
    yield from map(_note_block, _plain_notes(sources["known"]))


def _plain_notes(known: Known) -> list[Note]:
    return [note for note in known["notes"] if note["kind"] != DECISION]


def _note_block(note: Note) -> str:
    place, where = _place(note), note.get("where")
    label = f"{note['kind']}{f' at {place}' if place else ''}{f', on {where}' if where else ''}"
    return _block(f"[{note['at']}] {label}:", words_of_note(note))


def _summaries(sources: Sources) -> Iterator[str]:
    """Yield what sessions and compactions came to, newest first: FABER's newest summary and compactions whole."""
    history, known = sources["context"]["session_history"], sources["known"]
    timed: list[tuple[object, str]] = [
        (one["at"], _block(f"[{one['at']}] compaction{f' at {place}' if (place := _place(one)) else ''}:", one["text"]))
        for one in known["summaries"]
    ]
    if history:
        timed.append((history["latest"].get("timestamp"), _latest_summary(history["latest"])))
    for summary in reversed(history["all_summaries"][:-1] if history else []):
        done = "; ".join(summary["accomplished"])
        timed.append((summary["timestamp"], _block(_head_of_summary(summary), done or "nothing noted")))
    yield from _by_time(timed)


def _head_of_summary(summary: dict[str, Any]) -> str:
    completed = summary.get("phase_completed")
    return f"[{text_or_na(summary.get('timestamp'))}] session{f', {completed} completed' if completed else ''}:"


def _latest_summary(summary: dict[str, Any]) -> str:
    """Return FABER's newest session summary; its decisions are a part of their own."""
    said = summary["summary"]
    lists = {"Accomplished": "accomplished", "Remaining phases": "remaining_phases", "Files changed": "files_changed"}
    lines = [f"Context notes: {said['context_notes']}"] if said.get("context_notes") else []
    for words, name in lists.items():
        lines += [f"{words}:", *[f"- {item}" for item in said[name]]] if said[name] else []
    return _block(_head_of_summary(summary), "\n".join(lines) or "nothing noted")


def _place(at: Mapping[str, Any]) -> str:
    """Return phase and step as `phase:step`, or what there is of them."""
    return ":".join([str(at[name]) for name in ("phase", "step") if at.get(name)])


def _events(sources: Sources) -> Iterator[str]:
    """Yield FABER's newest events."""
    events = reversed(sources["context"]["events"])
    yield from _by_time([(event.get("timestamp"), _event_block(event)) for event in events])


def _event_block(event: dict[str, Any]) -> str:
    """Return an event: its time, type, place and status, what it says, and its other facts as JSON."""
    place, status = _place(event), event.get("status")
    head = f"{event['type']}{f' at {place}' if place else ''}{f' ({_value(status)})' if status else ''}"
    words = words_of_event(event)
    parts = [_value(words)] if words not in (None, place) else []
    error, metadata, user = event.get("error"), event.get("metadata"), event.get("user")
    if error and event.get("message"):
        parts.append(f"error: {_value(error)}")
    if user:
        parts.append(f"by {one_line(_value(user))}")
    if metadata:
        parts.append(one_line(_value(metadata), LONGEST_VALUE))
    line = f"[{text_or_na(event.get('timestamp'))}] {one_line(head, LONGEST_VALUE)}"
    return _block(f"{line}:", "; ".join(parts)) if parts else _line(line)


def _comments(sources: Sources) -> Iterator[str]:
    """Yield the comments on the issue, as the programs of code hosts write them."""
    issue = sources["context"]["issue"]
    for comment in reversed(issue["comments"] if issue else []):
        known: dict[str, Any] = comment if isinstance(comment, dict) else {"body": comment}
        author = known.get("author") or known.get("user")
        name = author.get("login") or author.get("name") if isinstance(author, dict) else author
        at = known.get("createdAt") or known.get("created_at")
        head = " ".join([f"[{one_line(at)}]"] if at else []) + (f" {one_line(name)}" if name else "")
        if known.get("body", known):
            yield _block(f"{head.strip() or 'comment'}:", known.get("body", known))


def _issue(sources: Sources) -> Iterator[str]:
    """Yield the issue: its title, state and labels, then its description."""
    issue = sources["context"]["issue"]
    if issue is None:
        return
    labels = list_in_line(issue["labels"])
    facts = {"Title": issue["title"], "State": issue["state"], "Labels": labels, "URL": issue["url"]}
    for name, value in facts.items():
        if value:
            yield _line(f"{name}: {_value(value)}")
    if issue["description"]:
        yield _block("Description:", issue["description"])


def _branch(sources: Sources) -> Iterator[str]:
    """Yield the branch, the pull request, what was changed, and the newest commits; of a finished run what is left."""
    context, state = sources["context"], sources["state"]
    branch, work, name = context["branch"], context["work"], context["artifacts"].get("branch_name")
    url = text_of(state.get("artifacts"), "pr_url") or text_of(state, "pr_url")
    if name and (branch or work):
        yield _line(f"Name: {text_or_na(name)}")
    if url:
        yield _line(f"Pull request: {url}")
    if branch and branch["files_changed"]:
        yield _quote("Changed since it left the main branch:", branch["files_changed"])
    elif work and work["files"]:
        yield _quote("Files changed:", "\n".join(work["files"]))
    for commit in dict.fromkeys([*(work["commits"] if work else ()), *(branch["commits"] if branch else ())]):
        yield _line(f"Commit: {commit}")
    if work and work["others"] and not branch:
        count = f"{work['others']} commit{'s' if work['others'] > 1 else ''}"
        yield _line(f"Not listed: {count} that changed nothing outside .fractary, and any merges")
    if work and work["missing"]:
        yield _line(f"Commits not in this clone (squashed or deleted): {', '.join(work['missing'])}")


def _spec(sources: Sources) -> Iterator[str]:
    """Yield the specification."""
    spec = sources["context"]["spec"]
    if spec is None:
        return
    if spec.get("regenerate"):
        yield _line(f"{_value(spec['path'])}: cannot be read, and must be written again")
        return
    facts = "; ".join([f"{name}: {spec[name]}" for name in ("type", "status") if spec[name]])
    yield _quote(f"{_value(spec['path'])}{f' ({facts})' if facts else ''}", spec["content"])


# The most important first: title, and what makes the blocks.
PARTS: dict[str, tuple[str, Callable[[Sources], Iterator[str]]]] = {
    "position": ("More about where the run stands", _open_questions),
    "decisions": ("Decisions, newest first", _decisions),
    "notes": ("Notes for whoever goes on, newest first", _notes),
    "summaries": ("What earlier sessions came to, newest first", _summaries),
    "events": ("Events, newest first", _events),
    "comments": ("Comments on the issue, newest first", _comments),
    "issue": ("Issue", _issue),
    "branch": ("Branch", _branch),
    "spec": ("Specification", _spec),
}


NEWEST_SUMMARIES = 5


def read_known(
    run: Run, state: dict[str, Any], elsewhere: Elsewhere | None, client: str | None, warn: Callable[[str], None]
) -> Known:
    """Return what a run's ledger knows; next to nothing if there is none, or it cannot be read.

    `elsewhere` has asked git about other clones for this client. `warn` is called with what was set aside.
    """
    try:
        with read_log(run, warn) as log:
            blocks = fold(log.stream())
            start = start_before(run.root, log, client)
            is_new = client is not None and log.first_start_of(client) is None  # else its packet has said so
            branch = recorded_branch(run, state, log)
            of_run = text_of_value(progress.branch_name(state)) or branch
            broken = describe_break(run.root, log, client, start, branch=of_run) if is_new else None
            others = elsewhere.describe(log, start, client) if elsewhere else []
            keeper = None if Settings(run, os.environ).summaries else run
            return {
                "events": log.count_events(),
                "ended": [one["session_id"] for one in summarize_sessions(blocks) if one["ended_at"]],
                "starts": _read_starts(run, blocks),
                "branch": log.first_branch(besides=default_branch(run.root)),
                "branch_to_switch": branch,
                "notes": _read_notes(run, log),
                "summaries": [
                    {
                        "event_id": recorded["id"],
                        "at": recorded["at"],
                        "text": summary["text"],
                        "phase": summary["phase"],
                        "step": summary["step"],
                    }
                    for recorded, summary in islice(summaries_of(log, keeper), NEWEST_SUMMARIES)
                ],
                "before": [*([broken] if broken else []), *others],
            }
    except (LedgerError, sqlite3.DatabaseError, OSError):
        there = elsewhere.describe(None, None, client) if elsewhere else []
        facts: LedgerFacts = {"events": 0, "ended": [], "starts": [], "branch": None}
        return {**facts, "branch_to_switch": None, "notes": [], "summaries": [], "before": there}


def _read_starts(run: Run, blocks: Blocks) -> list[Start]:
    """Return where sessions began, in order, with the branch that was checked out."""
    branches = {
        text_of(recorded["event"], "session_id"): text_of(recorded["event"], "branch")
        for recorded in find_events(partial(read_log, run), EventQuery(types=("checkout_recorded",)))
        if dict(recorded["event"]).get("is_end") is False
    }
    entries = [entry for entry in session_history(blocks) if isinstance(entry, dict)]
    starts = [(text_of(one.get("environment"), "git_commit"), text_of(one, "session_id")) for one in entries]
    return [(commit, branches.get(session)) for commit, session in starts if commit and COMMIT.fullmatch(commit)]


def _read_notes(run: Run, log: Log) -> list[Note]:
    """Return all notes of a run that were not redacted, newest first."""
    found = find_events(partial(read_log, run), EventQuery(types=("note_recorded",)), newest_first=True)
    notes: list[Note] = []
    for one in [one for one in found if is_foldable(one) and not is_gone(one)]:
        machine = log.machine_of(one["writer"])
        notes.append(note_of(one) | ({"where": machine} if machine is not None else {}))
    return sorted(notes, key=lambda note: note["at"], reverse=True)
