"""What hooks do, in figures that repeat: how much of our code runs, and which system calls it makes.

`calls` are of our functions, module and class bodies included; comprehensions, which newer versions of Python inline,
are not counted. A `change of module` is a call into another of our modules than the call before. System calls are those
of the hook's own process, without git's, on the project, on the home and on our modules. What Python does to start and
to find its standard library is left out, and so are the folders above: those depend on the machine.

`python -m support.ratchet` writes the figures.
"""

from __future__ import annotations

import compileall
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faber_ledger
from faber_ledger.ledger.clock import event_id
from faber_ledger.ledger.log import Log
from support.folders import move_to_memory
from support.project import ARGUMENTS, PROTOCOL, Project
from support.sample_log import START, WRITER, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.ledger.events import Draft

FIGURES = Path(__file__).parents[1] / "hooks" / "ratchet.json"
OLDEST_PYTHON = (3, 11)  # newer ones make fewer calls
TOLERANCE = {"bytes written": 64}  # notes hold inode numbers and times, which have more digits or fewer
PATH_LENGTH = 120  # of the folder of a scene: paths are recorded
LONG_LOG = 5_000_000
PACKAGE = Path(faber_ledger.__file__).parent
OURS = [PACKAGE, *[folder.resolve() for folder in PACKAGE.iterdir() if folder.is_dir()]]
SPECIFICATION = "specs/WORK-00258-session-ledger.md"
PARAGRAPH = "The agent reads this again at each session's start, so that it goes on where it was. " * 4
STAT = {"stat", "lstat", "fstat", "newfstatat", "statx"}
OPEN = {"open", "openat"}
PROCESS = {"fork", "vfork", "clone", "clone3"}
SYNC = {"fsync", "fdatasync"}
RENAME = {"rename", "renameat", "renameat2"}
WRITE = {"write", "pwrite64", "writev", "copy_file_range", "sendfile"}
COUNTED = {"stat calls": STAT, "files opened": OPEN, "processes started": PROCESS, "fsyncs": SYNC, "renames": RENAME}
LINE = re.compile(r"(\w+)\((.*)\) += (-?\d+)")
PLACE = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>)?(?:, )?(?:"([^"]*)")?')
DESCRIPTOR = re.compile(r"\d+<([^>]*)>")

PYTHON = ("modules", "calls", "changes of module")  # as `counted_hook` prints them

Figures = dict[str, dict[str, int]]


def measure() -> Figures:
    """Return the figures of each hook of a small session, and of starts in other scenes; without strace, ours alone."""
    for folder in OURS:  # a hook that has to write bytecode files does more than the next
        compileall.compile_dir(folder, quiet=2)
    found: Figures = {}
    for scene in (_small, _long, _pulled):
        with tempfile.TemporaryDirectory(prefix="faber-ledger-") as temporary:
            found |= scene(_padded(Path(temporary).resolve()))
    return found


def read_figures() -> Figures:
    """Return the figures that were recorded."""
    found: Figures = json.loads(FIGURES.read_text())
    return found


def list_changes(before: Figures, after: Figures) -> tuple[list[str], list[str]]:
    """Return which figures rose and which fell, one line each."""
    rose, fell = [], []
    for scene, figures in after.items():
        for name, figure in figures.items():
            was = before.get(scene, {}).get(name, 0)
            line = f"{scene}: {name}: {was:,} -> {figure:,}"
            if figure > was + TOLERANCE.get(name, 0):
                rose.append(line)
            elif figure < was - TOLERANCE.get(name, 0):
                fell.append(line)
    return rose, fell


class _Scene:
    """A project whose hooks are counted."""

    def __init__(self, project: Project) -> None:
        self.project = project

    @classmethod
    def made(cls, root: Path) -> _Scene:
        """Make a project with a protocol and a specification to load, and a run that has one ended session."""
        project = Project.made(root)
        for name, paragraphs in ((PROTOCOL, 6), (SPECIFICATION, 12)):
            project.write(name, f"# {name}\n\n" + f"{PARAGRAPH}\n\n" * paragraphs)
        project.change_state(artifacts={"spec_path": SPECIFICATION})
        scene = cls(project)
        project.write(".fractary/.gitignore", "faber/.active-run-id\n")
        scene.commit()
        return scene

    def commit(self) -> None:
        self.project.commit()

    def record_session(self, client: str) -> None:
        """Record a session, start and end."""
        for recorded in ("SessionStart.startup.print", "SessionEnd.other.print"):
            self.count(recorded, client)

    def count(self, recorded: str, client: str) -> dict[str, int]:
        """Deliver a recorded payload to a hook; return its figures."""
        project = self.project
        content, variables, event = project.prepared(recorded, client=client)
        kept = ("CLAUDE", "FABER_LEDGER_", "HOME", "PATH", "XDG_CONFIG_HOME")
        variables = {name: value for name, value in variables.items() if name.startswith(kept)}
        outside = project.root.parent.parent
        figures, trace = outside / "figures", outside / "trace"
        script = Path(__file__).with_name("counted_hook.py")
        python: list[str | Path] = [sys.executable, "-I", "-S", script, PACKAGE.parent, figures]
        command = [*python, ARGUMENTS[event]]
        strace = shutil.which("strace")
        if strace:
            names = ",".join(f"?{name}" for name in sorted({*itertools.chain(*COUNTED.values()), *WRITE}))
            command[:0] = [strace, "-o", trace, "-y", "-s", "0", "-e", "signal=none", "-e", f"trace={names}"]
        done = subprocess.run(command, cwd=project.root, env=variables, input=content, capture_output=True, check=True)
        assert not done.stderr, done.stderr
        counted = dict(zip(PYTHON, map(int, figures.read_text().split()), strict=True))
        return counted | (_count_calls(trace, project.root) if strace else {})


