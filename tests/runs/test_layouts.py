"""A run of every layout goes the whole way; several runs in one plan's folder do not see each other's files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.program import path_with_program
from support.project import Project, usual_state
from support.sizes import few

from faber_ledger.runs.clone import note_use
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.settings import Settings

PLAN, SUFFIX, OTHER = "fractary-faber-258", "2026-04-17T10-20-30Z", "2026-05-01T08-00-00Z"
OURS, FABERS = ".fractary/runs", ".fractary/faber/runs"
START, COMPACTION = "SessionStart.startup.print", "PreCompact.auto.print"
AGAIN, END = "SessionStart.compact.print", "SessionEnd.other.print"


class Layout(NamedTuple):
    """Where a run's state is, and the run's id."""

    state: str
    run_id: str

    @property
    def suffix(self) -> str:
        name = self.state.rpartition("/")[2]
        return name.removeprefix("state-").removesuffix(".json") if name.startswith("state-") else ""

    def file(self, name: str) -> str:
        """Return the path of one of our files."""
        stem, _, ending = name.partition(".")
        return (
            f"{self.state.rpartition('/')[0]}/{stem}-{self.suffix}.{ending}" if self.suffix else f"{self.folder}/{name}"
        )

    @property
    def folder(self) -> str:
        return self.state.rpartition("/")[0]

    @property
    def path_form(self) -> str:
        """The run's name as its path has it."""
        below = self.folder.removeprefix(f"{FABERS}/").removeprefix(f"{OURS}/")
        return f"{below}/{self.suffix}" if self.suffix else below


LAYOUTS = {
    "ours": Layout(f"{OURS}/issue-258/state.json", "issue-258"),
    "fabers": Layout(f"{FABERS}/{PLAN}-run-{SUFFIX}/state.json", f"{PLAN}-run-{SUFFIX}"),
    "plan": Layout(f"{FABERS}/{PLAN}/{SUFFIX}/state.json", f"{PLAN}-run-{SUFFIX}"),
    "plan, by its path": Layout(f"{FABERS}/{PLAN}/{SUFFIX}/state.json", f"{PLAN}/{SUFFIX}"),
    "shared": Layout(f"{FABERS}/{PLAN}/state-{SUFFIX}.json", f"{PLAN}-run-{SUFFIX}"),
    "shared, by its path": Layout(f"{FABERS}/{PLAN}/state-{SUFFIX}.json", f"{PLAN}/{SUFFIX}"),
}
SHARED = [layout for layout in LAYOUTS.values() if layout.suffix]
every_layout = pytest.mark.parametrize(
    "layout", few([LAYOUTS["plan, by its path"], LAYOUTS["shared"], *LAYOUTS.values()], 2)
)


