"""A project that is restored for each case, and checks of what every hook promises."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from support.command import COMMAND, Command
from support.project import ARGUMENTS, Answer, Project, units

from faber_ledger.context.packet import END
from faber_ledger.files.json_text import JsonText
from faber_ledger.files.text import is_hidden
from faber_ledger.recording.call import Call, event_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KINDS = ("SessionStart.startup.print", "PreCompact.auto.print", "PostCompact.auto.print", "SessionEnd.other.print")
OURS = ("sessions", "context_metadata")
KEPT = (".fractary", ".git/faber-ledger")


class Box:
    """A project whose run has a session of the client `one`."""

    def __init__(self, folder: Path) -> None:
        self.project = Project.made(folder / "project")
        self.project.deliver(KINDS[0], client="one", pid="1")
        self._good = folder / "good"
        for name in KEPT:
            shutil.copytree(self.project.root / name, self._good / name)

    def restore(self) -> Project:
        """Restore the project, and return it."""
        for name in KEPT:
            shutil.rmtree(self.project.root / name, ignore_errors=True)
            shutil.copytree(self._good / name, self.project.root / name)
        return self.project

    def deliver(self, recorded: str, content: bytes | None = None) -> Answer:
        """Deliver these bytes, or the recorded ones, and check what holds for every delivery."""
        project = self.project
        usual, environment, event = project.prepared(recorded, client="one", pid="1")
        content = usual if content is None else content
        before = project.state_path.read_bytes()
        argument = ARGUMENTS.get(event, event)
        answer = Answer(*run_forked(["hook", argument], project.root, environment, content))
        check_answer(answer, Call(event_of(argument) or argument, content, environment).hook)
        check_state(before, project.state_path.read_bytes())
        check_leftovers(project)
        return answer


def run_forked(
    arguments: list[str], directory: Path, environment: Mapping[str, str], content: bytes = b""
) -> tuple[int, bytes, bytes]:
    """Run a command or a hook; return its exit code, its output and its errors."""
    pipe = subprocess.PIPE
    with Command(
        [str(COMMAND), *arguments], cwd=directory, env=environment, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        output, errors = process.communicate(content, timeout=60)
    return process.returncode, output, errors


def shows_everything(text: str) -> bool:
    """Return whether no character of a text hides but newlines; one that Unicode has not assigned yet does not."""
    return not any(is_hidden(letter) for letter in text.replace("\n", ""))


def check_answer(answer: Answer, hook: str) -> None:
    """Check that a hook exited with 0, and printed a packet, a hint to the summarizer, or nothing."""
    assert answer.code == 0, answer.errors
    assert "Traceback" not in answer.errors
    assert "a bug in faber-ledger" not in answer.errors, answer.errors
    assert shows_everything(answer.errors)
    if hook == "SessionStart":
        packet = answer.packet
        assert packet is None or (units(packet) <= 9_500 and packet.endswith(END))
    elif hook == "PreCompact":
        assert shows_everything(answer.output.decode())
        assert not answer.output or answer.hint is not None
    else:
        assert answer.output == b""


def check_state(before: bytes, after: bytes) -> None:
    """Check that a readable state.json is readable, with every other member unchanged, and a broken one unchanged."""
    try:
        old = JsonText(before.decode())
    except ValueError:
        assert after == before
        return
    new = JsonText(after.decode())
    assert _others(old) == _others(new)


def _others(document: JsonText) -> dict[str, str]:
    return {name: document.text[start:end] for name, (start, end) in document.spans.items() if name not in OURS}


def check_leftovers(project: Project) -> None:
    """Check that no half-written file is left."""
    left = [path.name for path in project.run.iterdir() if path.name.endswith((".tmp", "-journal", "-wal"))]
    assert left == []
