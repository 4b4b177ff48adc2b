"""Clones of one repository whose ledgers travel in git refs, beside a bare remote on the same disk."""

from __future__ import annotations

from pathlib import Path

from faber_ledger.runs.clone import note_use
from support.project import RUN, Project

REMOTE = "remote.git"
REF = f"refs/faber-ledger/{RUN}"
FETCHED = f"refs/faber-ledger-remotes/origin/{RUN}"


def carry_refs(project: Project) -> str:
    """Let a project's ledgers travel in git refs, and this clone send them to `origin`, by commands alone."""
    return project.said("init", "--git-only", "--carry", "refs", "--no-auto-send")


def first_clone(root: Path) -> Project:
    """Make the bare remote, and the project with a run in it, set up and pushed."""
    project = Project.made(root)
    project.git("clone", "--quiet", "--bare", ".", f"../{REMOTE}")
    project.git("remote", "add", "origin", f"../{REMOTE}")
    carry_refs(project)
    project.commit("Set up")
    project.git("push", "--quiet", "origin", "main")
    return project


def another_clone(first: Project, name: str) -> Project:
    """Clone the remote as on another machine, and fetch the run, which is resumed there."""
    root = first.root.parent / name
    first.git("clone", "--quiet", f"../{REMOTE}", str(root))
    clone = Project(root, first.run_id, name)
    clone.git("remote", "set-url", "origin", f"../{REMOTE}")  # the folder may be copied
    carry_refs(clone)
    clone.write(".fractary/faber/.active-run-id", f"{first.run_id}\n")
    note_use(str(root), first.run_id, is_taken_up=True)
    sync(clone)
    return clone


def sync(project: Project, code: int = 0) -> str:
    """Exchange the clone's runs with the remote; return what was said."""
    return project.said("sync", project.run_id, code=code)


def at_remote(project: Project, *arguments: str) -> str:
    """Ask git at the remote."""
    return project.git("-C", f"../{REMOTE}", *arguments)
