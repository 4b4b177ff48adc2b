"""The requirement documents' texts are printed, character by character, on the right stream.

Each row quotes a document: its name, the line number, and its lines. `{name}` and `${name}` are placeholders: for the
row's value of that name, else for any value. We may add lines between a document's lines, and our command in brackets
after a document's slash command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.project import PROTOCOL, SPEC_RUN, Project, spec_state

from faber_ledger.cli.ui import words as ui_words

if TYPE_CHECKING:
    from pathlib import Path

SECOND = "fractary-faber-259-20260105-144500"
SPEC_SESSION = "claude-session-20260105-143022-abc123"
STATE = f".fractary/runs/{SPEC_RUN}/state.json"
WORKFLOW = ".fractary/plugins/faber/workflows/own.json"


class Printed(NamedTuple):
    """What a command printed; on a terminal, both streams are in `out`."""

    code: int
    out: str
    err: str


class Text(NamedTuple):
    """A document's text: its place in the document, the situation that prints it, its stream, and the exit code."""

    document: str
    line: int
    situation: Callable[[Project], Printed]
    stream: str
    code: int
    words: str
    values: dict[str, str] = {}  # noqa: RUF012 -- a NamedTuple's default, never changed


# Situations: a project and a command


def run_command(project: Project, *arguments: str, **env: str) -> Printed:
    done = project.faber(*arguments, env=env)
    return Printed(done.returncode, done.stdout, done.stderr)


def on_terminal(project: Project, answers: list[str], *arguments: str) -> Printed:
    """Run a command on a terminal, and type an answer at each prompt."""
    shown, code = project.on_terminal(*arguments, answers=answers)
    return Printed(code, shown, "")


def artifact(id: str, **fields: Any) -> dict[str, Any]:
    every = ["session_start", "manual"]
    return {"id": id, "type": "markdown", "description": f"About {id}", "reload_triggers": every, **fields}


def with_workflow(project: Project, *always: dict[str, Any], **conditional: dict[str, Any]) -> None:
    critical = {"always_load": always, "conditional_load": list(conditional.values())}
    project.write(WORKFLOW, json.dumps({"id": "own", "critical_artifacts": critical}))
    project.change_state(workflow_id="own")


def no_run(project: Project) -> None:
    project.active_path.unlink()
    project.change_state(status="completed")


def ago(**distance: int) -> str:
    return (datetime.now(UTC) - timedelta(**distance)).strftime("%Y-%m-%dT%H:%M:%SZ")


def save_without_run(project: Project) -> Printed:
    no_run(project)
    return run_command(project, "session-save")


def save_missing_state(project: Project) -> Printed:
    project.state_path.unlink()
    return run_command(project, "session-save")


def save_broken_state(project: Project) -> Printed:
    project.put_state("{\n" + '"a": 1,\n' * 40 + "broken")
    return run_command(project, "session-save")


def save_unwritable(project: Project) -> Printed:
    project.state_path.chmod(0o444)
    return run_command(project, "session-save")


def save_without_backup(project: Project) -> Printed:
    (project.run / "state.json.backup").mkdir()
    return run_command(project, "session-save")


def save(project: Project) -> Printed:
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
    return run_command(project, "session-save", "--reason", "compaction")


def save_never_opened(project: Project) -> Printed:
    project.put_state({name: value for name, value in spec_state().items() if name != "sessions"})
    return run_command(project, "session-save")


def save_twice(project: Project) -> Printed:
    run_command(project, "session-save")
    return run_command(project, "session-save")


def hook_without_run(project: Project) -> Printed:
    no_run(project)
    return run_command(project, "hook", "session-start")


def end_hook_without_run(project: Project) -> Printed:
    no_run(project)
    return run_command(project, "hook", "pre-compact")


def load_without_run(project: Project) -> Printed:
    no_run(project)
    return run_command(project, "session-load")


def load_scanned(project: Project) -> Printed:
    project.active_path.unlink()
    return run_command(project, "session-load")


