"""The demo's story: one run, two machines, a compaction, a kill and a resume. Its commands are really run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from faber_ledger.cli.demo.machine import Machine

WORKFLOW_PROTOCOL = "plugins/faber/docs/workflow-orchestration-protocol.md"
PROTOCOL = """\
# Workflow orchestration protocol

1. Work through the phases in their order: frame, architect, build, evaluate, release.
2. After each step write its result into `state.json`, and commit.
3. Never release without an approval.
"""
SPECIFICATION = """\
# Export reports as CSV

`export(rows)` gives one line a row, fields separated by commas, and quotes a field that holds a comma or a quote.
"""
GIT_CONFIG = """\
[user]
\tname = Demo
\temail = demo@example.invalid
[init]
\tdefaultBranch = main
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""


def surroundings(folder: str) -> dict[str, str]:
    """Return the variables of the demo's commands: the caller's git settings, client and home do not reach them."""
    with open(os.path.join(folder, ".gitconfig"), "w", encoding="utf-8") as file:
        file.write(GIT_CONFIG)
    foreign = ("GIT_", "CLAUDE", "FABER_LEDGER_", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    program = os.path.dirname(os.path.abspath(sys.argv[0]))
    return kept | {
        "HOME": folder,
        "PATH": program + os.pathsep + kept.get("PATH", os.defpath),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
        "PYTHONUTF8": "1",
    }


def tell_story(folder: str, tell: Callable[[str], None]) -> tuple[Machine, Machine]:
    """Play the story in an empty folder up to the run's end; returns laptop and desktop. Raises StepFailed."""
    environment = surroundings(folder)
    laptop = Machine("laptop", 26210, environment, tell)
    desktop = Machine("desktop", 30728, environment, tell)

    tell("1. A project with the hooks in its settings, and a clone of it on each machine")
    laptop.run("git", "init", "--bare", "../origin.git", quiet=True)
    laptop.clone("../origin.git", "myproject")
    laptop.write(WORKFLOW_PROTOCOL, PROTOCOL)
    laptop.run("faber-ledger", "init", shown=slice(2))
    laptop.commit("Set up faber-ledger")
    desktop.clone("../origin.git", "myproject")

    tell("\n2. A run starts on the laptop. The client starts, and its SessionStart hook gives the agent the context")
    started = laptop.run("faber-ledger", "run", "start", "--work-id", "258", "--target", "CSV export", shown=slice(4))
    run_id = started.split()[3]
    laptop.deliver("startup")

    tell("\n3. The agent works through Frame and Architect, and writes the specification")
    spec = "specs/SPEC-258-csv-export.md"
    laptop.write(spec, SPECIFICATION)
    laptop.complete("frame", "architect", current_phase="build", artifacts={"spec_path": spec})
    laptop.commit("Specify the CSV export")

    tell("\n4. In the middle of Build the context is full: the client compacts it, and the agent gets it back")
    laptop.deliver("compacting")
    laptop.deliver("compact")
    laptop.deliver("compacted")

    tell("\n5. Build is done and pushed. Then the client is killed, and no SessionEnd hook is called")
    laptop.write("export.py", "def export(rows): ...\n")
    laptop.complete("build", current_phase="evaluate")
    laptop.commit("Build the CSV export")
    left_open = laptop.state()["sessions"]["current_session_id"].rpartition("-")[2]
    tell(f"   laptop  no hook ended the session: state.json still has {left_open} open")

    tell("\n6. On the desktop the run continues, with the same context")
    desktop.run("git", "pull", shown=slice(1))
    desktop.run("faber-ledger", "run", "resume", run_id, shown=slice(1))
    desktop.deliver("resume")

    tell("\n7. Evaluate and Release are done there, and the user leaves the client")
    desktop.write("CHANGELOG.md", "- Reports can be exported as CSV.\n")
    desktop.complete("evaluate", "release", status="completed")
    desktop.deliver("exit")
    desktop.commit("Release the CSV export")
    return laptop, desktop
