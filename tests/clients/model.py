"""Which run and which session a delivery is about, written down again from DECISIONS, row by row.

Nothing here is imported from the product, and nothing is as quick or as careful as the product must be: a reader can
check each line against the sentence quoted above it. `Clone` holds what the rows speak of; the world (`world.py`) tells
it what is on disk and what git did, and what the clients were seen to do the model remembers itself.

Times are whole seconds, and no two of them are equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

AT_WORK = ("in_progress", "paused", "awaiting_feedback")
FINISHED = ("completed", "cancelled")
# Row 2: "a pull, merge, checkout, reset, rebase, cherry-pick, stash or clone (not known counts as git's)".
GIT_VERBS = ("pull", "merge", "checkout", "reset", "rebase", "cherry-pick", "stash", "clone", "unknown")


@dataclass
class State:
    """What a run's `state.json` says."""

    status: str
    branch: str | None = None
    started_at: int | None = None
    finished_at: int | None = None


@dataclass
class Event:
    """An event of a run's log. `is_ours`: this clone wrote it."""

    type: str
    at: int
    client: str | None = None
    pid: str | None = None
    session: str | None = None
    is_ours: bool = True
    inferred: bool = False
    hook: str | None = None
    digest: str | None = None
    branch: str | None = None
    has_run: bool = False
    source: str | None = None
    reason: str | None = None


@dataclass
class Head:
    """A step of a work tree's HEAD: git's verb for it, and what each active file names in the new commit."""

    verb: str
    at: int
    names: tuple[str | None, ...]


@dataclass
class ActiveFile:
    """An active file in a work tree: what it names (None: nothing), since when, and what git's index has there.

    `in_index` is None if the index lacks the file, and empty if the file is empty there. `sides`: what the index has of
    a file that is in conflict.
    """

    name: str | None
    at: int
    in_index: str | None
    sides: tuple[str | None, ...] = ()


@dataclass
class Tree:
    """A work tree of the clone."""

    root: str
    branch: str | None
    files: list[ActiveFile]
    heads: list[Head]
    states: dict[str, State]
    logs: dict[str, list[Event]] = field(default_factory=dict)  # of all runs: its file, if here, and the mirror
    recorded: set[str] = field(default_factory=set)  # runs on which something was recorded in this work tree
    claim: tuple[str, int] | None = None
    put_back: PutBack | None = None
    written: list[Written] = field(default_factory=list)  # by put-backs, the newest last


@dataclass
class PutBack:
    """That a run's active files were put back before a merge: since then its work tree goes on with it."""

    run: str
    at: int


@dataclass
class Written:
    """A name that our put-back wrote to an active file, and after how many steps of HEAD."""

    number: int
    name: str
    heads: int


@dataclass
class Client:
    """What this clone has seen of a client (row 37: "per client: first delivery, run of its newest session")."""

    first_at: int
    last_at: int
    heard_at: int = 0  # the last time that a hook, not a command, was heard of it
    pid: str | None = None
    run: str | None = None
    session_at: int = 0
    tree: str = ""  # where its newest session is recorded


@dataclass
class Clone:
    """A clone: its work trees, and what it has seen."""

    trees: dict[str, Tree] = field(default_factory=dict)
    kept: dict[str, State] = field(default_factory=dict)  # the copies of `state.json` beside the mirrors
    used: set[str] = field(default_factory=set)  # started, resumed or recorded on in this clone
    clients: dict[str, Client] = field(default_factory=dict)
    lines: dict[Call, int] = field(default_factory=dict)  # when a start was given the line of a shown run


@dataclass
class Delivery:
    """A hook call. `root`: the work tree it was launched in; `cwd`: the work tree that its `cwd` lies in."""

    hook: str
    root: str
    cwd: str
    at: int
    client: str
    pid: str | None
    digest: str
    source: str | None = None


Call = tuple[str, str | None, str]  # what tells one delivery from another: client, process, digest

Fact = tuple[str, str, str | None, object]  # an event: type, run, session, and what else is compared


@dataclass
class Outcome:
    """What a delivery leads to: events, and what is printed."""

    run: str | None = None
    tree: str = ""  # the work tree in which the run is used
    events: list[Fact] = field(default_factory=list)
    printed: str | None = None  # "packet", "hint" or "shown"
    why: str = ""


