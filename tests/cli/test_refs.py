"""Ledgers in git refs: what is sent and fetched, by whom and when, with the installed command and real git."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from support.carried import SENT, SETTINGS, CarriedClone, agree, count_git, path_with_script
from support.clones import RUN
from support.command import COMMAND
from support.layouts import LAYOUTS
from support.project import usual_state

from faber_ledger.cli.sync.carried import lock_sending

TOKEN, PASSWORD = f"ghp_{'aB3dE6gH9j' * 4}"[:40], "correct-horse-battery"


@pytest.fixture
def one(tmp_path: Path) -> CarriedClone:
    """A clone with a run that has one session, of which nothing was sent."""
    return CarriedClone.started(tmp_path / "one")


# One ref a run


def test_a_commit_has_three_files_and_a_message(one: CarriedClone) -> None:
    (one.state_path.parent / "metadata.json").write_text('{"a": 1}')
    said = one.sync().stdout
    assert said == f"{RUN}: 0 events fetched from origin, {len(one.log_ids())} sent\n"
    names = one.origin.git("ls-tree", "--name-only", SENT + RUN).splitlines()
    assert names == ["ledger.db", "metadata.json", "state.json"]
    assert one.origin.ids() == one.log_ids()
    assert json.loads(one.origin.content("state.json"))["work_id"] == "258"
    assert one.origin.content("metadata.json") == b'{\n  "a": 1\n}\n'
    message = one.origin.git("log", "-1", "--format=%B", SENT + RUN).splitlines()
    assert message[:3] == [RUN, "", f"Run: {RUN}"]
    known = {"State", "Work-Item", "Status", "Phase", "Writer", "Machine"}
    assert {line.partition(": ")[0] for line in message[3:]} == known


def test_the_list_at_the_remote_has_the_columns_of_the_one_here(one: CarriedClone) -> None:
    two = one.second("two")
    for known, words in (
        ({"status": "awaiting_feedback", "feedback_request": {"prompt": "Which?"}}, "waiting: question"),
        ({"status": "in_progress", "pending_approvals": [{"phase": "release"}]}, "waiting: approval"),
        (
            {"status": "in_progress", "approvals": [{"phase": "release", "status": "rejected"}]},
            "waiting: approval rejected",
        ),
        ({"status": "failed"}, "failed"),
    ):
        one.record(f"client {words}")
        state = json.loads(one.state_path.read_text())
        more = {"target": f"Add {TOKEN}", "artifacts": {"branch_name": "main", "pr_number": 87}}
        one.state_path.write_text(json.dumps({**state, **more, **known, "updated_at": "2099-01-05T09:00:00Z"}))
        one.sync()
        shown = two.faber("run", "list", "--remote").stdout
        head, line = shown.splitlines()
        assert line.endswith(f"  now   {words}")
        assert TOKEN not in one.origin.git("log", "--format=%B", SENT + RUN)
        (row,) = json.loads(two.faber("run", "list", "--remote", "--json").stdout)["data"]
        here = json.loads(one.faber("run", "list", "--json").stdout)["data"][0]
        names = ("work_id", "status", "phase", "machine", "who", "state", "waits_for", "pull_request")
        assert {name: row[name] for name in names} == {name: here[name] for name in names}
        assert (bool(row["open_session"]), row["is_mine"], here["is_mine"]) == (True, False, True)
        assert head.replace("sent ", "last event ").split() == one.faber("run", "list").stdout.splitlines()[0].split()
        assert " sent " in head  # the plain list has the age of the last event
    assert json.loads(two.faber("run", "list", "--remote", "--mine", "--json").stdout)["data"] == []


@pytest.mark.parametrize(
    ("metadata", "sent"),
    [
        (f'{{"token": "{TOKEN}", "a": "password: {PASSWORD}"}}', True),
        (f'{{"token": "{TOKEN}", "token": ""}}', True),
        (f'["{TOKEN}"]', False),
        (f'{{"token": "{TOKEN}"', False),
    ],
)
def test_no_secret_of_metadata_is_sent(one: CarriedClone, metadata: str, sent: bool) -> None:
    (one.state_path.parent / "metadata.json").write_text(metadata)
    one.sync(code=int(not sent))
    names = one.origin.git("ls-tree", "--name-only", SENT + RUN).splitlines()
    assert ("metadata.json" in names) == sent
    content = one.origin.content("metadata.json") if sent else b""
    assert TOKEN.encode() not in content
    assert PASSWORD.encode() not in content


def test_a_commit_is_a_child_of_the_remotes_head(one: CarriedClone) -> None:
    one.sync()
    first = one.origin.heads()[RUN]
    one.work("second")
    one.sync()
    assert one.origin.git("rev-list", "--parents", "-1", SENT + RUN).split()[1:] == [first]
    two = one.second("two")
    two.sync()
    two.work("third")
    one.work("fourth")
    two.sync()
    theirs = one.origin.heads()[RUN]
    one.sync()
    assert one.origin.git("rev-list", "--parents", "-1", SENT + RUN).split()[1:] == [theirs]
    assert one.origin.ids() == one.log_ids() | two.log_ids() == one.log_ids()


def test_a_remotes_newer_state_stays_there(one: CarriedClone) -> None:
    one.sync()
    two = one.second("two")
    two.change(updated_at="2027-01-01T00:00:00Z", status="completed")
    two.sync()
    one.work("second")
    one.sync()
    state = json.loads(one.origin.content("state.json"))
    assert state["status"] == "completed"
    assert one.state["status"] == "in_progress"
    assert state["sessions"] == one.state["sessions"]


def test_a_clone_without_the_runs_files_keeps_what_the_ref_has(one: CarriedClone) -> None:
    one.state_path.unlink()
    one.put(
        {
            key: value
            for key, value in json.loads(one.git("show", f"HEAD:.fractary/runs/{RUN}/state.json")).items()
            if key != "updated_at"
        }
    )
    (one.state_path.parent / "metadata.json").write_text('{"a": 1}')
    one.sync()
    two = one.second("two")
    two.sync()
    two.git("rm", "-rq", f".fractary/runs/{RUN}")
    two.git("commit", "-qm", "without")
    two.record("kept")
    two.sync()
    assert one.origin.ids() == two.log_ids() > one.log_ids()
    assert f"\nState: .fractary/runs/{RUN}/state.json\n" in one.origin.git("log", "-1", "--format=%B", SENT + RUN)
    assert json.loads(one.origin.content("state.json"))["work_id"] == "258"
    assert one.origin.content("metadata.json") == b'{\n  "a": 1\n}\n'


@pytest.mark.parametrize(
    ("run_id", "name"),
    [
        ("Shop-UPPER-1", "Shop-UPPER-1"),
        ("plan-1/part/2", "plan-1%2Fpart%2F2"),
        ("a..b", "a%2E%2Eb"),
        ("ends.", "ends%2E"),
        ("ends.lock", "ends%2Elock"),
        ("x" * 181, "x" * 180 + hashlib.sha256(b"x" * 181).hexdigest()[:16]),
        ("x" * 240, "x" * 180 + hashlib.sha256(b"x" * 240).hexdigest()[:16]),
    ],
)
def test_a_refs_name_is_the_runs(one: CarriedClone, run_id: str, name: str) -> None:
    one.add_run(run_id)
    one.sync()
    assert name in one.origin.heads()
    two = one.second("two")
    assert run_id in two.faber("run", "list", "--remote").stdout
    two.faber("run", "resume", run_id, "--yes")
    assert (two.root / ".fractary/runs" / run_id / "state.json").exists()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_run_comes_into_the_layout_that_it_has(tmp_path: Path, layout: str) -> None:
    one = CarriedClone.started(tmp_path / "one")
    state, _, run_id = LAYOUTS[layout]
    path = one.root / state
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(usual_state(run_id)))
    one.name_run(run_id)
    one.deliver("session-start", "first", hook_event_name="SessionStart", source="startup")
    one.sync()
    two = one.second("two")
    two.faber("run", "resume", run_id, "--yes")
    states = [found.relative_to(two.root).as_posix() for found in two.root.glob(".fractary/**/state*.json")]
    assert sorted(states) == sorted([f".fractary/runs/{RUN}/state.json", state])


@pytest.mark.parametrize(
    "state", ["../../state.json", ".fractary/faber/ledger.json", f".fractary/runs/{RUN}/state.json"]
)
def test_a_place_that_no_layout_has_is_not_used(one: CarriedClone, state: str) -> None:
    one.add_run("shop-1")
    one.sync()
    message = one.origin.git("log", "-1", "--format=%B", f"{SENT}shop-1")
    content: dict[str, bytes | tuple[str, str, str]] = {
        name: one.origin.content(name, "shop-1") for name in ("ledger.db", "state.json")
    }
    path = ".fractary/runs/shop-1/state.json"
    assert f"State: {path}" in message
    one.origin.put(content, "shop-1", message=message.replace(path, state).encode())
    two = one.second("two")
    before = (two.root / SETTINGS).read_bytes()
    two.faber("run", "resume", "shop-1", "--yes")
    assert (two.root / path).exists()
    assert (two.root / SETTINGS).read_bytes() == before


# Several clones


def test_two_clones_that_send_at_once_lose_nothing(one: CarriedClone) -> None:
    one.sync()
    clones = [one, one.second("two"), one.second("three")]
    for number in range(3):
        for clone in clones:
            clone.work(f"{clone.root.name}-{number}")
        for process in [clone.start_sync() for clone in clones]:
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
    assert one.origin.ids() == clones[0].log_ids() | clones[1].log_ids() | clones[2].log_ids()
    clients = {f"{clone.root.name}-{number}" for clone in clones for number in range(3)}
    one.sync()
    assert clients < one.clients()


def test_what_a_faster_clone_completed_is_not_unsent(one: CarriedClone) -> None:
    one.sync()
    two = one.second("two")
    one.work("second")
    script = f"""
    cd {one.origin.root}
    tree=$({{ git ls-tree {SENT}{RUN} | grep -v ledger.db
      printf '100644 blob %s\\tledger.db\\n' "$(git hash-object -w {one.log})"; }} | git mktree)
    message=$(git log -1 --format=%B {SENT}{RUN})
    git update-ref {SENT}{RUN} "$(git commit-tree $tree -p {SENT}{RUN} -m "$message")"
    """
    assert "not sent" not in one.sync(path=path_with_script(one, "push", script)).stdout
    assert "not sent" not in one.faber("status").stdout
    assert {*one.origin.git("log", "--format=%cn", SENT + RUN).splitlines()} > {"faber-ledger"}
    assert one.origin.ids() == one.log_ids()
    assert two.sync().returncode == 0


def put_another(one: CarriedClone, parent: str) -> str:
    """Return a script that puts another commit with the same files onto the ref."""
    git = f"git -C {one.origin.root}"
    message = f'"$({git} log -1 --format=%B {SENT}{RUN})"'
    return f"{git} update-ref {SENT}{RUN} $({git} commit-tree {SENT}{RUN}^{{tree}} {parent} -m {message})"


def test_a_ref_that_is_replaced_during_the_fetch_is_read(one: CarriedClone) -> None:
    one.second_at_work()
    one.work("second")
    one.sync(path=path_with_script(one, "fetch", put_another(one, "")))
    assert int(one.origin.git("rev-list", "--count", SENT + RUN)) == 2
    assert "by two" in one.clients()
    assert one.origin.ids() == one.log_ids()


@pytest.mark.parametrize(("times", "code"), [(4, 0), (5, 14)])
def test_a_faster_clone_is_answered_five_times(one: CarriedClone, times: int, code: int) -> None:
    one.sync()
    one.work("second")
    faster = path_with_script(one, "push", put_another(one, f"-p {SENT}{RUN}"), times)
    said = one.sync(code=code, path=faster).stdout
    assert ("other clones were faster, five times" in said) == bool(code)
    one.sync()
    assert one.origin.ids() == one.log_ids()


@pytest.mark.parametrize("verb", ["ls-remote", "fetch", "fast-import", "push"])
def test_a_killed_exchange_loses_nothing(one: CarriedClone, verb: str) -> None:
    one.second_at_work()
    one.work("by one")
    one.sync(code=-9, path=path_with_script(one, verb, 'git "$@"; kill -9 $PPID'))
    one.sync()
    assert {"by one", "by two"} <= one.clients()
    assert one.origin.ids() == one.log_ids()
    assert one.sync().stdout == "nothing to fetch from origin, and nothing to send\n"


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b"\xff", b'{"commit": 1, "log": 2}', b"[" * 100_000])
def test_a_lost_note_of_what_was_sent_costs_a_comparison(one: CarriedClone, note: bytes) -> None:
    one.second_at_work()
    (one.private(RUN) / "sent.json").write_bytes(note)
    one.sync()
    assert "by two" in one.clients()
    assert one.origin.ids() == one.log_ids()
    assert one.sync().stdout == "nothing to fetch from origin, and nothing to send\n"


def test_a_start_says_nothing_of_what_no_session_has_ended(one: CarriedClone) -> None:
    one.sync()
    two = one.second("two")
    two.sync()
    two.record("begun")
    assert "not sent" not in two.start_line()
    two.end("begun")
    assert "not sent" in two.start_line("later")


def test_a_start_says_nothing_of_what_a_killed_client_left(one: CarriedClone) -> None:
    one.sync()
    agree(one.root, auto=True)
    one.record("killed")
    one.record("next")
    assert "abandoned" in one.faber("log", "--type", "session_ended").stdout
    assert "not sent" not in one.start_line("later")


# A remote that refuses, or is away


def test_a_delivery_that_waits_is_recorded_before_the_sending(one: CarriedClone) -> None:
    one.sync()
    lock = one.private(RUN) / "lock"
    lock.unlink()
    lock.mkdir()
    one.deliver("session-start", "waits", hook_event_name="SessionStart", source="startup")
    said = one.sync(code=1)
    assert f"{RUN}: 1 delivery not recorded" in said.stdout
    lock.rmdir()
    one.sync()
    assert "waits" in one.clients()
    assert one.origin.has(one)


@pytest.mark.parametrize("way", ["hook", "hidden"])
def test_a_remote_that_refuses_is_said(one: CarriedClone, way: str) -> None:
    if way == "hook":
        one.origin.refuse()
    else:
        one.origin.git("config", "transfer.hideRefs", "refs/faber-ledger")
    why = "pre-receive hook declined): remote: not here" if way == "hook" else "deny updating a hidden ref)"
    said = one.sync(code=14)
    assert f"{RUN}: not sent: [remote rejected] ({why}" in said.stdout
    then = "once that is mended, `faber-ledger sync` sends"
    assert f"not sent to origin ([remote rejected] ({why}): {then}" in one.faber("status").stdout
    assert "not sent" in one.start_line()
    if way == "hook":
        one.origin.relent()
    else:
        one.origin.git("config", "--unset", "transfer.hideRefs")
    one.sync()
    assert "not sent" not in one.faber("status").stdout
    assert one.origin.ids() == one.log_ids()


def test_a_remote_that_is_away_is_noted_and_later_sent_everything(one: CarriedClone) -> None:
    one.sync()
    one.origin.root.rename(one.root.parent / "away.git")
    sent = len(one.log_ids())
    one.work("second")
    count = len(one.log_ids()) - sent
    done = one.sync(code=13)
    assert "origin" in done.stderr
    why = "`git ls-remote` failed: "
    status = one.faber("status").stdout
    assert "Git ref: last sent to origin at 20" in status
    assert f"{count} events not sent to origin ({why}" in status
    assert "not sent" in one.start_line()
    assert one.call(str(COMMAND), "run", "list", "--remote").returncode == 13
    one.add_run("shop-1")
    (one.root.parent / "away.git").rename(one.origin.root)
    one.sync()
    assert "not sent" not in one.faber("status").stdout
    assert one.origin.has(one)
    assert one.origin.has(one, "shop-1")
    assert int(one.origin.git("rev-list", "--count", SENT + RUN)) == 2


def test_a_remote_that_is_away_does_not_stop_the_server(one: CarriedClone) -> None:
    one.origin.root.rename(one.root.parent / "away.git")
    errors = one.sync("--url", "postgresql://127.0.0.1:1/nowhere", code=13).stderr
    assert "the exchange with origin failed: `git ls-remote` failed" in errors
    assert "127.0.0.1:1" in errors


def test_a_run_that_is_only_at_the_remote_comes_by_name(one: CarriedClone) -> None:
    one.add_run("shop-1")
    state = one.root / ".fractary/runs/shop-1/state.json"
    state.write_text(state.read_text().replace('"in_progress"', '"completed"', 1))
    one.add_run("shop-2")
    one.sync()
    two = one.second("two")
    shutil.rmtree(two.root / ".fractary/runs")
    assert two.sync().stdout.startswith("no run is here: `faber-ledger run list --remote` lists those there")
    assert two.call(str(COMMAND), "search", "cache").stdout.endswith(" has all these words: cache\n")
    for words in (["replay", "shop-2"], ["reconstitute", "shop-2"], ["search", "cache", "--run-id", "shop-2"]):
        errors = two.call(str(COMMAND), *words).stderr
        assert "`faber-ledger run resume shop-2` fetches it, if origin has it" in errors
        assert "run list --remote" not in errors
    assert "`faber-ledger run resume --work-id 7` fetches one" in two.call(str(COMMAND), "log", "--work-id", "7").stderr
    two.sync("shop-3", code=10)
    two.sync("shop", code=10)  # two of them
    assert "2 runs" in two.sync("shop-", code=10).stderr
    two.sync("shop-2")
    assert (two.root / ".fractary/runs/shop-2/state.json").exists()
    said = [two.call(str(COMMAND), "run", "resume", "shop-1").stdout for _ in range(2)]
    assert ["already completed" in text and "it was fetched" in text for text in said] == [True, False]
    three = one.second("three")
    shutil.rmtree(three.root / ".fractary/runs")
    assert count_git(three, "run", "resume", "7").count("ls-remote") == 1  # as --work-id 7
    assert [path.name for path in (three.root / ".fractary/runs").iterdir()] == ["shop-2"]
    two.call(str(COMMAND), "note", "noted here", "--run-id", "shop-2")
    found = two.call(str(COMMAND), "search", "noted")
    assert ("hit" in found.stdout, found.stderr) == (True, "")
    two.origin.root.rename(two.root.parent / "away.git")
    two.sync("shop-1", code=13)


def test_a_run_of_which_only_fabers_files_are_committed_is_fetched_whole(one: CarriedClone) -> None:
    for run_id in ("shop-1", "shop-2"):
        one.add_run(run_id)
    one.sync()
    two = one.second("two")
    for run_id in ("shop-1", "shop-2"):
        (events := two.root / ".fractary/runs" / run_id / "events").mkdir(parents=True)
        (events / "001-test_run.json").write_text("{}")
    assert two.sync("shop-1").stdout == "shop-1: all of it fetched from origin\n"
    assert "unreadable" not in two.call(str(COMMAND), "run", "list").stdout
    assert (two.root / ".fractary/runs/shop-1/state.json").exists()


def test_a_work_items_remote_run_is_found_beside_a_finished_one(one: CarriedClone) -> None:
    one.add_run("shop-1")
    one.sync()
    two = one.second("two")
    two.change(work_id="7", status="completed")
    done = two.call(str(COMMAND), "run", "resume", "--work-id", "7")
    assert f"note: shop-1 is meant; the work item 7 also has {RUN}\n" in done.stderr
    assert (two.root / ".fractary/runs/shop-1/state.json").exists()


def test_a_sync_says_that_the_remote_has_more_runs(one: CarriedClone) -> None:
    one.add_run("shop-1")
    one.add_run("shop-2")
    assert "more run" not in one.sync().stdout
    two = one.second("two")
    shutil.rmtree(two.root / ".fractary/runs")
    two.sync("shop-1")
    assert two.sync().stdout.endswith("origin has 2 more runs: `faber-ledger run list --remote`\n")
    assert "more run" not in two.sync("shop-1").stdout


def test_fleet_without_a_server_names_the_list_of_the_remote(one: CarriedClone) -> None:
    done = one.call(str(COMMAND), "fleet")
    assert (done.returncode, "hint: `faber-ledger run list --remote` lists" in done.stderr) == (2, True)


def test_the_run_that_a_fetched_one_puts_aside_is_named(one: CarriedClone) -> None:
    one.add_run("shop-1", branch="feature/7")
    one.sync()
    two = one.second("two")
    shutil.rmtree(two.root / ".fractary/runs/shop-1", ignore_errors=True)
    two.faber("run", "resume", RUN, "--yes")
    two.change(status="failed", branch="feature/6")
    two.git("switch", "--quiet", "--create", "feature/7")
    done = two.call(str(COMMAND), "run", "resume", "shop-1")
    assert f"ℹ Active until now: {RUN} (failed), on another branch\n✓ Workflow resumed: shop-1\n" in done.stdout


def test_status_says_what_is_on_the_way(one: CarriedClone) -> None:
    one.sync()
    one.work("more")
    agree(one.root, auto=True)
    with lock_sending(str(one.root)):
        assert "events on the way to origin\n" in one.faber("status").stdout
    assert "events not sent to origin: `faber-ledger sync` sends them\n" in one.faber("status").stdout


def test_status_leaves_the_sending_to_the_end_of_an_open_session(one: CarriedClone) -> None:
    one.sync()
    agree(one.root, auto=True)
    one.record("more")
    assert "Git ref:" not in one.faber("status").stdout
    one.end("more")
    one.wait_for_sender()
    one.change(note="later")  # the next commit has it: git tracks the file
    assert "Git ref:" not in one.faber("status").stdout
    one.call(str(COMMAND), "note", "alone")
    assert "1 event not sent to origin: `faber-ledger sync` sends it\n" in one.faber("status").stdout


def test_log_in_a_clone_with_only_the_state_names_what_fetches_the_ledger(tmp_path: Path) -> None:
    one = CarriedClone.started(tmp_path / "one")  # git tracks its state
    one.sync()
    two = one.second("two")
    (two.root / ".git/faber-ledger/carry.json").unlink()
    for command in ("log", "verify", "replay"):
        hint = "hint: `faber-ledger init --carry refs --fetch` fetches it, if it was sent; else its first event creates"
        assert hint in two.call(str(COMMAND), command).stderr
    assert "git has no driver" not in two.faber("status").stdout


def test_a_resumed_run_whose_files_are_on_its_branch_leaves_them_there(one: CarriedClone) -> None:
    one.git("switch", "-qc", "feature/7")
    one.add_run("shop-1", branch="feature/7")
    one.commit("the run")
    one.git("push", "-q", "origin", "feature/7")
    one.sync()
    two = one.second("two")
    done = two.faber("run", "resume", "shop-1", "--yes")
    assert "Branch: feature/7, but `main` is checked out here: run `git switch feature/7`" in done.stdout
    assert "they are on `feature/7`" in two.faber("status", "shop-1").stdout
    two.git("switch", "-q", "feature/7")
    assert two.log_of("shop-1") == one.log_of("shop-1")
    assert "changed since" not in two.faber("status", "shop-1").stdout
    two.faber("verify", "shop-1")


def test_a_remote_work_item_is_resumed_with_its_branch(one: CarriedClone) -> None:
    one.add_run("shop-1", branch="feature/7")
    one.sync()
    two = one.second("two")
    done = two.call(str(COMMAND), "run", "resume", "--work-id", "7", "--yes")
    assert (done.returncode, "is meant" in done.stderr) == (0, False), done.stderr
    assert "  Branch: feature/7, but `main` is checked out here; this clone does not have that branch: " in done.stdout
