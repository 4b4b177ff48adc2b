"""The requirement documents' texts are printed, character by character, on the right stream.

documents_words.txt quotes them: a document, the line number, and its lines. `{name}` and `${name}` are placeholders:
for the text's value of that name, else for any value. We may add lines between a document's lines, and our command in
brackets after a document's slash command.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.project import PROTOCOL, SPEC_RUN, Project, spec_state

from faber_ledger.cli.ui import words as ui_words

SECOND = "fractary-faber-259-20260105-144500"
SPEC_SESSION = "claude-session-20260105-143022-abc123"
WORDS = Path(__file__).with_name("documents_words.txt")
START_SECOND = f"workflow-run --work-id 259 --run-id {SECOND}"


class Printed(NamedTuple):
    """What a command printed; on a terminal, both streams are in `out`."""

    code: int
    out: str
    err: str


class Text(NamedTuple):
    """A document's text: its place, the situation below that prints it, its stream, and the exit code."""

    place: str
    situation: str
    stream: str
    code: int
    words: str
    values: dict[str, str]


# Situations: a project and a command


def on_terminal(project: Project, answers: list[str], *arguments: str) -> Printed:
    """Run a command on a terminal, and type an answer at each prompt."""
    shown, code = project.on_terminal(*arguments, answers=answers)
    return Printed(code, shown, "")


def artifact(id: str, **fields: Any) -> dict[str, Any]:
    every = ["session_start", "manual"]
    return {"id": id, "type": "markdown", "description": f"About {id}", "reload_triggers": every, **fields}


def with_workflow(project: Project, *always: dict[str, Any], **conditional: dict[str, Any]) -> None:
    project.name_artifacts(*always, conditional_load=list(conditional.values()))


def no_run(project: Project) -> None:
    project.active_path.unlink()
    project.change_state(status="completed")


def ago(**distance: int) -> str:
    return (datetime.now(UTC) - timedelta(**distance)).strftime("%Y-%m-%dT%H:%M:%SZ")


# What is there before the command


def empty_folder_for_backup(project: Project) -> None:
    (project.run / "state.json.backup").mkdir()


def long_session(project: Project) -> None:
    state = spec_state()
    state["sessions"]["session_history"].append(
        {
            "session_id": SPEC_SESSION,
            "started_at": ago(hours=2, minutes=15),
            "artifacts_loaded": ["workflow-state", "orchestration-protocol", "specification"],
        }
    )
    phases = {"frame": "completed", "architect": "completed", "build": "in_progress"}
    project.put_state({**state, "phases": [{"phase_name": name, "status": status} for name, status in phases.items()]})


def no_sessions(project: Project) -> None:
    project.put_state({name: value for name, value in spec_state().items() if name != "sessions"})


def two_runs(project: Project) -> None:
    project.active_path.unlink()
    project.change_state(current_phase="build", started_at="2026-01-05T14:30:22Z")
    other = {**project.state, "run_id": SECOND, "current_phase": "frame", "started_at": "2026-01-05T14:45:00Z"}
    project.write(f".fractary/runs/{SECOND}/state.json", json.dumps(other))


def with_specification(project: Project) -> None:
    project.write("specs/WORK-258.md", "# Work\n" * 1829)
    project.change_state(artifacts={"spec_path": "specs/WORK-258.md"}, current_phase="build")


def just_loaded(project: Project) -> None:
    fresh = [{**spec_state()["context_metadata"]["artifacts_in_context"][0], "loaded_at": ago(minutes=3, seconds=10)}]
    project.change_state(context_metadata={"reload_count": 3, "artifacts_in_context": fresh})


def optional_missing(project: Project) -> None:
    with_workflow(project, artifact("notes", path="docs/notes.md", required=False))


def required_missing(project: Project) -> None:
    missing = artifact("notes", path="docs/{run_id}.md", required=True)
    with_workflow(project, artifact("protocol", path=PROTOCOL), missing, artifact("last", path="never-tried.md"))


def unset_field(project: Project) -> None:
    with_workflow(project, artifact("spec", path_from_state="artifacts.spec_path", required=True))


def no_source(project: Project) -> None:
    with_workflow(project, artifact("notes", required=True))