ADOPTED = "adopted"  # the source of a session that a tool wrote
NEW = "new"  # the id of a session that this delivery opens


# Row 2: which run is active


@dataclass
class Active:
    """The active run of a work tree. `at`: how old the word is that names it; `is_word`: it is one of this tree."""

    run: str | None
    is_word: bool = False
    at: int = 0


def state_of(clone: Clone, tree: Tree, run: str) -> State | None:
    """Return a run's state as seen in a work tree; None if the run is missing."""
    # "A run is missing if neither this work tree nor this clone's mirror has it; for one that only the mirror has, the
    # copy of `state.json` beside the mirror gives the status."
    return tree.states.get(run) or clone.kept.get(run)


def own_branch(clone: Clone, tree: Tree, run: str) -> str | None:
    """Return a run's own branch; None if none is known."""
    # Row 37 (c): "row 34's branch name, else the newest branch that is known to have had the run's files": a branch is
    # recorded as a run is started, and as its sessions start and end; none on a detached HEAD.
    state = state_of(clone, tree, run)
    if state is not None and state.branch is not None:
        return state.branch
    log = tree.logs.get(run, [])
    recorded = [event for event in log if event.type == "checkout_recorded" and event.has_run and event.branch]
    return recorded[-1].branch if recorded else None


def is_branch_of(clone: Clone, tree: Tree, run: str) -> bool:
    # Row 37 (c): "the branch checked out here is the run's own (...; no branch known counts as its own)".
    own = own_branch(clone, tree, run)
    return own is None or own == tree.branch


def brought_by(tree: Tree, number: int) -> Head | None:
    """Return the step of HEAD, or the put-back, that brought what an active file names; None if a tool wrote it."""
    file, came = tree.files[number], step_of(tree, number)
    # "... or if our own put-back wrote it": until an ordinary commit changes the file, and in the one that carries it.
    for one in tree.written:
        if (one.number, one.name) == (number, file.name):
            heads = [(tree.heads[at - 1] if at else None, tree.heads[at]) for at in range(one.heads, len(tree.heads))]
            commits = [
                head
                for before, head in heads
                if head.verb == "commit" and (before is None or before.names[number] != head.names[number])
            ]
            if (not commits or commits[0] is came) and (came is None or came.verb not in GIT_VERBS):
                return Head("put-back", file.at, ())
    return came if came is not None and came.verb in GIT_VERBS else None


def is_taken_away(tree: Tree, run: str) -> bool:
    """Return whether the last step of HEAD that took an active file's name of a run away was no ordinary commit."""
    for number in range(len(tree.files)):
        if tree.heads and tree.heads[-1].names[number] is not None:
            continue
        for before, after in zip(tree.heads[-2::-1], tree.heads[:0:-1], strict=True):
            if before.names[number] == run != after.names[number]:
                if after.verb in GIT_VERBS:
                    return True
                break
    return False


def step_of(tree: Tree, number: int) -> Head | None:
    """Return the step of HEAD since which each commit has what an active file names; None if it is not committed."""
    file = tree.files[number]
    # "A name is git's word if the file is as the index has it and this work tree's reflog got that blob by a pull,
    # ...; else it is a word of this work tree (a tool wrote it, or it was committed here by an ordinary commit)."
    # Of a file in conflict the index has both sides.
    if file.name not in (file.in_index, *file.sides) or not tree.heads or tree.heads[-1].names[number] != file.name:
        return None
    came = tree.heads[-1]
    for head in reversed(tree.heads):
        if head.names[number] != file.name:
            break
        came = head
    return came


def named_at(tree: Tree, number: int) -> int:
    """Return since when an active file names what a tool wrote here."""
    # As "(never a pull, merge, rebase or stash)": what git wrote again is named no later than the commit that has it.
    file, came = tree.files[number], step_of(tree, number)
    if came is None:
        return file.at
    later = tree.heads[tree.heads.index(came) + 1 :]
    is_gits = [head for head in later if head.verb in GIT_VERBS and head.at == file.at]
    return came.at if is_gits else file.at