@pytest.fixture(autouse=True)
def command_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git calls the drivers by name."""
    monkeypatch.setenv("PATH", path_with_program())


def project_of(root: Path, layout: Layout) -> Project:
    """Make a set up project with a run, as FABER's tools leave it, all committed; a plan's folder has another run."""
    project = Project.made(root)
    shutil.rmtree(project.run.parent)
    project.active_path.unlink()
    active = f"{FABERS}/.active-run-id" if layout.state.startswith(FABERS) else ".fractary/faber/.active-run-id"
    project.write(active, f"{layout.run_id}\n")
    project.write(layout.state, json.dumps(state_of(layout.run_id), indent=2) + "\n")
    if layout.suffix or "plan" in layout.folder:
        project.write(neighbour(layout), json.dumps(state_of(f"{PLAN}-run-{OTHER}"), indent=2) + "\n")
    assert project.faber("init", "--git-only", "--no-pre-commit").returncode == 0
    project.commit("Begin")
    note_use(str(root), layout.run_id, is_taken_up=True)
    return seen(project, layout)


def state_of(run_id: str) -> dict[str, Any]:
    return {**usual_state(run_id), "plan_id": PLAN}


def neighbour(layout: Layout) -> str:
    return layout.state.replace(SUFFIX, OTHER)


def seen(project: Project, layout: Layout) -> Project:
    """Return a project that looks at a run of this layout."""
    project.run_id = layout.run_id
    project.run = project.root / layout.folder
    project.state_path = project.root / layout.state
    project.ledger_path = project.root / layout.file("ledger.db")
    return project


def clone_of(project: Project, layout: Layout, name: str) -> Project:
    clone = seen(project.clone(project.root.parent / name, name), layout)
    assert clone.faber("init", "--git-only", "--no-pre-commit").returncode == 0
    return clone


@pytest.mark.long
@every_layout
def test_a_run_goes_from_its_start_to_uninstall(tmp_path: Path, layout: Layout) -> None:
    project = project_of(tmp_path / "project", layout)
    blocks = [project.root / ".fractary" / name for name in (".gitignore", ".gitattributes")]
    packet = project.deliver(START, client="one", pid="71").packet
    assert packet is not None
    assert layout.state in packet
    assert not packet.startswith("❌")
    project.deliver(COMPACTION, client="one", pid="71")
    project.deliver(AGAIN, client="one", pid="71")
    project.deliver(END, client="one", pid="71")
    assert [entry.get("end_reason") for entry in project.history] == ["compaction", "normal"]
    project.said("session-load", "--run-id", layout.run_id)
    project.said("session-save")
    project.assert_projected()
    for named in (layout.run_id, layout.path_form):
        assert f"Run: {layout.run_id}" in project.said("status", named)
    assert project.said("verify", "--all") == f"{layout.run_id}: sound\n"
    assert layout.run_id in project.said("run", "list")
    project.said("timeline", "-o", str(tmp_path / "run.html"), layout.path_form)
    assert layout.run_id in (tmp_path / "run.html").read_text()
    staged = json.loads(project.said("seal", "--json"))["data"]["runs"][0]["staged"]
    assert {layout.file("ledger.db"), layout.state} <= set(staged)
    project.commit("Work")
    assert project.git("ls-files", layout.folder).splitlines() == sorted(
        {layout.file("ledger.db"), layout.state, *others_in(project, layout)}
    )
    project.said("verify", "--git")
    assert not {"git.travels", "git.stays", "runs.folder", "runs.active"} & warnings_of(project)
    project.said("uninstall", "--scope", "project")
    assert [block.name for block in blocks if block.exists()] == [".gitignore"]  # it hides backups
    assert project.ledger_path.exists()


def warnings_of(project: Project) -> set[str]:
    """Return the names of the checks of `doctor` that found something."""
    lines = project.faber("doctor").stdout.splitlines()
    return {line.split()[1].rstrip(":") for line in lines if line.startswith(("warning", "error", "note"))}


def others_in(project: Project, layout: Layout) -> list[str]:
    return [neighbour(layout)] if layout.suffix else []


# Several runs in a plan's folder

shared_layout = pytest.mark.parametrize("layout", SHARED, ids=["-run-", "/"])


@shared_layout
def test_runs_of_a_plan_do_not_see_each_others_files(tmp_path: Path, layout: Layout) -> None:
    project = project_of(tmp_path / "project", layout)
    other = Layout(neighbour(layout), f"{PLAN}-run-{OTHER}")
    secret = "the customer is Katzenberger"
    for name in (".state-{}.json.0123456789abcdef.faber-ledger.tmp", "state-{}.json.backup", "ledger-{}.db.tmp"):
        project.write(f"{layout.folder}/{name.format(OTHER)}", secret)
    before = {path: path.read_bytes() for path in project.run.glob(f"*{OTHER}*")}
    assert len(before) == 4
    project.deliver(START, client="one", pid="71")
    noted = project.faber("note", "add", secret)
    assert noted.returncode == 0
    event = project.of_type("note_recorded")[0]
    found = next(one for one in project.events if one["event"] == event)
    redacted = json.loads(project.said("redact", found["id"], "--run", layout.run_id, "--yes", "--json"))["data"]
    assert not [path for path in json.dumps(redacted).split('"') if OTHER in path]
    project.change_state(status="completed")
    project.deliver(END, client="one", pid="71")
    assert {path: path.read_bytes() for path in project.run.glob(f"*{OTHER}*")} == before
    assert not list(project.run.glob(f"*{SUFFIX}.json.backup"))
    project.said("run", "resume", other.run_id)
    project.deliver(START, client="two", pid="72")
    assert not list(project.run.glob(f".state-{OTHER}*"))
    assert seen(project, other).of_type("session_started")


@shared_layout
def test_a_runs_own_settings_have_its_suffix(tmp_path: Path, layout: Layout) -> None:
    project = project_of(tmp_path / "project", layout)
    project.write(layout.file("ledger.json"), '{"packet_budget": 4000}')
    own, other = [Settings(find_run(str(project.root), name), {}) for name in (layout.run_id, f"{PLAN}/{OTHER}")]
    assert (own.packet_budget, own.places["packet_budget"]) == (4000, layout.file("ledger.json"))
    assert other.places["packet_budget"] == "default"


# Which id a run has


def test_a_state_cannot_take_the_id_of_a_run_elsewhere(tmp_path: Path) -> None:
    layout = LAYOUTS["fabers"]
    project = project_of(tmp_path / "project", layout)
    project.deliver(START, client="one", pid="71")
    forged = project.write(LAYOUTS["shared"].state, json.dumps(state_of(layout.run_id)))
    before = forged.read_bytes()
    project.write(f"{FABERS}/.active-run-id", f"{PLAN}/{SUFFIX}\n")
    project.deliver(START, client="two", pid="72")
    assert forged.read_bytes() == before
    assert "it is the state of another run" in project.faber("session-load", "--run-id", f"{PLAN}/{SUFFIX}").stderr
    assert not (project.root / LAYOUTS["shared"].file("ledger.db")).exists()
    assert f"Run: {layout.run_id}" in project.said("status", layout.run_id)


def test_a_second_place_that_git_brings_is_not_used(tmp_path: Path) -> None:
    """Whoever commits a run's id in our folder takes nothing from the run that FABER works on here."""
    layout = LAYOUTS["fabers"]
    project = project_of(tmp_path / "project", LAYOUTS["ours"])
    project.write(f"{FABERS}/.active-run-id", f"{layout.run_id}\n")
    project.write(layout.state, json.dumps(state_of(layout.run_id), indent=2) + "\n")
    seen(project, layout)
    project.deliver(START, client="one", pid="71")
    project.deliver(END, client="one", pid="71")
    project.commit("Work")
    forged = project.write(f"{OURS}/{layout.run_id}/state.json", json.dumps({**state_of(layout.run_id), "notes": "no"}))
    project.git("add", str(forged))
    project.git("commit", "--quiet", "-m", "Bring a second one")
    before = forged.read_bytes()
    project.deliver(START, client="two", pid="72")
    assert project.types[-1] == "session_started"
    assert [path.name for path in forged.parent.iterdir()] == ["state.json"]
    assert forged.read_bytes() == before


