"""Run the command in a process at the cost of a fork: a worker has imported everything, and forks for each case.

Each case is a real process with its own standard streams, environment, directory and exit code. It saves only the start
of the interpreter.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SECONDS = 60  # a process that hangs is killed, and its signal is the exit code
IMPORTED = (
    "cli.app",
    "cli.commands.export",
    "cli.commands.import_events",
    "cli.entry",
    "context.notes",
    "context.packet",
    "context.reload",
    "hooks.hook",
    "hooks.main",
    "ledger.importing",
    "recording.recording",
    "runs.projecting",
    "schemas.events",
)


class Forks:
    """The worker, as the tests use it."""

    def __enter__(self) -> Forks:
        self._worker = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.communicate()

    def run(
        self, arguments: list[str], directory: Path, environment: Mapping[str, str], content: bytes = b""
    ) -> tuple[int, bytes, bytes]:
        """Run `faber-ledger`; return its exit code, negative for a signal, its output and its errors."""
        case = {
            "arguments": arguments,
            "directory": str(directory),
            "environment": dict(environment),
            "content": base64.b64encode(content).decode(),
        }
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(json.dumps(case).encode() + b"\n")
        self._worker.stdin.flush()
        done = json.loads(self._worker.stdout.readline())
        return done["code"], base64.b64decode(done["output"]), base64.b64decode(done["errors"])


def _work() -> None:
    """Read cases, one per line, fork for each, and answer each with a line."""
    for name in IMPORTED:
        importlib.import_module(f"faber_ledger.{name}")
    cases, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    for line in cases:
        with ExitStack() as stack:
            streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            case = json.loads(line)
            streams[0].write(base64.b64decode(case["content"]))
            streams[0].seek(0)
            child = os.fork()
            if child == 0:
                _become(case, [stream.fileno() for stream in streams])
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            for stream in streams:
                stream.seek(0)
            output, errors = (base64.b64encode(stream.read()).decode() for stream in streams[1:])
        answers.write(json.dumps({"code": code, "output": output, "errors": errors}).encode() + b"\n")
        answers.flush()


def _become(case: dict[str, Any], streams: list[int]) -> None:
    from faber_ledger.cli.entry import main

    code = 1
    try:
        signal.alarm(SECONDS)
        for standard, stream in enumerate(streams):
            os.dup2(stream, standard)
        os.chdir(case["directory"])
        os.environ.clear()
        os.environ.update(case["environment"])
        sys.argv = ["faber-ledger", *case["arguments"]]
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:  # noqa: BLE001 -- as the interpreter does at the top
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _work()
