"""Measure what a session is given at its start: the share of the facts that the agent's next action depends on.

`bench/packet.py [--faber PATH] [--facts] [SCENE…]`: PATH is the installed command, of this or an older version;
`--facts` lists each fact that the packet lacks; SCENE is a part of the name of a scenario's function.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packet_fact import cut, units
from packet_scenes import SCENES, Scene

if TYPE_CHECKING:
    from collections.abc import Iterable

POSITION = 2_000  # units: what a client shows of a text that is too long


class Share(NamedTuple):
    """The share of the essential and of the wanted facts that a text has."""

    essential: float
    wanted: float


class Measured(NamedTuple):
    """A scenario's figures: for the packet, for its beginning, for the files cut to its size, and for a pointer."""

    name: str
    units: int
    packet: Share
    position: float
    files: Share
    pointer: Share


def main() -> None:
    """Run each scenario in a new folder, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(sys.executable).with_name("faber-ledger")
    parser.add_argument("--faber", default=str(beside) if beside.exists() else shutil.which("faber-ledger"))
    parser.add_argument("--facts", action="store_true")
    parser.add_argument("--show", action="store_true", help="print each packet")
    parser.add_argument("scenes", nargs="*")
    asked = parser.parse_args()
    measured = []
    for scene in play(str(Path(asked.faber).absolute()), asked.scenes):
        measured.append(measure(scene))
        if asked.show:
            print(f"{'#' * 20} {scene.name}\n{scene.packet}")
        if asked.facts:
            print("".join([f"{line}\n" for line in list_lacking(scene)]), end="")
    print(write_table(measured), end="")


def measure_all(faber: str) -> list[Measured]:
    """Return the figures of every scenario, played with an installed command."""
    return [measure(scene) for scene in play(faber, [])]


def play(faber: str, names: list[str]) -> Iterable[Scene]:
    """Play each scenario whose name has one of `names`; all of them without any."""
    for play_scene in SCENES:
        if names and not any(name in play_scene.__name__ for name in names):
            continue
        with tempfile.TemporaryDirectory(prefix="faber-ledger-packet-") as folder:
            scene = play_scene(Path(folder), faber)
            if not scene.packet:
                raise SystemExit(f"{scene.name}: the hook gave no packet")
            yield scene


def measure(scene: Scene) -> Measured:
    """Return a scenario's figures."""
    size = units(scene.packet)
    state = str(scene.checkout.state_path.relative_to(scene.checkout.root))
    pointer = f"A FABER run is active in this project: {scene.checkout.run_id}. Read {state} and go on from there.\n"
    return Measured(
        scene.name,
        size,
        share(scene, scene.packet),
        share(scene, cut(scene.packet, POSITION)).essential,
        share(scene, cut(join_files(scene), size)),
        share(scene, pointer),
    )


def join_files(scene: Scene) -> str:
    """Return the files one after the other, each below its name."""
    root = scene.checkout.root
    return "\n".join([f"==> {name} <==\n{(root / name).read_text()}" for name in scene.files])


def share(scene: Scene, text: str) -> Share:
    """Return the share of the facts that a text has."""

    def of(facts: list[bool]) -> float:
        return sum(facts) / len(facts)

    return Share(
        of([fact.is_in(text) for fact in scene.facts if fact.is_essential]),
        of([fact.is_in(text) for fact in scene.facts if not fact.is_essential]),
    )


def list_lacking(scene: Scene) -> list[str]:
    """Return a line for each fact that the packet lacks."""
    return [
        f"{scene.name}: {'essential' if fact.is_essential else 'wanted'}: {fact.says}"
        for fact in scene.facts
        if not fact.is_in(scene.packet)
    ]


def write_table(measured: list[Measured]) -> str:
    """Return the scenarios and their medians as a Markdown table."""
    columns = ["scenario", "units", "essential", "wanted", "in 2,000"]
    columns += ["files: essential", "wanted", "pointer: essential", "wanted"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    rows = [(one.name, one.units, [*one.packet, one.position, *one.files, *one.pointer]) for one in measured]
    medians = [statistics.median(column) for column in zip(*[shares for _, _, shares in rows], strict=True)]
    rows.append(("**median**", round(statistics.median(one.units for one in measured)), medians))
    lines += [f"| {name} | {size:,} | {' | '.join(f'{part:.0%}' for part in shares)} |" for name, size, shares in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
