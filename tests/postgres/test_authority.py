"""Who may do what in a project: whose a clone is, who redacts, whose state stands, whom a first exchange trusts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.project import RUN, Project
from support.server_rows import put
from support.team_server import with_hash

from faber_ledger.ledger.encoding import COLUMNS, canonical

if TYPE_CHECKING:
    import subprocess

    from support.postgres import Login
    from support.team_server import Team


class Two:
    """Ann, the project's admin, with one clone, and Ben, a member, with another; a note of Ann's is in both."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.of_ann, self.of_ben, self.fresh = team.clones
        self.ann, self.ben = team.login, team.database.login("ben")
        assert self.as_ann("db", "admit", self.ben.role).returncode == 0
        assert self.of_ann.faber("note", "add", "the word is hunter-0001").returncode == 0
        self.note = self.of_ann.events[-1]["id"]
        for done in (self.as_ann("sync"), self.as_ben("sync", "--yes")):
            assert done.returncode == 0, done.stderr

    def run(self, clone: Project, login: Login, *words: str) -> subprocess.CompletedProcess[str]:
        return clone.faber(*words, env={"FABER_LEDGER_URL": self.team.database.url(login)})

    def as_ann(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.of_ann, self.ann, *words)

    def as_ben(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.of_ben, self.ben, *words)

    def is_on_server(self) -> bool:
        return "hunter" in str(self.team.rows())


@pytest.fixture
def two(team: Team) -> Two:
    """Two members with a clone each."""
    return Two(team)


def test_a_clone_is_the_login_s_that_exchanged_first(two: Two) -> None:
    done = two.run(two.of_ben, two.ann, "sync")
    assert done.returncode == 14
    assert f"is the login {two.ben.role}'s on the server, and you are {two.ann.role}" in done.stderr
    command = done.stderr.partition("`faber-ledger ")[2].partition("`")[0].split()
    assert two.as_ben(*command).returncode == 14
    assert two.as_ann(*command).returncode == 0
    assert two.run(two.of_ben, two.ann, "sync").returncode == 0
    assert two.as_ben("sync").returncode == 14


def test_only_the_writers_login_or_an_admin_redacts_on_the_server(two: Two) -> None:
    done = two.as_ben("redact", two.note, "--yes")
    assert (done.returncode, two.is_on_server()) == (0, True)
    assert "only the login whose clone wrote it, or an admin, redacts it" in done.stderr
    again = two.as_ben("redact", two.note, "--yes")
    assert ("redacts it" in again.stderr, "removed on the team's server" in again.stdout) == (True, False)
    assert two.as_ann("sync").returncode == 0
    assert two.is_on_server()
    assert two.as_ann("redact", two.note, "--yes").returncode == 0
    assert not two.is_on_server()


def test_an_admin_puts_back_what_was_removed_or_ends_it(two: Two) -> None:
    assert two.as_ann("redact", two.note, "--yes").returncode == 0
    for command in ("restore", "purge"):
        assert two.as_ben("db", command, two.note).returncode == 14
    assert two.as_ann("db", "restore", two.note).returncode == 0
    assert two.is_on_server()
    assert two.as_ann("sync", "--push").returncode == 0
    assert two.is_on_server()  # the same redaction does not count again
    done = two.as_ann("redact", two.note, "--undo")
    assert (done.returncode, b"hunter" in two.team.export(two.of_ann)) == (0, True), done.stderr
    assert two.as_ann("redact", two.note, "--yes").returncode == 0
    assert not two.is_on_server()
    assert two.as_ann("db", "purge", two.note).returncode == 0
    assert [two.as_ann("db", command, two.note).returncode for command in ("restore", "purge")] == [10, 10]
    assert not two.is_on_server()


def test_a_colleagues_state_that_is_not_seen_is_not_replaced(two: Two) -> None:
    two.of_ann.put_state({**two.of_ann.state, "current_phase": "build", "updated_at": "2026-01-05T15:00:00Z"})
    assert two.of_ann.faber("note", "add", "built").returncode == 0
    assert two.as_ann("sync").returncode == 0
    two.of_ben.put_state({**two.of_ben.state, "status": "failed", "updated_at": "2026-01-05T15:10:00Z"})
    done = two.as_ben("sync", "--push")
    assert "a colleague's that is not fetched" in done.stderr
    with two.team.database.connect() as connection:
        (content,) = connection.execute("SELECT content FROM faber_ledger.state").fetchone() or ("",)
    assert json.loads(content)["current_phase"] == "build"
    done = two.as_ben("sync")
    assert (done.returncode, "state.json pushed" in done.stdout) == (0, True), done.stderr
    assert f"failed, says {two.ben.role}\n" in two.as_ann("fleet").stdout  # whose own state the run's was


