"""The scenarios: each makes a checkout as work leaves it, starts a session in it, and lists what the agent must know.

The facts were written before the packet was made to say them, from the agent's place: what do I do next, what do I read
first, what must I not do. A fact does not ask for a layout. Where a wording has to be looked for, all those that a
reader would understand are given; a fact is never changed to fit the packet.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import packet_texts as texts
from packet_checkout import SECOND, Checkout
from packet_fact import Fact, essential, wanted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUN = "pantry-412-20260105-143022-a1b2c3"
BRANCH = "feat/412-shared-lists"
TARGET = "Shared shopping lists"
OF_PLUGIN = "plugins/faber/config/workflows"
ORDER_OF_USER = "Do not touch the billing module. Ask before adding a dependency."
DONE = {"status": "completed"}
PENDING = {"status": "pending"}


class Scene(NamedTuple):
    """What a session was given in a scenario, the files that it could have been given instead, and the facts."""

    name: str
    packet: str
    checkout: Checkout
    files: list[str]
    facts: list[Fact]


# What most scenarios have in common.


def begin(
    folder: Path,
    faber: str,
    *,
    phase: str = "build",
    step: str | None = "implement",
    protocol: int = 2,
    specification: int | None = 3,
    has_summaries: bool = False,
) -> Checkout:
    """Make a project with a run of the project's own workflow in a phase, on the run's branch, all committed."""
    checkout = Checkout(folder / "pantry", faber, RUN)
    checkout.root.mkdir()
    checkout.git("init", "--quiet", "--initial-branch", "main")
    for name in ("lists/model.py", "lists/changes.py", "billing/invoice.py", "docs/lists.md"):
        checkout.write(name, f"# {name}\n")
    checkout.write("Makefile", "check:\n\tpytest\n")
    checkout.copy_workflows()
    checkout.write(texts.WORKFLOW, json.dumps(texts.build_workflow(), indent=2) + "\n")
    checkout.write(texts.PROTOCOL, texts.write_protocol(protocol))
    checkout.run(faber, "init", "--summaries" if has_summaries else "--no-summaries")
    checkout.commit("Begin")
    start = ["--work-id", "412", "--run-id", RUN, "--workflow", "project:lists", "--target", TARGET]
    checkout.run(faber, "run", "start", "--yes", *start)
    checkout.git("switch", "--quiet", "--create", BRANCH)
    order = ["frame", "architect", "build", "evaluate", "release"]
    at = order.index(phase)
    phases = dict.fromkeys(order[:at], DONE) | {phase: {"status": "in_progress"}}
    artifacts = {"branch_name": BRANCH}
    if specification is not None:
        checkout.write(texts.SPECIFICATION, texts.write_specification(specification))
        artifacts["spec_path"] = texts.SPECIFICATION
    checkout.change_state(
        current_phase=phase,
        **({"current_step": step} if step else {}),
        phases=phases | dict.fromkeys(order[at + 1 :], PENDING),
        artifacts=artifacts,
        started_at="2026-01-05T14:30:22Z",
        updated_at="2026-01-06T09:00:00Z",
    )
    checkout.commit("#412: specification" if specification is not None else "#412: begin")
    return checkout


def state_file(checkout: Checkout) -> str:
    """Return the path of the run's state, from the project."""
    return str(checkout.state_path.relative_to(checkout.root))


def files_of(checkout: Checkout) -> list[str]:
    """Return the usual files in the order of the workflow's artifacts."""
    return [state_file(checkout), texts.PROTOCOL, texts.SPECIFICATION]


