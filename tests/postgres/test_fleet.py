"""`faber-ledger fleet`: who works on what, across machines, and how it follows what happens."""

from __future__ import annotations

import json
import re
import signal
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pytest
from support.carried import wait_until
from support.on_server import FIRST, SECOND, asked, put_project, put_run, put_state, register, runs_of
from support.postgres import DURABLE, Cluster, Database, started_server
from support.project import RUN, Project
from support.searching import MONDAY, NOTE, add_run
from support.team_server import Watching, fill, made_team

from faber_ledger.ledger.clock import now, utc_text
from faber_ledger.postgres.ask import MOST_EVENTS
from faber_ledger.postgres.server import notification_of
from faber_ledger.projections.fold import open_sessions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.postgres import Login


STARTED: dict[str, Any] = {
    "type": "session_started",
    "source": "startup",
    "phase": "frame",
    "step": None,
    "phases_completed": [],
    "empties_context": True,
    "pid": None,
}
ENDED: dict[str, Any] = {
    "type": "session_ended",
    "client_reason": None,
    "phase": "architect",
    "step": None,
    "phases_completed": [],
}
WATCH = ("fleet", "--watch", "--json")
BEGUN = {"type": "run_started", "workflow_id": "default", "work_id": "77"}


def started(session: str, machine: str, **more: Any) -> dict[str, Any]:
    environment = {"hostname": machine, "platform": "Linux", "cwd": "/", "git_commit": None}
    return {**STARTED, "session_id": session, "environment": environment, **more}


def ended(session: str, reason: str) -> dict[str, Any]:
    return {**ENDED, "session_id": session, "reason": reason, "inferred": reason == "abandoned"}