def is_committed_here(tree: Tree, number: int, name: str) -> bool:
    """Return whether the first step of HEAD to what an active file names was an ordinary commit."""
    return next((head.verb == "commit" for head in tree.heads if head.names[number] == name), False)


def words_of(clone: Clone, tree: Tree) -> list[tuple[str, bool, int]]:
    """Return the names that count in a work tree: (run, whether it is a word of this work tree, since when)."""
    words: list[tuple[str, bool, int]] = []
    for number, file in enumerate(tree.files):
        if file.name is None:
            continue
        came = brought_by(tree, number)
        if came is None:
            words.append((file.name, True, named_at(tree, number)))
        # "A checkout or switch (never a pull, merge, rebase or stash) that brings the name of a run which was started,
        # resumed or recorded on in this clone, and whose own branch (row 37 c) is now checked out, makes that name a
        # word of this work tree, as old as the checkout." What an ordinary commit here has first was started here.
        elif (
            came.verb == "checkout"
            and (file.name in clone.used or is_committed_here(tree, number, file.name))
            and is_branch_of(clone, tree, file.name)
        ):
            words.append((file.name, True, came.at))
        else:
            words.append((file.name, False, file.at))
    # "The claim is a word of this work tree, as old as its file."
    if tree.claim is not None:
        words.append((tree.claim[0], True, tree.claim[1]))
    return words


def active_run(clone: Clone, tree: Tree, *, is_alone: bool = False) -> Active:
    """Return which run is active in a work tree (row 2); if `is_alone`, whatever other work trees hold."""
    # "It stays after the run's end, until our put-back before a merge. From then on the claim holds, whether its run is
    # at work or finished, until a tool or a command in this work tree names another run."
    if tree.put_back is not None and tree.claim is not None and tree.put_back.run == tree.claim[0]:
        claimed, since = tree.claim[0], tree.put_back.at
        later = [name for name, is_own, at in words_of(clone, tree) if is_own and at > since and name != claimed]
        if state_of(clone, tree, claimed) and not [name for name in later if state_of(clone, tree, name)]:
            return Active(claimed, True, tree.claim[1])
    if all(file.name is None for file in tree.files):
        # "No file at all: no run is active (SPEC, Hook Access), unless git took it away: our put-back removed it, or
        # the index lacks it and the run's folder is gone as well; then the claim stands." The put-back of another clone
        # comes with a commit that git brings.
        if tree.claim is None or any(side is not None for file in tree.files for side in (file.in_index, *file.sides)):
            return Active(None)
        if tree.claim[0] in tree.states and not is_taken_away(tree, tree.claim[0]):
            return Active(None)
        claimed, at = tree.claim
        return Active(claimed if state_of(clone, tree, claimed) else None, True, at)
    words = words_of(clone, tree)
    if not is_alone:
        words = [word for word in words if word[1] or not is_held_elsewhere(clone, tree, word[0])]
    # "A name whose run is missing counts only if there is no other."
    there = [word for word in words if state_of(clone, tree, word[0]) is not None]
    if not there:
        return Active(None)
    at_work = [word for word in there if _status(clone, tree, word[0]) in AT_WORK]
    # "Of the words of this work tree whose run is at work (in_progress, paused, awaiting_feedback), the newest holds;
    # if there is none, git's word whose run is at work holds under row 37 (c); if no named run is at work, the newest
    # word of this work tree, else git's."
    for choice in (
        [word for word in at_work if word[1]],
        [word for word in at_work if not word[1]],
        [word for word in there if word[1]],
        there,
    ):
        if choice:
            # Of two that one commit carries, and that a rebase wrote again, the one that is claimed was named later.
            last = tree.claim[0] if tree.claim is not None else None
            return Active(*max(choice, key=lambda word: (word[2], word[0] == last)))
    raise AssertionError


