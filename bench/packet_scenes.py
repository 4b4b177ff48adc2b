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
from packet_texts import Document

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
SHORT = texts.write_specification(8)


class Scene(NamedTuple):
    """What a session was given in a scenario, the lines of its documents that are useful there, and the facts."""

    name: str
    packet: str
    checkout: Checkout
    useful: set[str]
    facts: list[Fact]


# What most scenarios have in common.


def begin(
    folder: Path,
    faber: str,
    *,
    phase: str = "build",
    step: str | None = "implement",
    protocol: int = 9,
    specification: Document | None = SHORT,
    workflow: str = "project:lists",
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
    checkout.write(texts.PROTOCOL, texts.write_protocol(protocol).text)
    checkout.run(faber, "init", "--summaries" if has_summaries else "--no-summaries")
    checkout.commit("Begin")
    start = ["--work-id", "412", "--run-id", RUN, "--workflow", workflow, "--target", TARGET]
    checkout.run(faber, "run", "start", "--yes", *start)
    checkout.git("switch", "--quiet", "--create", BRANCH)
    order = ["frame", "architect", "build", "evaluate", "release"]
    at = order.index(phase)
    phases = dict.fromkeys(order[:at], DONE) | {phase: {"status": "in_progress"}}
    artifacts = {"branch_name": BRANCH}
    if specification is not None:
        checkout.write(texts.SPECIFICATION, specification.text)
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


def useful(phase: str, *documents: Document, protocol: int = 9) -> set[str]:
    """Return the lines that are useful in a phase, of the protocol and of other documents."""
    return set().union(*[one.list_useful(phase) for one in (texts.write_protocol(protocol), *documents)])


RULES = [
    essential("what to do if a step fails, whatever the phase", texts.RULE_OF_STOP),
    essential("when to stop trying", texts.RULE_OF_ERRORS),
    essential("how the state is written", texts.RULE_OF_STATE),
]


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


def start_work(checkout: Checkout) -> None:
    """Work through a session: a start, and a commit of the first requirement."""
    checkout.deliver("SessionStart.startup.print")
    checkout.write("lists/model.py", "class Household: ...\n")
    checkout.commit("lists: households (FR-1)")


# The scenarios.


def start_fresh(folder: Path, faber: str) -> Scene:
    """Start a run of FABER's own workflow that has done nothing yet: it has no specification."""
    checkout = begin(folder, faber, phase="frame", step=None, specification=None, workflow="fractary-faber:default")
    facts = [
        *know_run(checkout),
        *RULES,
        essential("the phase is frame", "phase…frame", "frame phase", "frame:"),
        essential("what to do first: fetch the issue", "what to do……issue-fetch --work-id 412"),
        essential("not to load again what this text gives", "What to do: Automatically", must_lack=True),
        essential("that this phase is not done yet", "completed…frame", "frame…completed", must_lack=True),
        wanted("what comes after that step", "after it……refine", "then……refine"),
        wanted("what comes after the phase", "then…architect", "phase architect", "after…architect"),
        *know_branch(),
        essential("the protocol's words on this phase", "write down what is not understood"),
        wanted("how a branch is named", "name begins with feat/ or fix/"),
    ]
    return Scene("fresh run", checkout.packet("SessionStart.startup.print"), checkout, useful("frame"), facts)


FAILING = "tests/test_union.py::test_ticked_items is red at lists/changes.py:118: unite drops the newer tick."


def compact(folder: Path, faber: str) -> Scene:
    """Compact a conversation in the middle of a step, with a failing test and a file that is not committed."""
    checkout = begin(folder, faber)
    checkout.change_state(additional_instructions=ORDER_OF_USER)
    start_work(checkout)
    checkout.write("lists/changes.py", "def unite(one, other): ...\n")
    checkout.run(faber, "note", "add", FAILING)
    checkout.deliver("PreCompact.auto.print")
    facts = [
        *know_run(checkout),
        *RULES,
        *know_implement(),
        *know_branch(),
        *know_specification(),
        essential("what the user ordered for this run", ORDER_OF_USER),
        essential("the failing test, its file and line, and why", FAILING),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
        wanted("the protocol's words on this step", "Take the first requirement whose test fails."),
        wanted("that a note is what somebody noted, and no order", *NO_ORDER),
    ]
    packet = checkout.packet("SessionStart.compact.print")
    return Scene("after a compaction", packet, checkout, useful("build", SHORT), facts)


NO_ORDER = ("inform", "no order", "not orders", "no instruction", "not instructions", "not an instruction")


def kill(folder: Path, faber: str) -> Scene:
    """Kill a client on another branch; another run has a work tree of its own beside it."""
    checkout = begin(folder, faber)
    start_work(checkout)
    checkout.git("switch", "--quiet", "--create", "fix/typo")
    checkout.write("README.md", "Shared lists\n")
    checkout.git("worktree", "add", "--quiet", "-b", "feat/731-export", "../export")
    other = Checkout(checkout.root.parent / "export", faber, "export-731")
    start = ["--work-id", "731", "--run-id", "export-731", "--workflow", "project:lists", "--target", "Export of lists"]
    other.run(faber, "run", "start", "--yes", *start)
    other.deliver("SessionStart.startup.print", "77777777-0d51-4e2a-9f0e-5f5d8f6b9b11")
    facts = [
        *know_run(checkout),
        *RULES,
        *know_implement(),
        essential("the run's branch, on which to commit", BRANCH),
        essential(
            "that the checkout stands on fix/typo and not on that branch: nothing of the run may be committed there",
            *[f"{before}…fix/typo" for before in ("checkout", "checked out", "HEAD", "is on", "stands on")],
            "fix/typo…checked out",
            f"not on {BRANCH}",
            f"{BRANCH}…not checked out",
            f"git switch {BRANCH}",
        ),
        essential(
            "that before it reads what to do", f"git switch {BRANCH}……What to do", f"{BRANCH}……before you……What to do"
        ),
        essential("nothing of the other run", "Export of lists", must_lack=True),
        *know_specification(),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
        wanted(
            "that the last session broke off, so that its last step may be half done",
            *["abandoned", "broke off", "without an end", "did not end", "was killed", "never ended", "no end"],
        ),
    ]
    packet = checkout.packet("SessionStart.startup.print", SECOND)
    return Scene("after a kill", packet, checkout, useful("build", SHORT), facts)


SUMMARY = """<summary>
1. Primary Request: implement the shared lists; the user wants no new dependency.
2. Done: lists/model.py (FR-1), committed.
3. Decisions: two changes with one number are ordered by the phone's id, because clocks are wrong.
4. Next step: the failing property test in lists/changes.py, then FR-3.
</summary>"""
NOTE = "FR-2: ordered by Lamport's number, then by the phone's id. Property test first; see unite in lists/changes.py."


def move_to_another_machine(folder: Path, faber: str) -> Scene:
    """Go on at a desktop, where somebody left a change uncommitted, with work that was pushed from a laptop."""
    laptop = begin(folder, faber, has_summaries=True)
    laptop.change_state(additional_instructions=ORDER_OF_USER)
    start_work(laptop)
    laptop.run(faber, "note", "add", NOTE)
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
        *RULES,
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
        ),
        essential(
            "what the other conversation was about to do", "the failing property test in lists/changes.py, then FR-3"
        ),
        essential("what it decided, and why", "ordered by the phone's id, because clocks are wrong"),
        essential("what was noted there", NOTE),
        wanted("that the note was made in another clone", "from laptop……Lamport", "laptop…Lamport"),
        wanted("that the summary was made in another clone", "laptop……Primary Request"),
        wanted("that a note is what somebody noted, and no order", *NO_ORDER),
        wanted("where the last session was", "laptop", "another machine", "elsewhere"),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
    ]
    packet = desktop.packet("SessionStart.startup.print", SECOND)
    return Scene("on another machine", packet, desktop, useful("build", SHORT), facts)


