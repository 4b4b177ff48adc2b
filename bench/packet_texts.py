"""The documents of the scenarios, with what of them is useful: a protocol, specifications, a workflow, a large state.

A document is a list of blocks. Each begins with who needs it now, before a packet is made: a phase, several, `all`, or
`-` for what nobody needs at a session's start (background, examples, other tools, details to be looked up).
"""

from __future__ import annotations

from typing import Any, NamedTuple

PROTOCOL = "plugins/faber/docs/workflow-orchestration-protocol.md"
SPECIFICATION = "specs/WORK-00412-shared-shopping-lists.md"
WORKFLOW = ".fractary/faber/workflows/lists.json"
RULE_OF_BUILD = "One commit for each requirement, its id in the subject; never commit with a failing test."
RULE_OF_EVALUATE = "Tick a criterion only beside the command that shows it."
RULE_OF_RETRIES = "If a check of the pull request fails, go back to build with the findings; at most 3 retries."
RULE_OF_ERRORS = "After the third failure of one step, stop and ask the user."
RULE_OF_STOP = "On a failure write `failed_step` and the status `failed` before anything else, and stop."
RULE_OF_STATE = "Write `current_step` before a step begins and the step's status when it has ended."
RULE_OF_RELEASE = "Never merge without the user's approval in this conversation."
PROMPT_SCAFFOLD = (
    "Create the tables and the empty modules of the specification, with one failing test for each requirement."
)
PROMPT_IMPLEMENT = (
    "Implement the requirements one after the other, in the order of the specification's phases. Write the property"
    " test of a union before its code. Run `make check` before each commit."
)
PROMPT_DOCUMENT = "Bring docs/lists.md up to date with what was built, and nothing else."
PROMPT_VERIFY = (
    "Check each acceptance criterion against the code and note the command that shows it; change no code here."
)
CRITERIA = [
    "Two phones that were offline show the same list after each has been online once",
    "A ticked item comes back within 30 days, newest first",
    "A list of 500 items opens within half a second without a network",
    "No notification is sent between 22:00 and 7:00 of the member's own time zone",
]
REQUIREMENTS = {
    "FR-1": "A list belongs to a household; every member may change it, a guest may only tick items off.",
    "FR-2": "Changes made offline are kept and sent in the order in which they were made.",
    "FR-3": "Two members may change one item at once; the later change of a field holds.",
    "FR-4": "An item that was ticked off can be brought back for 30 days.",
}
WHY = [
    "whoever goes on after a break has nothing but these lines and the files that they name",
    "a step that is done twice costs more than a step that is read twice",
    "the state is the only thing that two machines have in common",
    "what was decided in a conversation is gone with it unless it stands in a file",
]


class Block(NamedTuple):
    """Lines of a document, and who needs them: phases, `all`, or `-` for nobody at a session's start."""

    needed: str
    text: str


class Document(NamedTuple):
    """A document: its blocks one after the other, an empty line between them."""

    blocks: list[Block]

    @property
    def text(self) -> str:
        """The file's text."""
        return "\n".join([f"{block.text.strip()}\n" for block in self.blocks])

    def list_useful(self, phase: str) -> set[str]:
        """Return the lines that an agent in a phase needs."""
        needed = [block for block in self.blocks if {"all", phase} & set(block.needed.split())]
        return {line.strip() for block in needed for line in block.text.splitlines() if line.strip()}


def _fill(name: str, size: int) -> str:
    """Return lines that nobody needs, of about that many characters."""
    lines: list[str] = []
    filled = 0
    while filled < size:
        part = len(lines) * 31 + len(name)
        why = WHY[part % len(WHY)]
        lines.append(f"- {name}, point {len(lines) + 1}: {why}, as it was found in project {part * 7 % 53}.")
        filled += len(lines[-1]) + 1
    return "\n".join(lines)


