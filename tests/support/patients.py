"""Projects for `doctor`: a healthy one, copied for each test, and the faults that the checks must find."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

from faber_ledger.runs.layouts import find_run
from support.command import COMMAND, run_command
from support.forging import forge
from support.inbox import leave
from support.project import RUN, Project, payload_of, usual_state
from support.redacting import redact

SETTINGS = ".claude/settings.json"
WORKFLOW = "plugins/faber/config/workflows/default.json"


class Patient(Project):
    """A project with the program on PATH."""

    def environment(self, more: Any = None) -> dict[str, str]:
        path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
        quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        return super().environment({"PATH": path, **quiet, **(more or {})})

    @property
    def home(self) -> Path:
        return Path(self.environment()["HOME"])

    def settings(self, change: Any, path: str = SETTINGS) -> None:
        """Change a settings file as JSON."""
        file = self.root / path
        values = json.loads(file.read_text()) if file.exists() else {}
        change(values)
        self.write(path, json.dumps(values, indent=2))

    def doctor(self, *arguments: str, code: int | None = None, cwd: Path | None = None) -> dict[str, Any]:
        """Run doctor and return its data; check that it does not crash."""
        done = self.call("doctor", "--json", *arguments, cwd=cwd)
        assert done.returncode in (0, 23), done.stderr
        assert code is None or done.returncode == code, done.stdout
        repairs = ("is made again", "the ledger's values hold")  # what a repaired run reports
        assert done.stderr == "" or any([one in done.stderr for one in repairs]), done.stderr
        data: dict[str, Any] = json.loads(done.stdout)["data"]
        return data

    def call(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        done = run_command(
            [COMMAND, *arguments],
            cwd=cwd or self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )
        assert "Traceback" not in done.stderr
        return done

    def problems(self, *arguments: str) -> dict[str, list[dict[str, Any]]]:
        """Run doctor and return the findings that are not `ok`, by check."""
        return problems_of(self.doctor(*arguments))

    def snapshot(self) -> dict[str, tuple[int, int, bytes]]:
        """Return the mode, time and content of everything below the project, its git directory and folders included.

        The clone's own folder is left out: every command absorbs what a work tree's ledger has into the log there.
        """
        found = {}
        own = self.root / ".git/faber-ledger"
        for path in [self.root, *sorted(self.root.rglob("*"))]:
            if path == own or own in path.parents:
                continue
            status = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
        return found


def problems_of(data: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the findings that are not `ok`, by check."""
    found = {one["check"]: [item for item in one["findings"] if item["level"] != "ok"] for one in data["checks"]}
    return {name: items for name, items in found.items() if items}


def make_healthy(root: Path) -> Patient:
    """Make a healthy project: set up, committed, with an open session of an active run."""
    Project.made(root, usual_state())
    patient = Patient(root)
    assert patient.faber("init").returncode == 0
    patient.deliver("SessionStart.startup.print")
    patient.commit("Set up")
    return patient


def copied(patient: Patient, root: Path) -> Patient:
    """Copy a project and its git directory."""
    shutil.copytree(patient.root, root, symlinks=True)
    return Patient(root)


def another_run(patient: Patient, run_id: str, **state: Any) -> Path:
    """Add a run that other tools have made."""
    folder = patient.root / ".fractary" / "runs" / run_id
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({**usual_state(run_id), **state}))
    return folder


def hooks_of(values: dict[str, Any], event: str) -> Any:
    return values["hooks"][event]


# The faults: each makes one check report it.


def _no_hooks(patient: Patient) -> None:
    (patient.root / SETTINGS).unlink()


def _one_hook_missing(patient: Patient) -> None:
    patient.settings(lambda values: values["hooks"].pop("PostCompact"))


def _with_a_matcher(patient: Patient) -> None:
    patient.settings(lambda values: hooks_of(values, "SessionStart")[0].update(matcher="compact"))


def _a_slash_command(patient: Patient) -> None:
    group = {"hooks": [{"type": "command", "command": "/fractary-faber:session-end --reason normal"}]}
    patient.settings(lambda values: hooks_of(values, "SessionEnd").append(group))


def _no_time(patient: Patient) -> None:
    patient.settings(lambda values: hooks_of(values, "SessionEnd")[0]["hooks"][0].pop("timeout"))


def _an_agent_with_one_hook(patient: Patient) -> None:
    hook = {"type": "command", "command": "faber-ledger hook --agent codex session-start"}
    patient.write(".codex/hooks.json", json.dumps({"hooks": {"SessionStart": [{"hooks": [hook]}]}}))


def _not_json(patient: Patient) -> None:
    patient.write(SETTINGS, '{"hooks": {')