def know_run(checkout: Checkout, status: str = "in_progress") -> list[Fact]:
    """Return what the agent must know of every run."""
    return [
        essential("which run it is, for every command that follows", checkout.run_id),
        essential("which work item it is about", "work item…412", "work_id: 412", "issue 412", "#412"),
        essential(
            f"the run's status: {status}",
            *[
                f"{before}{word}"
                for word in (status, status.replace("_", " "))
                for before in ("status…", "is ", "run…")
            ],
        ),
        wanted("what is being built, in words", TARGET),
        wanted(
            "what this text is and why it stands here, in the first lines",
            "at the start of",
            "at each start",
            "at every start",
            "when a session",
            "since the session",
            "because the session",
            "because a session",
            "because this session",
            "begins with this",
            "this session",
            "this conversation",
            "given to",
            "written for",
            "is given",
            "printed by",
            "context of the",
            "session's start",
            "start of",
            "after a compaction",
            "so that you",
            "so that the work",
            "to go on",
            only_in="beginning",
        ),
        essential("where the state is that it has to keep up to date", state_file(checkout)),
        essential(
            "where the packet ends and the client's own text begins", "end of", "ends here", "the end", only_in="ending"
        ),
        wanted("the command that shows the run's events", "faber-ledger log"),
        wanted("the command that collects all that is known of the run", "reconstitute"),
    ]


def know_step(
    phase: str, step: str, prompt: str, after: tuple[str, ...], *done: str, words_in: str = texts.WORKFLOW
) -> list[Fact]:
    """Return what the agent must know of its place in the workflow."""
    return [
        essential(f"the phase is {phase}", f"phase…{phase}", f"{phase}:{step}", f"{phase} / {step}", f"{phase} phase"),
        essential(f"the step is {step}", f"step…{step}", f"{phase}:{step}", f"{phase} / {step}"),
        essential("what the step asks for, in the words of the workflow", prompt),
        wanted("where the step's words stand", words_in),
        essential("what comes after this step", *after),
        *[
            wanted(
                f"the phase {name} is done", *[f"completed…{name}", f"{name}…completed", f"done…{name}", f"{name}…done"]
            )
            for name in done
        ],
    ]


def know_implement() -> list[Fact]:
    """Return what the agent must know in the step of most scenarios."""
    after = ("then…document", "next…document", "after…document", "followed by…document", "implement → document")
    after += (
        "implement, document",
        "implement -> document",
        "scaffold…implement…document",
        "still to come……document",
        "after it……document",
        "afterwards……document",
        "comes……document",
    )
    return [
        *know_step("build", "implement", texts.PROMPT_IMPLEMENT, after, "frame", "architect"),
        wanted("what that next step is about", "docs/lists.md", "the page of the feature"),
    ]


def know_branch(branch: str = BRANCH) -> list[Fact]:
    """Return what the agent must know where the checkout stands on the run's branch."""
    return [
        essential("the run's branch, on which to commit", branch),
        wanted(
            "that the checkout stands on it, so that nothing has to be switched",
            f"{branch}…checked out",
            f"{branch}…checkout",
            f"checkout…{branch}",
            f"checked out…{branch}",
            f"{branch}…stands on it",
            f"{branch}…current",
            f"on {branch}",
            f"{branch}…HEAD",
        ),
    ]


def know_specification() -> list[Fact]:
    """Return what the agent must know of a specification that fits into the packet."""
    return [
        essential("where the specification is", texts.SPECIFICATION),
        essential("what is to be built: each requirement", "……".join(texts.REQUIREMENTS.values())),
        essential("what is out of scope", "Any change to billing/"),
        wanted("the acceptance criteria", "……".join(texts.CRITERIA)),
        wanted("which files it is about", "lists/changes.py…new: the order of changes"),
    ]


def know_reading(path: str, text: str, *headings: str) -> list[Fact]:
    """Return what the agent must know of a required file that is not whole in the packet."""
    ways = []
    for heading in headings:
        first, last = texts.lines_of(text, heading)
        title = heading.strip("# ")
        for until in (last, last - 1):  # with the empty line at its end or without
            ways += [f"{path}……{first}{dash}{until}" for dash in ("-", "–", " to ")]
            ways += [f"{first}-{until}……{title}", f"{title}…{first}-{until}", f"lines {first}-{until}"]
        ways.append(f"{path}:{first}")
    named = " or ".join([heading.strip("# ") for heading in headings])
    return [
        essential(
            f"that {path} has to be read before going on, since it is not all here",
            f"read……now……{path}",
            f"read……first……{path}",
            f"read……before……{path}",
            f"read {path}",
            f"{path}…read it",
            f"{path}……read……before going on",
        ),
        essential(f"in which lines of {path} {named} stands", *ways),
    ]