def two_runs(project: Project) -> None:
    project.active_path.unlink()
    project.change_state(current_phase="build", started_at="2026-01-05T14:30:22Z")
    other = {**project.state, "run_id": SECOND, "current_phase": "frame", "started_at": "2026-01-05T14:45:00Z"}
    project.write(f".fractary/runs/{SECOND}/state.json", json.dumps(other))


def load_of_two(project: Project) -> Printed:
    two_runs(project)
    return run_command(project, "session-load")


def load_of_two_on_terminal(project: Project) -> Printed:
    two_runs(project)
    return on_terminal(project, ["2"], "session-load", "--content")


def load_unknown_run(project: Project) -> Printed:
    return run_command(project, "session-load", "--run-id", "nowhere")


def load_broken_state(project: Project) -> Printed:
    project.put_state("{")
    return run_command(project, "session-load")


def load_incomplete_state(project: Project) -> Printed:
    project.put_state({"run_id": SPEC_RUN, "status": "in_progress"})
    return run_command(project, "session-load")


def load_unknown_workflow(project: Project) -> Printed:
    project.change_state(workflow_id="own")
    return run_command(project, "session-load")


def load_unknown_plugin_workflow(project: Project) -> Printed:
    project.change_state(workflow_id="fractary-faber:own")
    return run_command(project, "session-load")


def with_specification(project: Project) -> None:
    project.write("specs/WORK-258.md", "# Work\n" * 1829)
    project.change_state(artifacts={"spec_path": "specs/WORK-258.md"}, current_phase="build")


def load(project: Project) -> Printed:
    with_specification(project)
    return run_command(project, "session-load", "--trigger", "session_start")


def load_on_terminal(project: Project) -> Printed:
    with_specification(project)
    return on_terminal(project, [], "session-load", "--content", "--trigger", "session_start")


def load_again(project: Project) -> Printed:
    fresh = [{**spec_state()["context_metadata"]["artifacts_in_context"][0], "loaded_at": ago(minutes=3, seconds=10)}]
    project.change_state(context_metadata={"reload_count": 3, "artifacts_in_context": fresh})
    return run_command(project, "session-load")


def load_with_optional_missing(project: Project) -> Printed:
    with_workflow(project, artifact("notes", path="docs/notes.md", required=False))
    return run_command(project, "session-load")


def load_with_required_missing(project: Project) -> Printed:
    missing = artifact("notes", path="docs/{run_id}.md", required=True)
    with_workflow(project, artifact("protocol", path=PROTOCOL), missing, artifact("last", path="never-tried.md"))
    return run_command(project, "session-load")


def load_with_unset_field(project: Project) -> Printed:
    with_workflow(project, artifact("spec", path_from_state="artifacts.spec_path", required=True))
    return run_command(project, "session-load")


def load_without_source(project: Project) -> Printed:
    with_workflow(project, artifact("notes", required=True))
    return run_command(project, "session-load")


def load_of_unknown_type(project: Project) -> Printed:
    with_workflow(project, artifact("notes", type="tape", path=PROTOCOL, required=True))
    return run_command(project, "session-load")


def load_of_large(project: Project) -> Printed:
    project.write("docs/large.md", "x" * 734_003)
    with_workflow(project, artifact("large", path="docs/large.md"))
    return run_command(project, "session-load")


def load_with_strange_condition(project: Project) -> Printed:
    with_workflow(project, spec=artifact("spec", path=PROTOCOL, condition="state.work_id + 3"))
    return run_command(project, "session-load")


def dry_run(project: Project) -> Printed:
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
    return run_command(project, "session-load", "--dry-run")


def start_second(project: Project) -> Printed:
    return run_command(project, "workflow-run", "--work-id", "259", "--run-id", SECOND)


def start_second_refused(project: Project) -> Printed:
    return on_terminal(project, ["n"], "workflow-run", "--work-id", "259", "--run-id", SECOND)


def start_second_agreed(project: Project) -> Printed:
    return on_terminal(project, ["y"], "workflow-run", "--work-id", "259", "--run-id", SECOND)


# The texts

SPEC, AGENT, END, RELOAD = "SPEC-00027", "session-manager-agent", "session-end-workflow", "context-reload-protocol"
LINE = "━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━"

