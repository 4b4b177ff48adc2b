"""Four developers and twelve pull requests, in FABER's order and layout and with `init` alone.

A request is opened in Build and merged as one commit in Release; the run is completed, and committed, afterwards.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.program import path_with_program
from support.project import Project, usual_state
from support.sizes import pick

START, PRE, COMPACT, END = (
    "SessionStart.startup.print",
    "PreCompact.auto.print",
    "SessionStart.compact.print",
    "SessionEnd.other.print",
)
DEVELOPERS = 4
REQUESTS = pick(5, 12)
OPEN_AT_ONCE = 3


class Site:
    """A hosting site: it merges requests as one commit, without any driver, and counts those that conflict."""

    def __init__(self, root: Path) -> None:
        self.project = Project(root)
        self.conflicts: list[str] = []

    def merge(self, branch: str, number: int) -> set[str]:
        """Merge a request; return the files of runs in it, other than the run's own."""
        git = self.project.git
        git("fetch", "--quiet")
        files = git("diff", "--name-only", f"main...origin/{branch}").split("\n")
        merged = subprocess.run(
            [
                "git",
                "-c",
                "user.name=site",
                "-c",
                "user.email=site@example.org",
                "merge",
                "--squash",
                f"origin/{branch}",
            ],
            cwd=self.project.root,
            capture_output=True,
            check=False,
        )
        if merged.returncode != 0:
            self.conflicts.append(branch)
            git("reset", "--quiet", "--hard")
        else:
            git("commit", "--quiet", "--allow-empty", "-m", f"Merge {branch}")
            git("push", "--quiet", "origin", "main")
        return {name for name in files if name.startswith(".fractary/") and f"/plan-{number}/" not in name}


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Project], Site]:
    """Four clones that were set up with `init`, and the site; FABER's rule ignores states, as upstream's init does."""
    monkeypatch.setenv("PATH", path_with_program())
    first = Project(tmp_path / "first")
    first.root.mkdir()
    first.git("init", "--quiet", "--initial-branch=main")
    first.write(".fractary/.gitignore", "faber/runs/**/state-*.json\nfaber/runs/.active-run-id\n")
    first.write(".fractary/faber/runs/.keep", "")
    assert first.faber("init").returncode == 0
    first.git("add", "--all")
    first.git("commit", "--quiet", "-m", "Set up")
    first.git("clone", "--quiet", "--bare", ".", str(tmp_path / "site.git"))
    clones = []
    for name in [*(f"dev-{number}" for number in range(DEVELOPERS)), "site"]:
        first.git("clone", "--quiet", str(tmp_path / "site.git"), str(tmp_path / name))
        clones.append(Project(tmp_path / name, hostname=name))
    for developer in clones[:-1]:
        assert developer.faber("init").returncode == 0
    return clones[:-1], Site(clones[-1].root)


def commit(project: Project, message: str) -> None:
    project.git("add", "--all")
    project.git("commit", "--quiet", "-m", message)


def run_of(clone: Project, number: int) -> Project:
    """Return a run where FABER's own tools have put runs since February 2026."""
    run = Project(clone.root, f"plan-{number}-run-1", clone.hostname)
    run.run = clone.root / ".fractary" / "faber" / "runs" / f"plan-{number}"
    run.state_path, run.ledger_path = run.run / "state-1.json", run.run / "ledger-1.db"
    run.active_path = clone.root / ".fractary" / "faber" / "runs" / ".active-run-id"
    return run


def begin(developer: Project, number: int) -> Project:
    """Start a run as FABER does, in a client that is open, up to the request in Build."""
    client = {"client": f"client-{number}", "pid": str(number)}
    developer.git("checkout", "--quiet", "main")
    developer.git("pull", "--quiet", "--ff-only")
    developer.deliver(START, **client)
    developer.git("checkout", "--quiet", "-b", f"feature/{number}")
    run = run_of(developer, number)
    run.run.mkdir(parents=True)
    run.put_state({**usual_state(run.run_id), "artifacts": {"branch_name": f"feature/{number}"}})
    run.active_path.parent.mkdir(parents=True, exist_ok=True)
    run.active_path.write_text(f"{run.run_id}\n")
    run.write(f"code-{number}.py", "x = 1\n")
    commit(run, "Build")
    run.deliver(PRE, **client)
    run.deliver(COMPACT, **client)
    run.write(f"code-{number}.py", "x = 2\n")
    commit(run, "More")
    run.git("push", "--quiet", "--set-upstream", "origin", f"feature/{number}")
    return run


def complete(run: Project, number: int, site: Site) -> None:
    """Complete the run after the merge, and merge the request that cleans up."""
    client = {"client": f"client-{number}", "pid": str(number)}
    run.git("fetch", "--quiet")
    run.deliver(PRE, **client)
    run.deliver(COMPACT, **client)
    run.change_state(status="completed", completed_at="2026-01-06T10:00:00Z")
    run.write(f"reports/{number}.md", "done\n")
    commit(run, "Clean up")
    run.git("push", "--quiet")
    site.merge(f"feature/{number}", number)
    run.deliver(END, **client)


@pytest.mark.long
def test_no_request_conflicts_and_none_has_another_runs_files(team: tuple[list[Project], Site]) -> None:
    developers, site = team
    waiting: list[tuple[Project, int]] = []
    strangers: set[str] = set()
    for number in range(REQUESTS + OPEN_AT_ONCE):
        if number < REQUESTS:
            waiting.append((begin(developers[number % DEVELOPERS], number), number))
        if len(waiting) == OPEN_AT_ONCE or number >= REQUESTS:
            if not waiting:
                break
            run, oldest = waiting.pop(0)
            strangers |= site.merge(f"feature/{oldest}", oldest)
            complete(run, oldest, site)
    assert (site.conflicts, strangers) == ([], set())
    for number in range(REQUESTS):
        assert "session_started" in run_of(site.project, number).types, number
    for developer in developers:
        assert developer.git("status", "--porcelain") == ""
        developer.git("checkout", "--quiet", "main")
