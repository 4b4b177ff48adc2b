"""`make soak`: all of it at once for some minutes, and then every delivery that was acknowledged is looked for."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

from support.project import COMMAND, Answer, Project, units

from faber_ledger.recording import spool
from faber_ledger.recording.sessions import delivery_of
from faber_ledger.runs.run import find_run
from faults.calls import ERRORS, KILL, broken_by
from faults.crowds import KINDS
from faults.holder import holder_of
from faults.page import put

START = "SessionStart.startup.print"
CLIENTS = 3
WITH_DRIVER = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"  # where git finds the merge driver
# About how often a hook makes each call; `openat` is the matrix's alone, since Python itself makes it by the hundred.
BREAKABLE = {
    "pwrite64": 40,
    "fdatasync": 7,
    "unlink": 6,
    "write": 3,
    "fsync": 3,
    "mkdir": 3,
    "rename": 2,
    "fchmod": 2,
    "flock": 1,
}
REFUSED = ("cannot be spooled", "a bug in faber-ledger")
MB = 10_000_000
HOSTILE = (
    b"",
    b"hello",
    b"\xff\xfe\x00",
    b"null",
    b'{"session_id": "\xff"}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"source": ' + b"1" * 5_000 + b"}",
    bytes(range(256)) * 40,
)
LARGE = {
    "no JSON": b"x" * MB,
    "one text": b'{"compact_summary": "' + b"a" * MB + b'"}',
    "secrets": b'{"compact_summary": "' + b"password=hunter2-0123456789abcdef " * (MB // 34) + b'"}',
    "escapes": b'{"compact_summary": "' + b"\\ud83e\\udd80" * (MB // 12) + b'"}',
    "numbers": b'{"a": [' + b"1," * (MB // 2) + b"1]}",
    "members": b"{" + b",".join(b'"%d":0' % number for number in range(MB // 10)) + b"}",
    "deep": b'{"a": ' + b"[" * MB,
}


class Soak(NamedTuple):
    """What came of it. `acknowledged` deliveries are to be in the log once; of those that were killed nobody knows."""

    seconds: int
    acknowledged: int
    killed: int
    told: int
    waited: int
    injected: int
    hostile: int
    held: int
    commits: int
    merges: int
    rewritten: int
    events: int
    lost: int
    doubled: int
    wrong: tuple[str, ...]


class Tally:
    """What the actors have done, counted by whoever did it."""

    def __init__(self, seconds: float, seed: int) -> None:
        self.end = time.monotonic() + seconds
        self.seed = seed
        self.acknowledged: list[str] = []
        self.killed: list[str] = []
        self.wrong: list[str] = []
        self.counts = dict.fromkeys(
            ("told", "waited", "injected", "hostile", "held", "commits", "merges", "rewritten"), 0
        )
        self._mutex = threading.Lock()
        self.committing = threading.Lock()  # a state.json that is broken for a moment must not come back from a commit

    def count(self, name: str) -> None:
        with self._mutex:
            self.counts[name] += 1

    def take(self, client: str, answer: Answer, kind: str) -> None:
        """Take a hook's answer: its delivery is acknowledged unless it says that it is not."""
        if answer.code != 0 or "Traceback" in answer.errors:
            self.wrong.append(f"{client}: exit code {answer.code}: {answer.errors}")
        if kind.startswith("SessionStart"):
            if answer.packet is not None and units(answer.packet) > 9_500:
                self.wrong.append(f"{client}: a packet of {units(answer.packet)}")
        elif answer.output and answer.hint is None:
            self.wrong.append(f"{client}: {answer.output!r}")
        if any(said in answer.errors for said in REFUSED):
            self.count("told")
            return
        self.acknowledged.append(client)
        if "it waits in" in answer.errors:
            self.count("waited")


