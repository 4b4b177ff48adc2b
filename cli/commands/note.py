"""`faber-ledger note`: record what the next session should know."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Literal, TypeAlias

import click

from faber_ledger.cli.ui.output import json_option, show, warn_of
from faber_ledger.cli.ui.which_run import choose_run, run_option, warn_if_kept
from faber_ledger.context.notes import MAX_LETTERS, note_recorded
from faber_ledger.ledger.clock import now
from faber_ledger.projections.fold import newest_open
from faber_ledger.recording.left_facts import record_or_leave
from faber_ledger.recording.secrets.mask import mask_text
from faber_ledger.recording.sessions import client_of, is_open_here, live_start, session_of
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.progress import snapshot
from faber_ledger.runs.run import find_root

if TYPE_CHECKING:
    from faber_ledger.ledger.events import NoteRecorded

Kind: TypeAlias = Literal["note", "summary", "decision"]


@click.command()
@click.argument("words", nargs=-1, metavar="[add] [TEXT]")
@click.option(
    "--kind",
    type=click.Choice(["note", "summary", "decision"]),
    default="note",
    show_default=True,
    help="One fact, a summary of a session's work, or what was decided and why.",
)
@click.option("--decision", "kind", flag_value="decision", help="The same as --kind decision.")
@click.option("--from-stdin", is_flag=True, help="Read the text from standard input.")
@run_option
@json_option
def note(words: tuple[str, ...], kind: Kind, from_stdin: bool, run: str | None, as_json: bool) -> None:
    """Record TEXT for later sessions: what is being worked on, key files, hints. The word `add` may be left out.

    The packet has the newest notes, `reconstitute` all of them; `reconstitute --only decisions` has what was decided.

    \b
    Example: faber-ledger note add --decision "no cache: one query a page is fast enough"
    Exit codes: 0 recorded; 1 not recorded; 2 wrong usage; 10 no such run; 11 locked; 12 newer format; 20 damaged.
    """
    texts = words[1:] if words[:1] == ("add",) else words
    if len(texts) != (0 if from_stdin else 1):
        raise click.UsageError("Give either TEXT, in quotes, or --from-stdin.")
    written = (_from_stdin() if from_stdin else texts[0]).strip()
    if not written:
        raise click.UsageError("The note is empty.")
    root = find_root(os.getcwd())
    meant = choose_run(root, run, records=True)
    warn_if_kept(meant)
    client, writer = client_of(os.environ), writer_of(root)
    with record_or_leave(meant, at=now(), writer=writer, warn=warn_of) as recording:
        view = recording.view
        session_id = session_of(live_start(meant, view, client)) or newest_open(view.blocks)
        if session_id is not None and not is_open_here(view.log, view.blocks, session_id, root):
            session_id = None
        fact: NoteRecorded = note_recorded(written, kind, session_id, snapshot(recording.state))
        fact["text"] = mask_text(written)
        (recorded,) = recording.append([{"event": fact, "client": client}])
    data = {"run_id": meant.run_id, "id": recorded["id"], "at": recorded["at"], **recorded["event"]}
    lines = [f"✓ Recorded a {kind} on {meant.run_id}"]
    if data["text"] != written:
        lines.append(f"note: what looks like a secret is masked: `faber-ledger show {data['id']}` has what is left")
    show(data, lines, as_json=as_json)


def _from_stdin() -> str:
    """Read slightly more than the longest note, so that a longer one is refused without reading all of it."""
    try:
        return io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", newline="").read(MAX_LETTERS + 1)
    except UnicodeDecodeError as error:
        raise click.UsageError("Standard input is not UTF-8.") from error
