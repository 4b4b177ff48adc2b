"""The parts of RESULTS.md that are measured: each names its commit, and the digest of the code that it measures.

`python bench/results.py` names each part that is older than its code, and exits with 1 if the hooks' is, which takes a
minute to measure again. Neither git nor a history is needed for that.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).with_name("RESULTS.md")
HOOK_PATH = ("cli/entry.py", "context", "files", "hooks", "ledger", "projections", "recording", "runs")
EVERYTHING = ("cli", *HOOK_PATH[1:], "migrations", "postgres", "schemas", "requirements.lock")
# Each part with the code that it measures, and the command that measures it again.
PARTS = {
    "hooks": (HOOK_PATH, "make bench-hooks"),
    "other processes": (EVERYTHING, "make bench"),
    "server": (EVERYTHING, "make bench"),
}
BEGIN = "<!-- begin of {name}, of code {digest}, written by `{command}` -->\n"
END = "<!-- end of {name} -->\n"
MARKED = re.compile(r"<!-- begin of ([\w ]+), of code (\w+), written by [^\n]*-->\n.*?<!-- end of \1 -->\n", re.DOTALL)


def digest_code(name: str) -> str:
    """Return a digest of the code that a part measures: of the names and contents of its files."""
    found = hashlib.sha256()
    for place in PARTS[name][0]:
        path = REPOSITORY / place
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        for file in files:
            if "__pycache__" not in file.parts:
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                found.update(f"{file.relative_to(REPOSITORY).as_posix()} {content}\n".encode())
    return found.hexdigest()[:16]


def name_commit(name: str) -> str:
    """Return which commit the working tree is at, and whether the code that a part measures has changes."""
    git = ["git", "-C", str(REPOSITORY)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode:
        return "a tree without git"
    status = [*git, "status", "--porcelain", "--", *PARTS[name][0]]
    changes = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    return f"{'changes after ' if changes else ''}commit {head.stdout.strip()}"


def write_part(name: str, digest: str, text: str) -> None:
    """Replace a part of RESULTS.md, or append it; `digest` is that of the code when it was measured."""
    part = BEGIN.format(name=name, digest=digest, command=PARTS[name][1]) + f"{text}\n" + END.format(name=name)
    page = RESULTS.read_text()
    known = next((match for match in MARKED.finditer(page) if match[1] == name), None)
    page = page[: known.start()] + part + page[known.end() :] if known else f"{page}\n{part}"
    RESULTS.write_text(page)


def find_stale() -> list[str]:
    """Return the names of the parts that were measured with other code than the tree has."""
    return [name for name, digest in MARKED.findall(RESULTS.read_text()) if digest_code(name) != digest]


if __name__ == "__main__":
    for stale in find_stale():
        print(f"bench/RESULTS.md: the rows of {stale} are of other code: run `{PARTS[stale][1]}`", file=sys.stderr)
    sys.exit("hooks" in find_stale())
