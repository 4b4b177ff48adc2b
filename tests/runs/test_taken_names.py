"""No later part of a run's id is the name of a file that another run, or its mirror, has beside it."""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path

import pytest
from support.project import Project, usual_state

from faber_ledger.runs.run import is_run_id, is_taken

TOP = Path(__file__).parents[2]
FOLDERS = ("context", "hooks", "ledger", "recording", "runs")
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.(db|jsonl?|lock|tmp|backup|log|txt)")
PLAN = "fractary-faber-258"
FABERS = ".fractary/faber/runs"
# What is joined to a folder that is no run's, nor that of a run's mirror.
OF_GIT = {
    *("FETCH_HEAD", "HEAD", "MERGE_HEAD", "SQUASH_MSG", "applying", "commondir", "config", "gitdir", "heads", "index"),
    *(
        "index.lock",
        "logs",
        "packed-refs",
        "rebase-apply",
        "refs",
        "reftable",
        "remotes",
        "worktrees",
        "faber-ledger-run",
    ),
}
OF_CLONE = {
    *("cleanup.lock", "clients", "doctor", "faber-ledger", "key", "ledgers", "project", "projects", "run-list.json"),
    *("runs", "set-up-checked", "sync", "takeover.lock", "used-runs", "worktrees.json", "worktrees.lock"),
    "writer",
}
OF_PROJECT_AND_USER = {
    *("config.json", "default.json", "faber", "git", "installed_plugins.json", "settings.json", "settings.local.json"),
    *("state", "workflows"),
}
OF_TEMPORARY_FOLDER = {"passing.db", "united.db"}


