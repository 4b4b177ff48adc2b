"""A headless Chromium, driven through WebDriver; `chromium` and `chromedriver` must be installed."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the name that the WebDriver standard gives an element's id
NO_JAVASCRIPT = {"profile.managed_default_content_settings.javascript": 2}


class Browser:
    """One Chromium with a profile of its own; use it with `with`."""

    def __init__(self, profile: Path, *flags: str, javascript: bool = True) -> None:
        driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
        if driver is None or chromium is None:
            raise FileNotFoundError("chromium or chromedriver is missing (Debian's chromium and chromium-driver)")
        self.driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True)
        assert self.driver.stdout is not None
        started = next(line for line in self.driver.stdout if "started successfully on port" in line)
        self.address = f"http://127.0.0.1:{started.rstrip().rstrip('.').rpartition(' ')[2]}/session"
        options: dict[str, Any] = {"binary": chromium, "args": [*FLAGS, f"--user-data-dir={profile}", *flags]}
        if not javascript:
            options["prefs"] = NO_JAVASCRIPT
        logs = {"goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        asked = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options, **logs}}}
        self.address += "/" + self._ask("POST", "", asked)["sessionId"]

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            self._ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.communicate()

    def open(self, path: Path) -> None:
        """Load a file."""
        self.visit(path.as_uri())

    def visit(self, address: str) -> None:
        """Load what is at an address."""
        self._ask("POST", "/url", {"url": address})

    @property
    def url(self) -> str:
        """The address of the page."""
        return str(self._ask("GET", "/url"))

    @property
    def title(self) -> str:
        """The title of the page."""
        return str(self._ask("GET", "/title"))

    def click(self, selector: str) -> None:
        """Click an element."""
        self._ask("POST", f"/element/{self._find(selector)}/click", {})

    def style(self, selector: str, name: str) -> str:
        """Return a computed style of an element."""
        return str(self._ask("GET", f"/element/{self._find(selector)}/css/{name}"))

    def label(self, selector: str) -> tuple[str, str]:
        """Return the role and the name of an element for assistive software."""
        element = f"/element/{self._find(selector)}"
        return self._ask("GET", f"{element}/computedrole"), self._ask("GET", f"{element}/computedlabel")

    def run(self, script: str) -> Any:
        """Run a script in the page, and return its result."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": []})

    def wait_for(self, script: str) -> None:
        """Wait until a script returns something true."""
        end = time.monotonic() + 20
        while not self.run(f"return {script}"):
            assert time.monotonic() < end, script

    def log(self, kind: str) -> list[str]:
        """Return the messages since the last call: of the console (`browser`), or of requests (`performance`)."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": kind})]

    def has_alert(self) -> bool:
        """Return whether the page has opened a dialog."""
        try:
            self._ask("GET", "/alert/text")
        except urllib.error.HTTPError:
            return False
        return True

    def resize(self, width: int, height: int) -> None:
        """Give the window a size."""
        self._ask("POST", "/window/rect", {"width": width, "height": height})

    def picture(self, width: int, height: int) -> bytes:
        """Return the page as a PNG."""
        self.resize(width, height)
        return base64.b64decode(self._ask("GET", "/screenshot"))

    def printed(self) -> bytes:
        """Return the page as a PDF."""
        return base64.b64decode(self._ask("POST", "/print", {"background": True}))

    def _find(self, selector: str) -> str:
        found: dict[str, str] = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        return found[ELEMENT]

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self.address + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy does not reach this machine
        with opener.open(request, timeout=120) as answer:
            return json.load(answer)["value"]
