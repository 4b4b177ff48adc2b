"""`make soak`: break everything at once for some minutes, then look for every acknowledged delivery in the log."""

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

from support.command import COMMAND
from support.project import Answer, Project, units

from faber_ledger.ledger.clock import now
from faber_ledger.recording import inbox
from faber_ledger.recording.sessions import delivery_of
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.seen import note_delivery
from faults.calls import ERRORS, KILL, break_call
from faults.crowds import KINDS
from faults.holder import start_holder
from faults.page import write_lines

START = "SessionStart.startup.print"
CLIENTS = 3
WITH_DRIVER = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"  # where git finds the merge driver
# About how often a hook makes each call. Only the matrix breaks `openat`: Python makes hundreds of these calls.
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
REFUSED = ("cannot be written into the inbox", "a bug in faber-ledger")
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
    """The outcome. `acknowledged` deliveries must be in the log once; those of killed hooks may be there or not."""

    seconds: int
    acknowledged: int
    killed: int
    refused: int
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
    """What the actors have done; each counts its own work."""

    def __init__(self, seconds: float, seed: int) -> None:
        self.end = time.monotonic() + seconds
        self.seed = seed
        self.acknowledged: list[str] = []
        self.killed: list[str] = []
        self.wrong: list[str] = []
        self.counts = dict.fromkeys(
            ("refused", "waited", "injected", "hostile", "held", "commits", "merges", "rewritten"), 0
        )
        self._mutex = threading.Lock()
        self.committing = threading.Lock()  # so that no commit holds a state.json that is broken for a moment

    def count(self, name: str) -> None:
        with self._mutex:
            self.counts[name] += 1

    def take(self, client: str, answer: Answer, kind: str) -> None:
        """Count a hook's answer: its delivery is acknowledged unless the hook reports that it was refused."""
        if answer.code != 0 or "Traceback" in answer.errors:
            self.wrong.append(f"{client}: exit code {answer.code}: {answer.errors}")
        if kind.startswith("SessionStart"):
            if answer.packet is not None and units(answer.packet) > 9_500:
                self.wrong.append(f"{client}: a packet of {units(answer.packet)}")
        elif answer.output and answer.hint is None:
            self.wrong.append(f"{client}: {answer.output!r}")
        if any(said in answer.errors for said in REFUSED):
            self.count("refused")
            return
        self.acknowledged.append(client)
        if "it waits in" in answer.errors:
            self.count("waited")


