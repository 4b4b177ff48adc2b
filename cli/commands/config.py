"""`faber-ledger config show`: the effective configuration of project, run and user, and where it comes from."""

import json
import os
from collections.abc import Iterator
from typing import Any

import click

from faber_ledger.cli.ui.output import json_option, show
from faber_ledger.cli.ui.server import list_exposed
from faber_ledger.cli.ui.which_run import match_run, run_argument
from faber_ledger.context.workflow import lineage
from faber_ledger.files.text import one_line
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.postgres.address import VARIABLE, shown_url
from faber_ledger.runs import state_file
from faber_ledger.runs.active import active_run
from faber_ledger.runs.run import RUNS, Run, find_root
from faber_ledger.runs.settings import NAMES, NEW, PATH, Settings, list_installed, project_settings, read_user_config


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
    user, active, settings = read_user_config(), active_run(root), project_settings(root, os.environ)
    url, variable = user["url"], os.environ.get(VARIABLE)
    problems = [
        *([user["problem"]] if user["problem"] else []),
        *[f"{user['path']}: {one}" for one in user["unknown"]],
        *list_exposed(user),
        *settings.problems,
        *([active.problem] if active.problem else []),
    ]
    run = None
    if run_id is not None or active.run_id is not None:
        try:
            run = _of_run(match_run(root, run_id or active.run_id or ""), user["plugin_roots"], problems)
        except LedgerError as error:
            if run_id is not None:
                raise
            problems.append(f"the active run: {error.message}")
    return {
        "root": root,
        "active_run": active.run_id,
        "active_run_why": active.why,
        "new_runs": settings.new_runs,
        "new_runs_from": settings.places["new_runs"],
        "project": settings.project,
        "server": shown_url(variable or url or "") if variable or url else None,
        "server_from": VARIABLE if variable else user["path"] if url else None,
        "run": run,
        "user_config": {name: user[name] for name in ("path", "plugin_roots", "commands")},
        "installed_plugins": list(dict.fromkeys([folder for folder, _, _ in list_installed(root)])),
        "problems": problems,
    }


def _of_run(run: Run, plugin_roots: list[str], problems: list[str]) -> dict[str, Any]:
    """Return a run's workflow and settings; what is wrong is added to `problems`."""
    settings = Settings(run, os.environ)
    problems += [problem for problem in settings.problems if problem not in problems]
    workflows: list[dict[str, str]] = []
    try:
        workflow_id = state_file.workflow_id_of(run, state_file.read_state(run).value)
        for name, path, _ in lineage(run.root, workflow_id, plugin_roots):
            workflows.append({"id": name, "path": path})  # one by one: those before a problem are shown
    except LedgerError as error:
        problems.append(error.message)
    return {
        "run_id": run.run_id,
        "state": run.shown(run.state_path),
        "workflows": workflows,
        "settings": {
            name: {"value": getattr(settings, name), "from": settings.places[name]} for name in NAMES if name != NEW
        },
        "settings_places": [PATH, run.shown(run.settings_path), "FABER_LEDGER_<NAME>"],
    }


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
        for number, one in enumerate(run["workflows"]):
            yield f"{'  extends' if number else 'Workflow:'} {one['id']} ({one['path']})"
        yield "Settings:"
        for name, setting in run["settings"].items():
            yield f"  {name}: {json.dumps(setting['value'])} ({setting['from']})"
        yield f"  to change one: {' or '.join(run['settings_places'])}"
    user = data["user_config"]
    yield f"User configuration: {user['path']}"
    yield from [f"  plugin root {root}" for root in user["plugin_roots"]]
    yield from [f"  command {name}: {' '.join(program)}" for name, program in user["commands"].items()]
    yield from [f"Plugin of the client: {folder}" for folder in data["installed_plugins"]]
    yield from [f"Problem: {problem}" for problem in data["problems"]]