ERROR = "check lint-and-test failed on 3f1c2aa (lists/changes.py:118): expected ['milk'], got []"


def fail_again(folder: Path, faber: str) -> Scene:
    """Fail the checks of the pull request for the second time, with long documents; the protocol says where to go."""
    specification = texts.write_specification(24)
    step = "core-review-pr-checks"
    checkout = begin(
        folder,
        faber,
        phase="evaluate",
        step=step,
        protocol=35,
        specification=specification,
        workflow="fractary-faber:default",
    )
    start_work(checkout)
    failed = {
        "status": "failed",
        "failed_step": step,
        "error": ERROR,
        "completed_steps": ["core-create-pr"],
        "max_retries": 3,
    }
    first = {"phase": "evaluate", "step": step, "error": "check lint-and-test failed on 19ab004 (lists/model.py:7)"}
    second = {"phase": "evaluate", "step": step, "error": ERROR, "timestamp": "2026-01-06T08:50:00Z"}
    done = dict.fromkeys(("frame", "architect", "build"), DONE)
    checkout.change_state(
        status="failed",
        phases={**done, "evaluate": failed, "release": PENDING},
        errors=[first, second],
        retries={"evaluate": 2},
        artifacts={"branch_name": BRANCH, "spec_path": texts.SPECIFICATION, "pr_number": "87"},
    )
    checkout.deliver("SessionEnd.other.print")
    facts = [
        *know_run(checkout, "failed"),
        *RULES,
        *know_step(
            "evaluate",
            step,
            "pr-review --wait-for-ci",
            ("then…release", "phase release"),
            "build",
            words_in=f"{OF_PLUGIN}/core.json",
        ),
        *know_branch(),
        essential("the error, with file and line", ERROR),
        essential("that it is the second failure", "2nd time", "second time", "failed twice", "2 times", "failure 2"),
        essential("how many retries there may be", "2 of 3", "at most 3 retries", "limit…3"),
        essential("what the protocol says of such a failure", texts.RULE_OF_RETRIES),
        essential(
            "in which lines the protocol speaks of failures",
            f"lines …{texts.lines_of(texts.write_protocol(35).text, '## Error handling')[0]}",
            f"{texts.lines_of(texts.write_protocol(35).text, '## Error handling')[0]}-",
        ),
        essential(
            "no order to go on without the protocol's rule", "failed (try the step again that failed)", must_lack=True
        ),
        *[essential(f"the acceptance criterion: {criterion}", criterion) for criterion in texts.CRITERIA],
        essential("where the specification is", texts.SPECIFICATION),
        wanted("what failed the first time", "19ab004"),
        wanted("which pull request it is about", "pr_number…87", "pull/87", "pull request…87"),
        wanted("that a release needs the user's approval", "release, which needs approval"),
        wanted("what is to be built", texts.REQUIREMENTS["FR-2"]),
    ]
    packet = checkout.packet("SessionStart.startup.print", SECOND)
    return Scene("failed twice", packet, checkout, useful("evaluate", specification, protocol=35), facts)


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
    waits = ["pending question", "question pending", "unanswered", "waits for", "wait for", "until…answer"]
    waits += ["before…answer", "ask the user", "do not go on", "answer it", "awaits", "waiting for"]
    facts = [
        *know_run(checkout, "awaiting_feedback"),
        *RULES,
        *know_implement(),
        *know_branch(),
        *know_specification(),
        essential("the question that was asked, in its words", QUESTION),
        essential("that before it reads what to do", f"{QUESTION}……What to do"),
        essential("the answers that were offered", "yes, read-only……no, from the next opening on"),
        essential(
            "where the work goes on once it is answered",
            "build:implement",
            "after feedback…build",
            "resume…build",
            "build…implement",
        ),
        wanted("which request the answer belongs to", "fr-20260106-085500"),
        essential("that nothing goes on before the user has answered", *waits),
        wanted("where it was asked", "5120993", "issue_comment", "issue comment"),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
    ]
    packet = checkout.packet("SessionStart.startup.print", SECOND)
    return Scene("awaiting feedback", packet, checkout, useful("build", SHORT), facts)