CONFLICT = """\
⚠️  WARNING: Another workflow is active in this worktree
   Active: fractary-faber-258-20260105-143022
   New: fractary-faber-259-20260105-144500

Recommendation: Use separate worktrees for concurrent workflows:
  git worktree add ../myproject-issue-259 -b feature/259
  cd ../myproject-issue-259
  /fractary-faber:workflow-run --work-id 259
"""
QUESTION = """\
Do you want to proceed anyway? This will take over context management
for this worktree, potentially interfering with the other workflow. [y/N]: """

REQUIRED = """\
❌ ERROR: Required artifact not found
Artifact: {artifact_id}
Path: {resolved_path}

Recovery:
1. Check if path is correct in workflow config
2. Check if artifact was created in earlier phase
3. Run the phase that creates this artifact"""

NO_RUN = """\
ℹ️  No active workflow found
   No session to end.

Possible reasons:
- No workflow is currently running in this worktree
- The .fractary/faber/.active-run-id file doesn't exist
- Workflow already completed

To start a new workflow:
  /fractary-faber:workflow-run --work-id <work-id>"""

REPORT = f"""\
{LINE}
✓ Context reloaded for run: ${{target_run_id}}
  Workflow: ${{workflow_id}}
  Run status: ${{state.status}}
  Current phase: ${{state.current_phase}}

Artifacts loaded (3):
  ✓ workflow-state - Current workflow state file - essential for continuation
    Source: ${{source}}
    Size: ${{size}} KB

  ✓ orchestration-protocol - Workflow execution protocol - defines how to execute steps
    Source: ${{protocol}}
    Size: 0.1 KB

  ✓ specification - Technical specification for the work
    Source: specs/WORK-258.md
    Size: 12.5 KB

Session tracking:
  Current session: ${{session}}
  Total sessions: 3
  Environment: dev-machine-1 (linux)
  Working directory: ${{cwd}}

Context metadata:
  Last reload: ${{time}}
  Total reloads: 4
{LINE}"""