def start_work(checkout: Checkout) -> None:
    """Work through a session: a start, and a commit of the first requirement."""
    checkout.deliver("SessionStart.startup.print")
    checkout.write("lists/model.py", "class Household: ...\n")
    checkout.commit("lists: households (FR-1)")


# The scenarios.


def start_fresh(folder: Path, faber: str) -> Scene:
    """Start a run that has done nothing yet: it has no specification."""
    checkout = begin(folder, faber, phase="frame", step=None, specification=None)
    facts = [
        *know_run(checkout),
        essential("the phase is frame", "phase…frame", "frame phase", "frame:"),
        essential("the first step of it", "core-fetch-issue", "Fetch Issue", "auto-reload-context", "Reload Context"),
        essential("what to run to get the issue", "issue-fetch"),
        essential("that this phase is not done yet", "completed…frame", "frame…completed", must_lack=True),
        wanted("what comes after the phase", "then…architect", "next…architect", "after…architect", "architect"),
        *know_branch(),
        essential(
            "the protocol's words on this phase", "Fetch the issue, create the branch, and write down what is not"
        ),
        wanted("that a release needs the user's approval", texts.RULE_OF_RELEASE, "approval"),
    ]
    files = [state_file(checkout), texts.PROTOCOL]
    return Scene("fresh run", checkout.packet("SessionStart.startup.print"), checkout, files, facts)


def compact(folder: Path, faber: str) -> Scene:
    """Compact a conversation in the middle of a step, with a file written and not committed."""
    checkout = begin(folder, faber)
    checkout.change_state(additional_instructions=ORDER_OF_USER)
    start_work(checkout)
    checkout.write("lists/changes.py", "def unite(one, other): ...\n")
    checkout.deliver("PreCompact.auto.print")
    facts = [
        *know_run(checkout),
        *know_implement(),
        *know_branch(),
        *know_specification(),
        essential("what the user ordered for this run", ORDER_OF_USER),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
        wanted("the protocol's words on this step", "Take the first requirement whose test fails."),
        wanted("what to do if the step fails again and again", texts.RULE_OF_ERRORS),
    ]
    return Scene(
        "after a compaction", checkout.packet("SessionStart.compact.print"), checkout, files_of(checkout), facts
    )


def kill(folder: Path, faber: str) -> Scene:
    """Kill a client on another branch, made for something else; a new conversation begins there."""
    checkout = begin(folder, faber)
    start_work(checkout)
    checkout.git("switch", "--quiet", "--create", "fix/typo")
    checkout.write("README.md", "Shared lists\n")
    facts = [
        *know_run(checkout),
        *know_implement(),
        essential("the run's branch, on which to commit", BRANCH),
        essential(
            "that the checkout stands on fix/typo and not on that branch: nothing of the run may be committed there",
            "checkout…fix/typo",
            "checked out…fix/typo",
            "fix/typo…checked out",
            "HEAD…fix/typo",
            "is on fix/typo",
            "stands on fix/typo",
            f"not on {BRANCH}",
            f"{BRANCH}…not checked out",
            f"git switch {BRANCH}",
            f"git checkout {BRANCH}",
        ),
        *know_specification(),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
        wanted(
            "that the last session broke off, so that its last step may be half done",
            "abandoned",
            "broke off",
            "without an end",
            "did not end",
            "was killed",
            "never ended",
            "no end",
        ),
    ]
    packet = checkout.packet("SessionStart.startup.print", SECOND)
    return Scene("after a kill", packet, checkout, files_of(checkout), facts)