def refine_long_specification(folder: Path, faber: str) -> Scene:
    """Refine a specification of 32 KB, after /clear, with a protocol of 35 KB: neither fits."""
    specification = texts.write_specification(32)
    checkout = begin(
        folder,
        faber,
        phase="architect",
        step="refine-spec",
        protocol=35,
        specification=specification,
        workflow="fractary-faber:default",
    )
    checkout.change_state(additional_instructions=ORDER_OF_USER)
    checkout.deliver("SessionStart.startup.print")
    checkout.run(faber, "note", "add", "The user still wants an answer on guests: may they see old lists?")
    path = texts.SPECIFICATION
    facts = [
        *know_run(checkout),
        *RULES,
        *know_step(
            "architect",
            "refine-spec",
            "/fractary-spec:refine --work-id 412",
            ("after it……commit-push", "then……core-commit-and-push-architect", "after it……build"),
            "frame",
            words_in=f"{OF_PLUGIN}/default.json",
        ),
        *know_branch(),
        essential("what the user ordered for this run", ORDER_OF_USER),
        essential("that the specification has to be read, since it is not all here", f"read……now……{path}"),
        essential("what the last conversation left open", "an answer on guests: may they see old lists?"),
        essential("the protocol's rule for this phase", "ask at most five questions, all of them at once"),
        essential("what is to be built: each requirement", "……".join(texts.REQUIREMENTS.values())),
        wanted("the acceptance criteria", "……".join(texts.CRITERIA)),
        wanted("what is out of scope", "Any change to billing/", "## Out of scope"),
        wanted("when the phase ends", "The phase ends when the user has read the criteria."),
        wanted("the command that gives the artifacts whole", "session-load"),
    ]
    packet = checkout.packet("SessionStart.clear.interactive", SECOND)
    return Scene("refine 32 KB", packet, checkout, useful("architect", specification, protocol=35), facts)