def client(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """A client whose hooks nothing happens to."""
    kind = chance.choice(KINDS)
    tally.take(name, project.deliver(kind, client=name, pid=name), kind)


def hostile(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """A client that sends what is no delivery; its variables say who it is."""
    kind = chance.choice(KINDS[:-1])
    content = chance.choice(HOSTILE)
    tally.take(name, project.deliver(kind, client=name, pid=name, stdin=content), kind)
    tally.count("hostile")


def killed(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """A client that kills its hook at any moment."""
    kind = chance.choice(KINDS)
    process = project.started(kind, client=name, pid=name)
    tally.killed.append(name)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(project.prepared(kind, client=name, pid=name)[0], timeout=chance.uniform(0.02, 0.6))
    process.kill()
    process.communicate()


def broken(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """A client one of whose hook's calls fails, or kills it."""
    kind = chance.choice(KINDS)
    content, environment, event = project.prepared(kind, client=name, pid=name)
    fault = chance.choice((KILL, *ERRORS))
    command = [str(COMMAND), "hook", event]
    call = chance.choice(list(BREAKABLE))
    number = chance.randint(1, BREAKABLE[call])
    ended, line = broken_by(call, number, fault, command, project.root, environment, content)
    if line or ended.code < 0:
        tally.count("injected")
    if ended.code == -signal.SIGKILL and fault == KILL:
        tally.killed.append(name)
    else:
        tally.take(name, Answer(ended.code, ended.output.encode(), ended.errors.encode()), kind)


def holder(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """A process that is stopped while it holds the lock."""
    time.sleep(chance.uniform(1, 6))
    process = holder_of(project)
    process.send_signal(signal.SIGSTOP)
    time.sleep(chance.uniform(0.1, 4))
    process.kill()
    process.communicate()
    tally.count("held")


def other_tool(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """A tool that rewrites state.json through its own rename, and now and then breaks it for a moment."""
    time.sleep(chance.uniform(0.01, 0.2))
    temporary = project.state_path.with_name(f"state.{name}")
    try:
        before = project.state_path.read_bytes()
        if not before:
            return  # git has just made it
        state = json.loads(before)
    except FileNotFoundError:
        return  # git is just making it
    except ValueError as error:
        tally.wrong.append(f"state.json: {error}")
        return
    whole = json.dumps({**state, "counter": name}, indent=2)
    with tally.committing if chance.random() < 0.02 else nullcontext() as is_broken:
        if is_broken:
            temporary.write_bytes(before[: len(before) // 2])
            os.replace(temporary, project.state_path)
            time.sleep(0.1)
        temporary.write_text(whole)
        os.replace(temporary, project.state_path)
    tally.count("rewritten")


def committer(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """Somebody who commits, takes the ledger back to an earlier commit, and merges what another machine has done."""
    time.sleep(chance.uniform(0.2, 1))
    if chance.random() < 0.3:
        ledger = str(project.ledger_path.relative_to(project.root))
        _git(project, "checkout", f"HEAD~{chance.randrange(3)}", "--", ledger)
    with tally.committing:
        tally.counts["commits"] += _committed(project, name)
    elsewhere = _elsewhere(project)
    client(elsewhere, tally, chance, name)
    assert _committed(elsewhere, name)
    with tally.committing:
        tally.counts["merges"] += _merged(project, elsewhere)


def _committed(project: Project, message: str) -> bool:
    return _git(project, "add", "-A") and _git(project, "commit", "-qm", message)


def _merged(project: Project, elsewhere: Project) -> bool:
    """Merge what another machine has committed; git refuses where hooks have written since the last commit."""
    if _git(project, "pull", "-q", "--no-rebase", "--no-edit", str(elsewhere.root), "main"):
        return True
    _git(project, "merge", "--abort")
    return False


def _elsewhere(project: Project) -> Project:
    return Project(project.root.with_name("elsewhere"), project.run_id, "dev-machine-2")


def _git(project: Project, *arguments: str) -> bool:
    try:
        project.git(*arguments)
    except subprocess.CalledProcessError:
        return False
    return True


ACTORS = (*[client] * CLIENTS, hostile, killed, broken, broken, holder, other_tool, committer)


def soaked(folder: Path, seconds: float, seed: int) -> Soak:
    """Let all of them loose on one run for some seconds; then let the last hook come, and count.

    PATH has to hold `WITH_DRIVER`.
    """
    project = Project.made(folder / "project")
    assert project.faber("init", "--git-only").returncode == 0
    project.deliver(START, client="the first")
    assert _committed(project, "begin")
    elsewhere = project.clone(folder / "elsewhere", "dev-machine-2")
    assert elsewhere.faber("init", "--git-only").returncode == 0
    tally = Tally(seconds, seed)
    with ThreadPoolExecutor(len(ACTORS)) as pool:
        work = [pool.submit(_acted, project, tally, number) for number in range(len(ACTORS))]
        for done in work:
            done.result()
    _settle(project, elsewhere, tally)
    found = [event["client"] for event in project.events if delivery_of(event["event"])]
    expected = set(tally.acknowledged)
    if lost := sorted(expected - set(found)):
        tally.wrong.append(f"lost: {', '.join(lost)}")
    project.assert_projected()
    return Soak(
        seconds=int(seconds),
        acknowledged=len(expected),
        killed=len(tally.killed),
        **tally.counts,
        events=len(project.events),
        lost=len(expected - set(found)),
        doubled=len(found) - len(set(found)),
        wrong=tuple(tally.wrong),
    )


def _acted(project: Project, tally: Tally, number: int) -> None:
    chance = random.Random(f"{tally.seed}-{number}")
    turn = 0
    while time.monotonic() < tally.end:
        turn += 1
        ACTORS[number](project, tally, chance, f"{number}-{turn}")


def _settle(project: Project, elsewhere: Project, tally: Tally) -> None:
    """Take in what waits, and what the other machine has."""
    for each in (project, elsewhere):
        answer = each.deliver(START, client=f"the last on {each.hostname}")
        if answer.code != 0 or spool.waiting(find_run(str(each.root), each.run_id)):
            tally.wrong.append(f"deliveries still wait: {answer.errors}")
        if not _committed(each, "end"):
            tally.wrong.append("the last commit was refused")
    if not _merged(project, elsewhere):
        tally.wrong.append("the other machine's events cannot be merged")
    for command in ("project", "verify"):
        done = project.faber(command)
        if done.returncode != 0:
            tally.wrong.append(f"{command}: {done.stdout}{done.stderr}")


def slowest(folder: Path) -> tuple[float, str]:
    """Give the longest time that a hook has taken for 10 MB, in seconds, and for what; the shortest of three each."""
    project = Project.made(folder / "large")
    project.deliver(START, client="one")
    found = []
    for kind in (START, "PreCompact.auto.print", "PostCompact.auto.print", "SessionEnd.other.print"):
        for name, content in LARGE.items():
            times = []
            for _ in range(3):
                begin = time.perf_counter()
                assert project.deliver(kind, client="one", stdin=content).code == 0
                times.append(time.perf_counter() - begin)
            found.append((min(times), f"{kind.partition('.')[0]}, {name}"))
    return max(found)


def figures(soak: Soak, longest: tuple[float, str], seed: int) -> list[str]:
    """Give the page's lines."""
    rows: list[tuple[str, Any]] = [
        (f"length, seconds; {os.cpu_count()} processors; seed {seed}", soak.seconds),
        ("deliveries acknowledged", soak.acknowledged),
        ("of them hostile", soak.hostile),
        ("of them spooled, and recorded later", soak.waited),
        ("killed at any moment, so their outcome is unknown", soak.killed),
        ("calls broken, or killed at", soak.injected),
        ("refused by log and spool, and reported", soak.told),
        ("times the lock was held by a stopped process", soak.held),
        ("commits / merges of another machine's run, meanwhile", f"{soak.commits} / {soak.merges}"),
        ("times another tool rewrote `state.json`", soak.rewritten),
        ("events in the log at the end, which verifies", soak.events),
        ("**acknowledged and lost / recorded twice**", f"**{soak.lost} / {soak.doubled}**"),
        ("wrong exit codes, answers and files", len(soak.wrong)),
        (f"longest hook on 10 MB ({longest[1]}), alone, best of three", f"{longest[0]:.2f} s"),
    ]
    shown = [f"| {name} | {value:,} |" if isinstance(value, int) else f"| {name} | {value} |" for name, value in rows]
    return ["", "| what | figure |", "|---|---|", *shown]


if __name__ == "__main__":
    minutes = float(sys.argv[1]) if sys.argv[1:] else 10.0
    drawn = int(sys.argv[2]) if sys.argv[2:] else random.randrange(10_000)
    os.environ["PATH"] = WITH_DRIVER
    scene = Path(tempfile.mkdtemp(prefix="faber-ledger-"))
    sys.stdout.write(f"in {scene}, which is kept unless all is well; seed {drawn}\n")
    sys.stdout.flush()
    outcome = soaked(scene, minutes * 60, drawn)
    sys.stdout.write("\n".join([str(outcome._replace(wrong=())), *outcome.wrong]) + "\n")
    put("the soak", figures(outcome, slowest(scene), drawn), by="make soak")
    if outcome.lost or outcome.doubled or outcome.wrong:
        sys.exit(f"promises were broken; again with: make soak MINUTES={minutes:g} SEED={drawn}")
    shutil.rmtree(scene)