def test_a_first_exchange_names_the_admins_and_stops_for_unknown_ones(two: Two) -> None:
    mallory, url = two.team.database.login("mallory"), two.team.database.url(two.ben)
    assert two.as_ann("db", "admit", "--admin", mallory.role).returncode == 0
    admins, before = ", ".join(sorted([two.ann.role, mallory.role])), two.team.rows()
    assert two.fresh.faber("note", "add", "private").returncode == 0
    for words in (("sync",), ("run", "resume", "unknown", "--url", f"{url}")):
        done = (
            two.run(two.fresh, two.ben, *words)
            if words[0] == "sync"
            else two.fresh.faber(*words[:3], env={"FABER_LEDGER_URL": url})
        )
        assert done.returncode == 14, done.stderr
        assert f"whose admins are {admins}: you have named none of them" in done.stderr
    assert two.team.rows() == before
    two.fresh.configure(admins=[two.ann.role])
    done = two.run(two.fresh, two.ben, "sync")
    assert (done.returncode, f"whose admins are {admins}\n" in done.stderr) == (0, True)
    assert two.run(two.fresh, two.ben, "sync").stderr == ""
    assert RUN in {row["run_id"] for row in two.team.rows()}


def test_an_undo_counts_for_the_redactions_before_it(two: Two) -> None:
    for words in (("--yes",), ("--undo",), ("--yes",)):
        if words == ("--undo",):
            assert two.as_ann("db", "restore", two.note).returncode == 0
        assert two.as_ann("redact", two.note, *words).returncode == 0
    assert not two.is_on_server()
    assert two.run(two.fresh, two.ann, "sync").returncode == 0  # which sends the whole log again
    assert not two.is_on_server()


def test_what_an_undo_puts_back_reaches_every_clone(two: Two) -> None:
    assert two.as_ann("redact", two.note, "--yes").returncode == 0
    assert two.run(two.fresh, two.ann, "sync").returncode == 0  # which has it redacted
    assert two.as_ann("db", "restore", two.note).returncode == 0
    assert two.as_ann("redact", two.note, "--undo").returncode == 0
    assert two.as_ann("sync").returncode == 0
    done = two.run(two.fresh, two.ann, "sync")
    assert (done.returncode, b"hunter" in two.team.export(two.fresh)) == (0, True), done.stderr


def test_what_is_purged_is_not_left_out_for_ever(two: Two) -> None:
    assert two.of_ben.faber("note", "add", "of ben").returncode == 0
    of_ben = two.of_ben.events[-1]["id"]
    for as_login in (two.as_ben, two.as_ann):
        assert as_login("sync").returncode == 0
    assert two.as_ann("redact", of_ben, "--yes").returncode == 0
    assert two.as_ann("db", "purge", of_ben).returncode == 0
    assert two.as_ben("sync").returncode == 0
    done = two.as_ben("redact", of_ben, "--undo")
    assert (done.returncode, "unless the server has removed it for good" in done.stdout) == (0, True)
    assert two.as_ben("sync").returncode == 0
    assert "left out" not in two.run(two.fresh, two.ann, "sync").stderr
    assert f"of event {of_ben}" in two.fresh.said("log", "--type", "redaction_undone")


@pytest.mark.parametrize("writer", ["e" * 32, None])
def test_a_redaction_that_another_login_brings_removes_nothing(two: Two, writer: str | None) -> None:
    said = {"event_id": two.note, "reason": None}
    forged = two.team.forged(two.of_ann, type="event_redacted", payload=canonical(said))
    forged = with_hash({**forged, "writer": writer or two.of_ann.events[0]["writer"]})
    with two.team.database.connect(two.ben) as connection:
        put(connection, two.team.project, tuple(forged[name] for name in COLUMNS), run_id=RUN)
    assert two.as_ann("sync").returncode == 0
    assert two.as_ann("sync").returncode == 0
    assert two.is_on_server()


def test_who_is_expelled_joins_by_no_invitation(two: Two) -> None:
    name = two.team.database.cluster.new_name("dan")
    two.team.database.roles.append(name)
    admin = {"FABER_LEDGER_URL": two.team.database.admin}
    code = json.loads(two.of_ann.faber("db", "invite", name, "--admin", "--json", env=admin).stdout)["data"]["code"]
    assert two.as_ann("db", "expel", name).returncode == 0
    url = two.team.database.admin_url.set(username=name).render_as_string()
    done = two.fresh.faber("team", "join", url, input=f"{code}\n", stdin=None)
    assert (done.returncode, "no invitation waits" in done.stderr) == (14, True), done.stderr


