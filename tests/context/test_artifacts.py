from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber_ledger.context.artifact import PLACES_OF_STATE, ArtifactError, fill_command, find_place, path_of
from faber_ledger.context.reload import load
from faber_ledger.context.selection import age_of, is_current, select
from faber_ledger.context.workflow import parse_artifact
from faber_ledger.ledger.clock import utc_text
from faber_ledger.runs.run import RUNS

if TYPE_CHECKING:
    from faber_ledger.context.artifact import Surroundings
    from faber_ledger.context.workflow import Artifact, Workflow

RUN = "fractary-faber-258-20260105-143022-a1b2c3"
NOW = 1_767_623_400.75


def artifact(id: str = "spec", type: str = "markdown", **fields: Any) -> Artifact:
    return parse_artifact({"id": id, "type": type, "description": "", "required": False, **fields}, "always_load[0]")


def workflow(always: list[Artifact], conditional: list[Artifact] | None = None, **phases: list[Artifact]) -> Workflow:
    critical: Any = {"always_load": always, "conditional_load": conditional or [], "phase_specific": phases}
    return {
        "id": "w",
        "path": "w.json",
        "artifacts_path": "w.json",
        "critical_artifacts": critical,
        "warnings": [],
        "lineage": [],
    }


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    root = tmp_path / "project"
    run = root / ".fractary/runs" / RUN
    run.mkdir(parents=True)
    state = {"run_id": RUN, "work_id": "258", "plan_id": "plan-1", "artifacts": {}, "current_phase": "build"}
    (run / "state.json").write_text(json.dumps(state))
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    return {
        "root": str(root),
        "run_dir": str(run),
        "state_path": str(run / "state.json"),
        "plugin_roots": [str(plugin)],
        "commands": {},
        "state": state,
    }


def put(around: Surroundings, relative: str, content: str | bytes = "text\n") -> str:
    path = Path(around["root"], relative)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def reason(wanted: Artifact, around: Surroundings) -> str:
    with pytest.raises(ArtifactError) as raised:
        load(wanted, around)
    return raised.value.message


# Which artifacts


def chosen(
    w: Workflow, triggers: list[str], requested: list[str] | None = None, **state: Any
) -> tuple[list[str], list[str]]:
    warnings: list[str] = []
    found = select(w, {"current_phase": "build", **state}, triggers, requested, warnings.append)
    return [one["id"] for one in found], warnings


def test_requested_ids_override_the_trigger_but_not_a_condition() -> None:
    w = workflow(
        [artifact("a", reload_triggers=["session_start"]), artifact("b", reload_triggers=[])],
        [artifact("c", condition="work_id != null")],
        release=[artifact("r")],
    )
    assert chosen(w, ["manual"], ["b"]) == (["b"], [])
    ids, warnings = chosen(w, ["session_start"], ["nope", "c", "b", "r", "a"])
    assert ids == ["a", "b"]
    assert [warning.partition(" - ")[0] for warning in warnings] == [
        "Artifact not configured: nope",
        "Artifact not selected: c",
        "Artifact not selected: r",
    ]
    assert chosen(w, ["manual"], []) == ([], [])


@pytest.mark.parametrize(
    ("age", "recent"), [(0, True), (59, True), (60, True), (299, True), (300, False), (3600, False), (-1, False)]
)
def test_under_five_minutes_is_recent_and_exactly_five_is_not(age: int, recent: bool) -> None:
    entry = {"loaded_at": utc_text(NOW - age)}
    whole_now = float(int(NOW))
    assert is_current(entry, whole_now, None, None) is recent
    assert age_of(entry, whole_now) == age


@pytest.mark.parametrize(
    "entry", [None, {}, {"loaded_at": None}, {"loaded_at": "soon"}, {"loaded_at": "2026-01-05T14:30:00"}]
)
def test_an_entry_without_a_readable_time_is_loaded(entry: dict[str, Any] | None) -> None:
    assert not is_current(entry, NOW, None, None)
    assert age_of(entry, NOW) is None


def test_content_that_has_changed_is_loaded_again() -> None:
    entry = {"loaded_at": utc_text(NOW - 10)}
    assert is_current(entry, NOW, "a", "a")
    assert not is_current(entry, NOW, "b", "a")
    assert is_current(entry, NOW, "a", None)
    assert is_current(entry, NOW, None, "a")


