"""`faber-ledger demo`: a run on two machines in a temporary folder, with real commands and hooks."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.demo.story import tell_story
from faber_ledger.cli.ui import output
from faber_ledger.cli.ui.output import json_option, say_lines, show
from faber_ledger.cli.ui.words import session_table, table
from faber_ledger.ledger.command_errors import StepFailed
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.projections.fold import blocks_of
from faber_ledger.projections.history import summarize_sessions

if TYPE_CHECKING:
    from faber_ledger.projections.fold import Blocks

WIDTH = 100
REASONS = ["compaction", "abandoned", "normal"]


@click.command(short_help="Show a run on two machines.")
@click.option("--keep", is_flag=True, help="Keep the folder with both clones, and print its path.")
@json_option
def demo(keep: bool, as_json: bool) -> None:
    """Show one run on two machines, with a compaction, a kill and a resume, in a temporary folder.

    \b
    Example: faber-ledger demo
    Exit codes: 0 everything worked; 1 a step failed, or `verify` found a problem; 2 wrong usage.
    """
    if shutil.which("git") is None:
        raise LedgerError("the demo needs git, which is not on PATH", hint="install git, and run the command again")
    folder = os.path.realpath(tempfile.mkdtemp(prefix="faber-ledger-demo-"))
    try:
        data = _play(folder, (lambda line: None) if as_json else output.tell_lines)
        show(data | {"directory": folder if keep else None}, [], as_json=as_json)
    finally:
        if keep:
            say_lines(f"\nkept: both clones, in {folder}/laptop/myproject and {folder}/desktop/myproject")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _play(folder: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """Play the whole demo and return the run's blocks and log at its end; raises StepFailed."""
    tell("One FABER run on two machines. Every command below is really run.\n")
    laptop, desktop = tell_story(folder, tell)
    state = desktop.state()
    blocks = blocks_of(state)
    tell("\n8. What state.json knows now. The sessions of the run:\n")
    for line in _summary(blocks):
        tell(line)
    tell("\n9. The laptop gets all of it with a pull, and verifies the log")
    laptop.run("git", "pull", shown=slice(0, 1))
    laptop.run("faber-ledger", "verify", shown=slice(0, None))
    log = laptop.run("faber-ledger", "log", "--json", quiet=True)
    reasons = [session.get("end_reason") for session in blocks["sessions"]["session_history"]]
    if reasons != REASONS or blocks_of(laptop.state()) != blocks:
        raise StepFailed(f"the sessions ended as {reasons}, not as {REASONS}", hint="this is a bug: please report it")
    return {"run_id": state["run_id"], **blocks, "log": [json.loads(line) for line in log.splitlines()]}


def _summary(blocks: Blocks) -> Iterator[str]:
    yield from _indent(session_table(lambda: summarize_sessions(blocks)))
    yield "\n   In context at the end:"
    loads = blocks["context_metadata"]["artifacts_in_context"]
    rows = [[load["artifact_id"], load["source"], f"{load['size_bytes']:,} bytes"] for load in loads]
    yield from _indent(table(rows))
    yield "\n   The two blocks of state.json, projected from the log:"
    yield from _indent(_json_text(blocks).split("\n"))


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"   {line}" for line in lines)


def _json_text(value: Any, indent: str = "") -> str:
    """Return JSON text with each object and list on one line where it fits."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent) + len(line) <= WIDTH:
        return line
    inner = indent + "  "
    if isinstance(value, dict):
        members = [f"{json.dumps(name)}: {_json_text(member, inner)}" for name, member in value.items()]
        return "{\n" + ",\n".join([inner + member for member in members]) + f"\n{indent}}}"
    return "[\n" + ",\n".join([inner + _json_text(member, inner) for member in value]) + f"\n{indent}]"
