"""What was measured, written as Markdown: the table, the goals that were missed, and the instruction counts."""

from __future__ import annotations

import statistics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from measure import Row

# What was tried where a goal is missed, by a part of the row's name.
TRIED = {
    "standard library": (
        " To hash an event's payload and envelope is 0.38 of RAW, half of it in OpenSSL; to read 13 columns instead of"
        " 5 is 0.14; to parse in batches gives 0.16 back. Tried without gain: batches of 32 to 512, no garbage"
        " collection, hashing by columns, a hash's context copied instead of made, the envelope as one JSON text from"
        " SQLite. A fold that became quicker made both quicker, and this ratio larger."
    ),
    "through its model": " Each batch is validated as one JSON text, which parses it too; hashing is as above.",
    "aggregate": " A third of ours is the fold itself, which both have.",
    "notification": " A third of ours is the fold itself, which both have.",
    "import": (
        " ROWS passes every row through the index and the trigger of an append; the import makes both once its rows are"
        " in. At 10,000 lines the trigger is cheap, and `json.loads`, SHA-256 and `executemany` alone are 2.5 x ROWS."
        " Tried without gain: no garbage collection, a larger page cache, staging without a journal, parsing and"
        " validating in one pass."
    ),
}


def table(rows: list[Row]) -> str:
    """Write the rows as a Markdown table."""
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
            f"{row.instructions:.2f}" if row.instructions else "–",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def missed(rows: list[Row]) -> str:
    """Say of each missed goal by how much, and what was tried, as a list."""
    lines = ["Missed goals:", ""]
    for row in rows:
        median = statistics.median(row.ratios)
        if row.goal and round(median, 2) > row.goal:
            tried = next((told for part, told in TRIED.items() if part in f"{row.what} {row.peer}"), "")
            lines.append(f"- {row.what}, against {row.peer}: {median:.2f}, {median / row.goal - 1:.0%} over.{tried}")
    return "\n".join(lines if len(lines) > 2 else ["No goal is missed."]) + "\n"


def counted(rows: list[Row]) -> str:
    """Write the instructions of each process as a table; empty without valgrind."""
    found = [row for row in rows if row.count and row.instructions]
    if not found:
        return ""
    lines = ["| what | instructions, in millions | its peer's | ratio |", "|---|---|---|---|"]
    for row in found:
        count, ratio = row.count or 0, row.instructions or 1.0
        lines.append(f"| {row.what} | {count / 1e6:.1f} | {count / ratio / 1e6:.1f} | {ratio:.2f} |")
    return "\n".join(lines) + "\n"
