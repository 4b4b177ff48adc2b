"""`make team`: let a team work for weeks, and print what should not have been."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from team import crossings, stories
from team.sync import settle_all
from team.sync_refs import settle_refs
from team.table import lines_of, write_page
from team.team import Team

if TYPE_CHECKING:
    from collections.abc import Iterator

WEEK = 7 * 24 * 60 * 60
MINUTES = (5, 10, 20, 60, 90, 120)  # between two steps


def simulate(folder: Path, seed: int, weeks: float, carry: str = "tree") -> Team:
    """Let a team work for some weeks and to the end of what it has begun, then synchronize its clones."""
    team = Team(folder, seed, carry)
    people = ["ann", "bob", "bob beside", "cem", "dee", "eve"]
    at_work: dict[str, Iterator[None]] = {}
    end = team.clock.now + int(weeks * WEEK)
    while team.clock.now < end or at_work:
        team.counts["steps"] += 1
        team.clock.pass_minutes(team.chance.choice(MINUTES))
        if team.clock.now < end:
            at_work |= {name: begin(team, name) for name in people if name not in at_work}
        name = team.chance.choice(sorted(at_work))
        try:
            if next(at_work[name], at_work) is at_work:
                del at_work[name]
        except ValueError as error:  # a state.json that is no JSON, which nobody can work with
            team.differ("unreadable", f"{name}: {error}")
            del at_work[name]
    if team.has_refs:
        settle_refs(team)
    else:
        settle_all(team)
    return team


def begin(team: Team, name: str) -> Iterator[None]:
    """Let somebody begin something."""
    chance, machines = team.chance, team.machines
    if name == "eve":
        return chance.choice((stories.plain_work, crossings.help_out))(team, machines["eve"])
    if name == "bob beside":
        return stories.pull_request(team, machines["bob"], team.folder / team.new_name("bob-"))
    mine = [machines["laptop"], machines["desktop"]] if name == "ann" else [machines[name]]
    chance.shuffle(mine)
    if name == "ann" and chance.random() < 0.5:
        return crossings.move(team, *mine)
    if chance.random() < 0.4:
        return chance.choice((crossings.backport, crossings.backport, crossings.two_branches))(team, mine[0])
    return chance.choice((stories.plain_work, *[stories.pull_request] * 7))(team, mine[0])


class Outcome(NamedTuple):
    """What is left of a team when its repositories are removed."""

    seed: int
    counts: Counter[str]
    report: str


def simulate_seed(seed: int, weeks: float, carry: str) -> Outcome:
    """Simulate one team in folders of its own, and print how it went."""
    begun, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="faber-team-"))
    try:
        team = simulate(folder / "team", seed, weeks, carry)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    say(f"seed {seed}: {len(team.differences)} differences, {time.monotonic() - begun:.0f} s")
    return Outcome(seed, team.counts, report(team, weeks))


def main(words: list[str]) -> int:
    """Simulate from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from SEED on")
    parser.add_argument("--weeks", type=float, default=1)
    parser.add_argument("--carry", choices=["tree", "refs"], default="tree", help="how ledgers travel")
    parser.add_argument("--print", action="store_true", help="do not write the table into docs/guides/TEAM.md")
    given = parser.parse_args(words)
    seeds = range(given.seed, given.seed + given.seeds)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        each = [[value] * len(seeds) for value in (given.weeks, given.carry)]
        outcomes = list(pool.map(simulate_seed, seeds, *each))
    for outcome in outcomes:
        say(outcome.report)
    say("\n".join(lines_of(outcomes, given.weeks, given.carry)))
    if not given.print and given.carry == "tree":
        write_page(outcomes, given.weeks)
    return int(any(outcome.report for outcome in outcomes))


def report(team: Team, weeks: float) -> str:
    """Return the first difference of each kind, with the steps before it, and how to repeat them."""
    lines = []
    for kind in {one.kind: None for one in team.differences}:
        first = next(one for one in team.differences if one.kind == kind)
        lines += ["", f"{kind}: {first.text}", *team.history[max(first.at - 60, 0) : first.at]]
    if lines:
        lines.append(f"to repeat: make team SEED={team.seed} WEEKS={weeks:g} CARRY={team.carry}")
    return "\n".join(lines)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
