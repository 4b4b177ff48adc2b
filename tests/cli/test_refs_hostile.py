"""Refs that somebody else wrote: only events that the gate takes, and a state that is one, enter a clone."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support.carried import SENT, CarriedClone, Origin
from support.clones import RUN
from support.folders import make_folder
from support.project import usual_state

from faber_ledger.projections.fold import NAMES

LIMITED = """
from faber_ledger.cli.entry import main
from faber_ledger.cli.sync import refs
refs.LARGEST["ledger.db"] = 1000
main()
"""
SHOP = "shop-1"
# Levels of JSON that can be read and not walked through; from Python 3.12 on a comprehension is no frame of its own.
DEPTH = 900 if sys.version_info < (3, 12) else 985


@pytest.fixture
def one(tmp_path: Path) -> CarriedClone:
    """A clone that has sent its run."""
    clone = CarriedClone.started(tmp_path / "one")
    clone.sync()
    return clone


def newer_format(ledger: bytes) -> bytes:
    path = make_folder() / "ledger.db"
    path.write_bytes(ledger)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    return path.read_bytes()


def others_ledger(one: CarriedClone) -> bytes:
    """Return the ledger of another run."""
    one.faber("run", "start", "--work-id", "9", "--run-id", "other-1", "--yes")
    one.sync()
    one.name_run()
    return one.origin.content("ledger.db", "other-1")


def bad_ledger(one: CarriedClone, kind: str) -> bytes | tuple[str, str, str]:
    """Return what a ref has in a ledger's place."""
    origin = one.origin
    if kind == "tree":
        entry = f"100644 blob {origin.blob(b'x')}\tledger.db\n"
        return "040000", "tree", origin.git("mktree", content=entry.encode())
    if kind == "link":
        return "120000", "blob", origin.blob(b"/etc/hostname")
    if kind == "submodule":
        return "160000", "commit", "1" * 40
    if kind == "own commit":
        return "160000", "commit", origin.heads()[RUN]
    if kind == "other run":
        return others_ledger(one)
    return {"empty": b"", "random": bytes(range(256)) * 40, "text": b"SQLite format 3\0"}[kind]


@pytest.mark.parametrize("kind", ["tree", "link", "submodule", "own commit", "empty", "random", "text", "other run"])
def test_what_is_no_ledger_of_the_run_is_left_and_not_used(one: CarriedClone, kind: str) -> None:
    is_other = kind == "other run"
    state = json.dumps({**one.state, "updated_at": "2099-01-01T00:00:00Z", "theirs": 1}).encode()
    head = one.origin.put({"ledger.db": bad_ledger(one, kind), "state.json": state})
    one.work("second")
    before = one.log_ids(), one.state
    done = one.sync(code=22 if is_other else 1)
    why = "its ref is another run with the same id" if is_other else "its ref at origin has no ledger that can be read"
    assert f"{RUN}: not sent: {why}" in done.stdout
    assert f"`faber-ledger run forget --remote {RUN}` if nobody needs it" in done.stderr or is_other
    assert (one.log_ids(), one.state) == before
    assert one.origin.heads()[RUN] == head
    assert why in one.faber("status").stdout
    assert f"nothing was fetched: {why}" in one.faber("run", "resume", RUN).stderr
    one.faber("run", "forget", "--remote", RUN, "--yes")
    one.sync(RUN)
    assert one.origin.has(one)


def test_two_clones_that_start_one_id_overwrite_nothing(one: CarriedClone) -> None:
    two = one.second("two")
    for clone in (one, two):
        clone.faber("run", "start", "--work-id", "9", "--run-id", SHOP, "--target", f"By {clone.root.name}", "--yes")
    one.sync(SHOP)
    head = one.origin.heads()[SHOP]
    path = two.root / f".fractary/runs/{SHOP}/state.json"
    before = path.read_bytes(), two.log_of(SHOP)
    said = two.sync(SHOP, code=22)
    assert f"{SHOP}: not sent: its ref is another run with the same id: nothing of it is used" in said.stdout
    hint = "start the run here again under another id"
    assert hint in said.stderr
    assert f"{hint} (`faber-ledger run start --run-id ID`)" in two.faber("status").stdout
    assert hint in two.call(*two.command("doctor")).stdout
    assert (path.read_bytes(), two.log_of(SHOP)) == before
    assert one.origin.heads()[SHOP] == head
    assert one.sync(SHOP).stdout == "nothing to fetch from origin, and nothing to send\n"


