"""What `session-load` prints: each thing once, ✓ only for what was done, and sizes of what was given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.project import Project, units

from faber_ledger.context.packet import END

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A run whose workflow has three small artifacts."""
    made = Project.made(tmp_path / "project")
    names = ("first", "second", "third")
    for name in names:
        made.write(f"docs/{name}.md", f"# {name}\n")
    made.name_artifacts(*[{"id": name, "path": f"docs/{name}.md"} for name in names])
    return made


def load(project: Project, *options: str) -> str:
    done = project.faber("session-load", "--verbose", *options)
    assert done.returncode == 0
    return done.stdout


def test_a_program_is_not_told_again_what_the_contents_name(project: Project) -> None:
    """Paths and counts say nothing to an agent that has the contents above them."""
    project.write("docs/second.md", "# Second\n" + "word\n" * 9000)
    done = project.faber("session-load", "--budget", "4000")
    contents, _, report = done.stdout.partition(END.lstrip())
    for heading in ("first: whole", "second: parts of its ", "third: whole"):
        assert contents.count(f"\n===== {heading}") == 1
    size = re.search(r"^Contents given: .* KB \(--budget gives more\)$", report, re.MULTILINE)
    assert size is not None
    assert report == f"\n{size[0]}\n"
    head = f"✓ Context reloaded for run: {project.run_id}\n"
    assert f"\n{head}\nWork item: " in f"\n{contents}"
    assert done.stdout.count(head) == 1
    again = project.faber("session-load").stdout
    assert "\n  ⊘ first - this session has it: loaded just now\n  ⊘ third - " in again


def test_a_dry_run_says_when_an_earlier_session_loaded_an_artifact(project: Project) -> None:
    assert "    Last loaded: never\n" in load(project, "--dry-run")
    load(project)
    assert "    Last loaded: just now\n" in load(project, "--dry-run")
    assert project.faber("session-save").returncode == 0
    dry = load(project, "--dry-run")
    assert "    Last loaded: just now (in an earlier session)\n" in dry
    assert dry.count("Action: LOAD") == 3


def test_a_look_leaves_out_what_is_not_known(project: Project) -> None:
    look, _ = project.on_terminal("session-load")
    assert "  Current session: none" in look
    assert "unknown" not in look


def test_contents_that_have_more_than_was_loaded_were_not_cut(tmp_path: Path) -> None:
    """The run's state is always without what the position says."""
    small = Project.made(tmp_path / "small")
    small.change_state(phases={"frame": {"status": "completed", "steps": [{"name": "setup", "status": "completed"}]}})
    for options in ([], ["--dry-run", "--force"]):
        shown = load(small, "--artifacts", "workflow-state", *options)
        assert "Given: as an outline" in shown
        assert "--budget gives more" not in shown


def test_a_state_that_is_outlined_by_its_form_was_not_cut(tmp_path: Path) -> None:
    """What other phases did is never given, however large the budget is."""
    made = Project.made(tmp_path / "made")
    done = {"status": "completed", "completed_steps": [f"step {number}" for number in range(900)]}
    made.change_state(phases={"frame": done, "build": {"status": "in_progress", "notes": "x" * 3000}})
    for options in ([], ["--verbose"], ["--dry-run"], ["--verbose", "--budget", "200000"]):
        shown = made.said("session-load", "--force", "--artifacts", "workflow-state", *options)
        assert ("as an outline" in shown) == bool(options)
        assert "--budget gives more" not in shown