def load_long_state(folder: Path, faber: str) -> Scene:
    """Load a state of 240 KB: 40 steps in each phase and 800 errors, the newest at the end."""
    checkout = begin(folder, faber)
    checkout.change_state(**texts.long_state(), additional_instructions=ORDER_OF_USER)
    start_work(checkout)
    checkout.deliver("PreCompact.auto.print")
    facts = [
        *know_run(checkout),
        *RULES,
        *know_implement(),
        *know_branch(),
        *know_specification(),
        essential("what the user ordered for this run", ORDER_OF_USER),
        essential("the newest error", texts.NEWEST_ERROR),
        essential("what of the step is left", "left: [FR-3, FR-4]", "left…FR-3…FR-4"),
        wanted("what of the step is done", "done: [FR-1, FR-2]", "done…FR-1…FR-2"),
        essential("that evaluate has not begun", "evaluate…pending"),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
    ]
    packet = checkout.packet("SessionStart.compact.print")
    return Scene("240 KB state", packet, checkout, useful("build", SHORT), facts)


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
    of_artifact = {"type": "markdown", "reload_triggers": ["session_start"]}
    for number in range(80):
        name = f"notes/artifact-with-long-name-{number:03}.md"
        rule = required.get(number, f"Remark {number}.")
        checkout.write(name, f"# Remarks {number}\n\n{rule}\n\n" + f"Background of remark {number}. " * 34 + "\n")
        known = {"id": f"artifact-{number:03}", "path": name, "description": f"Remarks {number}"}
        listed.append({**known, **of_artifact, "required": number in required})
    schema = {"id": "schema-of-lists", "path": "notes/schema.md", "description": "The tables", "required": False}
    workflow["critical_artifacts"]["phase_specific"] = {"build": [{**schema, **of_artifact}]}
    tables = "A change has the columns phone, number, item, field and value."
    checkout.write("notes/schema.md", f"# The tables\n\n{tables}\n")
    checkout.write(texts.WORKFLOW, json.dumps(workflow, indent=2) + "\n")
    checkout.commit("Remarks")
    start_work(checkout)
    facts = [
        *know_run(checkout),
        *RULES,
        *know_implement(),
        *know_branch(),
        *know_specification(),
        *[essential(f"the rule of the required artifact {number}", rule) for number, rule in required.items()],
        *[
            essential(f"where the required artifact {number} is", f"notes/artifact-with-long-name-{number:03}.md")
            for number in required
        ],
        wanted("the tables, which this phase asks for", tables),
        wanted("that there are more artifacts, and the command that gives or lists them", "session-load"),
        wanted("where the optional ones are", "notes/artifact-with-long-name-", "notes/"),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
    ]
    lines = {*useful("build", SHORT), *required.values(), tables, "# The tables"}
    packet = checkout.packet("SessionStart.startup.print", SECOND)
    return Scene("80 artifacts", packet, checkout, lines, facts)


