"""A repository may name many or large files: the work stays bounded, and what is left out is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.positions import position_of
from support.project import Project, usual_state

from faber_ledger.context import outline as outlines
from faber_ledger.context import packet as packets
from faber_ledger.context.artifact_content import state_for_packet
from faber_ledger.context.artifacts import MAX_OUTLINED
from faber_ledger.context.markdown import sections_of
from faber_ledger.context.outline import outline
from faber_ledger.context.packet import pack
from faber_ledger.context.reload import loads_held
from faber_ledger.context.selection import MAX_BYTES_READ, MAX_PER_LIST
from faber_ledger.context.workflow import steps_in_order
from faber_ledger.files.text import units
from faber_ledger.ledger import log as logs
from faber_ledger.ledger.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from faber_ledger.context.artifacts import Part

RUN = "pantry-412-20260105-143022-a1b2c3"


def parts_of(content: str, count: int) -> list[Part]:
    return [
        {
            "artifact_id": f"part-{number}",
            "description": "what it is",
            "source": f"docs/part-{number}.md",
            "size_bytes": len(content),
            "content": content,
            "required": False,
        }
        for number in range(count)
    ]


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, size: Callable[[Any], int]) -> list[int]:
    """Replace a function by one that also notes the size of its argument; return the list of sizes."""
    asked: list[int] = []
    called = getattr(module, name)

    def noted(given: Any) -> Any:
        asked.append(size(given))
        return called(given)

    monkeypatch.setattr(module, name, noted)
    return asked


def test_the_outlines_of_a_packet_read_a_bounded_part_of_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted(monkeypatch, outlines, "sections_of", lambda lines: sum(len(line) + 1 for line in lines))
    text, given = pack(position_of(RUN, usual_state(RUN)), parts_of("## h\n" * 180_000, 20), [], budget=9_500)
    assert "outline" in given.values()
    assert MAX_OUTLINED / 2 < sum(seen) <= MAX_OUTLINED + len(seen)
    assert text.count("-180000 are left out") == len(seen)


def test_an_outline_reads_as_far_as_it_may_and_says_how_far() -> None:
    text = "# Handbook\n\n" + "".join([f"## Chapter {number}\n\nWords of it.\n\n" for number in range(90)])
    whole, left_out = outline(text, 2_000, len(text))
    assert "; 207-210 ## Chapter 51; 211-214 ## Chapter 52; " in whole
    part, left_out_of_part = outline(text, 1_000, 1_050)
    assert "## Chapter 40" not in part
    assert "-361 are left out: " in part
    assert left_out[-1][1] == left_out_of_part[-1][1] == 361


def test_an_outline_of_very_many_headings_looks_at_each_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    class Counted(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            looked.append(name)
            return super().__getitem__(name)

    monkeypatch.setattr(outlines, "sections_of", lambda lines: list(map(Counted, sections_of(lines))))
    for text in ("## build\n## x\n" * 1_000, "## build\n### x\n\n" * 1_000, "## x\n\ntext\n\n" * 2_000):
        looked.clear()
        _, to_read = outline(text, 9_000, len(text), named=("build",))
        assert to_read
        assert len(looked) < 100 * 2_000


def test_texts_that_cannot_fit_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = counted(monkeypatch, packets, "units", len)
    pack(position_of(RUN, usual_state(RUN)), parts_of("é" * 450_000, 90), [], budget=9_500)
    assert sum(measured) < 450_000


def test_a_json_object_with_very_many_members_shows_those_that_fit() -> None:
    text = json.dumps({f"key-{number}": number for number in range(70_000)})
    shown, _ = outline(text, 1_000, MAX_OUTLINED)
    members = shown.splitlines()
    assert members[:2] == ['"key-0": 0', '"key-1": 1']
    assert members[-1] == f"(and {70_000 - len(members) + 1:d} more)"
    assert all(members)
    assert units(shown) <= 1_000


def test_a_start_reads_a_bounded_part_of_a_workflows_artifacts_and_names_the_rest(tmp_path: Path) -> None:
    project = named(tmp_path, [{"id": f"text-{number}", "path": "docs/text.md"} for number in range(40)])
    project.write("docs/text.md", "A line of plain text.\n" * 40_000)
    packet = project.deliver("SessionStart.startup.print").packet or ""
    loaded = project.of_type("artifact_loaded")
    assert MAX_BYTES_READ <= sum(event["size_bytes"] for event in loaded) <= MAX_BYTES_READ + 1024 * 1024
    assert len(loaded) + len(project.of_type("artifact_failed")) == 40
    report = (
        "not loaded, docs/text.md: Not read, since a hook has read 2 MB of artifacts; `faber-ledger session-load` loads"
    )
    assert report in packet
    given = [event["artifact_id"] for event in loaded if event["given"] != "pointer"]
    assert project.in_context == given
    dry = project.faber("session-load", "--dry-run", "--budget", "99999999").stdout
    assert dry.count("Action: LOAD") == 40  # none was given whole


def test_a_required_artifact_is_read_however_large_the_optional_ones_are(tmp_path: Path) -> None:
    many = [{"id": f"text-{number}", "path": "docs/text.md"} for number in range(210)]
    project = named(tmp_path, [*many, {"id": "needed", "path": "docs/needed.md", "required": True}])
    project.write("docs/text.md", "A line of plain text.\n" * 40_000)
    project.write("docs/needed.md", "Needed.\n")
    packet = project.deliver("SessionStart.startup.print").packet or ""
    assert "\nNeeded.\n" in packet
    assert "always_load names 211 artifacts, and a hook loads at most 200 of them, required ones first" in packet
    assert len(project.of_type("artifact_loaded")) + len(project.of_type("artifact_failed")) <= MAX_PER_LIST


def test_a_state_of_deep_lists_does_not_grow_by_its_indent(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    deep = json.dumps({**usual_state(), "plans": ["HERE"] * 1_500}, indent=2).replace('"HERE"', "[" * 250 + "]" * 250)
    project.put_state(deep)
    packet = project.deliver("SessionStart.startup.print").packet or ""
    assert "\nworkflow-state (required): outline, " in packet
    assert len(state_for_packet(json.loads(deep))) < len(deep)
    assert state_for_packet({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}'


def test_a_dry_run_reads_each_recorded_load_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = named(tmp_path, [{"id": f"text-{number}", "path": "docs/text.md"} for number in range(60)])
    project.write("docs/text.md", "Words.\n")
    project.faber("session-load", "--budget", "100000")
    assert "Total: 60 artifacts (0 would be loaded, 60 skipped)" in project.faber("session-load", "--dry-run").stdout
    with Log.read(str(project.ledger_path)) as log:
        decoded = counted(monkeypatch, logs, "decode_row", lambda row: 1)
        (session,) = project.history
        assert len(loads_held(log, session["session_id"])) == 60
        assert len(decoded) == 60
        assert loads_held(log, "another") == {}
        assert len(decoded) == 60


def test_a_phases_list_of_artifacts_has_the_same_limit(tmp_path: Path) -> None:
    many = [{"id": f"text-{number}", "path": "docs/text.md"} for number in range(201)]
    project = named(tmp_path, many, "build")
    project.write("docs/text.md", "Words.\n")
    packet = project.deliver("SessionStart.startup.print").packet or ""
    recorded = len(project.of_type("artifact_loaded"))
    assert f"- … and {MAX_PER_LIST - recorded} more, 0 of them required: " in packet
    assert "phase_specific.build names 201 artifacts, and a hook loads at most 200 of them" in packet


def named(root: Path, artifacts: list[dict[str, Any]], phase: str = "") -> Project:
    """Make a project whose workflow names these artifacts, all for one phase if one is given."""
    project = Project.made(root / "project", {**usual_state(), "workflow_id": "mine"})
    whole = [{"type": "markdown", "description": "what it is", **artifact} for artifact in artifacts]
    critical = {"phase_specific": {phase: whole}} if phase else {"always_load": whole}
    project.write(".fractary/faber/workflows/mine.json", json.dumps({"id": "mine", "critical_artifacts": critical}))
    return project


def test_a_workflow_of_very_many_phases_is_looked_through_once() -> None:
    looked = []

    class Counted(dict[str, Any]):
        def items(self) -> Any:
            looked.append(len(self))
            return super().items()

    phases = Counted({f"phase-{number}": {"steps": ["act"]} for number in range(500)})
    assert len(steps_in_order([("w.json", {"phases": phases})])) == 500
    assert sum(looked) == 500