def run_client(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """Run an undisturbed hook."""
    kind = chance.choice(KINDS)
    note_delivery(str(project.root), name, name, now())
    tally.take(name, project.deliver(kind, client=name, pid=name), kind)


def send_hostile(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """Send a hook something that is not a delivery; its variables name the client."""
    kind = chance.choice([kind for kind in KINDS if "subagent" not in kind])  # the content would say so
    content = chance.choice(HOSTILE)
    tally.take(name, project.deliver(kind, client=name, pid=name, stdin=content), kind)
    tally.count("hostile")


def kill_hook(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """Run a hook and kill it at a random moment."""
    kind = chance.choice(KINDS)
    process = project.started(kind, client=name, pid=name)
    tally.killed.append(name)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(project.prepared(kind, client=name, pid=name)[0], timeout=chance.uniform(0.02, 0.6))
    process.kill()
    process.communicate()


def break_hook(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """Run a hook; make one of its calls fail, or kill it there."""
    kind = chance.choice(KINDS)
    content, environment, event = project.prepared(kind, client=name, pid=name)
    fault = chance.choice((KILL, *ERRORS))
    command = [str(COMMAND), "hook", event]
    call = chance.choice(list(BREAKABLE))
    number = chance.randint(1, BREAKABLE[call])
    ended, line = break_call(call, number, fault, command, project.root, environment, content)
    if line or ended.code < 0:
        tally.count("injected")
    if ended.code == -signal.SIGKILL and fault == KILL:
        tally.killed.append(name)
    else:
        tally.take(name, Answer(ended.code, ended.output.encode(), ended.errors.encode()), kind)


def stop_holder(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """Stop a process while it holds the lock."""
    time.sleep(chance.uniform(1, 6))
    process = start_holder(project)
    process.send_signal(signal.SIGSTOP)
    time.sleep(chance.uniform(0.1, 4))
    process.kill()
    process.communicate()
    tally.count("held")


def rewrite_state(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """Rewrite state.json by a rename, as another tool does, and sometimes break it for a moment."""
    time.sleep(chance.uniform(0.01, 0.2))
    temporary = project.state_path.with_name(f"state.{name}")
    try:
        before = project.state_path.read_bytes()
        if not before:
            return  # git has just created it
        state = json.loads(before)
    except FileNotFoundError:
        return  # git is replacing it
    except ValueError as error:
        tally.wrong.append(f"state.json: {error}")
        return
    intact = json.dumps({**state, "counter": name}, indent=2)
    with tally.committing if chance.random() < 0.02 else nullcontext() as is_broken:
        if is_broken:
            temporary.write_bytes(before[: len(before) // 2])
            os.replace(temporary, project.state_path)
            time.sleep(0.1)
        temporary.write_text(intact)
        os.replace(temporary, project.state_path)
    tally.count("rewritten")


def commit_and_merge(project: Project, tally: Tally, chance: random.Random, name: str) -> None:
    """Commit, sometimes check out an older ledger before, and merge the work of another machine."""
    time.sleep(chance.uniform(0.2, 1))
    if chance.random() < 0.3:
        ledger = str(project.ledger_path.relative_to(project.root))
        _git(project, "checkout", f"HEAD~{chance.randrange(3)}", "--", ledger)
    with tally.committing:
        tally.counts["commits"] += _commit(project, name)
    elsewhere = _elsewhere(project)
    run_client(elsewhere, tally, chance, name)
    assert _commit(elsewhere, name)
    with tally.committing:
        tally.counts["merges"] += _merge(project, elsewhere)


def _commit(project: Project, message: str) -> bool:
    return _git(project, "add", "-A") and _git(project, "commit", "-qm", message)


def _merge(project: Project, elsewhere: Project) -> bool:
    """Merge another machine's commits; return whether git did, as it refuses if hooks wrote after the last commit."""
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


ACTORS = (
    *[run_client] * CLIENTS,
    send_hostile,
    kill_hook,
    break_hook,
    break_hook,
    stop_holder,
    rewrite_state,
    commit_and_merge,
)


def soak_run(folder: Path, seconds: float, seed: int) -> Soak:
    """Run all actors on one run for some seconds, then a last hook, and count. PATH must be `WITH_DRIVER`."""
    project = Project.made(folder / "project")
    assert project.faber("init", "--git-only").returncode == 0
    project.deliver(START, client="the first")
    assert _commit(project, "begin")
    elsewhere = project.clone(folder / "elsewhere", "dev-machine-2")
    assert elsewhere.faber("init", "--git-only").returncode == 0
    tally = Tally(seconds, seed)
    with ThreadPoolExecutor(len(ACTORS)) as pool:
        work = [pool.submit(_act, project, tally, number) for number in range(len(ACTORS))]
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


def _act(project: Project, tally: Tally, number: int) -> None:
    chance = random.Random(f"{tally.seed}-{number}")
    turn = 0
    while time.monotonic() < tally.end:
        turn += 1
        name = f"{number}-{turn}"
        note_delivery(str(project.root), name, name, now())  # the end of an unknown client is not recorded
        ACTORS[number](project, tally, chance, name)


def _settle(project: Project, elsewhere: Project, tally: Tally) -> None:
    """Record what waits, and merge what the other machine has."""
    for each in (project, elsewhere):
        answer = each.deliver(START, client=f"the last on {each.hostname}")
        if answer.code != 0 or inbox.list_waiting(find_run(str(each.root), each.run_id)):
            tally.wrong.append(f"deliveries still wait: {answer.errors}")
        if not _commit(each, "end"):
            tally.wrong.append("the last commit was refused")
    if not _merge(project, elsewhere):
        tally.wrong.append("the other machine's events cannot be merged")
    for command in ("project", "verify"):
        done = project.faber(command)
        if done.returncode != 0:
            tally.wrong.append(f"{command}: {done.stdout}{done.stderr}")


def measure_slowest(folder: Path) -> tuple[float, str]:
    """Return the longest time of a hook on 10 MB, in seconds, and its input; the best of three for each input."""
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
    """Return the page's lines."""
    rows: list[tuple[str, Any]] = [
        (f"length, seconds; {os.cpu_count()} processors; seed {seed}", soak.seconds),
        (
            "deliveries acknowledged / hostile / left in the inbox first",
            _joined(soak.acknowledged, soak.hostile, soak.waited),
        ),
        (
            "killed at any moment / calls broken / refused, and reported",
            _joined(soak.killed, soak.injected, soak.refused),
        ),
        (
            "commits / merges / rewrites of `state.json` / held locks",
            _joined(soak.commits, soak.merges, soak.rewritten, soak.held),
        ),
        ("events in the log at the end, which verifies", soak.events),
        ("**acknowledged and lost / recorded twice**", f"**{soak.lost} / {soak.doubled}**"),
        ("wrong exit codes, answers and files", len(soak.wrong)),
        (f"longest hook on 10 MB ({longest[1]}), alone, best of three", f"{longest[0]:.2f} s"),
    ]
    shown = [f"| {name} | {value:,} |" if isinstance(value, int) else f"| {name} | {value} |" for name, value in rows]
    return ["", "| what | figure |", "|---|---|", *shown]


def _joined(*counts: int) -> str:
    return " / ".join(f"{count:,}" for count in counts)


if __name__ == "__main__":
    minutes = float(sys.argv[1]) if sys.argv[1:] else 10.0
    drawn = int(sys.argv[2]) if sys.argv[2:] else random.randrange(10_000)
    os.environ["PATH"] = WITH_DRIVER
    scene = Path(tempfile.mkdtemp(prefix="faber-ledger-"))
    sys.stdout.write(f"in {scene}, which is kept if anything fails; seed {drawn}\n")
    sys.stdout.flush()
    outcome = soak_run(scene, minutes * 60, drawn)
    sys.stdout.write("\n".join([str(outcome._replace(wrong=())), *outcome.wrong]) + "\n")
    write_lines("the soak", figures(outcome, measure_slowest(scene), drawn), by="make soak")
    if outcome.lost or outcome.doubled or outcome.wrong:
        sys.exit(f"promises were broken; to repeat: make soak MINUTES={minutes:g} SEED={drawn}")
    shutil.rmtree(scene)
