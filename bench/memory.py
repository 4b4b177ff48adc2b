"""Print the peak memory of one operation on a ledger, in MB. Arguments: the operation, a ledger, a folder for output.

Each operation runs in its own process, since the peak of a process is measured.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import closing
from pathlib import Path

from faber_ledger.ledger.importing import Staged, line_of, raise_problems
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import Passing, insert_rows, rows_of, write_union
from faber_ledger.ledger.verify import find_problems, read_verified
from faber_ledger.projections.fold import fold

OPERATIONS = ("rebuild", "verify", "union", "export", "import")


def main() -> None:
    """Run the operation and print its peak."""
    operation, ledger, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    lines, out = folder / f"{Path(ledger).stem}.jsonl", folder / "memory.db"
    out.unlink(missing_ok=True)
    if operation == "rebuild":
        with Log.read(ledger) as log:
            fold(read_verified(log))
    elif operation == "verify":
        if any(not finding.is_note for finding in find_problems(ledger)):
            raise SystemExit("the ledger is damaged")
    elif operation == "union":
        write_union([ledger, ledger], str(out))
    elif operation == "export":
        with Log.read(ledger) as log, lines.open("wb") as file:
            file.writelines(map(line_of, rows_of(log)))
    else:  # import what `export` wrote
        with lines.open("rb") as file, closing(Staged(file)) as staged:
            raise_problems(staged.problems, str(lines))
            with Log.open(str(out)) as log:
                insert_rows(log, Passing([staged.log], log))
                log.commit()
        os.unlink(lines)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024))


if __name__ == "__main__":
    main()