def test_a_name_is_split_at_the_last_run(tmp_path: Path) -> None:
    project = project_of(tmp_path / "project", LAYOUTS["shared"])
    plan = f"first-run-{PLAN}"
    project.write(f"{FABERS}/{plan}/state-{SUFFIX}.json", json.dumps(state_of(f"{plan}-run-{SUFFIX}")))
    assert f"Run: {plan}-run-{SUFFIX}" in project.said("status", f"{plan}-run-{SUFFIX}")
    assert f"Run: {plan}-run-{SUFFIX}" in project.said("status", f"{plan}/{SUFFIX}")
    assert f"Run: {plan}-run-{SUFFIX}" in project.said("status", f"{plan}/2026-04")


IGNORED = "state.json\nstate-*.json\n.fractary/faber/runs/.active-run-id\n"


def ignoring(root: Path, layout: Layout) -> tuple[Project, Project]:
    """Return a project that ignores its states, with one run and its session, and a clone of it."""
    project = project_of(root / "project", layout)
    project.git("rm", "-q", "--cached", "-r", FABERS)
    (project.root / neighbour(layout)).unlink(missing_ok=True)
    project.write(".gitignore", IGNORED)
    project.deliver(START, client="one", pid="71")
    project.commit("Work", "--amend")
    return project, clone_of(project, layout, "clone")


def test_where_git_ignores_the_states_reports_work_from_the_ledger(tmp_path: Path) -> None:
    layout = LAYOUTS["shared"]
    _, clone = ignoring(tmp_path, layout)
    before = clone.ledger_path.read_bytes()
    done = clone.faber("status", layout.run_id)
    assert (done.returncode, f"Run: {layout.run_id}" in done.stdout, "1 in all" in done.stdout) == (0, True, True)
    assert "it is not here" in done.stderr
    (row,) = json.loads(clone.said("run", "list", "--json"))["data"]
    assert (row["problem"], row["phase"], row["sessions"]) == (None, "build", 1)
    assert "unreadable" not in clone.said("run", "list")
    for command in (["verify", "--all"], ["log"], ["replay"], ["timeline", "--output", "-"], ["export"]):
        clone.said(*command, *([] if "--all" in command else [layout.run_id]))
    errors = [line for line in clone.faber("doctor").stdout.splitlines() if line.startswith(("error", "warning"))]
    assert [line for line in errors if layout.run_id in line or "state" in line] == []
    assert clone.ledger_path.read_bytes() == before


# Where new runs go


def started(project: Project, *arguments: str, **environment: str) -> str:
    """Start a run and return its folder in the project."""
    made = project.data("run", "start", "--work-id", "9", "--yes", *arguments, env=environment)
    return str(Path(made["directory"]).relative_to(project.root))


def test_new_runs_go_into_fabers_folder_where_it_is_the_only_one(tmp_path: Path) -> None:
    project = project_of(tmp_path / "project", LAYOUTS["fabers"])
    folder = started(project, "--run-id", "new")
    assert folder == f"{FABERS}/new"
    assert sorted(path.name for path in (project.root / folder).iterdir()) == [
        "events",
        "ledger.db",
        "metadata.json",
        "state.json",
    ]
    for name in (project.active_path, project.root / FABERS / ".active-run-id"):
        assert name.read_text() == "new\n"


def test_new_runs_go_to_our_folder_in_every_other_project(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    assert started(project, "--run-id", "one") == f"{OURS}/one"
    assert not (project.root / FABERS).exists()
    (project.root / FABERS).mkdir()
    assert started(project, "--run-id", "two") == f"{OURS}/two"
    assert (project.root / FABERS / ".active-run-id").read_text() == "two\n"


def test_a_setting_decides_where_new_runs_go(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    project.write(".fractary/faber/ledger.json", json.dumps({"new_runs": FABERS}))
    assert started(project, "--run-id", "one") == f"{FABERS}/one"
    assert started(project, "--run-id", "two", FABER_LEDGER_NEW_RUNS=OURS) == f"{OURS}/two"
    project.write(".fractary/faber/ledger.json", json.dumps({"new_runs": "/tmp"}))
    assert started(project, "--run-id", "three") == f"{OURS}/three"
    assert "new_runs must be" in project.faber("doctor").stdout
