"""Model how a conversation grows that is resumed with a changed state: what the client adds at each start.

The client drops a hook's text if the same bytes of that hook stand in the conversation already, and adds it otherwise.
`bench/packet_growth.py [--faber PATH]` resumes one conversation three times, with work in between, and counts what
stands in it then, for four ways to give it: the packet as it is; two handlers, of which one gives the files; the same,
where what is shown of the files depends on phase and step; one handler that leaves out at a resume the files that the
conversation was given before. A file's text has the room that it has in the packet; it is given again if it changed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import packet_scenes as scenes
import packet_texts as texts
from packet_fact import units

if TYPE_CHECKING:
    from collections.abc import Callable

    from packet_checkout import Checkout

RESUMES = 3
FRAME = 150  # units: a second text needs a first and a last line of its own


class Grown(NamedTuple):
    """What stands in the conversation after all resumes, in units, for each way to give it."""

    name: str
    packet: int
    one: int
    two: int
    two_by_step: int
    short: int


class Start(NamedTuple):
    """What a start gave: the packet, what of it is not the files' text, the files, and phase and step."""

    packet: str
    rest: str
    files: str
    step: str


def fail_again(checkout: Checkout, number: int) -> None:
    """Fail the same step again: the newest error differs."""
    error = {"phase": "build", "step": "implement", "error": f"{scenes.ERROR}, attempt {number}"}
    checkout.change_state(errors=[error], retries={"build": number})


def end_step(checkout: Checkout, number: int) -> None:
    """End a step: the next one of the phase begins."""
    steps = ["scaffold", "implement", "document", "core-commit-and-push-build"]
    build = {"status": "in_progress", "completed_steps": steps[:number]}
    phases = {"frame": scenes.DONE, "architect": scenes.DONE, "build": build}
    checkout.change_state(current_step=steps[number], phases=phases)


def end_phase(checkout: Checkout, number: int) -> None:
    """End a phase: the next one begins."""
    order = ["architect", "build", "evaluate", "release"]
    steps = ["generate-spec", "implement", "verify-criteria", "core-merge-pr"]
    phases = dict.fromkeys(["frame", *order[:number]], scenes.DONE) | {order[number]: {"status": "in_progress"}}
    checkout.change_state(current_phase=order[number], current_step=steps[number], phases=phases)


def tick_criterion(checkout: Checkout, number: int) -> None:
    """Tick a criterion in the specification, and say so in the state."""
    text = (checkout.root / texts.SPECIFICATION).read_text()
    checkout.write(texts.SPECIFICATION, text.replace("- [ ]", "- [x]", 1))
    checkout.change_state(current_phase="evaluate", current_step="verify-criteria", verified=number)


def change_nothing(checkout: Checkout, number: int) -> None:
    """Change nothing but the time at which the state was written."""
    checkout.change_state(updated_at=f"2026-01-06T09:0{number}:00Z")


WORK: dict[str, Callable[[Checkout, int], None]] = {
    "nothing was done": change_nothing,
    "a step failed again": fail_again,
    "a step ended": end_step,
    "a phase ended": end_phase,
    "a criterion was ticked": tick_criterion,
}


def main() -> None:
    """Resume a conversation with each kind of work in between, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faber", default=str(Path(sys.executable).with_name("faber-ledger")))
    faber = str(Path(parser.parse_args().faber).absolute())
    print(write_table([grow(faber, name, size) for size in (2, 24) for name in WORK]), end="")


def grow(faber: str, name: str, kilobytes: int) -> Grown:
    """Resume one conversation `RESUMES` times; protocol and specification have that size each."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-packet-") as folder:
        checkout = scenes.begin(
            Path(folder), faber, protocol=kilobytes, specification=texts.write_specification(kilobytes)
        )
        starts = []
        for number in range(RESUMES + 1):
            WORK[name](checkout, number)
            source = "resume" if number else "startup"
            starts.append(look(checkout, checkout.packet(f"SessionStart.{source}.print")))
            checkout.deliver("SessionEnd.other.print")
    packets = {start.packet: units(start.packet) for start in starts}
    rests = {start.rest: units(start.rest) for start in starts}
    files = {start.files: units(start.packet) - units(start.rest) for start in starts}
    files_by_step = {(start.files, start.step): units(start.packet) - units(start.rest) for start in starts}
    short: dict[str, int] = {}
    given = set()
    for start in starts:
        text = start.rest if (start.files, start.step) in given else start.packet
        given.add((start.files, start.step))
        short[text] = units(text)
    return Grown(
        f"{name}, {kilobytes} KB each",
        units(starts[0].packet),
        sum(packets.values()),
        sum(files.values()) + sum(rests.values()) + FRAME * len(files),
        sum(files_by_step.values()) + sum(rests.values()) + FRAME * len(files_by_step),
        sum(short.values()),
    )


def look(checkout: Checkout, packet: str) -> Start:
    """Return what a start gave."""
    files = "".join([(checkout.root / name).read_text() for name in (texts.PROTOCOL, texts.SPECIFICATION)])
    lines = {line.strip() for line in files.splitlines()}
    rest = "".join([line for line in packet.splitlines(keepends=True) if not line.strip() or line.strip() not in lines])
    state = json.loads(checkout.state_path.read_text())
    return Start(packet, rest, files, f"{state['current_phase']}:{state['current_step']}")


def write_table(grown: list[Grown]) -> str:
    """Return the figures as a Markdown table."""
    columns = ["between the starts", "packet", "one handler", "two handlers", "two, by step", "short at a resume"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for one in grown:
        figures = [one.packet, one.one, one.two, one.two_by_step, one.short]
        lines.append(f"| {one.name} | {' | '.join([f'{figure:,}' for figure in figures])} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