def test_show_and_fleet_name_who_wrote_and_who_brought(two: Two) -> None:
    both = f"written by {two.ann.role}, brought by {two.ann.role}"
    assert f"on the server: {both}\n" in two.as_ben("show", two.note).stdout
    assert json.loads(two.as_ann("show", two.note, "--json").stdout)["data"]["on_server"] == both
    two.of_ann.deliver("SessionStart.startup.print", client="of-ann")
    lines = two.of_ben.write("events.jsonl", two.of_ann.said("export", RUN))
    assert two.of_ben.faber("import", str(lines)).returncode == 0
    assert two.as_ben("sync").returncode == 0
    with two.team.database.connect() as connection:  # as a member can, by a statement for each
        clones = "SELECT %s, 'clone-' || number, 'ben', 1 FROM generate_series(1, 1000001) AS number"
        connection.execute(f"INSERT INTO faber_ledger.clone {clones}".encode(), [two.team.project])
    (run,) = json.loads(two.as_ann("fleet", "--json").stdout)["data"]["runs"]
    assert (run["who"], run["brought_by"]) == (two.ann.role, two.ben.role)
    started = next(one["id"] for one in two.of_ann.events if one["client"] == "of-ann")
    assert f"written by {two.ann.role}, brought by {two.ben.role}" in two.as_ann("show", started).stdout


def test_show_says_that_the_server_is_away(two: Two) -> None:
    away = two.of_ann.faber("show", two.note, "--url", "postgresql://ann@127.0.0.1:1/ledger")
    assert (away.returncode, "the server could not be asked: " in away.stderr) == (0, True)
    assert "on the server" not in away.stdout


def writer_of(clone: Project) -> str:
    """Return a clone's id, as a new note of it has it."""
    assert clone.faber("note", "add", "mine").returncode == 0
    return str(clone.events[-1]["writer"])


def test_a_redaction_that_no_clone_takes_holds_up_no_state(two: Two) -> None:
    said = {"event_id": two.note, "reason": None}
    forged = two.team.forged(two.of_ann, type="event_redacted", payload=canonical(said))
    forged = {**forged, "writer": writer_of(two.of_ben)}  # so its hash is wrong
    with two.team.database.connect(two.ben) as connection:
        put(connection, two.team.project, tuple(forged[name] for name in COLUMNS), run_id=RUN)
    two.of_ann.change_state(current_phase="release")
    done = two.as_ann("sync")
    assert "state.json pushed" in done.stdout, done.stderr


def test_a_state_comes_from_the_logins_own_clone_with_its_events(two: Two) -> None:
    base = "(SELECT digest FROM faber_ledger.state_of(%(project)s, %(run)s))"
    take = (
        f"faber_ledger.put_state(%(project)s, %(run)s, %(content)s, '9', %(writer)s, %(end)s, {base}, ARRAY[]::text[])"
    )
    known = {"project": two.team.project, "run": RUN, "content": "{}"}
    own = writer_of(two.of_ben)
    with two.team.database.connect(two.ben) as connection:
        for writer, end, is_taken in (
            (two.of_ann.events[0]["writer"], two.note, False),
            (own, "01KE0000000000000000000009", False),
            (own, two.note, True),
        ):
            asked = {**known, "writer": writer, "end": end}
            assert connection.execute(f"SELECT {take}".encode(), asked).fetchone() == (is_taken,)


@pytest.mark.parametrize("content", ["hello", "[1]", '{"updated_at": {"z": 1}}', '{"status": "odd"}', "[" * 9000])
def test_a_state_that_no_clone_takes_fails_no_exchange(two: Two, content: str) -> None:
    two.fresh.state_path.unlink(missing_ok=True)
    if content.startswith("{"):
        content = json.dumps({**two.of_ann.state, **json.loads(content)})
    with two.team.database.connect() as connection:
        connection.execute("UPDATE faber_ledger.state SET content = %s, pushed_by = %s", [content, two.ben.role])
    for _ in range(2):
        done = two.run(two.fresh, two.ann, "sync", RUN, "--fetch")
        assert (done.returncode, two.fresh.state_path.exists()) == (0, False), done.stderr
        assert f"{RUN}: the server's state.json of {two.ben.role} is left out: " in done.stderr


def test_a_members_redaction_removes_no_colleagues_state(two: Two) -> None:
    assert two.of_ben.faber("note", "add", "of ben").returncode == 0
    assert two.as_ben("sync").returncode == 0
    with two.team.database.connect() as connection:
        (before,) = connection.execute("SELECT pushed_by FROM faber_ledger.state").fetchall()
    assert before == (two.ann.role,)
    assert two.as_ben("redact", two.of_ben.events[-1]["id"], "--yes").returncode == 0
    assert "of ben" not in str(two.team.rows())
    with two.team.database.connect() as connection:
        assert connection.execute("SELECT pushed_by FROM faber_ledger.state").fetchall() == [before]
    assert two.as_ann("redact", two.note, "--yes").returncode == 0
    with two.team.database.connect() as connection:
        assert connection.execute("SELECT pushed_by FROM faber_ledger.state").fetchall() == []