def unknown_type(project: Project) -> None:
    with_workflow(project, artifact("notes", type="tape", path=PROTOCOL, required=True))


def large_artifact(project: Project) -> None:
    project.write("docs/large.md", "x" * 734_003)
    with_workflow(project, artifact("large", path="docs/large.md"))


def strange_condition(project: Project) -> None:
    with_workflow(project, spec=artifact("spec", path=PROTOCOL, condition="state.work_id + 3"))


def each_action(project: Project) -> None:
    project.write("specs/WORK-258.md", "x" * 12_800)
    fresh = [{"artifact_id": "protocol", "loaded_at": ago(minutes=2, seconds=5)}]
    project.change_state(artifacts={"spec_path": "specs/WORK-258.md"})
    project.change_state(context_metadata={"artifacts_in_context": fresh})
    with_workflow(
        project,
        artifact("protocol", path=PROTOCOL, required=True),
        artifact("notes", path="docs/notes.md"),
        spec=artifact("spec", path_from_state="artifacts.spec_path", condition="state.artifacts.spec_path != null"),
    )


# Each situation: what is there before, and the command. On a terminal, answers are typed at its prompts.

Prepare = Callable[[Project], object]
COMMANDS: dict[str, tuple[Prepare, str]] = {
    "save_without_run": (no_run, "session-save"),
    "save_missing_state": (lambda project: project.state_path.unlink(), "session-save"),
    "save_broken_state": (lambda project: project.put_state("{\n" + '"a": 1,\n' * 40 + "broken"), "session-save"),
    "save_unwritable": (lambda project: project.state_path.chmod(0o444), "session-save"),
    "save_without_backup": (empty_folder_for_backup, "session-save"),
    "save": (long_session, "session-save --reason compaction --verbose"),
    "save_never_opened": (no_sessions, "session-save"),
    "save_twice": (lambda project: project.faber("session-save"), "session-save"),
    "hook_without_run": (no_run, "hook session-start"),
    "end_hook_without_run": (no_run, "hook pre-compact"),
    "load_without_run": (no_run, "session-load"),
    "load_scanned": (lambda project: project.active_path.unlink(), "session-load"),
    "load_of_two": (two_runs, "session-load"),
    "load_unknown_run": (lambda project: None, "session-load --run-id nowhere"),
    "load_broken_state": (lambda project: project.put_state("{"), "session-load"),
    "load_incomplete_state": (
        lambda project: project.put_state({"run_id": SPEC_RUN, "status": "in_progress"}),
        "session-load",
    ),
    "load_unknown_workflow": (lambda project: project.change_state(workflow_id="own"), "session-load"),
    "load_unknown_plugin_workflow": (
        lambda project: project.change_state(workflow_id="fractary-faber:own"),
        "session-load",
    ),
    "load": (with_specification, "session-load --trigger session_start --verbose"),
    "load_again": (just_loaded, "session-load --verbose"),
    "load_with_optional_missing": (optional_missing, "session-load --verbose"),
    "load_with_required_missing": (required_missing, "session-load --verbose"),
    "load_with_unset_field": (unset_field, "session-load"),
    "load_without_source": (no_source, "session-load"),
    "load_of_unknown_type": (unknown_type, "session-load"),
    "load_of_large": (large_artifact, "session-load"),
    "load_with_strange_condition": (strange_condition, "session-load"),
    "dry_run": (each_action, "session-load --dry-run"),
    "start_second": (lambda project: None, START_SECOND),
}
ON_TERMINAL: dict[str, tuple[Prepare, list[str], str]] = {
    "load_of_two_on_terminal": (two_runs, ["2"], "session-load --content"),
    "load_on_terminal": (with_specification, [], "session-load --content --trigger session_start"),
    "start_second_refused": (lambda project: None, ["n"], START_SECOND),
    "start_second_agreed": (lambda project: None, ["y"], START_SECOND),
}


def print_in(situation: str, project: Project) -> Printed:
    """Prepare a situation in a project, and run its command."""
    if situation in ON_TERMINAL:
        prepare, answers, command = ON_TERMINAL[situation]
        prepare(project)
        return on_terminal(project, answers, *command.split())
    prepare, command = COMMANDS[situation]
    prepare(project)
    done = project.faber(*command.split())
    return Printed(done.returncode, done.stdout, done.stderr)


