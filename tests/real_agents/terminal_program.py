"""A client's terminal program: what it shows, and what is typed into it."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from typing import Any

import pexpect
import pyte

from real_agents.project import PACKET, SECONDS, Clients

COLUMNS, LINES = 150, 60
BUSY = re.compile(r"(?i:esc (to )?(interrupt|cancel))|^\s*\S (Working|Loading)\b", re.MULTILINE)
IN_USE = "Resume anyway"  # an answer to what Copilot asks shortly after a client was killed
ECHO = 3  # seconds until keys show on the screen, if the client did not lose them


class _Screen(pyte.Screen):
    """What a terminal shows; it answers where the cursor is and nothing else, and knows no private sequence."""

    answers: list[str]

    def write_process_input(self, data: str) -> None:
        if data.endswith("R"):  # what it is itself comes too late, and stands in the prompt then
            self.answers.append(data)

    def select_graphic_rendition(self, *attrs: int, **private: bool) -> None:
        if not private:
            super().select_graphic_rendition(*attrs)

    def report_device_status(self, mode: int, **private: bool) -> None:
        if not private:
            super().report_device_status(mode)


class Terminal:
    """A client that was started with `words` in the project; it is killed at the end of a `with`."""

    def __init__(self, clients: Clients, ready: str, *words: str, **variables: str) -> None:
        self._model, self._ready = clients.model, re.compile(ready, re.MULTILINE)
        self._screen = _Screen(COLUMNS, LINES)
        self._screen.answers = []
        self._stream = pyte.ByteStream(self._screen)
        self._child: Any = pexpect.spawn(
            words[0],
            list(words[1:]),
            cwd=str(clients.root),
            env=clients.env | {"TERM": "xterm-256color"} | variables,
            dimensions=(LINES, COLUMNS),
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def shown(self) -> str:
        """What is on the screen now."""
        return "\n".join(line.rstrip() for line in self._screen.display if line.strip())

    def wait(self, until: Callable[[], object], what: str) -> None:
        """Read what the client prints until something is so."""
        if not self._read_until(until, SECONDS):
            raise AssertionError(f"no {what}:\n{self.shown}")

    def wait_for(self, pattern: str) -> None:
        """Wait until the screen shows a regular expression."""
        self.wait(lambda: re.search(pattern, self.shown), f"'{pattern}' on the screen")

    def wait_until_ready(self) -> None:
        """Wait until the client takes a prompt; a session that Copilot takes for another's is resumed anyway."""
        self.wait(lambda: IN_USE in self.shown or self._is_ready(), "place for a prompt")
        if IN_USE in self.shown:
            self.press("\r", lambda: IN_USE not in self.shown, "answer to the question")
            self.wait(self._is_ready, "place for a prompt")

    def _is_ready(self) -> bool:
        return self._ready.search(self.shown) is not None and not BUSY.search(self.shown)

    def press(self, keys: str, until: Callable[[], object], what: str) -> None:
        """Send keys until something is so, once more if a client that was not ready lost them."""
        self._child.send(keys)
        if not self._read_until(until, ECHO):
            self._child.send(keys)
            self.wait(until, what)

    def type(self, words: str) -> None:
        """Type a line, and send it when it is on the screen."""
        self.wait_until_ready()
        self.press(words, lambda: words in self.shown, f"'{words}' on the screen")
        self._child.send("\r")

    def ask(self, prompt: str) -> str:
        """Give a prompt that was not given before, and return the request with which the model got it first."""
        before = len(self._model.asked)
        self.type(prompt)

        def list_requests() -> list[int]:
            return [at for at, body in enumerate(self._model.asked) if at >= before and prompt in body]

        def is_answered() -> bool:  # the first time or, where the client asked again, later
            return any(re.search(f"answered {at + 1}\\b", self.shown) for at in list_requests())

        self.wait(is_answered, f"answer to '{prompt}'")
        self.wait_until_ready()
        return self._model.asked[list_requests()[0]]

    def count_packets(self, prompt: str) -> int:
        """Give a prompt, and return how many packets are in its request."""
        return self.ask(prompt).count(PACKET)

    def end(self, words: str) -> None:
        """Leave the client as its user does."""
        self.type(words)
        self._read_until(lambda: False, SECONDS)
        self._child.wait()

    def kill(self) -> None:
        """Kill the client, without an end."""
        if self._child.isalive():
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.close(force=True)

    def _read_until(self, until: Callable[[], object], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() > deadline or not self._read():
                return bool(until())
        return True

    def _read(self) -> bool:
        """Show what was printed meanwhile; return whether the client is still there."""
        try:
            self._stream.feed(self._child.read_nonblocking(65_536, 0.1))
        except pexpect.TIMEOUT:
            pass
        except pexpect.EOF:
            return False
        for answer in self._screen.answers:
            self._child.send(answer)
        self._screen.answers.clear()
        return True