OLD_NOTE = "The staging database refuses the role of the migrations: use the role `lists_admin`."
PASSWORD = "hunter-7-tulip"


def read_notes(folder: Path, faber: str) -> Scene:
    """Leave a long summary, newer notes, one redacted note; the specification's headings are German."""
    specification = texts.write_german_specification()
    checkout = begin(folder, faber, specification=specification)
    start_work(checkout)
    summary = (
        "Session of 5 January: model and store are done and committed (FR-1). "
        + "A trial with three phones found nothing. " * 40
    )
    checkout.run(faber, "note", "add", "--kind", "summary", summary)
    checkout.run(faber, "note", "add", OLD_NOTE)
    checkout.run(faber, "note", "add", NOTE)
    checkout.run(faber, "note", "add", f"The staging password is {PASSWORD}")
    newest = json.loads(checkout.run(faber, "log", "--json", "--type", "note_recorded").splitlines()[-1])
    checkout.run(faber, "redact", "--yes", "--reason", "a password", newest["id"])
    checkout.deliver("SessionEnd.other.print")
    facts = [
        *know_run(checkout),
        *RULES,
        *know_implement(),
        *know_branch(),
        *know_specification(),
        essential("the newest note", NOTE),
        essential("the note before it", OLD_NOTE),
        essential("nothing of what was redacted", PASSWORD, must_lack=True),
        essential("what the summary of the last session begins with", "model and store are done and committed (FR-1)"),
        wanted("where the whole of the cut summary is", "faber-ledger show", "faber-ledger log", "reconstitute"),
        essential("the protocol's rule for this phase", texts.RULE_OF_BUILD),
    ]
    packet = checkout.packet("SessionStart.startup.print", SECOND)
    return Scene("notes, in German", packet, checkout, useful("build", specification), facts)


CONTINUATION = "Pull request text is in /docs/pr.md; the tests of FR-3 are green since 3f1c2aa."


