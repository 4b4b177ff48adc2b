"""The packet: within its bounds whatever is in it, and useful if not everything fits."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.project import PROTOCOL, RUN, Project

from faber_ledger.context.markdown import wanted_sections
from faber_ledger.context.outline import outline
from faber_ledger.context.packet import pack
from faber_ledger.files.text import MAX_MARKS, clip, cut_middle, one_line, shares, units

if TYPE_CHECKING:
    from pathlib import Path

    from faber_ledger.context.packet import Part, Remembered

ODD = 'a \n#`~-{}[]":\u001b\u009bé\u0301\u0323漢🦀👩\u200d🔬\U0001f3fd\ud800\udfff\u0001\t'
TEXTS = st.one_of(  # short ones many times over: long ones are drawn slowly
    st.text(st.sampled_from(ODD), max_size=80),
    st.text(max_size=60),
    st.lists(st.sampled_from(["# A", "## Requirements", "```", "---", "text " * 30, "é" * 200, "", "### Files"])).map(
        "\n".join
    ),
    st.dictionaries(st.text(max_size=8), st.text(max_size=40), max_size=4).map(json.dumps),
).flatmap(lambda text: st.sampled_from([text, text * 40]))


def part(name: str, content: str, *, required: bool = False, description: str = "what it is", **more: Any) -> Part:
    size = len(content.encode("utf-8", "surrogatepass"))
    whole: Any = {
        "artifact_id": name,
        "description": description,
        "source": f"docs/{name}.md",
        "size_bytes": size,
        "content": content,
        "required": required,
        **more,
    }
    made: Part = whole
    return made


def remembered(text: str, phase: str | None = "build", step: str | None = "implement") -> Remembered:
    return {"text": text, "phase": phase, "step": step}


PARTS = st.lists(
    st.builds(part, st.text(st.sampled_from(ODD + "bcdefgh"), min_size=1, max_size=12), TEXTS, required=st.booleans()),
    max_size=8,
    unique_by=lambda part: part["artifact_id"],
)
REMEMBERED = st.builds(remembered, TEXTS)
NOTES = st.lists(st.builds(remembered, TEXTS, st.none() | TEXTS, st.none() | TEXTS), max_size=5)
STATES = st.fixed_dictionaries({}, optional={"work_id": TEXTS, "target": TEXTS, "current_step": TEXTS, "status": TEXTS})


CHARACTERS = st.sampled_from(
    [
        *["a", " ", "\n", "é", "漢", "🦀", "\r\n", "e\u0301\u0323", "\u2764\ufe0f", "1\ufe0f\u20e3", "👍\U0001f3fd"],
        *["\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7", "\U0001f1fa\U0001f1f8"],  # the flags of three countries
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # a region's flag
        "👩\u200d👩\u200d👧\u200d👦",
        "👩\U0001f3fd\u200d🔬",
        *["한", "\u1112\u1161\u11ab", "\u1100\u1161", "가\u11a8"],  # Hangul, composed, in parts, and half so
        "\u0915\u094d\u0937\u093f",  # a Devanagari conjunct with its vowel
    ]
)


@given(st.lists(CHARACTERS, max_size=30), st.integers(0, 60))
@example(["\U0001f1e9\U0001f1ea"] * 3, 8)
@example(["a", "\r\n", "b"], 3)
@example(["👩\u200d👩\u200d👧\u200d👦"], 4)
def test_a_cut_is_between_characters_as_readers_see_them(characters: list[str], room: int) -> None:
    text = "".join(characters)
    cut = clip(text, room)
    assert units(cut) <= room
    if cut != text and room:
        beginnings = {"".join(characters[:count]) for count in range(len(characters))}
        assert cut.removesuffix("…") in beginnings


@given(st.lists(CHARACTERS, max_size=12), st.integers(0, 30))
def test_a_line_is_cut_between_characters_too(characters: list[str], room: int) -> None:
    line = one_line(" " * (4 * room - 3) + "".join(characters), room)
    whole = " ".join("".join(characters).split())
    assert units(line) <= room
    beginnings = {" ".join("".join(characters[:count]).split()) for count in range(len(characters) + 1)}
    assert line == whole or line.removesuffix("…").rstrip() in beginnings


def unprintable(text: str) -> list[str]:
    return [letter for letter in text if unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t"]


@given(STATES, PARTS, st.lists(TEXTS, max_size=8), NOTES, st.none() | REMEMBERED, st.integers(1, 25_000))
def test_no_control_character_reaches_the_packet(
    state: dict[str, Any],
    parts: list[Part],
    problems: list[str],
    notes: list[Remembered],
    summary: Remembered | None,
    budget: int,
) -> None:
    text, _ = pack(RUN, state, parts, problems, budget=budget, notes=notes, summary=summary)
    assert not unprintable(text)


def test_nothing_from_a_repository_controls_a_terminal(tmp_path: Path) -> None:
    steers = "\x1b[2J\x9b31m\x07\x7f"
    project = Project.made(tmp_path / "project")
    project.write("specs/a.md", f"# Spec\n\n## Summary {steers}\n\nText {steers}\r\n" + "long line\n" * 2000)
    state = json.loads(project.state_path.read_text())
    project.put_state(
        {**state, "target": f"t{steers}", "artifacts": {"spec_path": "specs/a.md", "branch": f"b{steers}"}}
    )
    project.faber("note", "add", f"note {steers} of somebody")
    packet = project.deliver("SessionStart.startup.print").packet or ""
    assert not unprintable(packet)
    assert "note \ufffd[2J\ufffd31m\ufffd\ufffd of somebody" in packet
    assert "Target: t\ufffd[2J" in packet
    hint = project.deliver("PreCompact.auto.print").hint or ""
    assert not unprintable(hint)
    assert "b\ufffd[2J" in hint


@given(STATES, PARTS, st.lists(TEXTS, max_size=8), NOTES, st.none() | REMEMBERED, st.integers(1, 25_000))
def test_a_packet_never_exceeds_its_budget_and_is_always_the_same(
    state: dict[str, Any],
    parts: list[Part],
    problems: list[str],
    notes: list[Remembered],
    summary: Remembered | None,
    budget: int,
) -> None:
    text, how = pack(RUN, state, parts, problems, budget=budget, notes=notes, summary=summary)
    assert units(text) <= budget
    assert len(text.encode()) >= len(text)  # no half of a character is left
    assert list(how) == [part["artifact_id"] for part in parts]
    assert (text, how) == pack(RUN, state, parts, problems, budget=budget, notes=notes, summary=summary)


@given(PARTS, st.lists(TEXTS, max_size=8), REMEMBERED, st.integers(2_000, 9_500))
def test_no_artifact_is_left_out_without_being_named_or_counted(
    parts: list[Part], problems: list[str], summary: Remembered, budget: int
) -> None:
    text, how = pack(RUN, {}, parts, problems, budget=budget, summary=summary)
    index = text.partition("\nArtifacts (")[2]
    lines = [line for line in index.split("\n") if line.startswith("- ")][: len(parts)]
    for line, one in zip(lines, parts, strict=False):
        words = {"inline": "whole", "pointer": "not shown"}.get(how[one["artifact_id"]], how[one["artifact_id"]])
        assert f"{' (required)' if one['required'] else ''}: {words}, docs/" in line
    missing = parts[len(lines) :]
    if missing:
        assert f"… and {len(missing)} more, {sum(one['required'] for one in missing)} of them required\n" in index


@given(TEXTS, st.integers(0, 400))
@example("e" + "\u0301" * 40 + "x", 20)
@example("👩\u200d🔬" * 3, 7)
@example(":\u200d" * 40, 5)
def test_a_cut_is_never_within_a_character_nor_between_it_and_its_marks(text: str, room: int) -> None:
    cut = clip(text, room)
    assert units(cut) <= room
    if cut == text:
        return
    if not cut:
        assert room == 0
        return
    at = len(cut) - 1
    assert cut == text[:at] + "…"
    follows = unicodedata.category(text[at])[0] == "M" or text[at] in "\u200d\U0001f3fd"
    is_joined = text[at - 1 : at] == "\u200d" and not text[at].isascii()  # a joiner joins no letter of ASCII's
    if at and (follows or is_joined):
        before = text[max(at - MAX_MARKS + 1, 1) : at]
        assert all(unicodedata.category(letter)[0] == "M" or letter in "\u200d🔬👩\U0001f3fd" for letter in before)


@given(st.lists(st.integers(0, 10_000), max_size=12), st.integers(0, 10_000))
def test_room_is_shared_fairly(wanted: list[int], room: int) -> None:
    given_room = shares(wanted, room)
    assert sum(given_room) <= room
    assert all(share <= want for share, want in zip(given_room, wanted, strict=True))
    cut = [share for share, want in zip(given_room, wanted, strict=True) if share < want]
    assert not cut or max(given_room) - min(cut) <= len(wanted)


@given(TEXTS, st.integers(0, 5_000), st.integers(0, 5_000))
def test_an_outline_keeps_to_its_room(text: str, room: int, look: int) -> None:
    assert units(outline(text, room, look)) <= room


def test_a_bold_line_heads_an_important_section_as_in_a_reconstitution() -> None:
    filler = "Detail that nobody needs at once.\n" * 60
    text = f"# Spec\n\n## Background\n\n{filler}\n**Files to Modify**:\n\n- ledger/log.py\n\n**Note**\n\n{filler}\n"
    text += "## Non-goals\n"
    shown = outline(text, 1_000, len(text))
    assert "- ledger/log.py" in shown
    assert shown.index("- ledger/log.py") < shown.index("Detail")
    assert wanted_sections(text)["files"] == "**Files to Modify**:\n\n- ledger/log.py"
    assert wanted_sections(text)["summary"] is None


# A long protocol and a long specification


def specification() -> str:
    """Return 30 KB of a specification like FABER's: important parts between long unimportant ones."""
    filler = "".join(f"Detail {number} of the background, which nobody needs at once.\n" for number in range(75))
    return (
        f"# WORK-00258: Better resume\n\n**Status**: Ready\n\n## Background\n\n{filler}\n"
        "## Summary\n\nA run resumes on another machine.\n\n"
        f"## Alternatives\n\n{filler}{filler}\n### One more\n\n{filler}\n"
        "## Functional Requirements\n\n- FR-1: nothing is lost\n- FR-2: nobody explains\n\n"
        f"## Risks\n\n{filler}{filler}\n"
        "## Acceptance Criteria\n\n- [ ] the log holds\n\n"
        "## Files to Modify\n\n| `ledger/log.py` | append |\n\n"
        f"## Implementation Phases\n\n### Phase 1: the log\n\n{filler}\n"
    )