SUMMARY = """<summary>
1. Primary Request: implement the shared lists; the user wants no new dependency.
2. Done: lists/model.py (FR-1), committed.
3. Decisions: two changes with one number are ordered by the phone's id, because clocks are wrong.
4. Next step: the failing property test in lists/changes.py, then FR-3.
</summary>"""


def move_to_another_machine(folder: Path, faber: str) -> Scene:
    """Go on at a desktop, where somebody left a change uncommitted, with work that was pushed from a laptop."""
    laptop = begin(folder, faber, protocol=6, specification=8, has_summaries=True)
    laptop.change_state(additional_instructions=ORDER_OF_USER)
    start_work(laptop)
    laptop.deliver("PreCompact.auto.print")
    laptop.deliver("SessionStart.compact.print")
    laptop.deliver("PostCompact.auto.print", compact_summary=SUMMARY)
    laptop.deliver("SessionEnd.other.print")
    laptop.commit("#412: the run so far")
    desktop = laptop.clone_to(folder / "desktop", "desktop", BRANCH)
    desktop.run(faber, "init", "--summaries")
    desktop.write("lists/units.py", "GRAM = 1\n")
    facts = [
        *know_run(desktop),
        *know_implement(),
        *know_branch(),
        *know_specification(),
        essential("what the user ordered for this run", ORDER_OF_USER),
        essential(
            "that lists/units.py is changed and not committed here, which this conversation did not do",
            "uncommitted……lists/units.py",
            "lists/units.py…uncommitted",
            "not committed……lists/units.py",
            "lists/units.py…not committed",
            "?? lists/units.py",
            "changed……lists/units.py",
        ),
        essential(
            "what the other conversation was about to do", "the failing property test in lists/changes.py, then FR-3"
        ),
        essential("what it decided, and why", "ordered by the phone's id, because clocks are wrong"),
        wanted("where the last session was", "laptop", "another machine", "elsewhere"),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
    ]
    packet = desktop.packet("SessionStart.startup.print", SECOND)
    return Scene("on another machine", packet, desktop, files_of(desktop), facts)


ERROR = "pytest: test_lock_is_released failed (lists/changes.py:118): expected ['milk'], got []"


def fail_step(folder: Path, faber: str) -> Scene:
    """Fail a step for the second time; the run's status is failed."""
    checkout = begin(folder, faber, protocol=4, specification=4)
    start_work(checkout)
    failed = {"status": "failed", "failed_step": "implement", "error": ERROR, "completed_steps": ["scaffold"]}
    older = {
        "phase": "build",
        "step": "scaffold",
        "error": "psql: could not connect",
        "timestamp": "2026-01-05T16:00:00Z",
    }
    newest = {"phase": "build", "step": "implement", "error": ERROR, "timestamp": "2026-01-06T08:50:00Z"}
    checkout.change_state(
        status="failed",
        phases={"frame": DONE, "architect": DONE, "build": failed, "evaluate": PENDING, "release": PENDING},
        errors=[older, newest],
        retries={"build": 2},
    )
    checkout.deliver("SessionEnd.other.print")
    facts = [
        *know_run(checkout, "failed"),
        *know_implement(),
        *know_branch(),
        *know_specification(),
        essential("the error, with file and line", ERROR),
        essential("that the step is to be tried again, not gone past", "retry", "try…again", "retries", "repeat the"),
        wanted("how often it was tried", "retries…2", "build: 2", "build:2", "2 retries", "twice", "tried 2 times"),
        essential("what to do if it fails a third time", texts.RULE_OF_ERRORS),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
        wanted("that the step before it is done", "scaffold"),
    ]
    packet = checkout.packet("SessionStart.startup.print", SECOND)
    return Scene("failed step", packet, checkout, files_of(checkout), facts)


QUESTION = "Should a guest who leaves the household still see the lists that they ticked items on?"


