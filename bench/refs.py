"""Measure ledgers that travel in git refs: what git and `sync` do at a remote with many refs, and a ref's size.

By itself, `python bench/refs.py` installs the wheel and prints the rows.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import Process, Row, measure
from stage import RUN_ID, Stage

REFS, SESSIONS = 2_000, 200
QUICK = (50, 5)
GOAL_FETCH, GOAL_PROCESSES, GOAL_SIZE = 1.2, 1.0, 1.5
MOST_PROCESSES = 3  # of git, besides the push
RUN_REF = f"refs/faber-ledger/{RUN_ID}"
IDENTITY = ("-c", "user.name=Bench", "-c", "user.email=bench@example.invalid", "-c", "gc.auto=0")
SESSION = ("session-start", "pre-compact", "session-start (compact)", "post-compact", "session-end")


def measure_refs(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure in copies of the stage's project; its own run is not touched."""
    refs, sessions = QUICK if quick else (REFS, SESSIONS)
    rounds = 3 if quick else 15
    project, remote = copy_project(stage, "carried"), stage.folder / "carried.git"
    agree(stage, project, remote)
    rows = [*measure_hook_end(stage, project, rounds), measure_processes(stage, project)]
    rows.append(measure_size_of_ref(stage, sessions))
    rows += measure_many_refs(stage, project, remote, refs, rounds)
    return rows


def copy_project(stage: Stage, name: str) -> Path:
    """Return a copy of the project, with its run and the clone's log, in which each delivery is new."""
    stage.restore()
    project = stage.folder / name
    shutil.copytree(stage.project, project, symlinks=True)
    return project


def agree(stage: Stage, project: Path, remote: Path) -> None:
    """Add a bare remote to a project; only `sync` sends its ledgers there."""
    git(stage, project, "init", "--quiet", "--bare", str(remote))
    git(stage, project, "remote", "add", "origin", remote.as_uri())
    git(stage, project, "push", "--quiet", "origin", "HEAD:main")
    words = ("init", "--git-only", "--no-pre-commit", "--carry", "refs", "--no-auto-send")
    stage.run_command([stage.command, *words], project)
    stage.run_command([stage.command, "sync"], project)


def measure_hook_end(stage: Stage, project: Path, rounds: int) -> list[Row]:
    """Measure a session's end with git refs against one with the work tree's file, without and with the process."""
    plain = copy_project(stage, "in-the-tree")
    automatic = copy_project(stage, "sending")
    agree(stage, automatic, stage.folder / "sending.git")
    consent = automatic / ".git" / "faber-ledger" / "carry.json"
    consent.write_text(json.dumps({"remote": "origin", "is_automatic": True}))
    rows = []
    for what, one in (("that starts no process", project), ("that starts the process", automatic)):
        row = Row(f"`hook session-end` with git refs, {what}", "`carry: tree`", None)
        for _ in range(rounds):
            seconds = []
            for folder in (plain, one):
                hook(stage, folder, "session-start").output()
                seconds.append(hook(stage, folder, "session-end").seconds())
                stage.run_command([stage.command, "sync"], project) if folder is project else wait(stage, automatic)
            row.add(seconds[1], seconds[0])
        rows.append(row)
    return rows


def wait(stage: Stage, project: Path) -> None:
    """Wait for the process that sends: `sync` gets its lock after it."""
    stage.run_command([stage.command, "sync"], project)


def measure_processes(stage: Stage, project: Path) -> Row:
    """Count the processes of git that send one run, without the push and what that starts, against the most allowed."""
    hook(stage, project, "session-start").output()
    hook(stage, project, "session-end").output()
    verbs = [line for line in started_by_sender(stage, project) if line != "push"]
    what = f"processes of git that send one run, besides the push ({', '.join(verbs)})"
    row, counted = Row(what, f"{MOST_PROCESSES}", GOAL_PROCESSES), len(verbs)
    for _ in range(2):
        row.add((counted, counted), (MOST_PROCESSES, MOST_PROCESSES))
    return row


def started_by_sender(stage: Stage, project: Path) -> list[str]:
    """Return the verbs of the processes of git that the process after a session's end starts itself."""
    folder, git_program = stage.folder / "counted", shutil.which("git")
    folder.mkdir(exist_ok=True)
    calls, wrapper = folder / "calls", folder / "git"
    calls.write_text("")
    wrapper.write_text(f'#!/bin/sh\n[ -n "$COUNTED" ] || echo "$*" >> {calls}\nCOUNTED=1 exec {git_program} "$@"\n')
    wrapper.chmod(0o755)
    environment = stage.environment | {"PATH": f"{folder}:{stage.environment['PATH']}"}
    command = [stage.command, "sync", "--background"]
    subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True, start_new_session=True)
    verbs = ("push", "fetch", "ls-remote", "fast-import", "cat-file", "config", "rev-parse", "update-ref")
    return [next((verb for verb in verbs if verb in line.split()), line) for line in calls.read_text().splitlines()]