GENERAL = [
    Block(
        "all",
        "# Workflow orchestration protocol\n\n"
        "This protocol says how a step of a FABER workflow is carried out, whoever carries it out.",
    ),
    Block(
        "all",
        "## 1. Reading the state\n\nRead the state before each step, and believe it rather than your memory.\n"
        "A step that the state calls done is not done again.\n"
        "Where the state and the branch disagree, the commits are right: say so, and correct the state.\n"
        "A phase begins only when the one before it is `completed`; a step that was skipped counts as done.",
    ),
    Block(
        "all",
        f"## 2. State updates\n\n{RULE_OF_STATE}\nKeep what you do not know: other tools have their own members.\n"
        "Write the whole file at once; never two writers at the same time.\n"
        "`phases.<phase>.status` is one of pending, in_progress, completed, failed, skipped.\n"
        "Emit an event with the same phase and step after each change, so that a dashboard can follow.\n"
        "Put a path or a number that a later phase needs into `artifacts`.",
    ),
]
FAILURES = Block(
    "all",
    f"## Error handling\n\n{RULE_OF_STOP}\n{RULE_OF_ERRORS}\n"
    "Add the error to `errors` with phase, step and the first line of what was printed.\n"
    "A failure of a tool, such as a network that is down, is tried again once, and then is a failure as any other.",
)
PHASES = [
    Block(
        "frame",
        "## Frame phase\n\nFetch the issue, create the branch, and write down what is not understood.\n"
        "The branch's name begins with feat/ or fix/, then the number of the issue.",
    ),
    Block(
        "architect",
        "## Architect phase\n\nWrite the specification; ask at most five questions, all of them at once.\n"
        "A refinement changes the specification in its own place, and says what it changed.\n"
        "The phase ends when the user has read the criteria.",
    ),
    Block(
        "build",
        f"## Build phase\n\n{RULE_OF_BUILD}\nNo file outside of the specification's list without saying so.\n"
        "A dependency is added only after the user has agreed to it.\n\n"
        "### Step implement\n\nTake the first requirement whose test fails. Do not touch the tests of the others.",
    ),
    Block(
        "evaluate",
        f"## Evaluate phase\n\n{RULE_OF_EVALUATE}\n{RULE_OF_RETRIES}\nCount each retry in `retries.evaluate`.\n"
        "A review's finding is answered in the pull request, with the commit that settles it.",
    ),
    Block(
        "release",
        f"## Release phase\n\n{RULE_OF_RELEASE}\nThe branch stays until the auditors have read it.\n"
        "After the merge set the status `completed`, and close the issue with the number of the pull request.",
    ),
]
OTHERS = [
    ("## Feedback", "A question to the user names the options and what happens without an answer."),
    ("## Sessions", "Save the session before the client ends, and load it when one begins."),
    ("## Appendix: glossary", "Words that this protocol uses."),
    ("## Appendix: why", "What was found in other projects."),
]