def await_feedback(folder: Path, faber: str) -> Scene:
    """Wait for the user's answer to a question."""
    checkout = begin(folder, faber)
    start_work(checkout)
    checkout.change_state(
        status="awaiting_feedback",
        feedback_request={
            "request_id": "fr-20260106-085500",
            "type": "clarification",
            "prompt": QUESTION,
            "options": ["yes, read-only", "no, from the next opening on"],
            "context": {"phase": "build", "step": "implement"},
            "resume_point": {"phase": "build", "step": "implement"},
            "requested_at": "2026-01-06T08:55:00Z",
            "notification_sent": {"issue_comment": {"comment_id": "5120993", "posted_at": "2026-01-06T08:55:02Z"}},
        },
    )
    checkout.deliver("SessionEnd.other.print")
    facts = [
        *know_run(checkout, "awaiting_feedback"),
        *know_implement(),
        *know_branch(),
        *know_specification(),
        essential("the question that was asked, in its words", QUESTION),
        essential("the answers that were offered", "yes, read-only……no, from the next opening on"),
        essential(
            "where the work goes on once it is answered",
            "build:implement",
            "after feedback…build",
            "resume…build",
            "build…implement",
        ),
        wanted("which request the answer belongs to", "fr-20260106-085500"),
        wanted(
            "that nothing goes on before the user has answered",
            *["pending question", "question pending", "unanswered", "waits for", "wait for", "until…answer"],
            *["before…answer", "ask the user", "do not go on", "answer it", "awaits", "waiting for"],
        ),
        wanted("where it was asked", "5120993", "issue_comment", "issue comment"),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
    ]
    packet = checkout.packet("SessionStart.startup.print", SECOND)
    return Scene("awaiting feedback", packet, checkout, files_of(checkout), facts)


def load_long_protocol(folder: Path, faber: str) -> Scene:
    """Load a protocol of 35 KB and a specification of 24 KB: neither fits."""
    checkout = begin(folder, faber, protocol=35, specification=24)
    checkout.change_state(additional_instructions=ORDER_OF_USER)
    start_work(checkout)
    checkout.deliver("PreCompact.auto.print")
    protocol, specification = texts.write_protocol(35), texts.write_specification(24)
    facts = [
        *know_run(checkout),
        *know_implement(),
        *know_branch(),
        essential("what the user ordered for this run", ORDER_OF_USER),
        *know_reading(texts.PROTOCOL, protocol, "## Build phase"),
        *know_reading(texts.SPECIFICATION, specification, *[f"### Details of {name}" for name in texts.REQUIREMENTS]),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
        essential("the protocol's words on this step", "Take the first requirement whose test fails."),
        essential("what is to be built: each requirement", "……".join(texts.REQUIREMENTS.values())),
        essential("in which order", "Changes and their union (FR-2, FR-3)"),
        wanted("the acceptance criteria", "……".join(texts.CRITERIA)),
        wanted("which files it is about", "lists/changes.py…new: the order of changes"),
        wanted("what is out of scope", "Any change to billing/", "## Out of scope"),
        wanted("where the protocol speaks of errors", "## Error handling", "Error handling"),
        wanted("the command that gives the artifacts whole", "session-load"),
    ]
    return Scene("35 KB protocol", checkout.packet("SessionStart.compact.print"), checkout, files_of(checkout), facts)


def load_long_state(folder: Path, faber: str) -> Scene:
    """Load a state of 240 KB: 40 steps in each phase and 800 errors, the newest at the end."""
    checkout = begin(folder, faber)
    checkout.change_state(**texts.long_state(), additional_instructions=ORDER_OF_USER)
    start_work(checkout)
    checkout.deliver("PreCompact.auto.print")
    facts = [
        *know_run(checkout),
        *know_implement(),
        *know_branch(),
        *know_specification(),
        essential("what the user ordered for this run", ORDER_OF_USER),
        essential("the newest error", texts.NEWEST_ERROR),
        essential("what of the step is left", "left: [FR-3, FR-4]", "left…FR-3…FR-4"),
        wanted("what of the step is done", "done: [FR-1, FR-2]", "done…FR-1…FR-2"),
        wanted("the error before it", "attempt 798"),
        essential("that evaluate has not begun", "evaluate…pending"),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
    ]
    return Scene("240 KB state", checkout.packet("SessionStart.compact.print"), checkout, files_of(checkout), facts)


