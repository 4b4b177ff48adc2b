"""Measure what a session is given at its start: facts that the next action depends on, useful lines, and size.

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
from packet_scenes import RULES, SCENES, Scene

if TYPE_CHECKING:
    from collections.abc import Iterable

POSITION = 2_000  # units: what a client shows of a text that is too long
MARK = "====="  # of the lines around a document
LISTS = ("Not in this text:", "`faber-ledger session-load --force")


class Measured(NamedTuple):
    """A scenario's figures: units, and shares of the facts, of the facts at the beginning, and of the units."""

    name: str
    units: int
    essential: float
    wanted: float
    in_beginning: float
    useful: float
    has_rules: bool


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
    return Measured(
        scene.name,
        units(scene.packet),
        share(scene, scene.packet, is_essential=True),
        share(scene, scene.packet, is_essential=False),
        share(scene, cut(scene.packet, POSITION), is_essential=True),
        share_useful(scene),
        all(rule.is_in(scene.packet) for rule in RULES),
    )


def share(scene: Scene, text: str, *, is_essential: bool) -> float:
    """Return the share of the essential or the wanted facts that a text has."""
    facts = [fact.is_in(text) for fact in scene.facts if fact.is_essential == is_essential]
    return sum(facts) / len(facts)


def share_useful(scene: Scene) -> float:
    """Return the share of a packet's units that is useful.

    That is what it says itself, a third of the run's state, and the marked lines of the documents, or their
    beginnings. Lines around documents, cuts, the lists of what else there is and empty lines are not.
    """
    useful, part = 0.0, "own"
    for line in scene.packet.split("\n"):
        if line.startswith(MARK):
            part = "own" if f"{MARK} end of " in line else "document"
            continue
        if line.startswith(LISTS):
            part = "list"
        elif line.startswith("workflow-state"):
            part = "state"
        elif not line.strip():
            part = "own" if part in ("list", "state") else part
        weight = {"own": 1.0, "state": 1 / 3, "document": float(_is_useful(line, scene.useful)), "list": 0.0}[part]
        useful += weight * units(line)
    return useful / units(scene.packet)


def _is_useful(line: str, lines: set[str]) -> bool:
    begins = line.strip().removesuffix("…")
    return line.strip() in lines or (line.endswith("…") and any(one.startswith(begins) for one in lines))


def list_lacking(scene: Scene) -> list[str]:
    """Return a line for each fact that the packet lacks."""
    return [
        f"{scene.name}: {'essential' if fact.is_essential else 'wanted'}: {fact.says}"
        for fact in scene.facts
        if not fact.is_in(scene.packet)
    ]


def write_table(measured: list[Measured]) -> str:
    """Return the scenarios and their medians as a Markdown table."""
    columns = ["scenario", "units", "essential", "wanted", "in 2,000", "useful", "rules"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [_write_row(one, "yes" if one.has_rules else "no") for one in measured]
    figures = [list(column) for column in zip(*[one[1:6] for one in measured], strict=True)]
    size, *shares = [statistics.median(column) for column in figures]
    median = Measured("**median**", round(size), *shares, has_rules=all(one.has_rules for one in measured))
    count = sum(one.has_rules for one in measured)
    return "\n".join([*lines, _write_row(median, f"{count} of {len(measured)}")]) + "\n"


def _write_row(one: Measured, rules: str) -> str:
    shares = [f"{part:.0%}" for part in (one.essential, one.wanted, one.in_beginning, one.useful)]
    return f"| {one.name} | {one.units:,} | {' | '.join(shares)} | {rules} |"


if __name__ == "__main__":
    main()