TEXTS = [
    # The active run, and workflow conflicts
    Text(SPEC, 88, end_hook_without_run, "err", 0, "No active workflow found, skipping session-end"),
    Text(SPEC, 96, hook_without_run, "err", 0, "No active workflow found, skipping prime-context"),
    Text(SPEC, 379, start_second, "out", 1, CONFLICT),
    Text(SPEC, 716, start_second_refused, "out", 1, CONFLICT + "\n" + QUESTION),
    Text(
        SPEC,
        729,
        start_second_refused,
        "out",
        1,
        "Workflow start cancelled. Use separate worktrees for concurrent workflows.",
    ),
    Text(SPEC, 725, start_second_agreed, "out", 0, QUESTION),
    # Session-save
    Text(AGENT, 601, save_without_run, "out", 0, NO_RUN),
    Text(
        END,
        63,
        save_missing_state,
        "err",
        1,
        "❌ ERROR: Workflow state file not found: {state_path}",
        {"state_path": STATE},
    ),
    Text(
        AGENT,
        553,
        save_missing_state,
        "err",
        1,
        """\
Run ID: fractary-faber-258-20260105-143022
Expected: .fractary/runs/fractary-faber-258-20260105-143022/state.json

Recovery:
1. Verify run ID is correct
2. Check if workflow was started
3. List available runs: ls .fractary/runs/""",
    ),
    Text(END, 70, save_broken_state, "err", 1, "❌ ERROR: Cannot parse state file: {parse_error}"),
    Text(
        AGENT,
        565,
        save_broken_state,
        "err",
        1,
        """\
Path: .fractary/runs/fractary-faber-258-20260105-143022/state.json
Error: Invalid JSON at line 42{more}

Recovery:
1. Check if backup exists: {backup}
2. Restore from backup if available
3. Contact support if no backup available""",
        {"backup": "state.json.backup"},
    ),
    Text(END, 93, save_never_opened, "out", 0, "⚠️  No current session to end"),
    Text(
        AGENT,
        615,
        save_twice,
        "out",
        0,
        """\
⚠️  Session already ended
   Session ID: {session}
   Ended at: {time}

   No changes made to state.json""",
        {"session": SPEC_SESSION},
    ),
    Text(END, 221, save_without_backup, "err", 0, "⚠️  Could not create backup"),
    Text(
        AGENT,
        577,
        save_unwritable,
        "err",
        1,
        """\
❌ ERROR: Failed to save state file
Path: {path}
Error: Failed to write state file: {write_error}

Recovery:
1. Check file permissions
2. Ensure .fractary/runs/ directory is writable
3. Check disk space""",
        {"path": STATE},
    ),
    Text(
        AGENT,
        591,
        save,
        "out",
        0,
        """\
✓ Session ended and saved
  Session ID: {session}
  Reason: compaction
  Duration: 2 hours 15 minutes
  Phases completed: frame, architect, build (partial)
  Artifacts loaded: 3 (workflow-state, orchestration-protocol, specification)""",
        {"session": SPEC_SESSION},
    ),
    # Session-load, Steps 1 and 2
    Text(
        RELOAD,
        59,
        load_without_run,
        "err",
        1,
        """\
❌ ERROR: No active workflow found
Use /fractary-faber:run to start a new workflow
Or specify run ID: /fractary-faber:prime-context --run-id {id}""",
        {"id": SPEC_RUN},
    ),
    Text(
        RELOAD,
        66,
        load_scanned,
        "out",
        0,
        "✓ Auto-detected active workflow: ${target_run_id}",
        {"target_run_id": SPEC_RUN},
    ),
    *[
        Text(
            RELOAD,
            70,
            situation,
            stream,
            code,
            f"""\
Multiple active workflows found. Please select:
1. {SPEC_RUN} (build phase, started 2026-01-05T14:30:22Z)
2. {SECOND} (frame phase, started 2026-01-05T14:45:00Z)""",
        )
        for situation, stream, code in ((load_of_two, "err", 1), (load_of_two_on_terminal, "out", 0))
    ],
    Text(RELOAD, 553, load_of_two_on_terminal, "out", 0, "✓ Context reloaded for run: ${run}", {"run": SECOND}),
    Text(
        RELOAD,
        103,
        load_unknown_run,
        "err",
        1,
        """\
❌ ERROR: Run not found: ${target_run_id}
Path: ${STATE_FILE}
Check available runs: ls .fractary/runs/""",
        {"target_run_id": "nowhere", "STATE_FILE": ".fractary/runs/nowhere/state.json"},
    ),
    Text(
        AGENT,
        293,
        load_unknown_run,
        "err",
        1,
        """\
Run ID: {run_id}
Path: .fractary/runs/{run_id}/state.json

Recovery:
1. List active runs: find .fractary/runs -name state.json
2. Start new run: /fractary-faber:workflow-run {work_id}""",
        {"run_id": "nowhere"},
    ),
    Text(
        RELOAD,
        112,
        load_broken_state,
        "err",
        1,
        """\
❌ ERROR: Cannot read state file - invalid JSON
Path: ${STATE_FILE}
Check backup: ${RUN_DIR}/state.json.backup
Restore from backup if available""",
        {"STATE_FILE": STATE, "RUN_DIR": f".fractary/runs/{SPEC_RUN}"},
    ),
    Text(
        AGENT,
        304,
        load_broken_state,
        "err",
        1,
        """\
Path: .fractary/runs/{run_id}/state.json

Recovery:
1. Check if backup exists: .fractary/runs/{run_id}/state.json.backup
2. Restore from backup if available""",
        {"run_id": SPEC_RUN},
    ),
    Text(
        RELOAD,
        120,
        load_incomplete_state,
        "err",
        1,
        "❌ ERROR: State file missing required fields (run_id, workflow_id)",
    ),
    Text(
        RELOAD,
        138,
        load_unknown_workflow,
        "err",
        1,
        "❌ ERROR: Workflow configuration not found: ${workflow_id}\nPath: ${config_path}",
        {"workflow_id": "own", "config_path": WORKFLOW},
    ),
    Text(
        RELOAD,
        138,
        load_unknown_plugin_workflow,
        "err",
        1,
        "❌ ERROR: Workflow configuration not found: ${workflow_id}\nPath: ${config_path}",
        {"workflow_id": "fractary-faber:own", "config_path": "plugins/faber/config/workflows/own.json"},
    ),
    Text(
        RELOAD,
        148,
        load,
        "out",
        0,
        "✓ Loaded workflow config: ${workflow_id}\n  Run status: ${status}\n  Current phase: ${phase}",
        {"workflow_id": "fractary-faber:default", "status": "in_progress", "phase": "build"},
    ),
    # Session-load, Step 3
    Text(RELOAD, 183, load, "out", 0, "Determined 3 artifacts to load"),
    Text(RELOAD, 183, load_with_required_missing, "out", 1, "Determined 3 artifacts to load"),
    Text(RELOAD, 183, load_again, "out", 0, "Determined 1 artifacts to load"),
    Text(RELOAD, 199, load_again, "out", 0, "ℹ Skipping workflow-state - loaded 3 minutes ago (--force loads it)"),
    Text(
        RELOAD,
        247,
        load_with_strange_condition,
        "err",
        0,
        "⚠️ WARNING: Cannot evaluate condition: ${condition_expr}",
        {"condition_expr": "state.work_id + 3"},
    ),
    # Session-load, Step 4
    Text(
        RELOAD,
        255,
        dry_run,
        "out",
        0,
        """\
Would reload context for run: ${target_run_id}
Workflow: own
Run status: in_progress

Artifacts that would be loaded:

  ⊘ protocol
    Type: markdown
    Path: plugins/faber/docs/workflow-orchestration-protocol.md
    Required: yes
    Exists: yes
    Size: 0.1 KB
    Last loaded: 2 minutes ago
    Action: SKIP (recently loaded)

  ⊘ notes
    Type: markdown
    Path: docs/notes.md
    Required: no
    Exists: no
    Last loaded: never
    Action: SKIP (not found)

  ✓ spec
    Type: markdown
    Path: artifacts.spec_path
    Resolved: ${resolved_path}
    Required: no
    Exists: yes
    Size: 12.5 KB
    Last loaded: never
    Action: LOAD

Total: 3 artifacts (1 would be loaded, 2 skipped)
Estimated context size: 12.5 KB""",
        {"target_run_id": SPEC_RUN},
    ),
    Text(
        AGENT,
        262,
        dry_run,
        "out",
        0,
        """\
Would reload context for run: {run}
Workflow: own

Artifacts that would be loaded:
  ✓ spec
    Type: markdown
    Path from state: artifacts.spec_path
    Resolved: /{path}/specs/WORK-258.md
    Condition: state.artifacts.spec_path != null
    Required: no
    Exists: yes
    Size: 12.5 KB

Estimated context size: 12.5 KB""",
        {"run": SPEC_RUN},
    ),
    # Session-load, Step 5
    *[
        Text(
            RELOAD,
            316,
            load_on_terminal,
            "out",
            0,
            f"""\
Loading {name}...
✓ {name} - {described}
  Source: ${{resolved_source}}
  Size: ${{size}} KB""",
        )
        for name, described in (
            ("workflow-state", "Current workflow state file - essential for continuation"),
            ("orchestration-protocol", "Workflow execution protocol - defines how to execute steps"),
            ("specification", "Technical specification for the work"),
        )
    ],
    Text(AGENT, 313, load_with_required_missing, "err", 1, REQUIRED, {"artifact_id": "notes"}),
    Text(
        RELOAD,
        347,
        load_with_required_missing,
        "err",
        1,
        """\
❌ ERROR: Required artifact not found
Artifact: ${artifact.id}
Source: /${resolved_source}
Error: ${error.message}

Recovery:
1. Check if path is correct in workflow config
2. Check if artifact was created in earlier phase
3. Run the phase that creates this artifact""",
        {"artifact.id": "notes"},
    ),
    Text(RELOAD, 432, load_with_unset_field, "err", 1, "Error: State field not found: artifacts.spec_path"),
    Text(RELOAD, 440, load_without_source, "err", 1, "Error: Artifact must have path, path_from_state, or command"),
    Text(RELOAD, 417, load_of_unknown_type, "err", 1, "Error: Unknown artifact type: tape"),
    Text(
        RELOAD,
        360,
        load_with_optional_missing,
        "err",
        0,
        """\
⚠️ WARNING: Optional artifact not found
Artifact: ${artifact.id}
Source: ${resolved_source}

Workflow will continue without this artifact.""",
        {"artifact.id": "notes"},
    ),
    Text(
        AGENT,
        327,
        load_with_optional_missing,
        "err",
        0,
        """\
⚠️ WARNING: Optional artifact not found
Artifact: {artifact_id}
Path: {resolved_path}

Workflow will continue without this artifact.""",
        {"artifact_id": "notes"},
    ),
    Text(
        AGENT,
        336,
        load_of_large,
        "err",
        0,
        """\
⚠️ WARNING: Large artifact detected
Artifact: {artifact_id}
Size: {size_mb} MB

Consider using load_strategy: "summary" for large files.""",
        {"artifact_id": "large", "size_mb": "0.7"},
    ),
    # Session-load, Steps 6 and 7
    Text(RELOAD, 495, load, "out", 0, "✓ New session detected: ${current_session_id}"),
    Text(RELOAD, 532, load, "out", 0, "✓ Updated state metadata"),
    Text(RELOAD, 551, load, "out", 0, REPORT, {"target_run_id": SPEC_RUN, "state.current_phase": "build"}),
    Text(RELOAD, 551, load_on_terminal, "out", 0, f"{LINE}\n✓ Context reloaded for run: {SPEC_RUN}"),
    Text(
        RELOAD,
        568,
        load_with_optional_missing,
        "out",
        0,
        "Artifacts loaded (0):\nArtifacts skipped (1):\n  ⚠️ notes - ${failed.error}\n",
    ),
]