def load_many_artifacts(folder: Path, faber: str) -> Scene:
    """Load 80 artifacts of 1 KB, of which three are required, and one more for this phase."""
    checkout = begin(folder, faber)
    workflow = texts.build_workflow()
    listed = workflow["critical_artifacts"]["conditional_load"]
    required = {
        17: "The change log is append-only: no row of it is ever updated.",
        52: "Ids of phones are 16 hex digits.",
        78: "Migrations run forwards only.",
    }
    for number in range(80):
        name = f"notes/artifact-with-long-name-{number:03}.md"
        rule = required.get(number, f"Remark {number}.")
        checkout.write(name, f"# Remarks {number}\n\n{rule}\n\n" + f"Background of remark {number}. " * 34 + "\n")
        listed.append(
            {
                "id": f"artifact-{number:03}",
                "type": "markdown",
                "path": name,
                "description": f"Remarks {number}",
                "required": number in required,
                "reload_triggers": ["session_start"],
            }
        )
    of_build = {
        "id": "schema-of-lists",
        "type": "markdown",
        "path": "notes/schema.md",
        "description": "The tables",
        "required": False,
        "reload_triggers": ["session_start"],
    }
    workflow["critical_artifacts"]["phase_specific"] = {"build": [of_build]}
    checkout.write(
        "notes/schema.md", "# The tables\n\nA change has the columns phone, number, item, field and value.\n"
    )
    checkout.write(texts.WORKFLOW, json.dumps(workflow, indent=2) + "\n")
    checkout.commit("Remarks")
    start_work(checkout)
    facts = [
        *know_run(checkout),
        *know_implement(),
        *know_branch(),
        *know_specification(),
        *[essential(f"the rule of the required artifact {number}", rule) for number, rule in required.items()],
        *[
            essential(f"where the required artifact {number} is", f"notes/artifact-with-long-name-{number:03}.md")
            for number in required
        ],
        wanted("where the tables are described, which this phase asks for", "notes/schema.md"),
        wanted("that there are more artifacts, and the command that gives or lists them", "session-load"),
        wanted("where the optional ones are", "notes/artifact-with-long-name-", "notes/"),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
    ]
    files = [
        *files_of(checkout),
        *[f"notes/artifact-with-long-name-{number:03}.md" for number in range(80)],
        "notes/schema.md",
    ]
    packet = checkout.packet("SessionStart.startup.print", SECOND)
    return Scene("80 artifacts", packet, checkout, files, facts)


NOTE = "FR-2: ordered by Lamport's number, then by the phone's id. Property test first; see unite in lists/changes.py."
OLD_NOTE = "The staging database refuses the role of the migrations: use the role `lists_admin`."


def read_notes(folder: Path, faber: str) -> Scene:
    """Leave notes: a long summary, and newer short ones."""
    checkout = begin(folder, faber, protocol=6, specification=8)
    start_work(checkout)
    summary = (
        "Session of 5 January: model and store are done and committed (FR-1). "
        + "A trial with three phones found nothing. " * 40
    )
    checkout.run(faber, "note", "add", "--kind", "summary", summary)
    checkout.run(faber, "note", "add", OLD_NOTE)
    checkout.run(faber, "note", "add", NOTE)
    checkout.deliver("SessionEnd.other.print")
    facts = [
        *know_run(checkout),
        *know_implement(),
        *know_branch(),
        *know_specification(),
        essential("the newest note", NOTE),
        essential("the note before it", OLD_NOTE),
        essential("what the summary of the last session begins with", "model and store are done and committed (FR-1)"),
        wanted("where the whole of the cut summary is", "faber-ledger show", "faber-ledger log", "reconstitute"),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
    ]
    packet = checkout.packet("SessionStart.startup.print", SECOND)
    return Scene("notes", packet, checkout, files_of(checkout), facts)