def test_nobody_misses_an_optional_file_of_the_shipped_workflow(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    (project.root / "plugins/faber/docs/workflow-orchestration-protocol.md").unlink()
    for options in ([], ["--verbose"], ["--force"]):
        done = project.faber("session-load", *options)
        assert (done.returncode, done.stderr) == (0, "")
    project.write("plugins/faber/docs/workflow-orchestration-protocol.md", b"\xff")
    assert "Optional artifact" in project.faber("session-load", "--force").stderr


def test_no_block_of_an_artifact_is_printed_twice(project: Project) -> None:
    """(session-manager-reload-reconstitution, section 5, 3)."""
    shown = load(project)
    for name in ("first", "second", "third"):
        assert shown.count(f"✓ {name}\n") == 1
        assert len(re.findall(rf"^ *Resolved: .*{name}\.md$", shown, re.MULTILINE)) == 1


def test_a_load_of_nothing_says_so_and_names_the_way_to_load(project: Project) -> None:
    """(session-manager-reload-reconstitution, section 5, 2; spec-and-session-end, section 5, 5)."""
    load(project)
    shown = load(project)
    assert "ℹ Skipping first - loaded just now (--force loads it)\n" in shown
    assert f"\nℹ Nothing to load: 3 skipped (--force loads them)\n  Run: {project.run_id}\n  Workflow: own\n" in shown
    assert "✓ Context reloaded" not in shown
    assert (
        "Artifacts loaded (0):\n\nArtifacts skipped (3):\n  ⊘ first - this session has it: loaded just now\n" in shown
    )
    (project.root / "docs" / "third.md").unlink()
    assert "ℹ Nothing was loaded: 2 skipped (--force loads them), 1 failed\n" in load(project)
    project.write("docs/third.md", "# Another\n")
    assert "✓ Context reloaded for run: " in load(project)


def test_the_report_has_the_size_of_contents_that_were_cut(project: Project) -> None:
    """(session-manager-reload-reconstitution, section 5, 6)."""
    assert "Contents given" not in load(project)
    project.write(
        "docs/second.md", "# Second\n" + "".join(f"## Part {number}\n\n{'word ' * 99}\n" for number in range(99))
    )
    dry = load(project, "--dry-run", "--force", "--budget", "4000")
    shown = load(project, "--force", "--budget", "4000")
    (given,) = re.findall(r"^Contents given: (\d\.\d) KB \(--budget gives more\)$", shown, re.MULTILINE)
    (expected,) = re.findall(r"^Contents that would be given: (\d\.\d) KB ", dry, re.MULTILINE)
    contents = shown[shown.index("# FABER run") : shown.index("━")].strip()
    for size in (given, expected):
        assert float(size) == pytest.approx(len(contents.encode()) / 1024, abs=0.1)
    (whole,) = re.findall(r"^Total size: (.*) KB$", shown, re.MULTILINE)
    assert float(whole) > 40
    assert re.search(r"second\n.*\n.*\n    Size: .* KB\n    Given: as an outline\n", shown)
    assert "    Action: LOAD\n    Given: as an outline\n" in dry
    assert "Contents given" not in load(project, "--force", "--budget", "100000")


def test_a_session_on_a_finished_run_is_named_with_its_end(project: Project) -> None:
    """(session-manager-reload-reconstitution, section 5, 12)."""
    end = f"`faber-ledger session-save --run-id {project.run_id}` ends this session\n"
    assert end not in load(project)
    assert project.faber("session-save").returncode == 0
    project.change_state(status="completed")
    assert f"ℹ The run is completed: {end}" in load(project, "--run-id", project.run_id)
    assert end not in load(project, "--run-id", project.run_id)


LIMIT = 30_000  # characters: of a command with more the client shows the agent 2 KB


@pytest.mark.parametrize("count", [14, 100, 150])
def test_the_report_is_shortened_so_that_the_agent_gets_all_contents(project: Project, count: int) -> None:
    paths = [f"docs/architecture/decisions/{number:04}-some-decision-about-the-service.md" for number in range(count)]
    for path in paths:
        project.write(path, f"# {path}\n" + "What was decided, and why.\n" * 104)
    project.name_artifacts(*[{"id": f"decision-{number}", "path": path} for number, path in enumerate(paths)])
    done = project.faber("session-load", "--verbose", "--force")
    assert done.returncode == 0, done.stderr
    shown = done.stdout + done.stderr  # what the skill `session-load` gives the agent
    assert units(shown) < LIMIT
    contents, _, report = shown.partition(END)
    assert len(contents) > 23_500
    assert report.startswith(f"\n\n✓ Context reloaded for run: {project.run_id}\n")
    assert ("\n  … (`faber-ledger session-load --dry-run` lists all)\n" in report) is (count > 14)
    for loaded in project.of_type("artifact_loaded"):
        assert f"decision-{loaded['artifact_id'].partition('-')[2]}" in contents