def constants_of(path: Path) -> dict[str, str]:
    """Return the texts that a module names at its top."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            pairs: list[tuple[ast.expr, ast.expr]] = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=True))
            for name, one in pairs:
                if isinstance(name, ast.Name) and isinstance(one, ast.Constant) and isinstance(one.value, str):
                    found[name.id] = one.value
    return found


def joined_names(path: Path) -> set[str]:
    """Return the names that a module joins to folders, and every text in it that looks like a file's name."""
    tree, known = ast.parse(path.read_text()), constants_of(path)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("faber_ledger."):
            module = (TOP / node.module.removeprefix("faber_ledger.").replace(".", "/")).with_suffix(".py")
            known |= constants_of(module) if module.is_file() else {}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and FILE_NAME.fullmatch(node.value):
            found.add(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.path.join", "self._path", "with_suffix"):
            texts = [one.value for one in node.args if isinstance(one, ast.Constant)]
            found |= {str(one) for one in texts}
            found |= {known[one.id] for one in node.args if isinstance(one, ast.Name) and one.id in known}
    return {name for name in found if re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", name)}


def is_refused(name: str) -> bool:
    """Return whether no new run's id ends with a name."""
    return not is_run_id(f"r/{name}") or is_taken(f"r/{name}")


def test_every_name_that_is_joined_to_a_folder_is_refused_or_known_to_be_elsewhere() -> None:
    elsewhere = OF_GIT | OF_CLONE | OF_PROJECT_AND_USER | OF_TEMPORARY_FOLDER
    found = {name for folder in FOLDERS for path in (TOP / folder).rglob("*.py") for name in joined_names(path)}
    assert {"unaccepted.db", "quarantine.jsonl", "accepted-redactions", "place", "ledger.db", "events"} <= found
    assert {name for name in found - elsewhere if not is_refused(name)} == set()
    assert {name for name in elsewhere if is_refused(name)} == set()


ENDINGS = ["", ".tmp", ".123.tmp"]
OURS = [
    *("unaccepted.db", "quarantine.jsonl", "accepted-redactions", "recorded-alone", "place"),
    "summary-01KE0000000000000000000009",
]
OF_FABER = ["events.jsonl", "plan.json", "events", "session-summaries", "summaries", "inbox"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", OURS)
def test_a_name_of_ours_is_refused_with_its_endings_in_any_case(name: str, ending: str) -> None:
    for one in (name + ending, (name + ending).upper()):
        assert not is_run_id(f"r/{one}")
        assert not is_run_id(f"r/{one}/x")
        assert is_run_id(one)


def test_the_endings_of_sqlite_are_refused() -> None:
    for ending in ("-journal", "-wal", "-shm", ".tmp-journal", ".recovered", ".backup"):
        assert not is_run_id(f"r/unaccepted.db{ending}")
        assert not is_run_id(f"r/ledger.db{ending}")


@pytest.mark.parametrize("name", [*OF_FABER, "Events", "ledger-a.db", "STATE-a.json.tmp", "spool-a"])
def test_a_run_is_not_started_where_another_has_a_file(tmp_path: Path, name: str) -> None:
    project = Project.made(tmp_path / "project")
    (project.run / "events").mkdir()
    run_id = f"{project.run_id}/{name}"
    done = project.faber("run", "start", "--work-id", "1", "--run-id", run_id, "--yes")
    assert done.returncode != 0
    assert "is not the id of a new run" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("fine", ["a/events/1", "a/place-1", "a/summary-1", "a/eventsource", "events/a", "a/spool-x/1"])
def test_other_names_are_free(tmp_path: Path, fine: str) -> None:
    project = Project.made(tmp_path / "project")
    assert project.faber("run", "start", "--work-id", "1", "--run-id", fine, "--yes").returncode == 0
    assert project.faber("verify", fine).stdout == f"{fine}: sound\n"


# A run as FABER's tools have left it, by the path of its state in their folder, and its id.
OLDER = {
    f"{PLAN}/unaccepted.db/state.json": f"{PLAN}-run-unaccepted.db",
    f"{PLAN}/state-quarantine.jsonl.json": f"{PLAN}-run-quarantine.jsonl",
    f"{PLAN}/events/state.json": f"{PLAN}/events",
    f"{PLAN}/state-events.json": f"{PLAN}-run-events",
    f"{PLAN}/session-summaries/state.json": f"{PLAN}-run-session-summaries",
}


@pytest.mark.parametrize("path", OLDER)
def test_a_run_that_is_there_with_such_a_suffix_stays_usable(tmp_path: Path, path: str) -> None:
    project, run_id = Project.made(tmp_path / "project"), OLDER[path]
    shutil.rmtree(project.run.parent)
    project.active_path.unlink()
    other = f"{PLAN}/2026-05-01T08-00-00Z"
    project.write(f"{FABERS}/{path}", json.dumps(usual_state(run_id)))
    project.write(f"{FABERS}/{other}/state.json", json.dumps(usual_state(other)))
    project.git("add", "-A")
    project.git("commit", "--quiet", "-m", "runs")
    done = project.faber("run", "resume", run_id)
    assert done.returncode == 0, done.stdout + done.stderr
    project.deliver("SessionStart.startup.print")
    assert project.faber("note", "add", "decided").returncode == 0
    assert project.faber("verify", run_id).stdout == f"{run_id}: sound\n"
    assert "decided" in project.faber("log", run_id).stdout
    listed = {one["run_id"] for one in json.loads(project.faber("run", "list", "--json").stdout)["data"]}
    assert {run_id, other} <= listed
    done = project.faber("doctor")
    assert "is not a run id" not in done.stdout + done.stderr
    assert "a folder is in the place" not in done.stdout + done.stderr


def test_doctor_names_a_folder_in_the_place_of_a_mirrors_file(tmp_path: Path) -> None:
    project = Project.noted(tmp_path / "project")
    kept = project.root / ".git/faber-ledger/runs" / project.run_id
    assert "a folder is in the place" not in project.faber("doctor").stdout
    (kept / "unaccepted.db").mkdir()
    done = project.faber("doctor")
    assert "a folder is in the place of" in done.stdout
    assert done.returncode != 0