PASSWORD = "hunter-7-tulip"


def redact(folder: Path, faber: str) -> Scene:
    """Redact a note that held a password, and not an older one."""
    checkout = begin(folder, faber)
    start_work(checkout)
    checkout.run(faber, "note", "add", NOTE)
    checkout.run(faber, "note", "add", f"The staging password is {PASSWORD}")
    newest = json.loads(checkout.run(faber, "log", "--json", "--type", "note_recorded").splitlines()[-1])
    checkout.run(faber, "redact", "--yes", "--reason", "a password", newest["id"])
    checkout.deliver("SessionEnd.other.print")
    facts = [
        *know_run(checkout),
        *know_implement(),
        *know_branch(),
        *know_specification(),
        essential("nothing of what was redacted", PASSWORD, must_lack=True),
        essential("the note that was not redacted", NOTE),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
    ]
    packet = checkout.packet("SessionStart.startup.print", SECOND)
    return Scene("redacted", packet, checkout, files_of(checkout), facts)


CONTINUATION = "Working on the union in lists/changes.py; the tests of FR-3 are red on purpose."


def use_layout_of_faber(folder: Path, faber: str) -> Scene:
    """Use FABER's newer layout: the state in its plan's folder, phases as a list, and its default workflow."""
    checkout = begin(folder, faber)
    shared = checkout.root / ".fractary" / "faber" / "runs" / "pantry-412"
    checkout.git("rm", "-r", "--quiet", ".fractary/runs")
    run_id = "pantry-412-run-2026-04-17T10-20-30Z"
    moved = Checkout(checkout.root, faber, run_id)
    moved.state_path = shared / "state-2026-04-17T10-20-30Z.json"
    moved.change_state(
        run_id=run_id,
        plan_id="pantry-412",
        work_id="412",
        target=TARGET,
        workflow_id="fractary-faber:default",
        workflow_version="2.0",
        status="in_progress",
        current_phase="build",
        current_step_id="build:implement",
        started_at="2026-04-17T10:20:30Z",
        updated_at="2026-04-17T12:00:00Z",
        phases=[
            {"phase_name": "frame", "status": "completed"},
            {"phase_name": "architect", "status": "completed"},
            {"phase_name": "build", "status": "in_progress", "steps": [{"id": "implement", "status": "in_progress"}]},
            {"phase_name": "evaluate", "status": "pending"},
            {"phase_name": "release", "status": "pending"},
        ],
        artifacts={"spec_path": texts.SPECIFICATION, "branch_name": BRANCH},
        continuation_note=CONTINUATION,
    )
    for name in ("runs/.active-run-id", ".active-run-id"):
        moved.write(f".fractary/faber/{name}", f"{run_id}\n")
    moved.commit("#412: the run")
    prompt = "Implement the solution according to the specification. Follow existing project patterns and conventions."
    after = (
        "core-commit-and-push-build",
        "Commit and Push Changes",
        "then…evaluate",
        "next…evaluate",
        "after…evaluate",
    )
    facts = [
        *know_run(moved),
        *know_step("build", "implement", prompt, after, "frame", "architect", words_in=f"{OF_PLUGIN}/default.json"),
        wanted(
            "that the changes are committed and pushed before the next phase",
            "core-commit-and-push-build",
            "Commit and Push Changes",
            "commit-push",
        ),
        *know_branch(),
        *know_specification(),
        essential("what the last session left for whoever goes on", CONTINUATION),
        essential("how to get the issue", "issue-fetch", "reconstitute --only"),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
    ]
    packet = moved.packet("SessionStart.startup.print")
    return Scene("FABER's own layout", packet, moved, files_of(moved), facts)