def _all_off(patient: Patient) -> None:
    patient.settings(lambda values: values.update(disableAllHooks=True))


def _a_failure(patient: Patient) -> None:
    patient.active_path.unlink()
    patient.deliver("SessionStart.startup.print")  # this line is not a failure
    patient.active_path.write_text(f"{RUN}\n")
    ledger = patient.ledger_path.read_bytes()
    patient.ledger_path.write_bytes(b"no ledger")
    patient.deliver("SessionStart.startup.print")
    patient.ledger_path.write_bytes(ledger)


def _written_over(patient: Patient) -> None:
    patient.change_state(sessions={**patient.state["sessions"], "another": "tool"})
    patient.deliver("PreCompact.auto.print")


def _a_warning(patient: Patient) -> None:
    artifact = {"id": "odd", "type": "markdown", "path": "odd.md", "condition": "odd +"}
    patient.write(WORKFLOW, json.dumps({"critical_artifacts": {"conditional_load": [artifact]}}))
    patient.deliver("SessionStart.startup.print")


def _required_artifact_missing(patient: Patient) -> None:
    artifact = {"id": "plan", "type": "markdown", "path": "PLAN.md", "required": True}
    patient.write(WORKFLOW, json.dumps({"critical_artifacts": {"always_load": [artifact]}}))


def _twice_delivered(patient: Patient) -> None:
    for _ in range(2):
        patient.deliver("SessionStart.startup.print", client="5c1e")


def _a_delivery_waited(patient: Patient) -> None:
    patient.refuse()
    patient.deliver("SessionStart.startup.print")
    patient.relent()
    assert patient.faber("project").returncode == 0


def _a_delivery_waits(patient: Patient) -> None:
    run = find_run(str(patient.root), RUN)
    leave(run)


def _no_drivers(patient: Patient) -> None:
    patient.git("config", "--local", "--remove-section", "merge.faber-ledger")


def _no_stash(patient: Patient) -> None:
    patient.git("config", "--local", "--unset", "merge.autoStash")


def _no_attributes(patient: Patient) -> None:
    (patient.root / ".fractary" / ".gitattributes").unlink()


def _older_attributes(patient: Patient) -> None:
    path = patient.root / ".fractary" / ".gitattributes"
    path.write_text("mine -text\n" + path.read_text().replace("diff=faber-ledger", ""))


def _no_ignore(patient: Patient) -> None:
    (patient.root / ".fractary" / ".gitignore").unlink()


def _ignored(patient: Patient) -> None:
    patient.write(".gitignore", "*.db\n")


def _tracked_backup(patient: Patient) -> None:
    patient.write(f".fractary/runs/{RUN}/state.json.backup", "{}")
    patient.git("add", "--force", f".fractary/runs/{RUN}/state.json.backup")


def _no_consent(patient: Patient) -> None:
    patient.settings(lambda values: values.update(carry="refs"), ".fractary/faber/ledger.json")


def _a_run_that_is_not_here(patient: Patient) -> None:
    patient.active_path.write_text("myproject-9-20260101-000000-aaaaaa\n")


def _not_utf_8(patient: Patient) -> None:
    patient.active_path.write_bytes(b"\xff\xfe")


def _no_run_id(patient: Patient) -> None:
    patient.active_path.write_text("../../etc\n")


def _a_folder_for_the_active_file(patient: Patient) -> None:
    patient.active_path.unlink()
    patient.active_path.mkdir()


def _nothing_active(patient: Patient) -> None:
    another_run(patient, "other-1")
    patient.commit("Two runs")
    patient.active_path.unlink()


def _unwritable_state(patient: Patient) -> None:
    patient.state_path.chmod(0o444)


def _unusable_folder(patient: Patient) -> None:
    (patient.root / ".fractary" / "faber").chmod(0o555)


def _backup_of_a_finished_run(patient: Patient) -> None:
    (another_run(patient, "other-1", status="completed") / "state.json.backup").write_text("{}")


def _newer_format(patient: Patient) -> None:
    content = bytearray(patient.ledger_path.read_bytes())
    content[60:64] = (99).to_bytes(4, "big")
    patient.ledger_path.write_bytes(bytes(content))


def _changed_payload(patient: Patient) -> None:
    content = patient.ledger_path.read_bytes()
    assert content.count(b'"dev-machine-1"') >= 1
    patient.ledger_path.write_bytes(content.replace(b'"dev-machine-1"', b'"dev-machine-2"', 1))


def _forged_log(patient: Patient) -> None:
    forge(patient.clones_log, "UPDATE event SET writer = 'somebody' WHERE seq = 2")


