"""Write docs/images/timeline.png, the demo's timeline as Chromium shows it: `python tools/take_picture.py`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support.browser import Browser

PROJECT = Path(__file__).parent.parent
COMMAND = Path(sys.executable).with_name("faber-ledger")
SIZE = (1300, 830)


def main() -> int:
    """Play the demo and take the picture."""
    folder = Path(tempfile.mkdtemp())
    try:
        played = subprocess.run([COMMAND, "demo", "--keep", "--json"], stdout=subprocess.PIPE, check=True)
        demo = Path(json.loads(played.stdout)["data"]["directory"])
        page = folder / "run.html"
        subprocess.run([COMMAND, "timeline", "-o", page], cwd=demo / "laptop" / "myproject", check=True)
        shutil.rmtree(demo)
        with Browser(folder / "profile") as browser:
            browser.open(page)
            picture = browser.picture(*SIZE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    target = PROJECT / "docs" / "images" / "timeline.png"
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