def write_protocol(kilobytes: int = 9) -> Document:
    """Return a protocol of about that size, with general rules, phases, and examples and appendices to fill it."""
    blocks = [*GENERAL, *PHASES, FAILURES, *[Block("-", f"{title}\n\n{text}") for title, text in OTHERS]]
    more = max(kilobytes * 1024 - len(Document(blocks).text), 0)
    filled: list[Block] = []
    for block in blocks:
        title = block.text.partition("\n")[0].strip("# ")
        filled.append(block)
        if more < 500:
            continue
        if block in PHASES:
            filled.append(Block("-", f"### Examples of the {title.lower()}\n\n{_fill(title, more // 10)}"))
        elif block.needed == "-":
            filled.append(Block("-", _fill(title, more // 8)))
    return Document(filled)


def write_specification(kilobytes: int = 8) -> Document:
    """Return a specification with requirements, criteria, files and phases; background and details fill it."""
    head = "# WORK-00412: Shared shopping lists\n\n**Status**: Approved\n**Work item**: 412"
    summary = "A household shares its shopping lists, also without a network, and unites what was changed meanwhile."
    phases = (
        "1. Model and store (FR-1)\n2. Changes and their union (FR-2, FR-3)\n3. Bringing back what was ticked (FR-4)"
    )
    blocks = [
        Block("all", head),
        Block("all", f"## Summary\n\n{summary}"),
        Block("-", "## Background"),
        Block("all", f"## Functional Requirements\n\n{_list_requirements()}"),
        Block("all", "## Acceptance Criteria\n\n" + "\n".join([f"- [ ] {criterion}" for criterion in CRITERIA])),
        Block("all", f"## Files to Modify\n\n{FILES}"),
        Block("all", f"## Implementation Phases\n\n{phases}"),
        Block("-", "## Alternatives"),
        Block("all", "## Out of scope\n\nRecipes. Prices. Any change to `billing/`."),
    ]
    return _pad_specification(blocks, kilobytes, ("Background", "Alternatives"))


FILES = (
    "| File | Change |\n|---|---|\n| `lists/model.py` | new |\n"
    "| `lists/changes.py` | new: the order of changes, and their union |\n| `lists/units.py` | new |"
)


def _list_requirements() -> str:
    return "\n".join([f"- **{name}** {text}" for name, text in REQUIREMENTS.items()])


def write_german_specification(kilobytes: int = 14) -> Document:
    """Return the same specification with headings in German, and none of the documents' words."""
    blocks = [
        Block("all", "# WORK-00412: Gemeinsame Einkaufslisten"),
        Block("all", "## Worum es geht\n\nEin Haushalt teilt seine Einkaufslisten, auch ohne Netz."),
        Block("-", "## Hintergrund"),
        Block("all", f"## Was es leisten soll\n\n{_list_requirements()}"),
        Block("-", "## Verworfenes"),
        Block("all", "## Fertig, wenn\n\n" + "\n".join([f"- [ ] {criterion}" for criterion in CRITERIA])),
        Block("all", f"## Wo\n\n{FILES}"),
        Block("all", "## Nicht dabei\n\nRezepte. Preise. Any change to `billing/`."),
        Block("-", "## Verlauf"),
    ]
    return _pad_specification(blocks, kilobytes, ("Hintergrund", "Verworfenes", "Verlauf"))


def _pad_specification(blocks: list[Block], kilobytes: int, padded: tuple[str, ...]) -> Document:
    """Return a document with text below the `padded` headings, and details of each requirement, up to a size."""
    more = max(kilobytes * 1024 - len(Document(blocks).text), 0)
    details = more // 2 // len(REQUIREMENTS)
    filled: list[Block] = []
    for block in blocks:
        title = block.text.partition("\n")[0].strip("# ")
        if title in padded:
            filled.append(Block("-", f"## {title}\n\n{_fill(title, more // 2 // len(padded))}"))
            continue
        filled.append(block)
        if "**FR-1**" in block.text and details > 300:
            filled += [Block("-", f"### Details of {name}\n\n{_detail(name, details)}") for name in REQUIREMENTS]
    return Document(filled)


def _detail(name: str, size: int) -> str:
    lines: list[str] = []
    filled = 0
    while filled < size:
        lines.append(
            f"Case {len(lines) + 1} of {name}: given a household of {filled % 5 + 2} and a list of {filled % 41 + 3}"
            " items, when two phones change it apart, then both show the same list after each was online once."
        )
        filled += len(lines[-1]) + 1
    return "\n".join(lines)


def lines_of(text: str, heading: str) -> tuple[int, int]:
    """Return the first and the last line of a section, counted from 1."""
    lines = text.splitlines()
    first = lines.index(heading)
    level = len(heading) - len(heading.lstrip("#"))
    marks = tuple("#" * depth + " " for depth in range(1, level + 1))
    ends = [at for at in range(first + 1, len(lines)) if lines[at].startswith(marks)]
    return first + 1, ends[0] if ends else len(lines)


def build_workflow() -> dict[str, Any]:
    """Return the project's own workflow: three steps in build, one in evaluate, the rest inherited."""
    return {
        "id": "lists",
        "description": "Features of the shared lists",
        "extends": "fractary-faber:default",
        "phases": {
            "build": {
                "enabled": True,
                "description": "Build what the specification says",
                "steps": [
                    {
                        "id": "scaffold",
                        "name": "Scaffold",
                        "description": "Tables, modules, failing tests",
                        "prompt": PROMPT_SCAFFOLD,
                    },
                    {
                        "id": "implement",
                        "name": "Implement",
                        "description": "Requirement by requirement",
                        "prompt": PROMPT_IMPLEMENT,
                    },
                    {
                        "id": "document",
                        "name": "Document",
                        "description": "The page of the feature",
                        "prompt": PROMPT_DOCUMENT,
                    },
                ],
            },
            "evaluate": {
                "enabled": True,
                "steps": [{"id": "verify-criteria", "name": "Verify criteria", "prompt": PROMPT_VERIFY}],
            },
        },
        "autonomy": {"level": "guarded", "require_approval_for": ["release"]},
        "critical_artifacts": {
            "conditional_load": [
                {
                    "id": "specification",
                    "type": "markdown",
                    "path_from_state": "artifacts.spec_path",
                    "description": "Technical specification for the work",
                    "required": True,
                    "condition": "state.artifacts.spec_path != null",
                    "reload_triggers": ["session_start"],
                }
            ]
        },
    }


def long_state() -> dict[str, Any]:
    """Return the members of a state of 240 KB: 40 steps in each phase, and 800 errors, the newest last."""
    phases: dict[str, Any] = {}
    for phase in ("frame", "architect", "build"):
        steps = [
            {
                "id": f"{phase}-step-{number:02}",
                "status": "completed",
                "started_at": f"2026-01-05T{number % 24:02}:00:00Z",
                "result": {"details": {"files": [f"lists/{phase}/{number}/{part}.py" for part in range(8)]}},
            }
            for number in range(40)
        ]
        phases[phase] = {"status": "completed", "steps": steps}
    phases["build"]["status"] = "in_progress"
    phases["build"]["steps"][38] |= {"id": "scaffold", "status": "completed"}
    phases["build"]["steps"][39] |= {
        "id": "implement",
        "status": "in_progress",
        "result": {"done": ["FR-1", "FR-2"], "left": ["FR-3", "FR-4"]},
    }
    phases |= {"evaluate": {"status": "pending"}, "release": {"status": "pending"}}
    errors = [
        {
            "phase": "build",
            "step": "implement",
            "timestamp": f"2026-01-05T{number // 60 % 24:02}:{number % 60:02}:00Z",
            "error": f"attempt {number}: make check failed in lists/changes.py, line {number % 300 + 1}: the union"
            f" of {number % 9 + 2} phones is not the same in every order, and the order of the changes was lost"
            " on the way",
        }
        for number in range(799)
    ]
    errors.append({"phase": "build", "step": "implement", "timestamp": DAY, "error": NEWEST_ERROR})
    return {"phases": phases, "errors": errors}


DAY = "2026-01-06T09:12:00Z"
NEWEST_ERROR = "test_union_of_ticked_items: expected ['milk'], got [] (lists/changes.py:118)"