# Where from


@pytest.mark.parametrize(
    "path",
    ["specs/a.md", "./specs/../specs/a.md", "{project_root}/specs/a.md", "/specs/a.md", "specs/{work_id}/../a.md"],
)
def test_a_path_in_the_project_is_found_however_it_is_written(around: Surroundings, path: str) -> None:
    put(around, "specs/258/x")
    expected = put(around, "specs/a.md")
    for wanted in (artifact(path=path), artifact(path_from_state="artifacts.spec_path")):
        around["state"]["artifacts"]["spec_path"] = path
        found = find_place(wanted, around)
        assert found == {"source": "specs/a.md", "resolved": expected, "folder": around["root"], "size_bytes": 5}


@pytest.mark.parametrize(
    "field", ["artifacts.spec_path", "$.artifacts.spec_path", "state.artifacts.spec_path", "list[0]"]
)
def test_a_path_from_state_is_a_dotted_path(around: Surroundings, field: str) -> None:
    around["state"].update(artifacts={"spec_path": "a.md"}, list=["a.md"])
    assert path_of(artifact(path_from_state=field), around) == "a.md"


def test_a_path_counts_before_a_path_from_state_before_a_command(around: Surroundings) -> None:
    assert path_of(artifact(path="a.md", path_from_state="x", command="y"), around) == "a.md"
    assert reason(artifact(path_from_state="x.y", command="y"), around) == "State field not found: x.y"
    assert reason(artifact(command="y"), around) == "Artifact of type markdown must have path or path_from_state"
    assert reason(artifact(), around) == "Artifact must have path, path_from_state, or command"
    around["state"]["x"] = {"y": 7}
    assert reason(artifact(path_from_state="x.y"), around) == "State field is not a path: x.y"


def test_the_four_placeholders_are_filled_once_and_a_missing_value_is_empty(around: Surroundings) -> None:
    wanted = artifact(path="{project_root}/{run_id}/{plan_id}-{work_id}-{unknown}.md")
    assert path_of(wanted, around) == f"{around['root']}/{RUN}/plan-1-258-{{unknown}}.md"
    around["state"].update(plan_id=None, work_id=258, run_id="org/project/2026T1")
    assert path_of(wanted, around) == f"{around['root']}/org/project/2026T1/-258-{{unknown}}.md"


@pytest.mark.parametrize(
    "value", ["../../etc", "a/b", ".hidden", "a b", "{project_root}", "x" * 256, "a\n", True, [], {}]
)
def test_no_value_that_is_more_than_a_name_enters_a_path(around: Surroundings, value: Any) -> None:
    around["state"]["work_id"] = value
    assert reason(artifact(path="specs/{work_id}.md"), around) == "State field cannot be used in a path: work_id"


def test_a_value_may_be_longer_in_a_path_than_in_a_command(around: Surroundings) -> None:
    """Of 16 real plan ids, two have more than 64 characters."""
    around["state"]["plan_id"] = plan = "fractary-faber-258-" + "x" * 236
    assert path_of(artifact(path="plans/{plan_id}.json"), around) == f"plans/{plan}.json"
    with pytest.raises(ArtifactError, match="cannot be used in a command: plan_id"):
        fill_command("git log -- {plan_id}", around)


@pytest.mark.parametrize("plan", [None, "../.."])
@pytest.mark.parametrize("before", ["", "{project_root}/"])
@pytest.mark.parametrize("place", PLACES_OF_STATE)
def test_the_place_of_the_state_in_any_layout_means_the_runs_own(
    around: Surroundings, place: str, before: str, plan: Any
) -> None:
    around["state"]["plan_id"] = plan
    for runs in RUNS:
        loaded = load(artifact("workflow-state", type="json", path=f"{before}{runs}/{place}"), around)
        assert (loaded["resolved"], loaded["is_state"], loaded["notes"]) == (around["state_path"], True, [])
        assert loaded["source"] == f".fractary/runs/{RUN}/state.json"