def compacted(agent: str | None = None) -> dict[str, Any]:
    return {"type": "compaction_completed", "trigger": "auto", "agent_id": agent, "phase": "build", "step": None}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with three runs: `quiet` on two machines, `busy` with an open session, `bare` with a note alone."""
    project = Project.made(tmp_path / "project", {"status": "paused"}, "bare")
    add_run(project, "bare", None, {**NOTE, "text": "?", "phase": None}, hour=0)
    add_run(
        project,
        "quiet",
        {"work_id": 12, "status": "completed", "current_phase": "release", "updated_at": "2026-01-05T09:30:00Z"},
        {**BEGUN, "run_id": "quiet"},
        started("q-1", "laptop"),
        ended("q-1", "abandoned"),
        started("q-2", "desktop", source="resume"),
        ended("q-2", "normal"),
        hour=1,
    )
    add_run(
        project,
        "busy",
        None,
        {**BEGUN, "run_id": "busy"},
        started("b-1", "laptop"),
        compacted(),
        started("b-1x", "laptop", source="compact"),
        compacted("a-subagent"),
        ended("b-1", "compaction"),
        hour=2,
    )
    return project


@pytest.fixture
def member(project: Project, database: Database) -> Login:
    login = database.login()
    put_project(database, login, project)
    return login


SHOWN = """\
run_id work_id status    phase     machine who     state sessions abandoned compactions last_heard_at
busy   77      None      architect laptop  laptop  stale 2        0         1           2026-01-05T10:00:05Z
bare   None    paused    None      None    None    stale 0        0         0           2026-01-05T08:00:00Z
quiet  12      completed release   desktop desktop done  2        1         0           2026-01-05T09:30:00Z
"""
UNKNOWN = dict.fromkeys(("target", "branch", "pull_request", "waits_for", "activity", "usage", "reason"), None) | {
    "phases_completed": []
}


def test_each_run_says_who_works_on_what(project: Project, database: Database, member: Login) -> None:
    found = asked(project, database.url(member), "fleet")
    assert found["projects"] == {FIRST: "shop"}
    assert not found["has_more"]
    names, *rows = [line.split() for line in SHOWN.splitlines()]
    assert [[str(run.pop(name)) for name in names] for run in found["runs"]] == rows
    last = [run.pop("last_event") for run in found["runs"]]
    assert [(one["type"], one["at"]) for one in last] == [
        ("session_ended", "2026-01-05T10:00:05Z"),
        ("note_recorded", "2026-01-05T08:00:00Z"),
        ("session_ended", "2026-01-05T09:00:04Z"),
    ]
    every: dict[str, Any] = {
        "project": FIRST,
        "writers": ["5f" * 16],
        "is_mine": False,
        "brought_by": member.role,
        "state_by": None,
        **UNKNOWN,
    }
    assert found["runs"] == [
        {**every, "agent": None, "machines": ["laptop"], "open_sessions": ["b-1x"]},
        {**every, "agent": None, "machines": [], "open_sessions": []},
        {**every, "agent": None, "machines": ["desktop", "laptop"], "open_sessions": []},
    ]


def test_a_state_that_waits_is_first_with_all_that_is_known(
    project: Project, database: Database, member: Login
) -> None:
    state = {
        "work_id": 12,
        "target": "Add CSV export",
        "status": "awaiting_feedback",
        "current_phase": "build",
        "feedback_request": {"prompt": "Which port?" * 100},
        "artifacts": {"branch_name": "feature/12", "pr_number": 87},
        "updated_at": "2026-01-05T11:00:00Z",
    }
    url = database.url(member)
    for more, words in (
        ({}, "waiting: question"),
        ({"feedback_request": None}, "waiting: feedback"),
        ({"approvals": [{"phase": "build", "status": "rejected"}]}, "waiting: approval rejected"),
        ({"approvals": [{"phase": "build", "reason": "x" * 20_000}]}, "waiting: question"),
    ):
        put_state(database, member, "quiet", json.dumps({**state, **more}))
        lines = project.faber("fleet", env={"FABER_LEDGER_URL": url}).stdout.splitlines()
        assert re.search(f" d +{words}$", lines[1])
        assert lines[1].split()[:3] == ["quiet", "12", "Add"]
        assert "  desktop via " in lines[1]
        assert "  build  " in lines[1]
        assert "  #87  " in lines[1]
        assert all(len(line) <= 120 for line in lines)
    for options, runs in (
        (["--waiting"], ["quiet"]),
        (["--stale"], ["busy", "bare"]),
        (["--stale", "9999d"], []),
        (["--waiting", "--failed", "--stale", "--limit", "9"], ["quiet", "busy", "bare"]),
        (["--since", "2026-01-05T10:30:00Z"], ["quiet"]),
        (["--mine"], []),
    ):
        assert runs_of(asked(project, url, "fleet", *options)) == runs, options


def test_the_phases_that_are_completed_are_said(project: Project, database: Database, member: Login) -> None:
    done, url = {"status": "completed", "steps": {"a": "x" * 30_000}}, database.url(member)
    forms: list[tuple[Any, list[str]]] = [
        ({"architect": done, "frame": done, "build": {"status": "in_progress"}}, ["frame", "architect"]),
        ([{"phase_name": "frame", **done}, {"name": "architect", **done}, {"id": "build"}], ["frame", "architect"]),
        ([{"name": f"phase {number}", **done} for number in range(1000)], [f"phase {number}" for number in range(100)]),
        ({"x" * 300: done, "frame": 1, "build": [done]}, ["x" * 200]),
        ([1, None, [done], {"name": ["frame"], "status": {}}], []),
        *[(form, []) for form in (None, 1, "completed", list[Any](), dict[str, Any]())],
    ]
    for phases, completed in forms:
        put_state(database, member, "quiet", json.dumps({"work_id": 12, "phases": phases}))
        (found,) = [run for run in asked(project, url, "fleet")["runs"] if run["run_id"] == "quiet"]
        assert (found["phases_completed"], found["work_id"]) == (completed, "12"), phases


def test_two_machines_that_sync_are_one_fleet(tmp_path: Path, database: Database) -> None:
    member = database.login()
    url = {"FABER_LEDGER_URL": database.url(member)}
    laptop = Project.noted(tmp_path / "project")
    settings = json.loads((laptop.root / ".fractary/faber/ledger.json").read_text())
    database.add_project(settings["project"], member)
    desktop = laptop.clone(tmp_path / "clone", "dev-machine-2")
    assert desktop.faber("init", "--git-only").returncode == 0
    assert desktop.faber("run", "resume", RUN).returncode == 0
    desktop.deliver("SessionStart.startup.interactive", client="22222222-0000-4000-8000-000000000000")
    for machine in (laptop, desktop):
        pushed = machine.faber("sync", "--push", env=url)
        assert pushed.returncode == 0, pushed.stderr
    (run,) = asked(laptop, database.url(member), "fleet")["runs"]
    assert (run["run_id"], run["machine"], run["machines"]) == (
        RUN,
        "dev-machine-2",
        ["dev-machine-1", "dev-machine-2"],
    )
    assert len(run["writers"]) == 2
    assert run["open_sessions"] == open_sessions(desktop.folded())
    assert (run["who"], run["state"], run["is_mine"]) == (member.role, "open", True)
    assert f"  {member.role[:8]}" in laptop.faber("fleet", "--mine", env=url).stdout
    (group,) = asked(desktop, database.url(member), "search", '"it went well"')["runs"]
    assert (group["run_id"], [hit["kind"] for hit in group["hits"]]) == (RUN, ["note"])


def test_filters_leave_out_the_others(project: Project, database: Database, member: Login) -> None:
    for options, runs in (
        (["--open"], ["busy"]),
        (["--machine", "laptop"], ["busy", "quiet"]),
        (["--machine", "desktop"], ["quiet"]),
        (["--machine", "5f" * 16], ["busy", "bare", "quiet"]),
        (["--work-id", "77"], ["busy"]),
        (["--work-id", "12", "--machine", "laptop"], ["quiet"]),
        (["--open", "--machine", "desktop"], []),
        (["--project", "shop", "--limit", "1"], ["busy"]),
        (["--project", FIRST], ["busy", "bare", "quiet"]),
    ):
        found = asked(project, database.url(member), "fleet", *options)
        assert (runs_of(found), found["has_more"]) == (runs, "--limit" in options), options


def test_a_limit_leaves_out_those_that_need_somebody_least(project: Project, database: Database, member: Login) -> None:
    for number in range(4):
        add_run(project, f"done-{number}", {"status": "completed"}, {**NOTE, "text": "done"}, hour=5)
        put_run(database, member, project, f"done-{number}")
    url = database.url(member)
    put_state(database, member, "quiet", json.dumps({"status": "failed"}))  # it has an older event than any of them
    found = asked(project, url, "fleet", "--limit", "2")
    assert (runs_of(found), found["has_more"]) == (["quiet", "busy"], True)
    shown = project.faber("fleet", "--limit", "2", env={"FABER_LEDGER_URL": url}).stdout.splitlines()
    assert (len(shown), shown[-1]) == (4, "5 more runs not shown: --limit N shows more")
    assert not asked(project, url, "fleet", "--limit", "7")["has_more"]
    with Watching(project, url, *WATCH, "--limit", "1") as watching:
        assert next_runs(watching) == ["quiet"]


def test_an_event_of_a_clock_that_is_ahead_is_no_runs_newest(
    project: Project, database: Database, member: Login
) -> None:
    url = database.url(member)
    add_run(project, "busy", None, {**NOTE, "text": "from 2094"}, hour=600_000)
    add_run(project, "ahead", {"status": "in_progress"}, {**NOTE, "text": "from 2094"}, hour=600_000)
    for hour in (3, 4):
        add_run(project, "busy", None, {**NOTE, "text": "later"}, hour=hour)
        for run in ("busy", "ahead"):
            put_run(database, member, project, run)
        runs = {run["run_id"]: run for run in asked(project, url, "fleet")["runs"]}
        assert {runs["busy"]["last_heard_at"], runs["busy"]["last_event"]["at"]} == {f"2026-01-05T{8 + hour:02}:00:00Z"}
        assert (runs["busy"]["state"], runs["ahead"]["state"]) == ("stale", "open")
        assert runs["ahead"]["last_event"]["at"].startswith("2094-")
    lines = project.faber("fleet", env={"FABER_LEDGER_URL": url}).stdout.splitlines()
    assert [line.split()[-3:] for line in lines if line.startswith("ahead")] == [["now", "at", "work"]]
    assert runs_of(asked(project, url, "fleet", "--since", "2026-01-05T12:00:00Z")) == ["busy", "ahead"]
    assert runs_of(asked(project, url, "fleet", "--since", "2026-01-05T12:30:00Z")) == ["ahead"]
    near = now() + 240
    for at in (near, near + 120):
        add_run(project, "busy", None, {**NOTE, "text": "ahead"}, hour=(at - MONDAY) / 3600)
        put_run(database, member, project, "busy")
        (busy,) = asked(project, url, "fleet", "--work-id", "77")["runs"]
        assert busy["last_event"]["at"] == utc_text(near)


def test_a_run_costs_two_look_ups_in_an_index(project: Project, database: Database, member: Login) -> None:
    add_run(project, "bare", None, *[{**NOTE, "text": "more"}] * 300, hour=3)
    add_run(project, "bare", None, {**NOTE, "text": "from 2094"}, hour=600_000)
    put_run(database, member, project, "bare")
    with database.connect(member) as connection:
        runs = connection.execute(f"SELECT run_id FROM faber_ledger.newest_of_runs('{FIRST}')").fetchall()
        counted = "SELECT seq_scan, idx_scan, idx_tup_fetch FROM pg_stat_xact_all_tables WHERE relname = 'event'"
        assert connection.execute(counted).fetchone() == (0, 2 * len(runs) + 1, 2 * len(runs))


def test_the_table_has_a_row_for_each_run(project: Project, database: Database, member: Login) -> None:
    url = {"FABER_LEDGER_URL": database.url(member)}
    head, busy, *_ = project.faber("fleet", env=url).stdout.splitlines()
    assert head.split("  ")[0] == "run"
    assert busy.split() == [
        "busy",
        "77",
        "laptop",
        "via",
        member.role,
        "architect",
        "-",
        "-",
        busy.split()[-3],
        "d",
        "stale",
    ]
    assert project.faber("fleet", "--work-id", "none", env=url).stdout.startswith(
        "no run matches: `faber-ledger run start`"
    )
    limited = project.faber("fleet", "--limit", "2", env=url).stdout.splitlines()
    assert limited[-1] == "1 more run not shown: --limit N shows more"


def test_a_role_sees_the_runs_of_its_projects_alone(project: Project, database: Database, member: Login) -> None:
    stranger, both = database.login(), database.login()
    register(database, stranger, SECOND, "bank")
    add_run(project, "vault", None, {**NOTE, "text": "closed"}, hour=5)
    put_run(database, stranger, project, "vault", SECOND)
    with database.connect(stranger) as connection:
        connection.execute("SELECT faber_ledger.admit(%s, %s::name)", (SECOND, both.role))
    with database.connect(member) as connection:
        connection.execute("SELECT faber_ledger.admit(%s, %s::name)", (FIRST, both.role))
    assert runs_of(asked(project, database.url(stranger), "fleet")) == ["vault"]
    assert runs_of(asked(project, database.url(member), "fleet")) == ["busy", "bare", "quiet"]
    assert runs_of(asked(project, database.url(both), "fleet")) == ["busy", "bare", "vault", "quiet"]
    lines = project.faber("fleet", env={"FABER_LEDGER_URL": database.url(both)}).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["project", "shop", "shop", "bank", "shop"]


def test_projects_of_one_name_are_told_apart(project: Project, database: Database, member: Login) -> None:
    register(database, member, SECOND, "shop")
    put_run(database, member, project, "bare", SECOND)
    url = database.url(member)
    for words in (("fleet",), ("fleet", "--project", "shop"), ("search", "paused")):
        shown = project.faber(*words, env={"FABER_LEDGER_URL": url}).stdout
        assert f"shop ({FIRST[:10]})" in shown, words
        assert f"shop ({SECOND[:10]})" in shown, words
    assert runs_of(asked(project, url, "fleet", "--project", SECOND[:10])) == ["bare"]


def test_hostile_rows_stop_no_table_and_what_hides_is_escaped(
    project: Project, database: Database, member: Login
) -> None:
    state = {"work_id": "\x1b[31m\u202e", "status": ["x"], "current_phase": "\0b"}
    put_state(database, member, "busy", json.dumps(state))
    put_state(database, member, "quiet", "[" * 100_000)
    with database.connect() as connection:
        for place, payload in enumerate(["[]", "{", '{"source": 7}']):
            connection.execute(
                "INSERT INTO faber_ledger.event"
                " (project, run_id, position, seq, id, type, version, at, writer, parents, salt, payload, hash)"
                " SELECT project, 'bare', 1000 + %s, 9, %s, 'session_started', 1, at, writer, '', salt, %s, hash"
                " FROM faber_ledger.event WHERE run_id = 'bare' LIMIT 1",
                (place, f"7{place}ZZZZZZZZZZZZZZZZZZZZZZZZ", payload),
            )
    done = project.faber("fleet", env={"FABER_LEDGER_URL": database.url(member)})
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "\\x1b[31m\\u202e" in done.stdout


# Watching


def next_runs(watching: Watching) -> list[str]:
    """Return the runs of the next line of `fleet --watch --json`, which is what it shows then."""
    return runs_of(json.loads(watching.next_line())["data"])


def test_a_watch_shows_what_arrives_and_ends_with_ctrl_c(project: Project, database: Database, member: Login) -> None:
    with Watching(project, database.url(member), *WATCH, "--every", "600") as watching:
        assert next_runs(watching) == ["busy", "bare", "quiet"]
        add_run(project, "bare", None, {**NOTE, "text": "later"}, hour=9)
        put_run(database, member, project, "bare")
        assert next_runs(watching) == ["bare", "busy", "quiet"]
        assert watching.interrupt() == (0, "")


def test_a_watch_looks_again_where_it_hears_nothing(project: Project, database: Database, member: Login) -> None:
    stranger = database.login()
    refused = project.faber("fleet", "--watch", env={"FABER_LEDGER_URL": database.url(stranger)})
    assert (refused.returncode, refused.stdout) == (14, "")
    register(database, stranger, SECOND)
    with Watching(project, database.url(stranger), *WATCH, "--every", "1") as watching:
        assert next_runs(watching) == []
        with database.connect(member) as connection:  # of a project that it did not see nothing is told to it
            connection.execute("SELECT faber_ledger.admit(%s, %s::name)", (FIRST, stranger.role))
        assert next_runs(watching) == ["busy", "bare", "quiet"]
        assert watching.interrupt() == (0, "")


@pytest.mark.long(alone=True)
def test_a_watch_waits_for_a_server_that_is_lost(project: Project) -> None:
    with started_server(settings=DURABLE) as server:
        cluster = Cluster(server.url())
        database = Database(cluster, cluster.template)
        member = database.login()
        put_project(database, member, project)
        with Watching(project, database.url(member), *WATCH) as watching:
            assert next_runs(watching) == ["busy", "bare", "quiet"]
            server.kill()
            assert watching.said().endswith("; waiting until the server is back\n")
            server.start()
            assert watching.said() == "the server is back\n"
            add_run(project, "bare", None, {**NOTE, "text": "later"}, hour=9)
            put_run(database, member, project, "bare")
            assert next_runs(watching) == ["bare", "busy", "quiet"]
            assert watching.interrupt() == (0, "")


def test_a_watch_of_no_server_is_an_error(project: Project) -> None:
    assert asked(project, "postgresql://localhost:1/none", "fleet", "--watch", code=13)["code"] == "server_unavailable"


TELLING = 'cat >> "$TOLD/facts"; printf "%s|%s|%s\\n" "$FABER_LEDGER_RUN" "$FABER_LEDGER_STATE" "$FABER_LEDGER_TARGET"'


def test_a_command_is_told_once_of_each_change_of_a_state(
    project: Project, database: Database, member: Login, tmp_path: Path
) -> None:
    url, hostile = database.url(member), "$(touch pwned); \x1b[31m"

    @contextmanager
    def watch(*options: str) -> Iterator[Watching]:
        told = f"TOLD='{tmp_path}'; {TELLING} >&2; exit 3"
        with Watching(project, url, *WATCH, "--every", "600", "--exec", told, *options) as watching:
            next_runs(watching)
            yield watching
            assert watching.interrupt() == (0, "")

    def change(status: str) -> None:
        put_state(database, member, "quiet", json.dumps({"status": status, "target": hostile}))
        put_run(database, member, project, "busy")  # which tells who listens

    with watch() as first, watch("--failed") as second:
        change("failed")
        for one in (first, second):  # each remembers what it has told
            next_runs(one)
            assert one.said() == "quiet|failed|$(touch pwned); \\x1b[31m\n"
            assert one.said() == "quiet: CMD ended with 3\n"
    facts, _ = json.JSONDecoder().raw_decode((tmp_path / "facts").read_text())
    assert [facts[name] for name in ("run_id", "before", "state", "target")] == ["quiet", "done", "failed", hostile]
    change("in_progress")
    with watch("--failed") as again:  # what changed while nobody watched is no longer wanted
        change("failed")
        next_runs(again)
        assert again.said().startswith("quiet|failed|")
        assert again.said() == "quiet: CMD ended with 3\n"
    with watch():
        pass
    assert not (project.root / "pwned").exists()
    assert project.faber("fleet", "--exec", "true", env={"FABER_LEDGER_URL": url}).returncode == 2


def test_what_waits_behind_a_command_that_is_killed_is_told_later(
    project: Project, database: Database, member: Login
) -> None:
    url, home = database.url(member), project.root.parent / "states"
    told = 'echo "$FABER_LEDGER_RUN $FABER_LEDGER_BEFORE" >&2; test -e go || kill -KILL $PPID'

    def wait_for_failed(count: int) -> None:
        wait_until(lambda: [path.read_text().count("failed") for path in home.rglob("states-*.json")] == [count])

    def watch() -> Watching:
        return Watching(project, url, *WATCH, "--exec", told, XDG_STATE_HOME=str(home))

    def fail(*runs: str) -> None:
        for run in runs:
            put_state(database, member, run, json.dumps({"status": "failed"}))

    with watch():
        wait_for_failed(0)
    fail("busy", "quiet")
    with watch() as killed:
        first = killed.said()
        assert killed.process.wait(60) == -signal.SIGKILL
    (project.root / "go").touch()
    with watch() as again:
        said = [again.said(), again.said()]
        assert (sorted(said), first in said) == (["busy stale\n", "quiet done\n"], True)
        wait_for_failed(2)
    fail("bare")
    with watch() as after:
        assert after.said() == "bare stale\n"
        wait_for_failed(3)
        assert after.interrupt() == (0, "")


# Who watches hears of each push, and no push waits for him, or fails, because of the server's queue.


def test_only_a_pushed_run_is_notified_and_only_once(database: Database, tmp_path: Path) -> None:
    team = made_team(database, tmp_path)
    first, second, _ = team.clones
    fill(first, MOST_EVENTS)  # two batches
    with database.connect(autocommit=True) as listening:
        listening.execute("LISTEN faber_ledger")

        def heard() -> list[str]:
            with database.connect() as connection:
                connection.execute("NOTIFY faber_ledger, 'end'")
            return [one.payload for one in takewhile(lambda one: one.payload != "end", listening.notifies(timeout=60))]

        assert team.sync(first).returncode == 0
        assert heard() == [notification_of(team.project)]
        team.synced(first)
        team.synced(second, "--fetch")
        assert heard() == []
        first.change_state(current_phase="release")
        team.synced(first)  # the state alone
        assert heard() == [notification_of(team.project)]