def _small(folder: Path) -> Figures:
    """Count the hooks of the second session of a small run."""
    scene = _Scene.made(folder / "project")
    scene.record_session("first")
    session = {
        "session-start": "SessionStart.startup.print",
        "pre-compact": "PreCompact.auto.print",
        "session-start (compact)": "SessionStart.compact.print",
        "post-compact": "PostCompact.auto.print",
        "session-end": "SessionEnd.other.print",
    }
    return {name: scene.count(recorded, "second") for name, recorded in session.items()}


def _long(folder: Path) -> Figures:
    """Count a start on a log of 5 MB."""
    scene = _Scene.made(folder / "project")
    ledger = scene.project.ledger_path
    with Log.open(str(ledger)) as log:
        log.append(_drafts(), at=START, writer=WRITER)
        log.commit()
    assert LONG_LOG <= ledger.stat().st_size < 1.1 * LONG_LOG, ledger.stat().st_size
    assert scene.project.faber("project").returncode == 0
    scene.record_session("first")
    return {"session-start on a log of 5 MB": scene.count("SessionStart.startup.print", "second")}


def _pulled(folder: Path) -> Figures:
    """Count a start right after a pull, in a clone that has recorded before."""
    first = _Scene.made(folder / "project")
    assert first.project.faber("init", "--git-only").returncode == 0
    first.record_session("first")
    first.commit()
    second = _Scene(first.project.clone(folder / "clone", "dev-machine-2"))
    assert second.project.faber("init", "--git-only").returncode == 0
    second.record_session("second")
    second.commit()
    first.project.git("pull", "--quiet", "--ff-only", str(second.project.root), "main")
    first.record_session("third")
    first.commit()
    second.project.git("pull", "--quiet", "--ff-only")
    return {"session-start after a pull": second.count("SessionStart.startup.print", "fourth")}


def _drafts() -> Iterator[Draft]:
    """Yield the events of forty sessions, with 240 loads each."""
    for number in range(40):
        session_id = f"claude-session-20260105-143022-{number:06d}"
        events: list[dict[str, object]] = [
            {
                "type": "session_started",
                "source": "startup",
                "environment": environment("dev-machine-1"),
                "phase": "build",
                "step": "implement",
                "phases_completed": ["frame", "architect"],
                "empties_context": True,
                "pid": "4711",
            },
            *[
                {
                    "type": "artifact_loaded",
                    "artifact_id": f"artifact-{load % 8}",
                    "trigger": "session_start",
                    "source": f"docs/artifact-{load % 8}.md",
                    "size_bytes": 2048,
                    "sha256": f"{load:064x}",
                    "given": "inline",
                }
                for load in range(240)
            ],
            {
                "type": "session_ended",
                "reason": "normal",
                "client_reason": "other",
                "inferred": False,
                "phase": "build",
                "step": "implement",
                "phases_completed": ["frame", "architect"],
            },
        ]
        for place, fields in enumerate(events):
            event: Any = {**fields, "session_id": session_id}
            name = event_id(START + 1000 * number + place, bytes(10))  # in order: SQLite's pages are filled alike
            yield {"id": name, "event": event, "client": f"client-{number}"}


def _padded(folder: Path) -> Path:
    """Return a new folder below it whose path has `PATH_LENGTH` characters."""
    missing = PATH_LENGTH - len(str(folder)) - 1
    assert missing > 0, f"the path of the temporary folder is too long: {folder}"
    padded = folder / ("x" * missing)
    padded.mkdir()
    return padded


def _count_calls(trace: Path, project: Path) -> dict[str, int]:
    """Count the system calls in a trace by a hook of a project."""
    counts = dict.fromkeys([*COUNTED, "bytes written"], 0)
    places = [str(place) for place in (project.parent, *OURS)]
    for line in trace.read_text(errors="replace").splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        call, arguments, result = match.groups()
        if call in WRITE:
            files = DESCRIPTOR.findall(arguments)
            if files[call == "copy_file_range"].startswith(places[0]):
                counts["bytes written"] += max(int(result), 0)
            continue
        kind = next(kind for kind, calls in COUNTED.items() if call in calls)
        if call not in PROCESS:
            directory, name = PLACE.match(arguments).groups(default="")  # type: ignore[union-attr]  # it matches nothing, too
            path = os.path.normpath(os.path.join(directory or project, name))
            if not any(path == place or path.startswith(f"{place}/") for place in places):
                continue
            if call in OPEN and int(result) < 0:
                continue
        counts[kind] += 1
    return counts


def main() -> None:
    """Write the figures."""
    move_to_memory()  # as the tests: a hook asks what kind of file system the run is on
    if sys.version_info[:2] != OLDEST_PYTHON:
        sys.exit(f"the figures are those of Python {'.'.join(map(str, OLDEST_PYTHON))}")
    if shutil.which("strace") is None:
        sys.exit("strace is not installed: `apt-get install strace`")
    found = measure()
    rose, fell = list_changes(read_figures() if FIGURES.exists() else {}, found)
    FIGURES.write_text(json.dumps(found, indent=2) + "\n")
    sys.stdout.write("".join([f"{line}\n" for line in [*rose, *fell]]))


if __name__ == "__main__":
    main()