def is_held_elsewhere(clone: Clone, tree: Tree, run: str) -> bool:
    """Return whether another work tree holds a run, where git has brought its name into this one."""
    # WORKTREES.md: "Without a claim, a run that another worktree of the clone holds is not active here". "Another
    # worktree holds a run if it has the run's files, its active file names the run and the run was started or resumed
    # there (in the main work tree: if something was recorded on it there)." "A run that no other worktree holds is
    # active in the main work tree: a run that `git pull` brings, unless it is finished".
    if tree.claim is not None and tree.claim[0] == run:
        return False
    if tree.root == "main" and (_status(clone, tree, run) in FINISHED or (tree.claim is None and run in tree.recorded)):
        return False
    return any(
        run in other.states
        and active_run(clone, other, is_alone=True).run == run
        and ((other.claim is not None and other.claim[0] == run) or (other.root == "main" and run in other.recorded))
        for other in clone.trees.values()
        if other is not tree
    )


def _status(clone: Clone, tree: Tree, run: str) -> str | None:
    state = state_of(clone, tree, run)
    return state.status if state is not None else None


# Row 37: which run


@dataclass
class Subject:
    """The run that a delivery is about, used in a work tree or only shown there, and by which part of row 37."""

    run: str | None
    tree: Tree
    part: str

    @property
    def is_shown(self) -> bool:
        return self.part == "d"


def subject_of(clone: Clone, call: Delivery) -> Subject:
    """Return which run a delivery is about."""
    here, there = clone.trees[call.root], clone.trees.get(call.cwd)
    client = clone.clients.get(call.client)
    # "(a) `cwd` lies in another work tree of this clone, and this client's newest session is on that work tree's run:
    # that run."
    if there is not None and there is not here and client is not None and client.run is not None:
        active = active_run(clone, there)
        if active.run == client.run and belongs(clone, there, active):
            return Subject(client.run, there, "a")
    # "(b) PreCompact, PostCompact, SessionEnd, and a start with source compact or resume: the run of this client's
    # newest session in this clone, open or ended, unless a tool or command in this work tree has named another run
    # since (row 2)."
    # "A start with source clear or fork (`/branch` too) has a new `session_id`: (b) holds for it if its `CLAUDE_PID`
    # is that of a client whose newest session is known here, else (c)."
    known = client if call.hook != "SessionStart" or call.source in ("compact", "resume") else None
    if call.hook == "SessionStart" and call.source in ("clear", "fork") and call.pid is not None:
        same = [seen for name, seen in clone.clients.items() if seen.pid == call.pid and name != call.client]
        known = max(same, key=lambda seen: seen.last_at, default=None)
    if known is not None and known.run is not None:
        since = [(at, name) for name, is_own, at in words_of(clone, here) if is_own and at > known.session_at]
        others = [(at, name) for at, name in since if name != known.run and state_of(clone, here, name) is not None]
        if not others or active_run(clone, here).run is None:
            return Subject(known.run, _tree_of_session(clone, here, known), "b")
        # The rows are silent where the run that was named since is finished, and the one that the client left is active
        # again: a person would tell that the client was at work on the finished one.
        if call.hook != "SessionStart" and active_run(clone, here).run == known.run:
            # Of two that are named since the same moment, the first file's (row 2 writes it first).
            return Subject(max(others, key=lambda word: word[0])[1], here, "b")
    # "(c) The active run (row 2), if it belongs to this clone"
    active = active_run(clone, here)
    if active.run is None or belongs(clone, here, active):
        return Subject(active.run, here, "c")
    # "(d) Otherwise the run is *shown, not used*"
    return Subject(active.run, here, "d")


def belongs(clone: Clone, tree: Tree, active: Active) -> bool:
    """Return whether a work tree's active run is used, not only shown."""
    # (c) "started, resumed or recorded on here, written here by a tool, or the branch checked out here is the run's
    # own"
    return active.run is not None and (
        active.is_word or active.run in clone.used or is_branch_of(clone, tree, active.run)
    )


def _tree_of_session(clone: Clone, here: Tree, client: Client) -> Tree:
    # A session goes on where it was begun, if that work tree has the run still.
    there = clone.trees.get(client.tree)
    return there if there is not None and client.run in there.states else here


# Rows 10, 12, 13, 37 and 38: which session


def starts_of(log: list[Event], client: str | None = None) -> list[Event]:
    return [event for event in log if event.type == "session_started" and client in (None, event.client)]


def open_sessions(log: list[Event]) -> list[Event]:
    ended = {event.session for event in log if event.type == "session_ended"}
    return [event for event in starts_of(log) if event.session not in ended]


