"""The packet: within its bounds whatever is in it, and useful if not everything fits."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.positions import part, position_of
from support.project import PROTOCOL, RUN, Project

from faber_ledger.context.outline import outline
from faber_ledger.context.packet import END, WHOLE, pack
from faber_ledger.files.text import clip, one_line, units

if TYPE_CHECKING:
    from pathlib import Path

    from faber_ledger.context.body import Part
    from faber_ledger.context.notes import Remembered

ODD = 'a \n#`~-{}[]":\u001b\u009bé\u0301\u0323漢🦀👩\u200d🔬\U0001f3fd\ud800\udfff\u0001\t'
TEXTS = st.one_of(  # short ones many times over: long ones are drawn slowly
    st.text(st.sampled_from(ODD), max_size=80),
    st.text(max_size=60),
    st.lists(st.sampled_from(["# A", "## Requirements", "```", "---", "text " * 30, "é" * 200, "", "### Files"])).map(
        "\n".join
    ),
    st.dictionaries(st.text(max_size=8), st.text(max_size=40), max_size=4).map(json.dumps),
).flatmap(lambda text: st.sampled_from([text, text * 40]))


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


@given(st.text(), st.integers(0, 60))
@example("👩\u200d👩\u200d👧\u200d👦", 4)
def test_a_cut_is_the_longest_beginning_that_has_room(text: str, room: int) -> None:
    cut = clip(text, room)
    assert units(cut) <= room
    if cut != text and room:
        kept = cut.removesuffix("…")
        assert text.startswith(kept)
        assert units(text[: len(kept) + 1]) > room - 1


def unprintable(text: str) -> list[str]:
    return [letter for letter in text if unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t"]


@given(STATES, PARTS, st.lists(TEXTS, max_size=8), NOTES, st.none() | REMEMBERED, st.integers(1, 25_000))
def test_a_packet_never_exceeds_its_budget_and_is_always_the_same(
    state: dict[str, Any],
    parts: list[Part],
    problems: list[str],
    notes: list[Remembered],
    summary: Remembered | None,
    budget: int,
) -> None:
    more: dict[str, Any] = {"state": state, "notes": notes, "summary": summary}
    text, how = pack(position_of(RUN, state), parts, problems, budget=budget, **more)
    assert units(text) <= budget
    assert not unprintable(text)
    assert how.keys() <= {part["artifact_id"] for part in parts}
    assert text.endswith(END) or budget < len(END)
    assert (text, how) == pack(position_of(RUN, state), parts, problems, budget=budget, **more)


@given(PARTS, st.lists(TEXTS, max_size=8), REMEMBERED, st.integers(2_000, 9_500))
def test_no_artifact_is_left_out_without_being_named_or_counted(
    parts: list[Part], problems: list[str], summary: Remembered, budget: int
) -> None:
    text, how = pack(position_of(RUN, {}), parts, problems, budget=budget, summary=summary)
    words = {"inline": "whole, ", "outline": "parts of its ", "pointer": "not shown, "}
    for one in parts:
        if one["artifact_id"] in how:
            title = f"{one_line(one['artifact_id'], 80)}"
            assert f" {title}: {words[how[one['artifact_id']]]}" in text
    missing = [one for one in parts if one["artifact_id"] not in how]
    if missing:
        (said,) = re.findall(rf"- … and {len(missing)} more, (\w+) of (?:them|all \d+) required: ", text)
        assert said in (str(count := sum(one["required"] for one in missing)), "none" if count == 0 else "")


# A long protocol and a long specification


def protocol() -> str:
    """Return 35 KB of a protocol."""
    step = "".join(f"{number}. Do this, look at it, and record it.\n" for number in range(70))
    steps = "".join(f"### Step {number}: act\n\n```bash\n# no heading\n{step}```\n\n" for number in range(13))
    return f"# Orchestration\n\n## Overview\n\nOne step after the other.\n\n## Protocol Steps\n\n{steps}"


def test_problems_come_first_and_the_rest_is_named_or_counted() -> None:
    problems = [f"❌ ERROR: Required artifact not found\nArtifact: a{number}\n" + "why\n" * 99 for number in range(90)]
    text, _ = pack(position_of(RUN, {"work_id": "258"}), [], problems, budget=9_500)
    assert text.startswith(problems[0][:200])
    assert "❌ ERROR: Required artifact not found Artifact: a1 why" in text
    assert "more: `faber-ledger session-load --dry-run` shows them\n" in text
    assert "Work item: 258" in text[:2_000]
    text, _ = pack(
        position_of(RUN, {"work_id": "258", "additional_instructions": "I " * 250}), [], problems, budget=9_500
    )
    assert text.index("I I\n") < 2_000


def test_the_sections_stand_in_the_order_of_the_packets_page() -> None:
    state = {"work_id": "258", "artifacts": {"other": "STATE"}}
    parts = [
        part("workflow-state", json.dumps(state), is_state=True),
        part("orchestration-protocol", protocol(), required=True),
        part("other", "OTHER " * 4_000),
    ]
    more: dict[str, Any] = {"state": state, "not_loaded": ["LISTED"]}
    more |= {"notes": [remembered("NOTE")], "summary": remembered("SUMMARY")}
    text, _ = pack(position_of(RUN, state), parts, ["WARNING", "❌ ERROR: it stops"], budget=9_500, **more)
    order = ["❌ ERROR: it stops", "Work item: 258", "Read these now: ", "WARNING", "STATE", "Not in this text:"]
    order += ["LISTED", "NOTE", "SUMMARY", "===== orchestration-protocol", WHOLE, END]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    for more_of in ({}, {"is_outlined": True}):
        short = part("short", "A line of it.\n" * (100 if more_of else 3), required=True, **more_of)
        assert WHOLE not in pack(position_of(RUN, state), [short], [], budget=9_500, state=state)[0]


def test_of_two_required_texts_the_first_is_whole() -> None:
    """Equal shares would outline both, and leave room unused."""
    state = {"work_id": "258", "current_phase": "frame"}
    texts = [part(name, f"# {name}\n\n## A\n\n{'a word of it ' * 290}\n", required=True) for name in ("one", "two")]
    parts = [*texts, part("orchestration-protocol", protocol(), required=True)]
    _, given = pack(position_of(RUN, state), parts, [], budget=9_500, state=state)
    assert [given[name] for name in ("one", "two")] == ["inline", "outline"]


# Where the budget is set


@pytest.mark.parametrize(
    ("files", "variable", "most"),
    [
        ({".fractary/faber/ledger.json": 3000, f".fractary/runs/{RUN}/ledger.json": 2400}, None, 2400),
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
    assert units(text) <= most
    assert len(text) > 2_300 if most > 2_500 else ("=====  " not in text)
    wrong = [line for line in project.log_lines if "must be a number from 1000 to 9500" in line]
    assert bool(wrong) == (variable == "many" or 99_999 in files.values())


@pytest.mark.parametrize("content", ["{", '"x"', "\udcff"])
def test_settings_that_cannot_be_read_are_reported_and_stop_nothing(tmp_path: Path, content: str) -> None:
    project = Project.made(tmp_path / "project")
    (project.root / ".fractary/faber/ledger.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    answer = project.deliver("SessionStart.startup.interactive")
    assert (answer.code, bool(answer.packet)) == (0, True)
    assert ".fractary/faber/ledger.json" in project.log_lines[-1]


@pytest.mark.parametrize("heading", ["## 3. Functional Requirements", "### Requirements (v2)"])
def test_the_packet_and_a_reconstitution_find_the_same_sections(tmp_path: Path, heading: str) -> None:
    before = f"# Requirements of it all\n\n## Non-Goals\n\n{'none ' * 400}"
    text = f"{before}\n\n{heading}\n\n- it holds\n\n## End\n\n{'x ' * 2000}"
    project = Project.made(tmp_path / "project")
    project.write("spec.md", text)
    project.change_state(artifacts={"spec_path": "spec.md"}, work_id=None)
    spec = json.loads(project.faber("reconstitute", "--json").stdout)["data"]["spec"]
    assert spec["requirements"] == f"{heading}\n\n- it holds"
    assert spec["summary"] is None
    shown, _ = outline(text, 1000, len(text))
    assert f"\n{heading}\n\n- it holds\n" in shown


@pytest.mark.parametrize(
    ("title", "value"), [("'it''s here'", "it's here"), (">-", "The heading"), ("|", "The heading"), ('"a: b"', "a: b")]
)
def test_a_front_matters_values_are_read_as_yaml_means_them(tmp_path: Path, title: str, value: str) -> None:
    project = Project.made(tmp_path / "project")
    project.write("spec.md", f"---\ntitle: {title}\n  more\ntype: >-\n  of a kind\n---\n\n# The heading\n")
    project.change_state(artifacts={"spec_path": "spec.md"}, work_id=None)
    spec = json.loads(project.faber("reconstitute", "--json").stdout)["data"]["spec"]
    assert (spec["title"], spec["type"]) == (value, None)
