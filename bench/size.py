"""Compare the size in git of a ledger and of one JSONL file with the same events, committed 50 at a time.

Arguments: a folder, the number of commits. Prints the bytes of both repositories' packs after `git gc`, as JSON:
{"ledger": ..., "jsonl": ...}. The JSONL is what `export` writes: everything that the hashes cover.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

from long_log import BEGIN, drafts
from stage import WRITER

from faber_ledger.ledger.importing import line_of
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import rows_of

EACH = 50
GIT = ["git", "-c", "user.name=Bench", "-c", "user.email=bench@example.invalid", "-c", "gc.auto=0"]


def main() -> None:
    """Make both repositories and print their sizes."""
    folder, commits = Path(sys.argv[1]), int(sys.argv[2])
    repositories = {name: folder / f"size-{name}" for name in ("ledger", "jsonl")}
    for repository in repositories.values():
        subprocess.run([*GIT, "init", "--quiet", str(repository)], check=True)
    ledger, lines = repositories["ledger"] / "ledger.db", repositories["jsonl"] / "ledger.jsonl"
    events = drafts()
    for number in range(commits):
        with Log.open(str(ledger)) as log:
            for number_in, draft in enumerate(itertools.islice(events, EACH)):
                log.append([draft], at=BEGIN + 3600 * number + number_in, writer=WRITER)
            log.commit()
        with Log.read(str(ledger)) as log:
            lines.write_bytes(b"".join(map(line_of, rows_of(log))))
        for repository in repositories.values():
            subprocess.run([*GIT, "add", "."], cwd=repository, check=True)
            subprocess.run([*GIT, "commit", "--quiet", "--message", f"{number}"], cwd=repository, check=True)
    print(json.dumps({name: _packed_bytes(repository) for name, repository in repositories.items()}))


def _packed_bytes(repository: Path) -> int:
    subprocess.run([*GIT, "gc", "--quiet", "--prune=now"], cwd=repository, check=True)
    return sum(path.stat().st_size for path in (repository / ".git" / "objects" / "pack").glob("*.pack"))


if __name__ == "__main__":
    main()