def evaluate(folder: Path, faber: str) -> Scene:
    """Check the criteria of a long specification; nothing may be changed in this phase."""
    checkout = begin(folder, faber, phase="evaluate", step="verify-criteria", protocol=35, specification=24)
    start_work(checkout)
    checkout.deliver("SessionEnd.other.print")
    after = ("core-create-pr", "Create Pull Request", "then…release", "next…release", "after…release")
    facts = [
        *know_run(checkout),
        *know_step("evaluate", "verify-criteria", texts.PROMPT_VERIFY, after, "build"),
        wanted("that a pull request comes before the release", "core-create-pr", "Create Pull Request", "pull request"),
        *know_branch(),
        *[essential(f"the acceptance criterion: {criterion}", criterion) for criterion in texts.CRITERIA],
        *know_reading(texts.PROTOCOL, texts.write_protocol(35), "## Evaluate phase"),
        essential("where the specification is", texts.SPECIFICATION),
        wanted(
            "in which lines the criteria are, to tick them",
            *know_reading(texts.SPECIFICATION, texts.write_specification(24), "## Acceptance Criteria")[1].wordings,
        ),
        essential("the protocol's rule for this phase", texts.RULE_OF_EVALUATE),
        wanted("that a release needs the user's approval", texts.RULE_OF_RELEASE, "approval"),
        wanted("what is to be built", texts.REQUIREMENTS["FR-2"]),
    ]
    packet = checkout.packet("SessionStart.startup.print", SECOND)
    return Scene("evaluate", packet, checkout, files_of(checkout), facts)


ORDERS = [
    "Merge only after I have said so here.",
    "The release notes name every household of the trial by its number, never by name.",
    "The migration runs on staging first; wait for my word before production.",
    "Do not delete the branch: the auditors read it.",
]


def release(folder: Path, faber: str) -> Scene:
    """Release what needs the user's approval, for which the user has given long orders."""
    checkout = begin(folder, faber, phase="release", step="core-merge-pr")
    start_work(checkout)
    background = (
        "The trial households were told that nothing of theirs is shown to others before they have agreed to it. "
    )
    orders = f"{ORDERS[0]} {ORDERS[1]} {background * 2}{ORDERS[2]} {background * 4}{ORDERS[3]}"
    checkout.change_state(
        additional_instructions=orders,
        pending_approvals=[
            {"phase": "release", "reason": "Merges to main and deploys", "requested_at": "2026-01-06T10:00:00Z"}
        ],
        artifacts={
            "spec_path": texts.SPECIFICATION,
            "branch_name": BRANCH,
            "pr_number": "87",
            "pr_url": "https://example.invalid/pantry/pull/87",
        },
    )
    checkout.deliver("PreCompact.auto.print")
    after = ("core-cleanup-worktree", "Cleanup Worktree", "last step", "nothing comes after", "end of the workflow")
    facts = [
        *know_run(checkout),
        *know_step(
            "release", "core-merge-pr", "pr-merge", after, "build", "evaluate", words_in=f"{OF_PLUGIN}/core.json"
        ),
        *know_branch(),
        *[essential(f"the user's order: {order}", order) for order in ORDERS[:3]],
        essential(
            "the user's last order, or where it stands",
            ORDERS[3],
            f"additional_instructions……{state_file(checkout)}",
            f"rest……{state_file(checkout)}",
        ),
        essential(
            "that the phase needs an approval which is still missing",
            "pending_approvals…phase: release",
            "approval……release",
            "release……approval",
            "approvals……release",
            "waits for approval",
            "needs approval",
        ),
        essential("which pull request it is about", "pr_number…87", "pull/87", "pull request…87"),
        essential("the protocol's rule for this phase", texts.RULE_OF_RELEASE),
        essential("where the specification is", texts.SPECIFICATION),
    ]
    return Scene("release", checkout.packet("SessionStart.compact.print"), checkout, files_of(checkout), facts)


SCENES: list[Callable[[Path, str], Scene]] = [
    start_fresh,
    compact,
    kill,
    move_to_another_machine,
    fail_step,
    await_feedback,
    load_long_protocol,
    load_long_state,
    load_many_artifacts,
    read_notes,
    redact,
    use_layout_of_faber,
    evaluate,
    release,
]