def measure_size_of_ref(stage: Stage, sessions: int) -> Row:
    """Compare a ref of many sessions, each sent as one commit, with its events as JSON lines that are not packed."""
    project, remote = copy_project(stage, "sized"), stage.folder / "sized.git"
    agree(stage, project, remote)
    for _ in range(sessions):
        for name in SESSION:
            hook(stage, project, name).output()
        stage.run_command([stage.command, "sync"], project)
    commits = int(git(stage, remote, "rev-list", "--count", RUN_REF))
    git(stage, remote, "gc", "--quiet", "--prune=now")
    command = ["git", "pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset"]
    packed = len(subprocess.run(command, cwd=remote, input=RUN_REF.encode(), check=True, capture_output=True).stdout)
    lines = Process([stage.command, "export", RUN_ID], project, stage.environment).output()
    row = Row(f"a ref of {sessions} sessions in {commits} commits, packed", "JSONL, not packed", GOAL_SIZE)
    for _ in range(2):
        row.add((packed, packed), (len(lines), len(lines)))
    return row


def measure_many_refs(stage: Stage, project: Path, remote: Path, refs: int, rounds: int) -> list[Row]:
    """Measure `git fetch` and `sync` with nothing new at a remote with that many refs, or branches, in both."""
    names = [f"run-{number:05d}" for number in range(refs)]
    head = git(stage, remote, "rev-parse", RUN_REF).strip()
    branches, plain = stage.folder / "branches.git", stage.folder / "branches"
    few, bare = stage.folder / "few", stage.folder / "few.git"
    for repository, clone in ((branches, plain), (bare, few)):
        git(stage, stage.folder, "init", "--quiet", "--bare", str(repository))
        git(stage, project, "push", "--quiet", repository.as_uri(), "HEAD:main")
        git(stage, project, "push", "--quiet", repository.as_uri(), f"{head}:refs/heads/other")
        git(stage, stage.folder, "clone", "--quiet", repository.as_uri(), str(clone))
    set_refs(stage, branches, [f"refs/heads/{name}" for name in names], head)
    git(stage, plain, "fetch", "--quiet")
    set_refs(stage, remote, [f"refs/faber-ledger/{name}" for name in names], head)
    set_refs(stage, project, [f"refs/faber-ledger-remotes/origin/{name}" for name in names], head)
    set_refs(stage, project, [f"refs/faber-ledger/{name}" for name in names], head)
    git(stage, project, "fetch", "--quiet")
    for folder in (project, plain, few, remote, branches):
        git(stage, folder, "pack-refs", "--all")
    fetch = Row(f"`git fetch` with nothing new, {refs:,} refs of runs", f"{refs:,} branches", GOAL_FETCH)
    against_few = Row(f"`git fetch` with nothing new, {refs:,} refs of runs", "2 branches", None)
    sync = Row(f"`sync` with nothing new, {refs:,} refs of runs", "`git fetch` of them", None)
    words = ["git", "fetch", "--quiet"]
    ours = Process(words, project, stage.environment)
    measure(
        [
            (fetch, ours, Process(words, plain, stage.environment)),
            (against_few, ours, Process(words, few, stage.environment)),
            (sync, Process([stage.command, "sync"], project, stage.environment), ours),
        ],
        rounds,
        os.sync,
    )
    return [fetch, against_few, sync]


def set_refs(stage: Stage, repository: Path, names: list[str], commit: str) -> None:
    """Create refs that name one commit."""
    lines = "".join([f"create {name} {commit}\n" for name in names])
    subprocess.run(["git", "update-ref", "--stdin"], cwd=repository, input=lines, text=True, check=True)


COUNT = itertools.count()


def hook(stage: Stage, project: Path, name: str) -> Process:
    """Return a hook of a project, with a delivery that none before was."""
    fields = json.loads(stage.delivery(name).read_text())
    fields |= {"cwd": str(project), "transcript_path": f"/t/{next(COUNT)}"}
    path = stage.folder / "delivery.json"
    path.write_text(json.dumps(fields, separators=(",", ":")) + "\n")
    return Process(stage.hook(name), project, stage.environment | {"CLAUDE_PROJECT_DIR": str(project)}, path)


def git(stage: Stage, cwd: Path, *words: str) -> str:
    """Run git, and return what it prints."""
    return subprocess.check_output(["git", *IDENTITY, *words], cwd=cwd, env=stage.environment, text=True)


def main() -> None:
    """Measure this alone, and print it."""
    from report import list_missed, write_table

    with tempfile.TemporaryDirectory(prefix="faber-ledger-bench-") as folder:
        stage = Stage(Path(folder))
        stage.install(extras="")
        stage.fill()
        rows = measure_refs(stage, quick=sys.argv[1:] == ["--quick"])
    print(f"{write_table(rows)}\n{list_missed(rows)}", end="")


if __name__ == "__main__":
    main()
