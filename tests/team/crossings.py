"""Work that crosses machines or branches: a developer who moves, two branches of one run, a fix on an older release."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from team.desk import Desk
from team.machine import Machine, states_in
from team.stories import after_merge, check_badges, get_merged, make_ready, work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from team.team import Team


def move(team: Team, here: Machine, there: Machine) -> Iterator[None]:
    """One run on two machines: push, pull, `run resume`; the session's end comes before or after the commit."""
    chance, desk = team.chance, Desk(team, here, here.main)
    branch = team.new_name("feat-")
    desk.update_main()
    yield
    desk.go_to("-b", branch)
    run = desk.start_run(chance.choice(("command", "FABER")))
    yield
    for _ in range(chance.randint(2, 4)):
        client = desk.start_client(run)
        yield
        yield from work(desk, client, run, branch)
        is_ended = chance.random() < 0.5
        if is_ended:
            desk.end_client(client)
            yield
        desk.commit(f"Work on {run} on {desk.machine.name}")
        desk.push(branch)
        yield
        if not is_ended:
            desk.end_client(client)
            yield
        machine = there if desk.machine is here else here
        desk = Desk(team, machine, machine.main)
        desk.git("fetch", "-q", "origin")
        desk.go_to(branch)
        desk.pull(branch)
        yield
        desk.faber("run", "resume", "--yes", run)
        here.at_work = there.at_work = None
        machine.at_work = run
        yield
    client = desk.start_client(run)
    yield
    yield from work(desk, client, run, branch)
    desk.commit(f"Work on {run} on {desk.machine.name}")
    yield from make_ready(desk, run, None, branch, client)
    yield from after_merge(desk, client, run)


def two_branches(team: Team, machine: Machine) -> Iterator[None]:
    """Two branches that both record on one run, each with a pull request."""
    chance, desk = team.chance, Desk(team, machine, machine.main)
    first, second = team.new_name("feat-"), team.new_name("feat-")
    desk.update_main()
    yield
    desk.go_to("-b", first)
    run = desk.start_run(chance.choice(("command", "FABER")))
    client = desk.start_client(run)
    yield
    yield from work(desk, client, run, first)
    desk.commit(f"Work on {run}")
    desk.go_to("-b", second)
    yield
    desk.compact(client)
    yield from work(desk, client, run, second)
    desk.commit(f"Work on {run}, second branch")
    desk.push(second)
    other = team.site.open(second, "two branches", is_ready=False)
    yield
    desk.go_to(first)
    desk.compact(client)
    yield from make_ready(desk, run, None, first, client)
    team.counts["two branches of one run"] += 1
    if team.site.conflicts(second):
        team.counts["two branches of one run: conflicts on the site"] += 1
        if chance.random() < 0.5:
            settle_elsewhere(team, second)
    yield
    desk.go_to(second)
    desk.pull(second)
    if not desk.git("pull", "-q", "--no-rebase", "--no-edit", "origin", "main", may_fail=True):
        desk.settle("two branches")
    if not team.has_refs:
        desk.faber("seal", run)
    desk.commit(f"Finish {run}")
    desk.push(second)
    other.is_ready = True
    check_badges(team)
    yield
    yield from get_merged(desk, other)
    yield from after_merge(desk, client, run)


def settle_elsewhere(team: Team, branch: str) -> None:
    """Merge main into a branch in a fresh clone that nobody has set up, so that no driver runs."""
    name = team.new_name("fresh-")
    home = team.folder / f"home-{name}"
    home.mkdir()
    machine = Machine(name, home, team.clock, trees={"main": team.folder / name})
    team.git(machine, team.folder, "clone", "-q", "--branch", branch, team.site.url, str(machine.main))
    desk = Desk(team, machine, machine.main)
    if not desk.git("merge", "-q", "--no-edit", "origin/main", may_fail=True):
        desk.settle("two branches, in a clone without the driver")
    desk.push(branch)


def backport(team: Team, machine: Machine) -> Iterator[None]:
    """Cherry-pick one fix onto a release branch, which lacks the run that was recorded in the same commit."""
    desk, branch = Desk(team, machine, machine.main), team.new_name("backport-")
    desk.update_main()
    desk.git("fetch", "-q", "origin")
    kind, files = ("A", "code*") if team.has_refs else ("M", ".fractary/**/ledger*.db")
    asked = ("log", "-40", "--no-merges", f"--diff-filter={kind}", "--format=%H %s", "main", "--", files)
    lines = machine.git(machine.main, *asked).output.splitlines()
    chosen = [line.split(maxsplit=1)[0] for line in lines if "Work on" in line or "Before" in line]
    if not chosen:
        return
    yield
    desk.go_to("-b", branch, "origin/release")
    commit = team.chance.choice(chosen)
    team.counts["backports"] += 1
    if not desk.git("cherry-pick", commit, may_fail=True):
        desk.settle("backport")
    wanted = machine.git(machine.main, "diff", "--name-only", "--diff-filter=A", f"{commit}^", commit).output.split()
    code = [name for name in wanted if name.startswith("code")]
    if any(not (machine.main / name).exists() for name in code):
        team.differ("backport lost code", f"{commit}: {', '.join(code)}")
    yield
    if not desk.git("push", "-q", "origin", "HEAD:release", may_fail=True):
        desk.pull("release")
        desk.git("push", "-q", "origin", "HEAD:release")
    yield
    desk.go_to("main")


def help_out(team: Team, machine: Machine) -> Iterator[None]:
    """A colleague without the program adds a commit to somebody's open pull request."""
    desk = Desk(team, machine, machine.main)
    desk.git("fetch", "-q", "origin")
    drafts = [one for one in team.site.list_open() if one.kind != "no run" and team.site.has(one.branch)]
    if not drafts:
        return
    branch = team.chance.choice(drafts).branch
    desk.git("checkout", "-q", "-B", branch, f"origin/{branch}")
    asked = ("diff", "--name-only", "--diff-filter=A", "origin/main...HEAD")
    own = machine.git(machine.main, *asked).output.split()
    states = [path for path in states_in(machine.main).values() if str(path.relative_to(machine.main)) in own]
    if states and team.chance.random() < 0.5:
        path = team.chance.choice(states)
        state = json.loads(path.read_text())
        path.write_text(json.dumps({**state, "reviewers": [*state.get("reviewers", []), "eve"]}, indent=2) + "\n")
        team.say(f"eve/eve: edits {path.relative_to(machine.main)}")
    desk.write_code()
    yield
    desk.git("add", "-A")
    desk.git("commit", "-qm", "Help")
    team.counts["commits of a colleague"] += desk.git("push", "-q", "origin", branch, may_fail=True)
    yield
    desk.git("checkout", "-q", "main")