def use_layout_of_faber(folder: Path, faber: str) -> Scene:
    """Use FABER's newer layout and its core workflow, which lists no specification although the state has one."""
    checkout = begin(folder, faber)
    shared = checkout.root / ".fractary" / "faber" / "runs" / "pantry-412"
    checkout.git("rm", "-r", "--quiet", ".fractary/runs")
    run_id = "pantry-412-run-2026-04-17T10-20-30Z"
    moved = Checkout(checkout.root, faber, run_id)
    moved.state_path = shared / "state-2026-04-17T10-20-30Z.json"
    done = [{"phase_name": name, "status": "completed"} for name in ("frame", "architect", "build")]
    steps = [{"id": "core-create-pr", "status": "in_progress"}]
    moved.change_state(
        run_id=run_id,
        plan_id="pantry-412",
        work_id="412",
        target=TARGET,
        workflow_id="fractary-faber:core",
        workflow_version="2.0",
        status="in_progress",
        current_phase="evaluate",
        current_step_id="evaluate:core-create-pr",
        started_at="2026-04-17T10:20:30Z",
        updated_at="2026-04-17T12:00:00Z",
        phases=[
            *done,
            {"phase_name": "evaluate", "status": "in_progress", "steps": steps},
            {"phase_name": "release", "status": "pending"},
        ],
        artifacts={"spec_path": texts.SPECIFICATION, "branch_name": BRANCH},
        continuation_note=CONTINUATION,
    )
    for name in ("runs/.active-run-id", ".active-run-id"):
        moved.write(f".fractary/faber/{name}", f"{run_id}\n")
    moved.commit("#412: the run")
    after = ("after it……core-review-pr-checks", "then……core-review-pr-checks", "next……core-review-pr-checks")
    facts = [
        *know_run(moved),
        *RULES,
        *know_step("evaluate", "core-create-pr", "commit-push-pr", after, "build", words_in=f"{OF_PLUGIN}/core.json"),
        *know_branch(),
        essential("where the specification is", texts.SPECIFICATION),
        *[essential(f"the acceptance criterion: {criterion}", criterion) for criterion in texts.CRITERIA],
        essential("what the last session left for whoever goes on", CONTINUATION),
        essential("how to get the issue", "issue-fetch 412", "reconstitute --only"),
        essential("the protocol's rule for this phase", texts.RULE_OF_EVALUATE),
        wanted("that release needs approval", "release, which needs approval"),
    ]
    packet = moved.packet("SessionStart.startup.print")
    return Scene("FABER's own layout", packet, moved, useful("evaluate", SHORT), facts)


ORDERS = [
    "Merge only after I have said so here.",
    "The release notes name every household of the trial by its number, never by name.",
    "The migration runs on staging first; wait for my word before production.",
    "Do not delete the branch: the auditors read it.",
]


def release(folder: Path, faber: str) -> Scene:
    """Release what needs the user's approval, of which nothing is on record, with long orders of the user."""
    specification = texts.write_specification(24)
    checkout = begin(folder, faber, phase="release", step="core-merge-pr", specification=specification)
    start_work(checkout)
    background = (
        "The trial households were told that nothing of theirs is shown to others before they have agreed to it. "
    )
    orders = f"{ORDERS[0]} {ORDERS[1]} {background * 2}{ORDERS[2]} {background * 4}{ORDERS[3]}"
    checkout.change_state(
        additional_instructions=orders,
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
        *RULES,
        *know_step(
            "release", "core-merge-pr", "pr-merge 87", after, "build", "evaluate", words_in=f"{OF_PLUGIN}/core.json"
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
            "that the phase needs an approval of which nothing is on record: ask",
            *["approval……not on record", "approval……not recorded", "approval……no record", "approval……ask"],
        ),
        essential("that before it reads what to do", "approval……What to do"),
        essential("which pull request it is about", "pr_number…87", "pull/87", "pull request…87"),
        essential("the protocol's rule for this phase", texts.RULE_OF_RELEASE),
        essential("where the specification is", texts.SPECIFICATION),
        wanted("the acceptance criteria", "……".join(texts.CRITERIA)),
    ]
    packet = checkout.packet("SessionStart.compact.print")
    return Scene("release", packet, checkout, useful("release", specification), facts)


SCENES: list[Callable[[Path, str], Scene]] = [
    start_fresh,
    compact,
    kill,
    move_to_another_machine,
    fail_again,
    await_feedback,
    refine_long_specification,
    load_long_state,
    load_many_artifacts,
    read_notes,
    use_layout_of_faber,
    release,
]