FAILED_BESIDE_OTHERS = (load_with_required_missing, load_with_unset_field, load_without_source, load_of_unknown_type)
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
def printed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Project], Printed]], Printed]:
    """Return a function that runs a situation once for all the texts that it prints."""
    known: dict[str, Printed] = {}

    def once(situation: Callable[[Project], Printed]) -> Printed:
        if situation.__name__ not in known:
            root: Path = tmp_path_factory.mktemp("situation") / "myproject"
            known[situation.__name__] = situation(Project.made(root, spec_state(), SPEC_RUN))
        return known[situation.__name__]

    return once


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: f"{text.document}:{text.line}-{text.situation.__name__}")
def test_the_documents_words_are_printed(
    text: Text, printed: Callable[[Callable[[Project], Printed]], Printed]
) -> None:
    shown = printed(text.situation)
    lines = iter(getattr(shown, text.stream).split("\n"))
    for wanted in text.words.split("\n"):
        expected = pattern(wanted, text.values)
        if not any(expected.fullmatch(line) or (text.words.endswith(": ") and expected.match(line)) for line in lines):
            pytest.fail(f"{text.document}, line {text.line}: {wanted!r} is not printed in its place:\n{shown}")
    assert shown.code == text.code
    first = pattern(text.words.split("\n")[0], text.values)
    other = shown.err if text.stream == "out" else shown.out
    is_repeated = any(line and first.fullmatch(line) for line in other.split("\n"))
    # A failed required artifact does not keep the others from the agent: the contents begin with its error.
    assert is_repeated == (text.situation in FAILED_BESIDE_OTHERS and text.stream == "err")


def test_a_declined_run_leaves_nothing_and_a_confirmed_run_is_active(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "myproject", spec_state(), SPEC_RUN)
    start_second_refused(project)
    assert project.active_path.read_text() == f"{SPEC_RUN}\n"
    assert not (project.run.parent / SECOND).exists()
    start_second_agreed(project)
    assert project.active_path.read_text() == f"{SECOND}\n"
    assert (project.run.parent / SECOND / "ledger.db").exists()


def test_the_question_is_repeated_until_the_answer_is_a_number_of_the_list(tmp_path: Path) -> None:
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