# The texts


def read_texts() -> list[Text]:
    """Read the file of the documents' texts, where `== ` and a place begin each, and `:name` gives a value of it."""
    found: list[Text] = []
    for text in WORDS.read_text(encoding="utf-8").removesuffix("\n").removeprefix("== ").split("\n== "):
        head, *lines = text.split("\n")
        place, situation, stream, code = head.split()
        given = [line[1:].partition(" ") for line in lines if line.startswith(":")]
        words = "\n".join([line for line in lines if not line.startswith(":")])
        found.append(Text(place, situation, stream, int(code), words, {name: value for name, _, value in given}))
    return found


FAILED_BESIDE_OTHERS = {
    "load_with_required_missing",
    "load_with_unset_field",
    "load_without_source",
    "load_of_unknown_type",
}
PLACEHOLDER = re.compile(r"\$?\{([^{}]+)\}")


def pattern(line: str, values: dict[str, str]) -> re.Pattern[str]:
    """Return the pattern that matches the printed form of a document's line."""
    pieces, done = [], 0
    for found in PLACEHOLDER.finditer(line):
        value = values.get(found[1])
        pieces += [re.escape(line[done : found.start()]), ".*" if value is None else re.escape(value)]
        done = found.end()
    return re.compile("".join(pieces) + re.escape(line[done:]) + r"( \[faber-ledger .+\])?")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Printed]:
    """Return a function that runs a situation once for all the texts that it prints."""

    @functools.cache
    def once(situation: str) -> Printed:
        root = tmp_path_factory.mktemp("situation") / "myproject"
        return print_in(situation, Project.made(root, spec_state(), SPEC_RUN))

    return once


@pytest.mark.parametrize("text", read_texts(), ids=lambda text: f"{text.place}-{text.situation}")
def test_the_documents_words_are_printed(text: Text, printed: Callable[[str], Printed]) -> None:
    shown = printed(text.situation)
    lines = iter(getattr(shown, text.stream).split("\n"))
    for wanted in text.words.split("\n"):
        expected = pattern(wanted, text.values)
        if not any(
            expected.fullmatch(line) or (text.words.endswith("[y/N]:") and expected.match(line)) for line in lines
        ):
            pytest.fail(f"{text.place}: {wanted!r} is not printed in its place:\n{shown}")
    assert shown.code == text.code
    first = pattern(text.words.split("\n")[0], text.values)
    other = shown.err if text.stream == "out" else shown.out
    is_repeated = any(line and first.fullmatch(line) for line in other.split("\n"))
    # A failed required artifact does not keep the others from the agent: the contents begin with its error.
    assert is_repeated == (text.situation in FAILED_BESIDE_OTHERS and text.stream == "err")


def test_the_question_repeats_until_a_listed_number_comes(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "myproject", spec_state(), SPEC_RUN)
    two_runs(project)
    shown = on_terminal(project, ["7", "x", "1"], "session-load", "--content")
    assert shown.code == 0
    assert "There is no number 7." in shown.out
    assert f"✓ Context reloaded for run: {SPEC_RUN}" in shown.out


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (60, "1 minute"),
        (61, "1 minute 1 second"),
        (3_600, "1 hour"),
        (8_142, "2 hours 15 minutes"),
        (90_000, "1 day 1 hour"),
        (-1, "unknown"),
        (None, "unknown"),
    ],
)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float | None, words: str) -> None:
    assert ui_words.duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (59.9, "just now"),
        (190, "3 minutes ago"),
        (3_599, "59 minutes ago"),
        (7_300, "2 hours ago"),
        (86_400, "1 day ago"),
        (28_120_320, "325 days ago"),
        (-1, "at an unknown time"),
        (None, "at an unknown time"),
    ],
)
def test_an_age_is_shown_as_people_say_it(seconds: float | None, words: str) -> None:
    """(session-manager-reload-reconstitution, section 5, 8)."""
    assert ui_words.ago(seconds) == words
