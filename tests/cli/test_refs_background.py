"""The background process that sends ledgers in git refs: when it is started, and that it never asks or hangs."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support.carried import CarriedClone, Origin, agree, wait_until
from support.clones import RUN
from support.command import COMMAND, run_command
from support.program import make_program

from faber_ledger.runs.git_query import FOREIGN, GIVEN_SETTINGS

SHORT = """
from faber_ledger.cli.entry import main
from faber_ledger.cli.sync import background
background.SECONDS_TO_SEND = 1
main()
"""
ENDED = """
import os, signal
from faber_ledger.cli.entry import main
from faber_ledger.cli.sync import carried
carried.message_of = lambda *_, **__: os.kill(os.getpid(), signal.SIGALRM)
main()
"""
IMPATIENT = """
from faber_ledger.cli.entry import main
from faber_ledger.cli.sync import refs
from faber_ledger.cli.ui import progress
progress.SLOW_SECONDS = 0.1
refs.ANSWER_SECONDS = 1
main()
"""


@pytest.fixture
def one(tmp_path: Path) -> CarriedClone:
    """A clone whose hooks start the sending; nothing of its run was sent."""
    clone = CarriedClone.started(tmp_path / "one")
    agree(clone.root, auto=True)
    return clone


# When it is started


@pytest.mark.parametrize("hook", ["session-end", "pre-compact"])
def test_an_end_is_sent_by_the_hook_that_records_it(one: CarriedClone, hook: str) -> None:
    one.record("second")
    assert not one.is_sending()
    if hook == "session-end":
        one.end("second")
    else:
        one.deliver("pre-compact", "second", hook_event_name="PreCompact", trigger="auto")
    one.wait_for_sender()
    assert one.origin.ids() == one.log_ids()
    assert "not sent" not in one.faber("status").stdout


def test_many_ends_at_once_are_all_sent(one: CarriedClone) -> None:
    clients = [f"client-{number}" for number in range(4)]
    for client in clients:
        one.record(client)
    for client in clients:
        one.end(client)
    one.wait_for_sender()
    assert one.origin.ids() == one.log_ids()


@pytest.mark.parametrize("way", ["CI", "consent"])
def test_where_none_is_wanted_none_is_started(one: CarriedClone, way: str) -> None:
    agree(one.root, auto=way == "CI")
    one.sync()
    one.record("second")
    one.end_with("second", CI="true" if way == "CI" else "")
    one.sync("--pushed-to", "elsewhere" if way == "CI" else "origin")
    assert not one.is_sending()
    assert "not sent" in one.faber("status").stdout
    assert ("not sent" in one.start_line()) == (way == "consent")  # else a process may be sending it


@pytest.mark.parametrize("place", ["one", "tree"])
def test_a_push_of_the_user_sends_the_ledger_too(one: CarriedClone, place: str) -> None:
    make_program(one.root / ".git/hooks/pre-push", 'faber-ledger sync --pushed-to "$1"')
    one.git("worktree", "add", "-q", "../tree", "-b", "tree")
    pushing = CarriedClone(one.root.parent / place)
    pushing.git("push", "-q", "origin", "HEAD:refs/heads/pushed")
    wait_until(lambda: one.origin.has(one) and not pushing.is_sending())


def test_a_push_to_another_remote_sends_nothing(one: CarriedClone) -> None:
    one.git("clone", "-q", "--bare", ".", "../other.git")
    one.git("remote", "add", "other", "../other.git")
    for name in ("other", "../other.git", str(one.origin.root)):
        one.sync("--pushed-to", name)
        assert not one.is_sending()
    assert one.origin.heads() == {}


def test_a_ref_that_the_remote_had_lost_is_said_once(one: CarriedClone) -> None:
    one.sync()
    one.origin.git("update-ref", "-d", f"refs/faber-ledger/{RUN}")
    one.record("second")
    one.end("second")
    one.wait_for_sender()
    said = f"{RUN}: origin had lost its ref, which this clone has sent again"
    assert "1 warning" in one.start_line("third")
    assert one.faber("status").stdout.count(said) == 1
    assert "warning" not in one.start_line("fourth")


# It asks nobody, and it ends


def test_the_background_process_asks_nobody(one: CarriedClone) -> None:
    asked = one.root.parent / "asked"
    for name in ("askpass", "ssh"):
        program = f'echo {name} "$@" >> {asked}\nenv | grep -E "^(GIT_TERMINAL|SSH_ASK|GCM)" >> {asked}\nexit 1'
        make_program(one.root.parent / name, program)
    one.git("remote", "set-url", "origin", "ssh://host.invalid/project.git")
    askpass = str(one.root.parent / "askpass")
    one.record("second")
    one.end_with("second", GIT_SSH_COMMAND=f"{one.root.parent}/ssh -i key", GIT_ASKPASS=askpass, SSH_ASKPASS=askpass)
    wait_until(lambda: "not sent to origin (`git ls-remote` failed" in one.faber("status").stdout)
    lines = asked.read_text().splitlines()
    assert lines[0].startswith("ssh -i key -o BatchMode=yes ")
    assert {"GIT_TERMINAL_PROMPT=0", "SSH_ASKPASS_REQUIRE=never", "GCM_INTERACTIVE=never"} < {*lines}
    assert not [line for line in lines if line.startswith("askpass") or line == f"SSH_ASKPASS={askpass}"]


@pytest.mark.parametrize("way", ["quoted", "GIT_SSH", "ssh.variant", "GIT_SSH_VARIANT", "variables", "plink"])
def test_batch_mode_is_added_to_the_users_own_ssh(one: CarriedClone, way: str) -> None:
    asked = one.root.parent / "asked"
    folder = "my programs" if way in ("quoted", "GIT_SSH") else "programs"
    program = one.root.parent / folder / ("wrapper" if way in ("ssh.variant", "GIT_SSH_VARIANT", "plink") else "ssh")
    make_program(program, f'echo "$KEY" "$@" >> {asked}\nexit 1')
    one.git("remote", "set-url", "origin", "ssh://host.invalid/project.git")
    commands = {"variables": f"KEY='a b' {program} -i key", "quoted": f"'{program}' -i key"}
    if way != "GIT_SSH":
        one.git("config", "core.sshCommand", commands.get(way, str(program)))
    if way in ("ssh.variant", "plink"):
        one.git("config", "ssh.variant", "plink" if way == "plink" else "ssh")
    one.record("second")
    given = {"GIT_SSH_VARIANT": "ssh", "GIT_SSH": str(program)}
    one.end_with("second", **({way: given[way]} if way in given else {}))
    wait_until(lambda: asked.exists() and not one.is_sending())
    line = asked.read_text().splitlines()[0]
    assert ("-o BatchMode=yes" in line) == (way != "plink")
    assert line.startswith({"variables": "a b -i key", "quoted": " -i key"}.get(way, " "))


def test_a_password_is_never_asked_for(one: CarriedClone) -> None:
    asked = one.root.parent / "asked"
    askpass = make_program(one.root.parent / "askpass", f"touch {asked}")
    with refusing_server() as address:
        one.git("remote", "set-url", "origin", f"{address}/project.git")
        one.git("config", "core.askPass", str(askpass))
        one.record("second")
        one.end_with("second", GIT_ASKPASS=str(askpass), SSH_ASKPASS=str(askpass))
        wait_until(lambda: "not sent to origin (`git ls-remote` failed" in one.faber("status").stdout)
    assert not asked.exists()


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Path]:
    """An ssh that never answers: it writes its process into `pid` beside it, and ends after a minute at most."""
    yield make_program(tmp_path / "ssh", f"echo $$ > {tmp_path}/pid\nexec sleep 60")
    pid = (tmp_path / "pid").read_text().strip() if (tmp_path / "pid").exists() else ""
    if has_process(pid):
        os.kill(int(pid), signal.SIGKILL)


def test_a_remote_that_hangs_is_given_up_and_said(one: CarriedClone, tmp_path: Path, hanging: Path) -> None:
    one.git("remote", "set-url", "origin", "ssh://host.invalid/project.git")
    (tmp_path / "files").mkdir()
    environment = {**one.environment, "GIT_SSH_COMMAND": str(hanging), "TMPDIR": str(tmp_path / "files")}
    command = [sys.executable, "-c", SHORT, "sync", "--background"]
    done = subprocess.run(command, cwd=one.root, env=environment, check=False, start_new_session=True, timeout=60)
    assert done.returncode == 13
    assert "not sent to origin (no end within 1 s)" in one.faber("status").stdout
    assert [*(tmp_path / "files").iterdir()] == []
    wait_until(lambda: not has_process((tmp_path / "pid").read_text().strip()))


def test_an_end_in_the_midst_of_a_run_is_noted(one: CarriedClone) -> None:
    one.add_run("shop-1")
    command = [sys.executable, "-c", ENDED, "sync", "--background"]
    done = subprocess.run(command, cwd=one.root, env=one.environment, check=False, start_new_session=True, timeout=60)
    assert done.returncode == 13
    for run_id in (RUN, "shop-1"):
        assert "no end within 60 s" in (one.private(run_id) / "sent.json").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ["sync"],
        ["run", "list", "--remote"],
        ["run", "resume", "shop-1"],
        ["run", "forget", "--remote", RUN],
        ["init", "--git-only", "--carry", "refs", "--fetch", "--no-auto-send"],
    ],
)
def test_a_command_gives_a_silent_remote_up(one: CarriedClone, hanging: Path, arguments: list[str]) -> None:
    one.git("remote", "set-url", "origin", "ssh://host.invalid/project.git")
    environment = {**one.environment, "GIT_SSH_COMMAND": str(hanging)}
    command = [sys.executable, "-c", IMPATIENT, *arguments]
    done = subprocess.run(
        command, cwd=one.root, env=environment, check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, "origin did not answer within 1 s" in done.stderr) == (13, True), done.stderr


def test_a_slow_remote_is_named_on_a_terminal(one: CarriedClone, hanging: Path) -> None:
    one.git("remote", "set-url", "origin", "ssh://host.invalid/project.git")
    environment = {**one.environment, "GIT_SSH_COMMAND": str(hanging)}
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", IMPATIENT, "sync"]
    done = subprocess.run(command, cwd=one.root, env=environment, check=False, stderr=theirs, timeout=60)
    shown = os.read(ours, 4096)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 13
    assert shown.startswith(b"waiting for origin\r\n")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_git_may_ask_on_a_terminal_alone(one: CarriedClone, tmp_path: Path, is_terminal: bool) -> None:
    ssh = make_program(tmp_path / "ssh", f'echo "asks: $GIT_TERMINAL_PROMPT" >> {tmp_path}/asked\nexit 1')
    one.git("remote", "set-url", "origin", "ssh://host.invalid/project.git")
    ours, theirs = pty.openpty()
    given = theirs if is_terminal else subprocess.DEVNULL
    environment = {**one.environment, "GIT_SSH_COMMAND": str(ssh)}
    environment.pop("GIT_TERMINAL_PROMPT", None)
    done = run_command([COMMAND, "sync"], cwd=one.root, env=environment, stdin=given, capture_output=True)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 13
    assert (tmp_path / "asked").read_text().splitlines()[0] == ("asks: " if is_terminal else "asks: 0")


def has_process(pid: str) -> bool:
    """Return whether a process is there, and not a dead one that nobody waits for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Refusing(BaseHTTPRequestHandler):
    """A host that wants a password for everything."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="here"')
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def refusing_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://user@127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


# Variables of git's in the environment, as where another repository's hook has started the client

NAMED = {
    "GIT_DIR": "{blog}/.git",
    "GIT_COMMON_DIR": "{blog}/.git",
    "GIT_WORK_TREE": "{blog}",
    "GIT_INDEX_FILE": "{blog}/.git/index",
    "GIT_OBJECT_DIRECTORY": "{blog}/.git/objects",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "{blog}/.git/objects",
    "GIT_NAMESPACE": "blog",
    "GIT_QUARANTINE_PATH": "{blog}/quarantine",
    "GIT_CONFIG_PARAMETERS": "'remote.origin.url'='{public}'",
    "GIT_CONFIG_COUNT": "1",
}
GIVEN = {"GIT_CONFIG_KEY_0": "remote.origin.url", "GIT_CONFIG_VALUE_0": "{public}"}


@pytest.mark.parametrize("name", NAMED)
def test_what_the_environment_names_gets_nothing(one: CarriedClone, tmp_path: Path, name: str) -> None:
    blog, public = tmp_path / "blog", Origin.made(tmp_path / "public.git")
    subprocess.run(["git", "init", "-q", str(blog)], check=True)
    subprocess.run(["git", "-C", str(blog), "remote", "add", "origin", str(public.root)], check=True)
    given = {name: NAMED[name], **(GIVEN if name == "GIT_CONFIG_COUNT" else {})}
    given = {key: value.format(blog=blog, public=public.root) for key, value in given.items()}
    one.record("second")
    one.end_with("second", **given)
    one.wait_for_sender()
    one.record("third")
    environment = {**one.environment, **given}
    done = run_command([COMMAND, "sync"], cwd=one.root, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert one.origin.has(one)
    assert "refs/namespaces" not in one.origin.git("for-each-ref")
    assert public.git("for-each-ref") == ""
    assert Origin(blog).git("for-each-ref") == ""


def test_all_variables_that_git_calls_local_are_known() -> None:
    listed = subprocess.run(["git", "rev-parse", "--local-env-vars"], check=True, capture_output=True, text=True)
    assert {*listed.stdout.split()} <= {*FOREIGN, *GIVEN_SETTINGS}


@pytest.mark.parametrize("kind", ["url", "pushurl", "insteadOf", "GIT_CONFIG_GLOBAL"])
def test_a_url_that_was_not_agreed_to_gets_nothing(one: CarriedClone, tmp_path: Path, kind: str) -> None:
    one.faber("init", "--git-only", "--carry", "refs")
    wait_until(lambda: one.origin.has(one) and not one.is_sending())
    before = one.origin.heads()
    other, more = Origin.made(tmp_path / "other.git"), tmp_path / "more"
    rule = f'[url "{other.root}"]\n\tinsteadOf = {one.origin.root}\n'
    more.write_text(f'[remote "origin"]\n\t{kind} = {other.root}\n' if kind.endswith("url") else rule)
    given = {kind: str(more)} if kind.startswith("GIT") else {}
    if not given:
        one.git("config", "include.path", str(more))
    one.record("second")
    one.end_with("second", **given)
    wait_until(lambda: "origin is not the one that this clone has agreed to" in one.faber("status").stdout)
    wait_until(lambda: not one.is_sending())
    done = run_command([COMMAND, "sync"], cwd=one.root, env={**one.environment, **given}, capture_output=True)
    assert (done.returncode, b"hint: run `faber-ledger init --carry refs --remote NAME`" in done.stderr) == (13, True)
    assert (other.heads(), one.origin.heads()) == ({}, before)
    more.write_text("")
    one.sync()
    assert one.origin.has(one)


def test_a_new_password_in_the_url_is_no_other_url(one: CarriedClone) -> None:
    one.git("remote", "set-url", "origin", "https://user:first@host.invalid/project.git")
    one.faber("init", "--git-only", "--carry", "refs", "--no-auto-send")
    one.git("remote", "set-url", "origin", "https://user:second@host.invalid/project.git")
    assert "agreed to" not in one.sync(code=13).stderr
    one.git("remote", "set-url", "origin", "https://user:second@other.invalid/project.git")
    assert "agreed to" in one.sync(code=13).stderr
    one.faber("init", "--git-only", "--carry", "refs", "--no-auto-send")
    assert "agreed to" not in one.sync(code=13).stderr
    one.git("remote", "rename", "origin", "upstream")
    assert "git no longer knows a remote origin here" in one.sync(code=13).stderr
    assert "origin here): run `faber-ledger init --carry refs --remote NAME`" in one.faber("status").stdout