def test_a_ledger_of_a_newer_format_is_left_alone(one: CarriedClone) -> None:
    head = one.origin.put({"ledger.db": newer_format(one.origin.content("ledger.db"))})
    one.work("second")
    said = one.sync(code=12).stdout
    assert f"{RUN}: not sent: its ledger at origin has a newer format than this program knows" in said
    assert one.origin.heads()[RUN] == head
    assert "newer format" in one.faber("status").stdout
    assert "not sent" in one.start_line()


def test_one_bad_ref_does_not_stop_the_others(one: CarriedClone) -> None:
    one.add_run(SHOP)
    one.origin.git("update-ref", SENT + RUN, one.origin.blob(b"x"))
    one.sync(code=1)
    assert one.origin.has(one, SHOP)


def test_one_deep_state_does_not_stop_the_others(one: CarriedClone) -> None:
    one.work("second")
    one.add_run(SHOP)
    deep = json.dumps({**one.state, "updated_at": "2027-01-01T00:00:00Z"})[:-1]
    one.state_path.write_text(f'{deep}, "deep": {"[" * DEPTH}{"]" * DEPTH}}}')
    assert f"{RUN}: its state.json is not sent: it is nested too deeply" in one.sync(code=1).stderr
    assert one.origin.has(one, SHOP)


