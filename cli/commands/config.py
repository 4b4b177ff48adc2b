"""`faber-ledger config show`: the effective configuration of project, run and user, and where it comes from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.ui.output import json_option, show
from faber_ledger.cli.ui.server import list_exposed
from faber_ledger.cli.ui.which_run import match_run, run_argument
from faber_ledger.context.selection import workflow_of
from faber_ledger.context.workflow import lineage
from faber_ledger.files.text import one_line
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.postgres.address import VARIABLE, shown_url
from faber_ledger.runs import state_file
from faber_ledger.runs.active import active_run
from faber_ledger.runs.run import RUNS, Run, find_root
from faber_ledger.runs.settings import NAMES, NEW, PATH, Settings, list_installed, project_settings, read_user_config

if TYPE_CHECKING:
    from faber_ledger.runs.settings import UserConfig


@click.group()
def config() -> None:
    """Show what is configured, and where."""


@config.command("show")
@run_argument
@json_option
def config_show(run: str | None, as_json: bool) -> None:
    """Show the effective configuration and its sources.

    That is: project, run, workflow, settings, plugin roots and commands. The artifacts are those of
    `session-load --dry-run`.

    \b
    Example: faber-ledger config show
    Exit codes: 0 shown, with its problems; 2 wrong usage; 10 no such run.
    """
    data = _read_configuration(find_root(os.getcwd()), run)
    show(data, _lines(data), as_json=as_json)


def _read_configuration(root: str, run_id: str | None) -> dict[str, Any]:
    user = read_user_config()
    active, settings = active_run(root), project_settings(root, os.environ)
    variable = os.environ.get(VARIABLE)
    data: dict[str, Any] = {
        "root": root,
        "active_run": active.run_id,
        "active_run_why": active.why,
        "new_runs": settings.new_runs,
        "new_runs_from": settings.places["new_runs"],
        "project": settings.project,
        "server": shown_url(variable or user["url"] or "") if variable or user["url"] else None,
        "server_from": VARIABLE if variable else user["path"] if user["url"] else None,
        "run": None,
        "user_config": _of_user(root, user),
        "problems": [
            *([user["problem"]] if user["problem"] else []),
            *[f"{user['path']}: {one}" for one in user["unknown"]],
            *list_exposed(user),
            *settings.problems,
        ],
    }
    if active.problem:
        data["problems"].append(active.problem)
    if run_id is not None or active.run_id is not None:
        try:
            run = match_run(root, run_id or active.run_id or "")
        except LedgerError as error:
            if run_id is not None:
                raise
            data["problems"].append(f"the active run: {error.message}")
        else:
            data["run"] = _of_run(run, user["plugin_roots"], data["problems"])
    return data


def _of_user(root: str, user: UserConfig) -> dict[str, Any]:
    return {
        "path": user["path"],
        "exists": os.path.lexists(user["path"]),
        "plugin_roots": [{"path": path, "exists": os.path.isdir(path)} for path in user["plugin_roots"]],
        "commands": user["commands"],
        "url": shown_url(user["url"]) if user["url"] is not None else None,
        "installed_plugins": list(dict.fromkeys([folder for folder, _, _ in list_installed(root)])),
    }


def _of_run(run: Run, plugin_roots: list[str], problems: list[str]) -> dict[str, Any]:
    """Return a run's workflow and settings; what is wrong is added to `problems`."""
    found: dict[str, Any] = {
        "run_id": run.run_id,
        "state": run.shown(run.state_path),
        "workflow_id": None,
        "workflow_path": None,
        "extends": [],
        "artifacts_path": None,
    }
    settings = Settings(run, os.environ)
    found["settings"] = {
        name: {"value": getattr(settings, name), "from": settings.places[name]} for name in NAMES if name != NEW
    }
    found["settings_places"] = [
        f"{PATH} (the project)",
        f"{run.shown(run.settings_path)} (this run)",
        "FABER_LEDGER_<NAME>",
    ]
    problems += [problem for problem in settings.problems if problem not in problems]
    try:
        state = state_file.read_state(run).value
        found["workflow_id"] = state_file.workflow_id_of(run, state)
        workflow = workflow_of(run, state, plugin_roots)
        found["workflow_path"], found["artifacts_path"] = workflow["path"], workflow["artifacts_path"]
        for name, path, _ in lineage(run.root, workflow["id"], plugin_roots):
            found["extends"].append({"id": name, "path": path})
    except LedgerError as error:
        problems.append(error.message)
    return found


def _lines(data: dict[str, Any]) -> Iterator[str]:
    yield f"Project: {data['root']}"
    yield f"Runs: {' or '.join(RUNS)}; new ones: {data['new_runs']} ({data['new_runs_from']})"
    yield f"Project id: {data['project'] or 'none: run `faber-ledger init`'}"
    yield f"Server: {data['server']} ({data['server_from']})" if data["server"] else "Server: none"
    active = data["active_run"]
    yield f"Active run: {one_line(active, 80)} ({data['active_run_why']})" if active else "Active run: none"
    run = data["run"]
    if run:
        yield f"Run: {run['run_id']} ({run['state']})"
        yield f"Workflow: {run['workflow_id'] or '-'} ({run['workflow_path'] or 'cannot be used'})"
        for step in run["extends"][1:]:
            yield f"  extends {step['id']} ({step['path']})"
        yield f"Critical artifacts: {run['artifacts_path'] or '-'}"
        yield "Settings:"
        for name, setting in run["settings"].items():
            yield f"  {name}: {json.dumps(setting['value'])} ({setting['from']})"
        yield f"  to change one: {' or '.join(run['settings_places'])}"
    user = data["user_config"]
    yield f"User configuration: {user['path']}" + ("" if user["exists"] else " (does not exist)")
    for root in user["plugin_roots"]:
        yield f"  plugin root {root['path']}" + ("" if root["exists"] else " (does not exist)")
    for folder in user["installed_plugins"]:
        yield f"  of the client's plugins {folder}"
    for name, program in user["commands"].items():
        yield f"  command {name}: {' '.join(program)}"
    if user["url"] is not None:
        yield f"  server {user['url']}"
    for problem in data["problems"]:
        yield f"Problem: {problem}"