def _rolled_back(patient: Patient) -> None:
    before, state = patient.ledger_path.read_bytes(), patient.state_path.read_bytes()
    client = payload_of("SessionStart.startup.print")["stdin"]["session_id"]
    patient.deliver("SessionEnd.prompt_input_exit.interactive", client=client)
    patient.ledger_path.write_bytes(before)
    patient.state_path.write_bytes(state)


def _redacted_elsewhere(patient: Patient) -> None:
    note = next(one["id"] for one in patient.events if one["event"]["type"] == "artifact_loaded")
    redact(str(patient.ledger_path), note)


def _ledger_gone(patient: Patient) -> None:
    patient.ledger_path.unlink()


def _state_changed(patient: Patient) -> None:
    patient.change_state(sessions={**patient.state["sessions"], "total_sessions": 7})


def _state_broken(patient: Patient) -> None:
    shutil.copyfile(patient.state_path, f"{patient.state_path}.backup")
    patient.put_state("{")


def _no_workflow(patient: Patient) -> None:
    another_run(patient, "other-1", workflow_id="project:missing")


def _reloads_in_build(patient: Patient) -> None:
    step = {"id": "auto-reload-context", "prompt": "/fractary-faber:prime-context"}
    phases = {"frame": {"pre_steps": [step]}, "build": {"pre_steps": [step]}}
    patient.write(".fractary/faber/workflows/mine.json", json.dumps({"id": "mine", "phases": phases}))
    another_run(patient, "other-1", workflow_id="project:mine")


def _wrong_configuration(patient: Patient) -> None:
    patient.write(".fractary/faber/ledger.json", '{"packet_budget": 3}')


FAULTS = {
    "no hooks": ("hooks.installed", "warning", _no_hooks),
    "one hook missing": ("hooks.installed", "warning", _one_hook_missing),
    "with a matcher": ("hooks.settings", "warning", _with_a_matcher),
    "a slash command": ("hooks.settings", "warning", _a_slash_command),
    "no time": ("hooks.settings", "warning", _no_time),
    "an agent with one hook": ("hooks.agents", "warning", _an_agent_with_one_hook),
    "not JSON": ("hooks.settings", "error", _not_json),
    "all off": ("hooks.settings", "error", _all_off),
    "1 delivery that waited": ("hooks.log", "note", _a_delivery_waited),
    "a failure": ("hooks.log", "warning", _a_failure),
    "written over": ("hooks.log", "note", _written_over),
    "a warning": ("hooks.log", "note", _a_warning),
    "twice delivered": ("hooks.once", "note", _twice_delivered),
    "1 delivery waiting": ("hooks.waiting", "warning", _a_delivery_waits),
    "no drivers": ("git.drivers", "warning", _no_drivers),
    "no stash": ("git.drivers", "warning", _no_stash),
    "no attributes": ("git.lines", "warning", _no_attributes),
    "older attributes": ("git.lines", "warning", _older_attributes),
    "no ignore": ("git.lines", "warning", _no_ignore),
    "ignored": ("git.travels", "error", _ignored),
    "tracked backup": ("git.stays", "warning", _tracked_backup),
    "ledgers that nobody sends": ("git.carry", "warning", _no_consent),
    "a run that is not here": ("runs.active", "error", _a_run_that_is_not_here),
    "not UTF-8": ("runs.active", "error", _not_utf_8),
    "not a run id": ("runs.active", "error", _no_run_id),
    "a folder for the active file": ("runs.active", "error", _a_folder_for_the_active_file),
    "nothing active": ("runs.active", "note", _nothing_active),
    "unwritable state": ("files.permissions", "error", _unwritable_state),
    "unusable folder": ("files.permissions", "error", _unusable_folder),
    "backup of a finished run": ("runs.backups", "warning", _backup_of_a_finished_run),
    "newer format": ("ledger.sound", "error", _newer_format),
    "forged log": ("ledger.sound", "error", _forged_log),
    "changed payload": ("ledger.sound", "warning", _changed_payload),
    "rolled back": ("ledger.sound", "warning", _rolled_back),
    "redacted elsewhere": ("ledger.set_aside", "note", _redacted_elsewhere),
    "ledger gone": ("ledger.sound", "warning", _ledger_gone),
    "state changed": ("ledger.sound", "error", _state_changed),
    "state broken": ("ledger.sound", "error", _state_broken),
    "no workflow": ("workflow.usable", "warning", _no_workflow),
    "required artifact missing": ("workflow.artifacts", "warning", _required_artifact_missing),
    "reloads in build": ("workflow.usable", "warning", _reloads_in_build),
    "wrong configuration": ("workflow.configuration", "warning", _wrong_configuration),
}
