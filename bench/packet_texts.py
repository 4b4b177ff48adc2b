"""The documents of the scenarios: a protocol, a specification, a workflow of the project, a large state."""

from __future__ import annotations

from typing import Any

PROTOCOL = "plugins/faber/docs/workflow-orchestration-protocol.md"
SPECIFICATION = "specs/WORK-00412-shared-shopping-lists.md"
WORKFLOW = ".fractary/faber/workflows/lists.json"
RULE_OF_BUILD = "One commit for each requirement, its id in the subject; never commit with a failing test."
RULE_OF_EVALUATE = "Tick a criterion only beside the command that shows it."
RULE_OF_ERRORS = "After the third failure of one step, stop and ask the user."
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


def write_protocol(kilobytes: int = 2) -> str:
    """Return a protocol with a section for each phase, of about that size."""
    sections = {
        "## Purpose": "This protocol says how a step of a FABER workflow is carried out, whoever carries it out.",
        "## Reading the state": "Read the state before each step, and believe it rather than your memory.",
        "## Writing the state": "Write `current_step` before a step begins and the step's status when it has ended.",
        "## Frame phase": "Fetch the issue, create the branch, and write down what is not understood.",
        "## Architect phase": "Write the specification; ask at most five questions, all of them at once.",
        "## Build phase": f"{RULE_OF_BUILD}",
        "### Step implement": "Take the first requirement whose test fails. Do not touch the tests of the others.",
        "## Evaluate phase": f"{RULE_OF_EVALUATE}",
        "## Release phase": f"{RULE_OF_RELEASE}",
        "## Error handling": f"{RULE_OF_ERRORS}",
        "## Feedback": "A question to the user names the options and what happens without an answer.",
        "## Sessions": "Save the session before the client ends, and load it when one begins.",
    }
    text = "---\nname: orchestration\nmodel: claude-sonnet-4-5\n---\n\n# Workflow orchestration protocol\n"
    more = max(kilobytes * 1024 - sum(len(title) + len(rule) + 4 for title, rule in sections.items()), 0)
    for number, (title, rule) in enumerate(sections.items()):
        text += f"\n{title}\n\n{rule}\n"
        filled = 0
        while filled < more // len(sections) - 130:
            part = number * 31 + filled // 97
            why = WHY[part % len(WHY)]
            line = f"- {title.strip('# ')}, point {part}: {why}, as it was found in project {part * 7 % 53}."
            text += f"{'' if filled else chr(10)}{line}\n"
            filled += len(line) + 1
    return text


def write_specification(kilobytes: int = 3) -> str:
    """Return a specification with requirements, criteria, files and phases, of about that size."""
    lines = [
        "# WORK-00412: Shared shopping lists",
        "",
        "**Status**: Approved",
        "**Work item**: 412",
        "",
        "## Summary",
        "",
    ]
    lines += ["A household shares its shopping lists, also without a network, and unites what was changed meanwhile."]
    lines += ["", "## Functional Requirements", ""]
    lines += [f"- **{name}** {text}" for name, text in REQUIREMENTS.items()]
    each = max(kilobytes * 1024 - 2400, 0) // len(REQUIREMENTS)
    for name in REQUIREMENTS if each > 300 else []:
        lines += ["", f"### Details of {name}", ""]
        filled = 0
        while filled < each:
            line = (
                f"Case {filled // 170 + 1} of {name}: given a household of {filled % 5 + 2} and a list of"
                f" {filled % 41 + 3} items, when two phones change it apart, then both show the same list"
                " after each was online once."
            )
            lines += [line]
            filled += len(line)
    lines += ["", "## Acceptance Criteria", "", *[f"- [ ] {criterion}" for criterion in CRITERIA], ""]
    lines += ["## Files to Modify", "", "| File | Change |", "|---|---|", "| `lists/model.py` | new |"]
    lines += ["| `lists/changes.py` | new: the order of changes, and their union |", "| `lists/units.py` | new |", ""]
    lines += ["## Implementation Phases", "", "1. Model and store (FR-1)", "2. Changes and their union (FR-2, FR-3)"]
    lines += [
        "3. Bringing back what was ticked (FR-4)",
        "",
        "## Out of scope",
        "",
        "Recipes. Prices. Any change to `billing/`.",
    ]
    return "\n".join(lines) + "\n"


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