def is_repeated(log: list[Event], call: Delivery) -> bool:
    # Row 13: "A repeat is the same event with the same bytes as this client's last recorded delivery (same
    # `session_id`), under 30 seconds ago where both name the same process, under 2 seconds where at least one names
    # none (...), and under 2 seconds for a PreCompact in any case"
    recorded = [event for event in log if event.hook is not None and event.client == call.client]
    if not recorded:
        return False
    last = recorded[-1]
    if (last.hook, last.digest) != (call.hook, call.digest):
        return False
    if last.pid is not None and call.pid is not None and last.pid != call.pid:
        return False
    is_same_process = last.pid is not None and call.pid is not None
    return call.at - last.at < (30 if is_same_process and call.hook != "PreCompact" else 2)


def _is_first(clone: Clone, call: Delivery) -> bool:
    delivery = (call.client, call.pid, call.digest)
    at = clone.lines.get(delivery)
    if at is not None and call.at - at < (30 if call.pid is not None else 2):
        return False
    clone.lines[delivery] = call.at
    return True


def outcome_of(clone: Clone, call: Delivery) -> Outcome:
    """Return what a delivery leads to, and remember what was seen."""
    subject = subject_of(clone, call)
    over = _end_adopted(subject)
    done = _outcome(clone, call, subject)
    done.events += over
    done.tree = subject.tree.root
    done.why = f"37 ({subject.part}): {subject.run} in {subject.tree.root}; {done.why}"
    # "a client of which a start or another delivery was seen": an end alone makes no client known, even if it comes
    # twice.
    if call.hook != "SessionEnd" or call.client in clone.clients:
        see(clone, call.client, call.pid, call.at)
        clone.clients[call.client].heard_at = call.at
    active = active_run(clone, subject.tree)
    if note(clone, call.client, call.at, done) and active.run == subject.run:
        claim(subject.tree, subject.run, call.at)
    return done


def claim(tree: Tree, run: str | None, at: int) -> None:
    # STYLE: "claim: the note in a work tree's own git directory saying which run it is working on". A client's first
    # session on the active run, or its next one, claims it.
    if run is not None and (tree.claim is None or tree.claim[0] != run):
        tree.claim = (run, at)


def see(clone: Clone, client: str, pid: str | None, at: int) -> None:
    """Remember that a client was heard of."""
    seen = clone.clients.setdefault(client, Client(at, at))
    seen.pid, seen.last_at = pid or seen.pid, at


def note(clone: Clone, client: str | None, at: int, done: Outcome) -> bool:
    """Remember which runs were recorded on here, and the run of a client's newest session; return whether it is new."""
    clone.used |= {run for _, run, _, _ in done.events}
    kinds = {(kind, session) for kind, run, session, _ in done.events if run == done.run}
    if client is None or done.run is None:
        return False
    if ("session_started", NEW) in kinds:
        follow(clone, client, done.run, done.tree, at, is_new=True)
        return True
    return any(kind == "session_ended" for kind, _ in kinds) and follow(clone, client, done.run, done.tree, at)


def follow(clone: Clone, client: str, run: str, tree: str, at: int, *, is_new: bool = False) -> bool:
    """Remember that a client's newest session is on a run; return whether it was on another."""
    see(clone, client, None, at)
    seen = clone.clients[client]
    if not is_new and seen.run == run:
        return False
    seen.run, seen.session_at, seen.tree = run, at, tree
    return True