def test_a_ledger_that_is_too_large_is_not_read(one: CarriedClone) -> None:
    head = one.origin.put({"ledger.db": one.origin.content("ledger.db")})
    command = [sys.executable, "-c", LIMITED, "sync"]
    done = subprocess.run(command, cwd=one.root, env=one.environment, check=False, capture_output=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert b"has no ledger that can be read" in done.stdout
    assert one.origin.heads()[RUN] == head


@pytest.mark.parametrize("kind", ["blob", "tree", "tag"])
def test_a_ref_of_something_else_is_said_and_left(one: CarriedClone, kind: str) -> None:
    origin = one.origin
    if kind == "tag":
        origin.git("tag", "-a", "-m", "x", "made", SENT + RUN)
        named = origin.git("rev-parse", "made")
    else:
        named = origin.blob(b"x") if kind == "blob" else origin.git("rev-parse", f"{SENT}{RUN}^{{tree}}")
    origin.git("update-ref", SENT + RUN, named)
    one.work("second")
    done = one.sync(code=1)
    assert f"{RUN}: not sent: its ref at origin is not a commit" in done.stdout
    assert f"hint: run `faber-ledger run forget --remote {RUN}` if nobody needs it" in done.stderr
    assert origin.heads()[RUN] == named
    assert one.faber("run", "list", "--remote").stdout == "no run matches at the remote\n"
    one.faber("run", "forget", "--remote", RUN, "--yes")
    one.sync(RUN)
    assert origin.has(one)


def test_a_ref_that_names_another_run_is_said_and_left(one: CarriedClone) -> None:
    head = one.origin.put({"ledger.db": one.origin.content("ledger.db")}, message=b"x\n\nRun: shop-9\n")
    one.work("second")
    assert f"{RUN}: not sent: its ref at origin belongs to another run or project" in one.sync(code=1).stdout
    assert one.origin.heads()[RUN] == head


def test_a_commit_that_git_refuses_does_not_stop_the_others(one: CarriedClone) -> None:
    one.add_run(SHOP)
    one.sync()
    tree = one.origin.git("rev-parse", f"{SENT}{RUN}^{{tree}}")
    content = f"tree {tree}\ncommitter x\n\nx\n".encode()
    bad = one.origin.git("hash-object", "-w", "-t", "commit", "--literally", "--stdin", content=content)
    one.origin.git("update-ref", SENT + RUN, bad)
    two = one.second("two")
    two.git("config", "fetch.fsckObjects", "true")
    assert SHOP in two.faber("run", "list", "--remote").stdout
    two.sync(SHOP)
    one.deliver("session-start", "more", hook_event_name="SessionStart", source="startup")
    one.sync()
    said = two.sync(code=1).stdout
    assert f"{RUN}: not sent: `git fetch` failed" in said
    assert f"{SHOP}: " in said
    assert two.log_of(SHOP) == one.log_of(SHOP)


def test_a_ref_below_a_runs_ref_is_said(one: CarriedClone) -> None:
    one.faber("run", "forget", "--remote", RUN, "--yes")
    one.origin.git("update-ref", f"{SENT}{RUN}/x", one.origin.git("rev-parse", "main"))
    assert "[remote rejected]" in one.sync(RUN, code=14).stdout


# What a list shows


def test_a_message_shows_no_control_character_and_no_other_run(one: CarriedClone) -> None:
    ledger = one.origin.content("ledger.db")
    red = b"x\n\nRun: shop-1\nWork-Item: \x1b[31mred\x07\xff\xe2\x80\xae\nStatus: a\tb\nBranch: " + b"b" * 9000
    one.origin.put({"ledger.db": ledger}, SHOP, message=red)
    one.origin.put({"ledger.db": ledger}, "shop-2", message=f"x\n\nRun: {RUN}\n".encode())
    one.origin.put({"ledger.db": ledger}, "shop-3", message=b"x\n\nRun: shop-3\nFolder: 0123\n")
    one.origin.put({"ledger.db": ledger}, "shop-4", message=b"x\n\nRun: ../../shop-4\n")
    shown = one.faber("run", "list", "--remote").stdout
    assert sorted(line.split()[0] for line in shown.splitlines()[1:]) == [RUN, SHOP]
    assert "[31mred" in shown
    assert not {"\x1b", "\x07", "\u202e"} & {*shown}
    rows = json.loads(one.faber("run", "list", "--remote", "--json").stdout)["data"]
    assert all(len(row["branch"]) <= 200 for row in rows)


def test_odd_names_are_no_runs(one: CarriedClone) -> None:
    ledger = one.origin.content("ledger.db")
    for name in ("%2E%2E%2Fup", "a/b", "a%2Fb%2Fc%2Fd", "%41", "x" * 200, "+shop", "ünicode", "\udcff"):
        one.origin.put({"ledger.db": ledger}, name)
    for name in ("Shop-1", "shop-1"):
        one.origin.put({"ledger.db": ledger}, name)
    shown = one.faber("run", "list", "--remote").stdout.splitlines()
    assert sorted(line.split()[0] for line in shown[1:]) == ["Shop-1", RUN, "shop-1"]
    one.work("second")
    one.sync()
    assert one.origin.has(one)


# What a second machine takes


def snapshot(clone: CarriedClone) -> dict[str, bytes]:
    """Return all files but those of the run, of the active file and of git's objects and refs."""
    ours = (f".fractary/runs/{SHOP}/", ".fractary/faber/", ".git/objects/", ".git/faber-ledger/", ".git/refs/faber")
    return {
        str(path.relative_to(clone.root.parent)): path.read_bytes()
        for path in clone.root.parent.rglob("*")
        if path.is_file()
        and "origin.git" not in path.parts
        and not str(path.relative_to(clone.root.parent)).startswith(tuple(f"{clone.root.name}/{one}" for one in ours))
    }


def shop_clone(one: CarriedClone) -> CarriedClone:
    """Send another run, and return a clone that does not have it."""
    one.add_run(SHOP)
    (one.root / f".fractary/runs/{SHOP}/metadata.json").write_text("{}")
    one.sync()
    return one.second("two")


def good_files(origin: Origin) -> dict[str, bytes | tuple[str, str, str]]:
    return {name: origin.content(name, SHOP) for name in ("ledger.db", "state.json", "metadata.json")}


STATES: dict[str, bytes] = {
    "invalid": b"{",
    "list": b"[]",
    "deep": b'{"a": ' + b"[" * 100_000,
    "other run": json.dumps(usual_state(RUN)).encode(),
    "up": json.dumps({**usual_state("../../up")}).encode(),
    "not text": b"\xff\xfe",
    "bare": b'{"status": "completed"}',
    "status": json.dumps({**usual_state(SHOP), "status": "weird"}).encode(),
    "time": json.dumps({**usual_state(SHOP), "updated_at": {"a": 1}}).encode(),
    "long": json.dumps({**usual_state(SHOP), "a": "a b " * (1 << 20)}).encode(),
}


@pytest.mark.parametrize("name", STATES)
def test_a_bad_state_writes_nothing_elsewhere(one: CarriedClone, name: str) -> None:
    two = shop_clone(one)
    one.origin.put({**good_files(one.origin), "state.json": STATES[name]}, SHOP)
    before = snapshot(two)
    done = two.call(*two.command("run", "resume", SHOP, "--yes"))
    assert snapshot(two) == before
    state = json.loads((two.root / f".fractary/runs/{SHOP}/state.json").read_text())
    assert (done.returncode, state["run_id"]) == (0, SHOP)
    assert ("state.json is made of the log" in done.stderr) == (name != "time")
    assert two.log_of(SHOP) == one.origin.ids(SHOP)


@pytest.mark.parametrize("name", [name for name in STATES if name not in ("other run", "time")])
def test_a_bad_state_at_the_remote_is_replaced_by_ours(one: CarriedClone, name: str) -> None:
    one.sync()
    bad = STATES[name].replace(SHOP.encode(), RUN.encode())
    one.origin.put({"ledger.db": one.origin.content("ledger.db"), "state.json": bad})
    before = {name: value for name, value in one.state.items() if name not in NAMES}
    one.work("second")
    one.sync()
    assert {key: one.state.get(key) for key in before} == before
    assert {key: json.loads(one.origin.content("state.json")).get(key) for key in before} == before


@pytest.mark.parametrize("name", ["state.json", "metadata.json", "ledger.db"])
@pytest.mark.parametrize("kind", ["link", "tree", "submodule"])
def test_an_entry_that_is_no_file_writes_nothing_elsewhere(one: CarriedClone, name: str, kind: str) -> None:
    two = shop_clone(one)
    target = one.root.parent / "target"
    target.write_text("kept")
    entry = bad_ledger(one, kind) if kind != "link" else ("120000", "blob", one.origin.blob(str(target).encode()))
    one.origin.put({**good_files(one.origin), name: entry, "extra": b"x"}, SHOP)
    before = snapshot(two)
    done = two.call(*two.command("run", "resume", SHOP, "--yes"))
    assert snapshot(two) == before
    there = {path.name for path in (two.root / ".fractary/runs").glob(f"{SHOP}/*")}
    if name == "ledger.db":
        assert (done.returncode, there) == (1, set())
        assert "its ref at origin has no ledger that can be read" in done.stderr
        assert SHOP not in two.faber("run", "list").stdout
    else:
        assert (done.returncode, there) == (0, {"state.json", "metadata.json"} - ({name} & {"metadata.json"}))
        assert json.loads((two.root / f".fractary/runs/{SHOP}/state.json").read_text())["run_id"] == SHOP


def test_a_newer_ledger_is_not_taken_by_a_second_machine(one: CarriedClone) -> None:
    two = shop_clone(one)
    one.origin.put({**good_files(one.origin), "ledger.db": newer_format(one.origin.content("ledger.db"))}, SHOP)
    two.faber("run", "resume", SHOP, "--yes", code=12)
    two.sync(SHOP, code=12)
    assert not (two.root / f".fractary/runs/{SHOP}").exists()
