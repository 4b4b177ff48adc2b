"""Write measurements as Markdown: the table, the missed goals, and the instruction counts."""

from __future__ import annotations

import statistics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from measure import Row

# What was tried for a missed goal, by a part of the row's name.
TRIED = {
    "standard library": (
        " Hashing the payloads and envelopes costs 0.38 of RAW, half of it in OpenSSL; reading 13 columns instead of 5"
        " costs 0.14; parsing in batches saves 0.16. Tried without gain: batches of 32 to 512, no garbage"
        " collection, hashing by columns, a hash's context copied instead of made, the envelope as one JSON text from"
        " SQLite. A faster fold made both faster, and this ratio larger."
    ),
    "aggregate": " A third of our time is the fold, which both run.",
    "notification": " A third of our time is the fold, which both run.",
    "first, of": (
        " Git starts a process for each version of each ledger, and writes its cache after each. With `head -c 20000`"
        " instead of ours it takes 14 x; 300 processes of Python that do nothing take 11 x. Not tried: filling git's"
        " cache in one process, in `init` or `seal`."
    ),
    "clients that push": (
        " The server inserts for one client of a project at a time, so that a reader misses no position: at best this"
        " is 1, and each new connection costs the server 20 ms of processor time before its first row."
    ),
    "import": (
        " ROWS updates the index and fires the trigger for every row; the import creates both after its rows."
        " At 10,000 lines the trigger is cheap, and `json.loads`, SHA-256 and `executemany` alone are 2.5 x ROWS."
        " Tried without gain: no garbage collection, a larger page cache, staging without a journal, parsing and"
        " validating in one pass."
    ),
}


def write_table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| what | peer | goal | median | spread | processor | instructions |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        low, _, high = statistics.quantiles(row.ratios, n=4, method="inclusive")
        cells = [
            row.what,
            row.peer,
            f"≤ {row.goal:.2f}" if row.goal else "–",
            f"{statistics.median(row.ratios):.2f}",
            f"{low:.2f} to {high:.2f}",
            f"{statistics.median(row.processor):.2f}",
            f"{row.instructions:.2f} ({(row.count or 0) / 1e6:.1f} M)" if row.instructions else "–",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def list_missed(rows: list[Row]) -> str:
    """Return the missed goals as a list: by how much, and what was tried."""
    lines = ["Missed goals:", ""]
    for row in rows:
        median = statistics.median(row.ratios)
        if row.goal and round(median, 2) > row.goal:
            tried = next((text for part, text in TRIED.items() if part in f"{row.what} {row.peer}"), "")
            lines.append(f"- {row.what}, against {row.peer}: {median:.2f}, {median / row.goal - 1:.0%} over.{tried}")
    return "\n".join(lines if len(lines) > 2 else ["No goal is missed."]) + "\n"
