"""The end: everybody pulls, seals and pushes until all clones are equal; then every recorded event is looked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from team.desk import Desk
from team.machine import read_events, states_in

if TYPE_CHECKING:
    from pathlib import Path

    from team.machine import Machine
    from team.team import Team

ROUNDS = 6


def settle_all(team: Team) -> None:
    """Synchronize all clones, and compare them."""
    machines = [one for one in team.machines.values() if one.has_program]
    for number in range(1, ROUNDS + 1):
        team.clock.pass_minutes(10)
        before = team.site.head("main")
        for machine in machines:
            publish(team, machine)
        if team.site.head("main") == before:
            team.counts["rounds until all clones were equal"] = number
            break
    else:
        team.differ("no end", f"after {ROUNDS} rounds the clones still have something to push")
    compare(team, machines)


def publish(team: Team, machine: Machine) -> None:
    """Bring everything that a clone has onto main, and push it."""
    desk = Desk(team, machine, machine.main)
    if machine.branch(machine.main) != "main":
        desk.go_to("main")
    desk.pull("main")
    kept = machine.logged()
    for run, path in machine.ledgers(machine.main).items():
        if run in kept and kept[run].keys() - (machine.events(path).keys() if path.exists() else set()):
            desk.faber("seal", run)
    desk.faber("seal", "--all")
    desk.git("add", "-A")
    if machine.git(machine.main, "diff", "--cached", "--quiet").code:
        desk.git("commit", "-qm", "Synchronize")
    desk.push("main")


def read_state(path: Path) -> dict[str, object]:
    """Return what a state.json holds; nothing if it is not valid, which `verify` says."""
    try:
        found = json.loads(path.read_text())
    except ValueError:
        return {}
    assert isinstance(found, dict)
    return found


def compare(team: Team, machines: list[Machine]) -> None:
    """Compare the clones of this version with each other, and with all that was ever recorded."""
    runs: dict[str, dict[str, dict[str, object]]] = {}
    blocks: dict[str, str] = {}
    for machine in machines:
        for run, path in machine.ledgers(machine.main).items():
            events = read_events(path) if path.exists() else {}
            state = read_state(states_in(machine.main)[run])
            ours = json.dumps([state.get(name) for name in ("sessions", "context_metadata")], sort_keys=True)
            if events != runs.setdefault(run, events) or ours != blocks.setdefault(run, ours):
                team.differ("clones differ", f"{machine.name} and {machines[0].name}: {run}")
        missing = runs.keys() - machine.ledgers(machine.main).keys()
        if missing:
            team.differ("clones differ", f"{machine.name} lacks {', '.join(sorted(missing))}")
        is_sound = team.faber(machine, machine.main, "verify", "--all").code == 0
        team.counts["verified"] += 1
        team.counts["not sound"] += not is_sound
        dirty = machine.git(machine.main, "status", "--porcelain").output
        if dirty:
            team.differ("clones differ", f"{machine.name} is not clean: {dirty}")
    team.counts["runs"] = len(runs)
    count_lost(team, runs)


def count_lost(team: Team, runs: dict[str, dict[str, Any]]) -> None:
    """Look for every event that was ever recorded in the runs as all clones have them in the end."""
    for run, seen in team.seen.items():
        lost = seen.keys() - runs.get(run, {}).keys()
        team.counts["events"] += len(seen)
        team.counts["events lost"] += len(lost)
        if lost:
            team.differ("events lost", f"{run}: {len(lost)} of {len(seen)}")
        digests = [(digest, runs[run][one]["type"]) for one, digest in seen.items() if digest and one not in lost]
        twice = len(digests) - len(set(digests))
        team.counts["recorded twice"] += twice
        if twice:
            team.differ("recorded twice", run)