@pytest.mark.parametrize("value", ["../x", "a/../b", "a//b", "/a", "a/b/c/d", "a" * 256, ".."])
def test_a_run_id_has_one_to_three_plain_segments(around: Surroundings, value: str) -> None:
    around["state"]["run_id"] = value
    assert reason(artifact(path="{run_id}/x"), around) == "State field cannot be used in a path: run_id"


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "{project_root}/../secret", "link", "folder/secret"])
def test_a_file_outside_the_project_is_refused_links_resolved(around: Surroundings, path: str) -> None:
    root = Path(around["root"])
    (root.parent / "secret").write_text("secret")
    (root / "link").symlink_to("../secret")
    (root / "folder").symlink_to("..")
    assert reason(artifact(path=path), around).startswith("Path is outside the project and the plugin roots: ")


def test_a_file_that_the_project_lacks_is_searched_in_plugin_roots(around: Surroundings) -> None:
    plugin = Path(around["plugin_roots"][0])
    (plugin / "docs").mkdir()
    (plugin / "docs/protocol.md").write_text("plugin's")
    wanted = artifact(path="plugins/faber/docs/protocol.md")
    assert find_place(wanted, around)["source"] == "docs/protocol.md"
    assert find_place(wanted, around)["resolved"] == str(plugin / "docs/protocol.md")
    assert find_place(artifact(path="docs/protocol.md"), around)["source"] == "docs/protocol.md"
    put(around, "plugins/faber/docs/protocol.md", "project's")
    assert load(wanted, around)["content"] == "project's"


# What


def test_a_file_is_loaded_with_its_size_and_digest(around: Surroundings) -> None:
    content = "# Spécification 🧪\n"
    path = put(around, "a.md", b"\xef\xbb\xbf" + content.encode())
    wanted = artifact(path="a.md")
    assert load(wanted, around) == {
        "artifact": wanted,
        "content": content,
        "size_bytes": 3 + len(content.encode()),
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
        "source": "a.md",
        "resolved": path,
        "is_large": False,
        "is_state": False,
        "is_outlined": False,
        "is_deferred": False,
        "notes": [],
    }


def test_anything_but_a_regular_text_file_is_refused_with_the_reason(around: Surroundings) -> None:
    root = Path(around["root"])
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    put(around, "binary", b"PK\x03\x04\0\0")
    put(around, "latin", "é".encode("latin-1"))
    (root / "loop").symlink_to("loop")
    reasons = {
        name: reason(artifact(path=name), around) for name in ("folder", "pipe", "binary", "latin", "loop", "a\0b")
    }
    for name, why in {
        "folder": "a directory, not a regular file",
        "pipe": "a named pipe, not a regular file",
        "binary": "binary content",
        "latin": "not UTF-8 text (byte 0)",
        "loop": "",
        "a\0b": "this text cannot be a path",
    }.items():
        assert reasons[name].startswith(f"Cannot read {root}/{name}")
        assert reasons[name].endswith(why)


def test_malformed_definitions_fail_with_the_documents_words_when_they_are_loaded(around: Surroundings) -> None:
    assert reason(artifact(type="video", path="a"), around) == "Unknown artifact type: video"
    assert reason(parse_artifact({"id": "a", "path": "a"}, "x"), around) == "Unknown artifact type: (none)"
    for kind in ("git_info", "skill", "work_plugin", "directory"):
        assert reason(artifact(type=kind), around) == "Artifact must have path, path_from_state, or command"
    assert reason(artifact(path="a", reload_triggers=7), around) == "reload_triggers must be a list of strings"


@given(
    path=st.text(max_size=30) | st.lists(st.sampled_from(["..", ".", "/", "a", "{work_id}", "\0", "~"])).map("/".join)
)
def test_no_path_reads_outside_the_project(path: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.getbasetemp()
    surroundings: Surroundings = {
        "root": str(root),
        "run_dir": str(root / "run"),
        "state_path": str(root / "run" / "state.json"),
        "plugin_roots": [],
        "commands": {},
        "state": {"work_id": "..", "x": path},
    }
    for wanted in (artifact(path=path), artifact(path_from_state="x")):
        try:
            assert find_place(wanted, surroundings)["resolved"].startswith(os.path.realpath(root) + "/")
        except ArtifactError:
            pass