def _outcome(clone: Clone, call: Delivery, subject: Subject) -> Outcome:
    is_start, run = call.hook == "SessionStart", subject.run
    if run is None:
        # Row 38: "Without: nothing recorded, no context"
        return Outcome(why="no run")
    state = state_of(clone, subject.tree, run)
    assert state is not None
    is_finished = state.status in FINISHED
    if subject.is_shown:
        # "at a SessionStart, and at no other hook, the user (...) and the agent (...) get one line with its id and
        # `faber-ledger run resume RUN`; nothing is recorded on it and none of its sessions is ended."
        # Row 38: "On a completed or cancelled run a SessionStart does the same" as without one: no line.
        # Row 13: a repeat's "process prints nothing", also where no event can say so.
        return Outcome(run, printed="shown" if is_start and not is_finished and _is_first(clone, call) else None)
    log = subject.tree.logs.get(run, [])
    left = _left(clone, subject.tree, call.client, call.at, run)
    # Row 38: "On a completed or cancelled run a SessionStart does the same [nothing recorded, no context]; a
    # PreCompact or SessionEnd still ends the session that is open."
    if is_finished and is_start:
        return Outcome(run, events=left, why="row 38: finished")
    # Row 13: "It is recorded as ignored, ..., and its process prints nothing"
    if is_repeated(log, call):
        if is_finished and (call.hook == "PostCompact" or not open_sessions(log)):
            return Outcome(run, events=left, why="row 38: finished, nothing open")
        return Outcome(
            run,
            events=[
                ("delivery_ignored", run, None, "repeated"),
                *left,
            ],
        )
    if is_start:
        # Row 37: "a SessionStart opens one as always". Row 10: "The next session's start ends it: `ended_at` = that
        # start, `end_reason` `abandoned`, marked as inferred in the event."
        ends = [("session_ended", run, one.session, ("abandoned", call.at)) for one in open_sessions(log)]
        start = ("session_started", run, NEW, (call.source, call.at))
        return Outcome(run, events=[*ends, start, *left], printed="packet")
    hint = "hint" if call.hook == "PreCompact" and not is_finished else None
    session = _session_of(clone, call, run, log)
    if call.hook == "PostCompact":
        if is_finished:
            return Outcome(run, events=left, why="row 38: finished")
        if session is None:
            return Outcome(run, events=left, why="no session")
        return Outcome(
            run,
            events=[
                ("compaction_completed", run, session, call.at),
                *left,
            ],
        )
    reason = "compaction" if call.hook == "PreCompact" else "normal"
    if session is not None:
        has_ended = session not in [one.session for one in open_sessions(log)]
        # Row 10: "If its own end arrives after all (another client was still at work), that one replaces the inferred
        # one".
        is_inferred = {event.reason for event in log if event.type == "session_ended" and event.session == session} == {
            "abandoned"
        }
        if is_finished and has_ended and not is_inferred and not _goes_on(clone, call, session, log):
            return Outcome(
                run,
                events=left,
                why="row 38: finished, its session has ended",
            )
        ended = ("session_ended", run, session, (reason, call.at))
        return Outcome(run, events=[ended, *left], printed=hint)
    # Row 37: "If the client has none on that run: (...) a PreCompact, or a SessionEnd of a client of which a start or
    # another delivery was seen in this clone, opens one marked inferred, then is dealt with as usual; on a finished
    # run only if the client was seen before the run was finished."
    client = clone.clients.get(call.client)
    is_seen_early = client is not None and (state.finished_at is None or client.first_at < state.finished_at)
    if (call.hook == "PreCompact" or client is not None) and (not is_finished or is_seen_early):
        # "The inferred start is the latest of: the client's first delivery seen here, the run's `started_at`, the end
        # of the run's previous session."
        began = [client.first_at if client is not None else call.at]
        if state.started_at is not None:
            began.append(state.started_at)
        began += [event.at for event in log if event.type == "session_ended"]
        began += [start.at for start in open_sessions(log)]  # one that is still open has lasted until its own start
        at = max(began)
        ends = [("session_ended", run, one.session, ("abandoned", at)) for one in open_sessions(log)]
        opened = ("session_started", run, NEW, ("inferred", at))
        ended = ("session_ended", run, NEW, (reason, call.at))
        return Outcome(
            run,
            events=[*ends, opened, *left, ended],
            printed=hint,
            why="inferred",
        )
    # "Anything else (a stray end) is one line in the hook log, and no tracked file changes."
    return Outcome(run, events=left, printed=hint, why="stray")


def _end_adopted(subject: Subject) -> list[Fact]:
    # Row 10: "The next session's start ends it: `ended_at` = that start, `end_reason` `abandoned`". So does that of the
    # next one that a tool wrote, as soon as it is adopted (rows 35 and 49).
    log = subject.tree.logs.get(subject.run or "", [])
    written = [start for start in open_sessions(log) if start.source == ADOPTED]
    over: list[Fact] = []
    for start, following in pairwise(written):
        log.append(Event("session_ended", following.at, session=start.session))
        over.append(("session_ended", subject.run or "", start.session, ("abandoned", following.at)))
    return over


