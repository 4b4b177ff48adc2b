"""`faber-ledger search` on a server finds what it finds in a clone with the same runs, and nothing of others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from support.on_server import FIRST, SECOND, asked, put_project, put_run, put_state, register
from support.postgres import START_SECONDS
from support.project import Project
from support.searching import NOTE, add_run, project_to_search, search
from support.sizes import few

from faber_ledger.ledger.log import Log

if TYPE_CHECKING:
    from pathlib import Path

    from support.postgres import Database

QUERIES = (
    *("TABLE User", '"user table"', "MÜLLER", "gateway", "rules-team", "skipped", "feat/258", "in_progress", "258"),
    *("heron", '"258 http"', "SPÄTER", "team-rules", '"gateway is"', "gateway gateway down"),
    *("deploy", "plan", "rules", "down", "redis", "the table"),
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return project_to_search(tmp_path / "project")


def without_place(data: Any) -> Any:
    """Return an answer without what only a server says."""
    hits = [{**hit, "project": None} for group in data["runs"] for hit in group["hits"]]
    return [hits, data["has_more"], [group["run_id"] for group in data["runs"]]]


@pytest.mark.long
def test_a_server_and_a_clone_find_the_same(project: Project, database: Database) -> None:
    member = database.login()
    put_project(database, member, project)
    for query in (*[(text,) for text in few(QUERIES, 10)], ("gateway", "--limit", "1"), ("gateway", "--limit", "2")):
        there = asked(project, database.url(member), "search", *query)
        assert without_place(there) == without_place(search(project, *query)), query


def test_a_report_names_the_project(project: Project, database: Database) -> None:
    member = database.login()
    put_project(database, member, project, name="the shop")
    done = project.faber("search", "friday", env={"FABER_LEDGER_URL": database.url(member)})
    assert done.stdout.splitlines()[0] == "older in the shop: 1 hit"


def test_local_asks_no_server_and_without_one_none_is_asked(project: Project, database: Database) -> None:
    login = database.login()
    url = database.url(login)
    register(database, login)
    assert asked(project, url, "search", "friday")["runs"] == []
    assert len(asked(project, url, "search", "friday", "--local")["runs"]) == 1
    assert project.faber("search", "friday", "--local", "--project", "shop").returncode == 2
    nowhere = asked(project, "postgresql://localhost:1/nothing", "search", "friday", code=13)
    assert nowhere["hint"].startswith("`--local` searches the runs of this clone")


def test_a_role_finds_nothing_in_a_project_it_cannot_see(project: Project, database: Database) -> None:
    member, stranger = database.login(), database.login()
    put_project(database, member, project)
    register(database, stranger, SECOND, "other")
    for query in ("gateway", "redis"):
        assert asked(project, database.url(stranger), "search", query)["runs"] == []
        assert asked(project, database.url(stranger), "search", query, "--project", SECOND)["runs"] == []
        for name in (FIRST, "shop"):
            error = asked(project, database.url(stranger), "search", query, "--project", name, code=10)
            assert error["hint"] == "it shows: other"


def test_a_redacted_event_is_never_found_nor_the_states_of_its_run(project: Project, database: Database) -> None:
    member = database.login()
    put_project(database, member, project)
    url = database.url(member)
    assert [len(group["hits"]) for group in asked(project, url, "search", "gateway")["runs"]] == [2, 1]
    event = asked(project, url, "search", '"up again"')["runs"][0]["hits"][0]["event_id"]
    assert project.faber("redact", event, "--run", "newer", "--yes").returncode == 0
    run = project.root / ".fractary/runs/newer"
    with Log.read(str(run / "ledger.db")) as log, database.connect(member) as connection:
        for (writer,) in log.connection.execute("SELECT DISTINCT writer FROM event"):
            connection.execute("SELECT faber_ledger.claim_clone(%s, %s)", (FIRST, writer))
    (run / "state.json").unlink()
    put_run(database, member, project, "newer")
    assert [group["run_id"] for group in asked(project, url, "search", "gateway")["runs"]] == ["older"]


def test_a_payload_that_is_not_the_events_is_not_shown(project: Project, database: Database) -> None:
    member = database.login()
    put_project(database, member, project)
    with database.connect() as connection:
        connection.execute(
            "INSERT INTO faber_ledger.event"
            " (project, run_id, position, seq, id, type, version, at, writer, parents, salt, payload, hash)"
            " SELECT project, 'forged', 0, seq, id, type, version, at, writer, parents, salt,"
            " replace(payload, 'the gateway', 'the lie'), hash"
            " FROM faber_ledger.event WHERE payload LIKE '%the gateway%'"
        )
    assert asked(project, database.url(member), "search", "lie")["runs"] == []


def test_hostile_rows_stop_neither_a_push_nor_a_search(project: Project, database: Database) -> None:
    member = database.login()
    many = " ".join([f"word{number}" for number in range(120_000)])
    add_run(
        project, "hostile", None, {**NOTE, "text": f"a\0gateway {many}"}, {**NOTE, "text": "gateway\x1b[31m"}, hour=2
    )
    put_project(database, member, project)
    put_state(database, member, "older", "{" * 100_000)
    put_state(database, member, "newer", '{"gateway": "gateway \\u0000 \\ud800 last"}')
    found = asked(project, database.url(member), "search", "gateway")["runs"]
    assert [(group["run_id"], len(group["hits"])) for group in found] == [("hostile", 2), ("newer", 2), ("older", 1)]
    done = project.faber("search", "gateway", env={"FABER_LEDGER_URL": database.url(member)})
    assert "\x1b" not in done.stdout
    assert "\\x1b[31m" in done.stdout


def test_a_search_reads_on_where_the_newest_candidates_do_not_match(project: Project, database: Database) -> None:
    """The index knows no phrases: it proposes 250 notes that have both words, of which the oldest has the phrase."""
    notes = [{**NOTE, "text": text} for text in ("a grey heron", *["heron, grey"] * 250)]
    add_run(project, "birds", None, *notes)
    member = database.login()
    put_project(database, member, project)
    found = asked(project, database.url(member), "search", '"grey heron"', "--limit", "1")
    assert [hit["excerpt"] for hit in found["runs"][0]["hits"]] == ["a grey heron"]
    assert not found["has_more"]
    there = asked(project, database.url(member), "search", "grey heron", "--limit", "240")
    assert (len(there["runs"][0]["hits"]), there["has_more"]) == (240, True)
    assert without_place(there) == without_place(search(project, "grey heron", "--limit", "240"))


@pytest.mark.parametrize(("function", "index"), [("find_events", "event_words"), ("find_states", "state_words")])
def test_an_index_serves_a_search(database: Database, function: str, index: str) -> None:
    """Under row-level security a member's own condition would read every row: `@>` is no leakproof operator."""
    member = database.login()
    register(database, member)
    with database.connect(autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off")  # the tables are small
        connection.execute(f"SELECT * FROM faber_ledger.{function}('{{x}}', NULL, NULL, NULL, NULL, NULL, 9)".encode())
    used = "SELECT idx_scan > 0 FROM pg_stat_user_indexes WHERE indexrelname = %s"
    latest = time.monotonic() + START_SECONDS
    with database.connect(autocommit=True) as connection:  # the server tells it some time after the other one's end
        while connection.execute(used, (index,)).fetchone() != (True,):
            assert time.monotonic() < latest, "no index was used"