def protocol() -> str:
    """Return 35 KB of a protocol."""
    step = "".join(f"{number}. Do this, look at it, and record it.\n" for number in range(70))
    steps = "".join(f"### Step {number}: act\n\n```bash\n# no heading\n{step}```\n\n" for number in range(13))
    return f"# Orchestration\n\n## Overview\n\nOne step after the other.\n\n## Protocol Steps\n\n{steps}"


def test_a_long_protocol_and_a_long_specification_both_show_their_important_parts(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    project.write(PROTOCOL, protocol())
    project.write("specs/WORK-00258.md", specification())
    project.change_state(artifacts={"spec_path": "specs/WORK-00258.md"}, current_step="implement")
    assert len(protocol()) > 35_000
    assert len(specification()) > 28_000
    text = project.deliver("SessionStart.startup.interactive").packet
    assert text is not None
    assert 8_500 < units(text) <= 9_500
    first = text[:2_000]
    for said in (f"# FABER run {RUN}", "Step: implement", "Resume point: build:implement (continue)"):
        assert said in first
    assert f"- orchestration-protocol (required): outline, {PROTOCOL} (3" in first
    assert "- specification: outline, specs/WORK-00258.md (2" in first
    _, protocol_part, specification_part = text.split("\n## workflow-state")[1].split("Outline with parts of the text;")
    assert "One step after the other." in protocol_part
    assert "## Protocol Steps (3" in protocol_part
    assert "# no heading (" not in protocol_part
    for said in (
        "A run resumes on another machine.",
        "- FR-2: nobody explains",
        "- [ ] the log holds",
        "| `ledger/log.py` | append |",
        "### Phase 1: the log",
    ):
        assert said in specification_part
    lines = specification().split("\n")
    at = lines.index("## Acceptance Criteria") + 1
    assert f"\n{at}-{at + 3} ## Acceptance Criteria (0.0 KB)\n" in specification_part
    assert [event["given"] for event in project.of_type("artifact_loaded")] == ["inline", "outline", "outline"]


def test_the_agent_is_asked_for_an_artifact_that_only_it_can_fetch(tmp_path: Path) -> None:
    issue = part("issue", "", required=True, deferred="run `/fractary-work:issue-fetch 258`")
    text, how = pack(RUN, {}, [issue], [], budget=9_500)
    assert "- issue (required): deferred; run `/fractary-work:issue-fetch 258`\n" in text
    assert how == {"issue": "deferred"}


def test_a_long_json_file_is_given_member_by_member() -> None:
    state = {"run_id": RUN, "log": ["x" * 50] * 900, "phases": {"build": {"status": "in_progress"}}}
    text, how = pack(RUN, {}, [part("workflow-state", json.dumps(state, indent=2))], [], budget=4_000)
    assert how == {"workflow-state": "outline"}
    assert f'run_id: "{RUN}"\n' in text
    assert 'phases: {"build": {"status": "in_progress"}}\n' in text


def test_problems_come_first_and_those_that_do_not_fit_are_named_or_counted() -> None:
    problems = [f"❌ ERROR: Required artifact not found\nArtifact: a{number}\n" + "why\n" * 99 for number in range(90)]
    text, _ = pack(RUN, {"work_id": "258"}, [], problems, budget=9_500)
    assert text.startswith(problems[0][:200])
    assert "❌ ERROR: Required artifact not found Artifact: a1 why" in text
    assert "more: `faber-ledger session-load --dry-run` shows them\n" in text
    assert "Work item: 258" in text[:2_000]


def test_a_code_block_that_is_cut_is_closed() -> None:
    text = "# A\n\n## Overview\n\n```bash\n" + "echo one two three\n" * 300 + "```\n"
    shown = outline(text, 1_500, len(text))
    assert shown.count("```") == 2


# Where the budget is set


@pytest.mark.parametrize(
    ("files", "variable", "most"),
    [
        ({".fractary/faber/ledger.json": 3000}, None, 3000),
        ({".fractary/faber/ledger.json": 3000, f".fractary/runs/{RUN}/ledger.json": 2000}, None, 2000),
        ({f".fractary/runs/{RUN}/ledger.json": 2000}, "1500", 1500),
        ({".fractary/faber/ledger.json": 99_999}, None, 9500),
        ({}, "many", 9500),
    ],
)
def test_the_budget_is_the_variables_the_runs_or_the_projects(
    tmp_path: Path, files: dict[str, int], variable: str | None, most: int
) -> None:
    project = Project.made(tmp_path / "project")
    project.write(PROTOCOL, protocol())
    for path, budget in files.items():
        project.write(path, json.dumps({"packet_budget": budget}))
    environment = {"FABER_LEDGER_PACKET_BUDGET": variable}
    text = project.deliver("SessionStart.startup.interactive", env=environment).packet
    assert text is not None
    assert most - 700 < units(text) <= most
    wrong = [line for line in project.log_lines if "must be a number from 1000 to 9500" in line]
    assert bool(wrong) == (variable == "many" or 99_999 in files.values())


@pytest.mark.parametrize("content", ["{", "[]", '"x"', '{"packet_budget": true}', "\udcff", '{"packet_budget": 1e9}'])
def test_settings_that_cannot_be_read_are_reported_and_stop_nothing(tmp_path: Path, content: str) -> None:
    project = Project.made(tmp_path / "project")
    (project.root / ".fractary/faber/ledger.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    answer = project.deliver("SessionStart.startup.interactive")
    assert (answer.code, bool(answer.packet)) == (0, True)
    assert ".fractary/faber/ledger.json" in project.log_lines[-1]


def test_without_a_usable_workflow_the_packet_has_the_state_and_how_to_recover(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    project.write(".fractary/faber/workflows/mine.json", "{")
    project.change_state(workflow_id="mine", marker="it is here")
    packet = project.deliver("SessionStart.startup.print").packet
    assert packet is not None
    assert "Recovery: correct .fractary/faber/workflows/mine.json\n" in packet
    assert '"marker": "it is here"' in packet
    assert project.of_type("context_reloaded") == []


@pytest.mark.parametrize("heading", ["## User Requirements", "## 3. Functional Requirements", "### Requirements (v2)"])
def test_the_packet_and_a_reconstitution_find_the_same_sections(tmp_path: Path, heading: str) -> None:
    before = f"# Requirements of it all\n\n## Non-Goals\n\n{'none ' * 400}"
    text = f"{before}\n\n{heading}\n\n- it holds\n\n## End\n\n{'x ' * 2000}"
    project = Project.made(tmp_path / "project")
    project.write("spec.md", text)
    project.change_state(artifacts={"spec_path": "spec.md"}, work_id=None)
    spec = json.loads(project.faber("reconstitute", "--json").stdout)["data"]["spec"]
    assert spec["requirements"] == f"{heading}\n\n- it holds"
    assert spec["summary"] is None
    excerpts = outline(text, 1000, len(text)).partition("[lines ")[2]
    assert excerpts.startswith(f"7-9]\n{heading}\n\n- it holds\n")


@pytest.mark.parametrize(
    ("title", "value"),
    [("'it''s here'", "it's here"), (">-", "The heading"), ("| # a block", "The heading"), ('"a: b"', "a: b")],
)
def test_a_front_matters_values_are_read_as_yaml_means_them(tmp_path: Path, title: str, value: str) -> None:
    project = Project.made(tmp_path / "project")
    project.write("spec.md", f"---\ntitle: {title}\n  more\ntype: >-\n  of a kind\n---\n\n# The heading\n")
    project.change_state(artifacts={"spec_path": "spec.md"}, work_id=None)
    spec = json.loads(project.faber("reconstitute", "--json").stdout)["data"]["spec"]
    assert (spec["title"], spec["type"]) == (value, None)


# What a specification and a long text show first


def test_a_specifications_headings_count_before_bold_lines_and_important_parts_are_whole() -> None:
    filler = "Detail that nobody needs at once.\n" * 60
    criteria = "".join([f"- [ ] criterion {number} holds\n" for number in range(12)])
    files = "".join([f"| `src/file_{number}.py` | Create | part {number} | TODO |\n" for number in range(40)])
    text = (
        f"# SPEC-1: Widgets\n\n**Status**: Draft\n\n## Overview\n\nWidgets turn.\n\n## Architecture\n\n{filler}\n"
        f"### Automatic turning\n\n**Why only Frame phase**:\n\n{filler}\n"
        "## User Requirements\n\n- they turn\n\n"
        f"## Implementation Phases\n\n### Phase 1: The axle\n\n**Files to modify:**\n- `a.py`\n\n{filler}\n"
        f"## Files to Create/Modify\n\n| File | Action | Purpose | Status |\n|---|---|---|---|\n{files}\n"
        f"<!--\n## Files in a comment\n-->\n\n## Acceptance Criteria\n\n{criteria}\n## Related\n\nNothing.\n"
    )
    shown = outline(text, 3_000, len(text))
    places = [
        shown.index(f"\n## {head}") for head in ("Overview", "Acceptance", "User R", "Files to", "Implementation")
    ]
    assert places == sorted(places)
    assert criteria in shown
    assert "- they turn\n" in shown
    assert "`src/file_3.py`" in shown
    assert "TODO |\n…\n" in shown
    assert "Why only Frame" not in shown
    assert "in a comment" not in shown.replace("<!--\n## Files in a comment", "")
    sections = wanted_sections(text)
    assert (sections["phases"] or "").startswith("## Implementation Phases\n")
    assert (sections["files"] or "").startswith("## Files to Create/Modify\n")


def test_many_headings_are_listed_as_far_as_half_the_room_goes() -> None:
    text = "# Handbook\n\n" + "".join([f"## Chapter {number}\n\nWords of it.\n\n" for number in range(90)])
    shown = outline(text, 3_000, len(text))
    listed = [line for line in shown.partition("\n\n")[0].splitlines() if " ## Chapter " in line]
    assert len(listed) > 25
    assert sum(units(line) + 1 for line in listed) <= 1_500
    assert f"\n(and {90 - len(listed)} more)\n\n" in shown
    assert "Words of it." in shown


@given(TEXTS, st.integers(0, 2_000))
def test_a_text_that_loses_its_middle_keeps_to_its_room(text: str, room: int) -> None:
    cut = cut_middle(text, room)
    assert units(cut) <= room
    if cut != text and "\n…\n" in cut and "…" not in text:
        head, tail = cut.split("\n…\n")
        assert text.startswith(head)
        assert text.endswith(tail)