def _goes_on(clone: Clone, call: Delivery, session: str, log: list[Event]) -> bool:
    # Row 12: "The end it recorded stands until the client is heard of again without a new start; a later end of the
    # same session then replaces it".
    ends = [event for event in log if event.type == "session_ended" and event.client == call.client and event.is_ours]
    is_last = bool(ends) and ends[-1].session == session and _is_last_heard(clone, call.client, ends[-1])
    return is_last and _uncompacted(log, call.client, call.pid)


def _is_last_heard(clone: Clone, client: str | None, event: Event) -> bool:
    # A start on a finished run is not in the log: only what was seen of the client tells that one came. Commands that
    # the client runs do not count.
    seen = clone.clients.get(client or "")
    return seen is not None and seen.heard_at == event.at


def _session_of(clone: Clone, call: Delivery, run: str, log: list[Event]) -> str | None:
    # Row 37: "**The session**: this client's newest on that run; of several, that of the same process in this clone."
    own = [start for start in starts_of(log, call.client) if start.is_ours]
    same = [start for start in own if call.pid is not None and start.pid == call.pid]
    if own:
        return (same or own)[-1].session
    # "An open session without a client is ended by the first end of a client that has no session of its own on this
    # run and of which another delivery was seen in this clone while that session was open."
    # Row 12: "a later end of the same session then replaces it"
    ends = [event for event in log if event.type == "session_ended" and event.is_ours]
    taken = [event for event in ends if event.hook and event.client == call.client]
    if taken:
        return taken[-1].session
    # One that a tool wrote, and of which no machine is known, is a client's own: the session that else were inferred
    # (END step 3: it names no client).
    client = clone.clients.get(call.client)
    if client is None:
        return None
    for start in reversed(open_sessions(log)):
        if start.source == ADOPTED:
            return start.session
        # A command inside the client counts as a delivery: the clone has heard of it.
        if start.client is None and start.is_ours and client.last_at >= start.at:
            return start.session
    return None


def _left(clone: Clone, tree: Tree, client: str, at: int, run: str) -> list[Fact]:
    # "A session of this client on a run that it has left ends there, inferred, at that moment." There: in the work tree
    # that it began in, whose file may have what a pull brought and no other work tree has seen.
    seen = clone.clients.get(client)
    tree = clone.trees.get(seen.tree, tree) if seen is not None else tree
    return [
        ("session_ended", other, start.session, ("abandoned", at))
        for other, log in tree.logs.items()
        if other != run
        for start in open_sessions(log)
        if start.client == client and start.is_ours
    ]


# Rows 4, 8 and 40: commands


def name_run(clone: Clone, root: str, run: str, client: str | None, pid: str | None, at: int, source: str) -> Outcome:
    """Return what `run start` and `run resume` lead to, which name a run in a work tree."""
    clone.trees[root].claim = (run, at)
    clone.trees[root].put_back = None
    clone.used.add(run)
    done = Outcome(run, root)
    if client is not None:
        # Row 8: "`run start` and `run resume` inside a client open the session at once, end the session that this
        # client has open on the run they leave"
        log = clone.trees[root].logs.get(run, [])
        if not _is_own(open_sessions(log), client, pid) and not _uncompacted(log, client, pid):
            ends = [("session_ended", run, one.session, ("abandoned", at)) for one in open_sessions(log)]
            done.events = [*ends, ("session_started", run, NEW, (source, at))]
        done.events += _left(clone, clone.trees[root], client, at, run)
        note(clone, client, at, done)
        follow(clone, client, run, root, at)
        see(clone, client, pid, at)
    return done


