"""Reading, checking, uniting and exchanging a log need memory for the hashes of its events alone."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sample_log import FIRST, START, drafts

from faber_ledger.ledger.importing import line_of
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import rows_of

SHORT, LONG = 10_000, 80_000
MOST = 24 * 1024  # KB; the hashes of the events between the two lengths, and the heads, take about 12 MB
OPERATIONS = {
    "rebuild": "fold(read_verified(Log.read(path)))",
    "verify": "assert not list(find_problems(path))",
    "union": "write_union([path, path + '.other'], path + '.out')",
    "mirror": """
with Log.open(path + '.mirror', 'OFF') as mirror, Log.read(path) as log:
    insert_rows(mirror, Passing([log], mirror))
""",
    "export": """
with open(os.devnull, 'wb') as file, Log.read(path) as log:
    file.writelines(map(line_of, rows_of(log)))
""",
    "import": """
with open(path + '.jsonl', 'rb') as file, closing(Staged(file)) as staged:
    assert not staged.problems
    with Log.open(path + '.in', 'OFF') as log:
        insert_rows(log, Passing([staged.log], log))
        log.commit()
""",
}
CHILD = """
import os, resource, sys
from contextlib import closing
from faber_ledger.ledger.verify import find_problems, read_verified
from faber_ledger.ledger.importing import line_of
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.importing import Staged
from faber_ledger.ledger.union import Passing, insert_rows, rows_of, write_union
from faber_ledger.projections.fold import fold
path = sys.argv[1]
{operation}
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(most // 1024 if sys.platform == "darwin" else most)
"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    folder = tmp_path_factory.mktemp("logs")
    made = {}
    for events in (SHORT, LONG):
        path = folder / f"{events}.db"
        with Log.open(str(path), "OFF") as log:
            facts = itertools.islice(loads(), events)
            while log.append(itertools.islice(facts, 5000), at=START, writer="w"):
                pass
            log.commit()
        shutil.copy(path, f"{path}.other")
        with Log.read(str(path)) as log, Path(f"{path}.jsonl").open("wb") as file:
            file.writelines(map(line_of, rows_of(log)))
        made[events] = str(path)
    return made


def loads() -> Iterator[Any]:
    yield from drafts()[:3]
    event = {"artifact_id": "a", "trigger": "manual", "source": "a.md", "sha256": "0" * 64, "given": "inline"}
    for number in itertools.count():
        yield {"event": {"type": "artifact_loaded", "session_id": FIRST, "size_bytes": number, **event}}


def most_memory(operation: str, path: str) -> int:
    """Return the peak memory, in KB, of a process of its own that does it."""
    child = [sys.executable, "-c", CHILD.format(operation=OPERATIONS[operation]), path]
    return int(subprocess.run(child, capture_output=True, text=True, check=True).stdout)


@pytest.mark.long(alone=True)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_memory_grows_by_the_hashes_alone(logs: dict[int, str], operation: str) -> None:
    assert most_memory(operation, logs[LONG]) - most_memory(operation, logs[SHORT]) < MOST
