"""The end where ledgers travel in git refs: what the remote has by itself, and what each clone has after `sync`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from team.remote import events_at
from team.sync import count_lost
from team.team import digest_of

if TYPE_CHECKING:
    from team.team import Team

ROUNDS = 2  # of `sync`: one that sends, one that fetches what the others have sent after it


def settle_refs(team: Team) -> None:
    """Look what the remote has; then let each clone exchange its runs, and compare them."""
    look_for_ends(team)
    machines = [one for one in team.machines.values() if one.has_program]
    for _ in range(ROUNDS):
        team.clock.pass_minutes(10)
        for machine in machines:
            team.faber(machine, machine.main, "sync")
    there = events_at(team.site.root)
    for machine in machines:
        for run, events in machine.logged().items():
            if events and events != there.get(run):
                team.differ("clones differ", f"{machine.name} and the remote: {run}")
        team.counts["verified"] += 1
        team.counts["not sound"] += team.faber(machine, machine.main, "verify", "--all").code != 0
        dirty = machine.git(machine.main, "status", "--porcelain").output
        if dirty:
            team.differ("clones differ", f"{machine.name} is not clean: {dirty}")
    team.counts["runs"] = len(there)
    count_lost(team, there)


def look_for_ends(team: Team) -> None:
    """Look for each client's end that was recorded in the refs of the remote, before anybody exchanges anything."""
    there = events_at(team.site.root)
    for run, digests in team.ended.items():
        found = Counter(digest_of(event["payload"]) for event in there.get(run, {}).values())
        team.counts["ends of clients"] += len(digests)
        for digest in digests:
            if not found[digest]:
                team.differ("end not at the remote", run)
    for run, seen in team.seen.items():
        team.counts["not sent yet"] += len(seen.keys() - there.get(run, {}).keys())