def put_back(tree: Tree, run: str, base: tuple[str | None, ...], at: int) -> tuple[str | None, ...]:
    """Put the active files back for a run that is active and ready; return what they name then.

    `base`: what they name in the merge base.
    """
    # Row 2, as CONTEXT-MANAGEMENT.md tells it: "it is put back to what the branch started from", and GIT.md: `seal`
    # "after a rebase puts it back to the new merge base. [...] A file that names another run, a link, and a file that
    # git ignores are never touched."
    after, is_done = [], tree.put_back is not None and tree.put_back.run == run
    changed = []
    for number, (file, wanted) in enumerate(zip(tree.files, base, strict=True)):
        ours = [one.name for one in tree.written if one.number == number]
        is_named = run in (file.name, file.in_index) or is_done
        is_free = file.name in (None, run, wanted, *ours)
        is_right = (file.name, file.in_index) == (wanted, wanted)
        if is_named and is_free and not is_right and wanted != run:
            changed.append((number, wanted))
            after.append(wanted)
        else:
            after.append(file.name)
    if changed:
        claim(tree, run, at)
        tree.put_back = PutBack(run, at)
        tree.written += [Written(number, name, len(tree.heads)) for number, name in changed if name]
    return tuple(after)


def load(clone: Clone, root: str, trigger: str, client: str | None, pid: str | None, at: int) -> Outcome:
    """Return what `session-load` leads to on a work tree's active run."""
    tree = clone.trees[root]
    active = active_run(clone, tree)
    run = active.run
    if run is None or not belongs(clone, tree, active):
        # Row 4: "A run that is shown, not used (...), is not taken by a command that records (session-load,
        # session-save, note): it prints that line; session-save exits 0, the others 1."
        return Outcome(run, printed="refused", why="shown")
    log = tree.logs.get(run, [])
    opened = open_sessions(log)
    done = Outcome(run, root)
    clone.used.add(run)
    if trigger == "session_start":
        # Row 8: "So does `session-load --trigger session_start` (...), unless the open session is already this client
        # process's."
        goes_on = _is_own(opened, client, pid)
    else:
        # "Another session-load continues the open session if it is of this machine and clone and, where both are
        # known, of this client (`CLAUDE_CODE_SESSION_ID`); else it ends that one as in row 10 and opens one."
        goes_on = (
            bool(opened) and opened[-1].is_ours and (None in (client, opened[-1].client) or client == opened[-1].client)
        )
        goes_on = goes_on or _uncompacted(log, client, pid)
    if not goes_on:
        ends_of = [("session_ended", run, one.session, ("abandoned", at)) for one in opened]
        done.events = [*ends_of, ("session_started", run, NEW, ("session_load", at))]
    if client is not None:
        done.events += _left(clone, tree, client, at, run)
    note(clone, client, at, done)
    if client is not None:
        follow(clone, client, run, root, at)
        see(clone, client, pid, at)
    claim(tree, run, at)
    return done


def save(clone: Clone, root: str, client: str | None, pid: str | None, at: int) -> Outcome:
    """Return what `session-save` leads to on a work tree's active run."""
    tree = clone.trees[root]
    active = active_run(clone, tree)
    if active.run is None or not belongs(clone, tree, active):
        return Outcome(active.run)
    log = tree.logs.get(active.run, [])
    session = open_sessions(log)[-1].session if open_sessions(log) else None
    # Row 12: "The end it recorded stands until the client is heard of again without a new start; a later end of the
    # same session then replaces it in the projection."
    if session is None and _uncompacted(log, client, pid):
        own = [event for event in log if event.type == "session_ended" and event.client == client and event.is_ours]
        is_last = _is_last_heard(clone, client, own[-1])
        session = own[-1].session if is_last or _status(clone, tree, active.run) not in FINISHED else None
    ended = ("session_ended", active.run, session, ("manual", at))
    done = Outcome(active.run, root, events=[ended] if session is not None else [])
    note(clone, None, at, done)
    return done


def _is_own(opened: list[Event], client: str | None, pid: str | None) -> bool:
    if not opened or client is None:
        return False
    last = opened[-1]
    return last.client == client and last.is_ours and (None in (last.pid, pid) or last.pid == pid)


def _uncompacted(log: list[Event], client: str | None, pid: str | None) -> bool:
    # Row 12: "A session-load of that client, too, goes on with the session whose PreCompact no start followed."
    kinds = ("session_started", "session_ended", "compaction_completed")
    own = [event for event in log if client is not None and event.client == client and event.is_ours]
    last = next((event for event in reversed(own) if event.type in kinds), None)
    return last is not None and last.hook == "PreCompact" and (None in (last.pid, pid) or last.pid == pid)
