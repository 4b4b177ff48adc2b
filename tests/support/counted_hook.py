"""Run a hook as its launcher does, and count what runs in our modules.

Arguments: the folder with the package, the file for the figures, and those of the command. It is started with `-I -S`,
so that nothing that is installed beside the package is counted. A traced process is slow, so it has no time limit.
"""

import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import NoReturn

SOURCE, FIGURES = sys.argv[1:3]
INLINED = {"<dictcomp>", "<listcomp>", "<setcomp>"}  # functions until Python 3.11


class Counter:
    """Counts calls into our modules, and those that enter another of them than the call before."""

    def __init__(self) -> None:
        self.calls = self.changes = 0
        self._last = ""
        self._modules: dict[CodeType, str] = {}  # "" is none of ours

    def count(self, frame: "FrameType", event: str, _: object) -> None:
        """Count an event of `sys.setprofile`."""
        if event != "call":
            return
        code = frame.f_code
        module = self._modules.get(code)
        if module is None:
            name = frame.f_globals.get("__name__", "")
            is_counted = _is_ours(name) and code.co_name not in INLINED
            module = self._modules[code] = name if is_counted else ""
        if module:
            self.calls += 1
            self.changes += module != self._last
            self._last = module


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "faber_ledger"


def end(status: int) -> "NoReturn":
    """Write the figures and end the process."""
    sys.setprofile(None)
    loaded = sum(map(_is_ours, sys.modules))
    os.write(report, b"%d %d %d\n" % (loaded, counter.calls, counter.changes))
    exit_now(status)


report = os.open(FIGURES, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
exit_now, os._exit = os._exit, end
vars(__import__("_signal"))["setitimer"] = lambda *_: (0.0, 0.0)
time.monotonic = lambda: 0.0
time.clock_gettime = lambda _: 0.0
sys.argv[:] = ["faber-ledger-hook", *sys.argv[3:]]
sys.path.append(SOURCE)
counter = Counter()
sys.setprofile(counter.count)

from faber_ledger.hooks.main import main  # noqa: E402 -- it is counted

main(sys.argv[1:])
