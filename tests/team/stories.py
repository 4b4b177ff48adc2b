"""What developers do for days: each story is a generator, which stops wherever somebody else may act in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from team.desk import Desk
from team.site import WAYS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from team.machine import Machine
    from team.site import PullRequest
    from team.team import Client, Team


def pull_request(team: Team, machine: Machine, root: Path | None = None) -> Iterator[None]:
    """A run, from its start on a new branch to the pull after its pull request was merged."""
    chance, desk = team.chance, Desk(team, machine, root or machine.main)
    branch = team.new_name("feat-")
    client = None
    if root is None:
        desk.update_main()
        yield
        if chance.random() < 0.3:  # the client is there before the run
            client = desk.start_client(machine.at_work)
            yield
        desk.go_to("-b", branch)
    else:
        team.git(machine, machine.main, "fetch", "-q", "origin")
        team.git(machine, machine.main, "worktree", "add", "-q", "-b", branch, str(root), "origin/main")
        machine.trees[root.name] = root
    yield
    starts_by = chance.choice(("command", "FABER"))
    run = desk.start_run(starts_by, client)
    yield
    one: PullRequest | None = None
    for part in range(chance.randint(1, 3)):
        if client is None:
            client = desk.start_client(run)
            yield
        yield from work(desk, client, run, branch)
        desk.commit(f"Work on {run}")
        yield
        if part == 0 and chance.random() < 0.3:
            desk.push(branch)
            one = team.site.open(branch, "one run", is_ready=False)
            team.say(f"pull request #{one.number} is opened as a draft")
            yield
        if chance.random() < 0.6:
            desk.end_client(client)
            client = None
            yield
    yield from make_ready(desk, run, one, branch, client)
    if root is None:
        yield from after_merge(desk, client, run)
    else:
        team.git(machine, machine.main, "worktree", "remove", "--force", str(root))
        del machine.trees[root.name]


def work(desk: Desk, client: Client, run: str, branch: str) -> Iterator[None]:
    """A stretch of work in one client: code, compactions, a resumed client, main pulled or checked out meanwhile."""
    chance = desk.team.chance
    for _ in range(chance.randint(1, 4)):
        what = chance.choice(("code", "code", "phase", "compact", "kill", "pull main", "visit main"))
        if what == "code":
            desk.write_code()
        elif what == "phase":
            desk.advance(run)
        elif what == "compact":
            desk.compact(client)
        elif what == "kill":
            desk.resume_client(client)
        elif what == "pull main":
            desk.commit(f"Before main comes to {branch}")
            yield
            desk.pull("main")
        elif "main" in desk.machine.trees and desk.root == desk.machine.main:
            yield from visit_main(desk, client, branch)
        yield
    desk.write_code()


def visit_main(desk: Desk, client: Client, branch: str) -> Iterator[None]:
    """Check main out in the middle of a session, and go back."""
    if client.run is not None and client.run not in desk.team.seen:
        desk.team.unseen.add(client.run)
    desk.commit(f"Before a look at main from {branch}")
    desk.update_main()
    yield
    if desk.team.chance.random() < 0.5:
        desk.compact(client)
        yield
    desk.go_to(branch)


def make_ready(desk: Desk, run: str, one: PullRequest | None, branch: str, client: Client | None) -> Iterator[None]:
    """Finish the run, or make it ready before that; open the pull request, and have it merged."""
    team, chance = desk.team, desk.team.chance
    kind = "one run"
    how = chance.choice(("run finish", "run finish", "FABER", "FABER", "FABER, not sealed", "seal", "later"))
    if team.has_refs:
        how = chance.choice(("nothing", "nothing", "FABER"))
    if how == "later":  # a draft is opened first
        desk.push(branch)
        one = one or team.site.open(branch, kind, is_ready=False)
        yield
        how = "run finish"
    if how == "FABER, not sealed" and chance.random() < 0.7:
        how = "FABER"
    team.counts[f"ready by {how}"] += 1
    if how == "seal":
        desk.faber("seal")
    elif how != "nothing":
        desk.finish(run, "command" if how == "run finish" else "FABER")
    if how == "FABER" and not team.has_refs:
        desk.faber("seal")
    is_unsealed = how == "FABER, not sealed" and desk.machine.seals_by == "nothing"
    desk.commit(f"Finish {run}")
    yield
    desk.push(branch)
    one = one or team.site.open(branch, kind, is_ready=True)
    one.is_ready = True
    one.kind = "unsealed" if is_unsealed and one.kind == "one run" else one.kind
    team.say(f"pull request #{one.number} ({branch}) is ready")
    check_badges(team)
    if client is not None and chance.random() < 0.5:
        desk.end_client(client)
        client.name = ""
    yield from get_merged(desk, one)


def get_merged(desk: Desk, one: PullRequest) -> Iterator[None]:
    """Wait for the merge; where the site finds a conflict, merge main into the branch."""
    team, chance = desk.team, desk.team.chance
    for _ in range(chance.randint(0, 4)):
        yield
    way = chance.choice(WAYS)
    ours = [name for name in team.site.files(one.branch) if name.startswith(".fractary/")]
    team.counts["files of ours in pull requests"] += len(ours)
    if ours and team.has_refs:
        team.differ("file of ours", f"#{one.number}: {', '.join(ours)}")
    for _ in range(5):
        found = team.site.merge(one, way)
        outcome = f": in conflict: {', '.join(found)}" if found else ""
        team.say(f"the site merges #{one.number} by {way}{outcome}")
        if not found:
            team.counts[f"merged by {way}"] += 1
            team.counts[f"merged, {one.kind}"] += 1
            check_badges(team)
            return
        note_conflict(team, one, "merge", found)
        way = "merge"  # what main has brought in no rebase repeats
        desk.go_to(one.branch)
        desk.pull(one.branch)
        if not desk.git("pull", "-q", "--no-rebase", "--no-edit", "origin", "main", may_fail=True):
            desk.settle("two branches" if one.kind == "two branches" else "main")
        desk.push(one.branch)
        yield
    team.differ("never merged", f"#{one.number}")
    one.is_open = False


def check_badges(team: Team) -> None:
    """Look which open pull requests show a conflict now."""
    for one in team.site.list_open():
        team.counts["badges"] += 1
        found = team.site.conflicts(one.branch)
        if found:
            note_conflict(team, one, "badge", found)


def note_conflict(team: Team, one: PullRequest, where: str, found: list[str]) -> None:
    kind = one.kind if one.is_ready else f"draft, {one.kind}"
    if one.kind != "unsealed" and team.site.is_spoiled(one.branch):
        kind = f"{kind}, after an unsealed one"
    if not team.site.conflicts(one.branch) and team.site.is_united(one.branch):
        kind = f"only for a rebase: {kind}"
    team.counts[f"site: {where} in conflict: {kind}"] += 1
    if kind in ("one run", "draft, one run", "no run", "draft, no run"):
        team.differ("site conflict", f"#{one.number} ({one.branch}, {kind}): {', '.join(found)}")


def after_merge(desk: Desk, client: Client | None, run: str) -> Iterator[None]:
    """Go on with main, where the client ends only now, and a run that was only made ready is finished."""
    yield
    desk.update_main()
    if desk.machine.at_work == run:
        desk.finish(run, "FABER" if desk.team.has_refs else desk.team.chance.choice(("command", "FABER")))
    if client is not None and client.name:
        desk.end_client(client)
    yield


def plain_work(team: Team, machine: Machine) -> Iterator[None]:
    """Work without a run: by a colleague without the program, or by one who needs none."""
    desk, branch = Desk(team, machine, machine.main), team.new_name("fix-")
    desk.update_main()
    yield
    desk.go_to("-b", branch)
    # A run that is at work goes on, whatever branch is checked out.
    client = desk.start_client(machine.at_work) if machine.has_program else None
    for _ in range(team.chance.randint(1, 3)):
        desk.write_code()
        yield
        if client is not None and team.chance.random() < 0.5:
            desk.compact(client)
        desk.git("add", "-A")
        desk.git("commit", "-qm", "Fix")
    if client is not None:
        desk.end_client(client)
    desk.push(branch)
    one = team.site.open(branch, "no run", is_ready=True)
    yield from get_merged(desk, one)
    yield
    desk.update_main()
