"""`faber-ledger page`: what it shows, that it follows what happens, and who may read it."""

from __future__ import annotations

import html
import json
import re
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from support.command import COMMAND
from support.program import make_program
from support.project import RUN, Project, usual_state
from support.served import Served
from support.timelines import HOSTILE
from support.transcripts import place_of, response

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STARTED = "SessionStart.startup.print"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a session and a note."""
    project = Project.made(tmp_path / "shop")
    project.deliver(STARTED)
    project.faber("note", "the cache goes", "--decision")
    return project


@pytest.fixture
def page(project: Project) -> Iterator[Served]:
    """Its page."""
    with Served(project.root, project.environment()) as served:
        yield served


def shown(text: str) -> str:
    """Return the words of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


# What it shows


def test_the_list_has_the_rows_and_the_order_of_run_list(project: Project, page: Served) -> None:
    project.start_run("77", "--run-id", "other", "--yes")
    project.change_state(status="failed")
    rows = json.loads(project.faber("run", "list", "--json").stdout)["data"]
    found = re.findall(r'<tr id="run-([^"]+)" class="(\w+)"', page.read("/"))
    assert found == [(row["run_id"], row["state"]) for row in rows]
    assert {name for name, _ in found} == {RUN, "other"}
    assert re.findall(r'<tr id="run-([^"]+)"', page.read("/?failed=")) == [RUN]
    for query in ("waiting=", "since=2199-12-31", "status=completed"):
        assert "No run matches" in page.read(f"/?{query}")
    assert len(re.findall(r'<tr id="run-', page.read("/?status=&since="))) == len(rows)
    assert "since (UTC)" in page.read("/?since=2026-01-05")


def test_a_run_has_its_sessions_texts_and_events(project: Project, page: Served) -> None:
    text = page.read(f"/run/{RUN}")
    words = shown(text)
    (session,) = [event["session_id"] for event in project.of_type("session_started")]
    assert "decision" in words
    assert "the cache goes" in words
    assert f"verified: each of its {len(project.events)} events matches its hash" in words
    for recorded in project.recorded:
        assert f'href="/run/{RUN}/event/{recorded["id"]}"' in text
    of_session = shown(page.read(f"/run/{RUN}/session/{quote(session)}"))
    assert "workflow-state whole" in of_session
    event = project.recorded[-1]
    of_event = page.read(f"/run/{RUN}/event/{event['id']}")
    (stored,) = re.findall("<pre>(.*)</pre>", of_event, re.DOTALL)
    assert json.loads(html.unescape(stored))["id"] == event["id"]


def test_a_compaction_leads_to_the_context_after_it(project: Project, page: Served) -> None:
    client = "4f0c"
    project.deliver(STARTED, client=client)
    for deliveries in (
        ("PreCompact.auto.print", "SessionStart.compact.print", "PostCompact.auto.print"),
        ("PreCompact.auto.print", "PostCompact.auto.print", "SessionStart.compact.print"),
    ):
        for delivery in deliveries:
            project.deliver(delivery, client=client)
    project.deliver("SessionEnd.other.print", client=client)
    _, first, second, third = [event["session_id"] for event in project.of_type("session_started")]

    def leads_to(path: str) -> list[str]:
        return re.findall(r'href="/run/[^"]+/session/([^"]+)">context after the compaction', page.read(path))

    sessions = [page.read(f"/run/{RUN}/session/{one}").partition("</dl>")[0] for one in (first, second, third)]
    assert [f'/session/{second}">context after the compaction' in sessions[0], third in sessions[1]] == [True, True]
    assert "context after the compaction" not in sessions[2]
    of = {
        kind: [one["id"] for one in project.recorded if one["event"]["type"] == kind]
        for kind in ("compaction_completed", "session_ended")
    }
    assert [leads_to(f"/run/{RUN}/event/{one}") for one in of["compaction_completed"]] == [[second], [third]]
    assert [leads_to(f"/run/{RUN}/event/{one}") for one in of["session_ended"][-3:]] == [[second], [third], []]
    assert leads_to(f"/run/{RUN}") == [third, second, *[second] * 3, *[third] * 3]  # of its sessions, and its events


def test_a_finished_run_is_in_no_phase(project: Project, page: Served) -> None:
    assert "<dt>phase</dt>" in page.read(f"/run/{RUN}")
    project.change_state(status="completed")
    text = page.read(f"/run/{RUN}")
    assert "<dt>phase</dt>" not in text
    assert '<span class="state done">done</span>' in text


def test_tokens_are_shown_of_run_and_session(project: Project, page: Served) -> None:
    path = place_of(project, "4f0c")
    path.write_text(response("msg_1", (10, 500, 40)))
    assert "tokens" not in shown(page.read("/"))
    project.deliver(STARTED, client="4f0c", fields={"transcript_path": str(path)})
    project.deliver("SessionEnd.other.print", client="4f0c", fields={"transcript_path": str(path)})
    assert " tokens heard of " in shown(page.read("/"))
    words = shown(page.read(f"/run/{RUN}"))
    assert "tokens 550 (500 cached, 40 out) in 1 response" in words
    assert re.search(r"\d 550 claude-session", words)


def test_a_log_that_was_changed_is_not_called_verified(project: Project, page: Served) -> None:
    with closing(sqlite3.connect(project.clones_log)) as log:
        triggers = log.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            log.execute(f"DROP TRIGGER {name}")
        log.execute("UPDATE event SET payload = replace(payload, 'cache', 'queue')")
        for _, statement in triggers:
            log.execute(statement)
        log.commit()
    text = shown(page.read(f"/run/{RUN}"))
    assert "not sound: " in text
    assert "verified" not in text


def test_markdown_has_what_an_issue_needs(project: Project, page: Served) -> None:
    project.deliver(STARTED, client="another")
    text = page.read(f"/run/{RUN}/markdown")
    assert re.search(r"\| unknown \| abandoned \|", text)
    assert text.startswith(f"## {RUN}\n")
    assert "\n**decision**" in text
    assert "\n> the cache goes\n" in text
    assert text.endswith("Its ledger is verified: each event matches its hash.\n")


def test_texts_of_log_and_state_are_in_the_order_of_time(project: Project, page: Served) -> None:
    early, late = "2026-01-05T09:00:00Z", "2199-01-05T09:00:00+01:00"
    asked = {"phase": "build", "reason": "it is Friday", "requested_at": early}
    project.change_state(
        errors=[{"phase": "build", "step": "test", "message": "3 tests fail", "timestamp": late}, "no time"],
        pending_approvals=[asked, {**asked, "phase": "release", "status": "approved", "approved_by": "mia"}],
    )
    shown_texts = shown(page.read(f"/run/{RUN}").partition('<section id="texts"')[2].partition("</section>")[0])
    words = ["error build:test", "3 tests fail", "the cache goes", "approval asked for", "build: it is Friday"]
    words += ["approval given", "release: it is Friday (by mia)", "error - no time"]
    places = [shown_texts.find(one) for one in words]
    assert places == sorted(places)
    assert -1 not in places
    assert "\n> 3 tests fail\n" in page.read(f"/run/{RUN}/markdown")


def test_a_search_leads_to_the_event(project: Project, page: Served) -> None:
    text = page.read("/search?q=CACHE+goes")
    note = next(one for one in project.recorded if one["event"]["type"] == "note_recorded")
    assert f'href="/run/{RUN}/event/{note["id"]}"' in text
    assert "Nothing has all of these words" in page.read("/search?q=nowhere")


def test_what_a_run_waits_for_and_why_it_failed_is_shown(project: Project, page: Served) -> None:
    question, error = f"Which port? {'why ' * 200}at last", f"tests fail {'again ' * 200}at last"
    project.change_state(status="awaiting_feedback", feedback_request={"prompt": question})
    assert "waiting: question Which port?" in shown(page.read("/"))
    assert f"waiting: question {question}" in shown(page.read(f"/run/{RUN}"))
    project.change_state(status="failed", errors=[{"phase": "build", "message": error}])
    assert "failed build: tests fail" in shown(page.read("/"))
    assert f"failed build: {error}" in shown(page.read(f"/run/{RUN}"))
    project.state_path.write_text("{")
    words = shown(page.read("/"))
    assert "unreadable" in words
    assert "cannot be read: Invalid JSON" in words
    assert "cannot be read: Invalid JSON" in shown(page.read(f"/run/{RUN}"))


def test_a_run_of_a_plan_has_a_view(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "shop", run_id="plan-1")
    folder = project.root / ".fractary/faber/runs/plan-7/001"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps(usual_state("plan-7/001")))
    project.active_path.write_text("plan-7/001")
    project.faber("note", "of the plan")
    with Served(project.root, project.environment()) as page:
        assert "of the plan" in page.read("/run/plan-7%252F001")
        assert 'href="/run/plan-7%252F001"' in page.read("/")


def test_many_events_have_pages(project: Project, page: Served) -> None:
    for number in range(110):
        project.faber("note", f"note {number}")
        if number == 20:
            project.deliver(STARTED, client="4f0c")  # the chart leads to it
    last, first = page.read(f"/run/{RUN}"), page.read(f"/run/{RUN}?page=1")
    assert "page 2 of 2" in last
    numbers = [[int(number) for number in re.findall(r'<tr id="e(\d+)"', text)] for text in (first, last)]
    assert [*numbers[0], *numbers[1]] == [*range(1, len(project.events) + 1)]
    assert len(numbers[1]) == 100  # the newest page is full
    assert page.read(f"/run/{RUN}?page=9") == last
    links = re.findall(r'href="\?page=(\d)#e(\d+)"', last)
    assert {(at, int(number) in numbers[int(at) - 1]) for at, number in links} == {("1", True), ("2", True)}


@pytest.mark.parametrize("path", ["/run/nothing", f"/run/{RUN}/event/x", f"/run/{RUN}/session/x", "/nothing"])
def test_what_is_not_there_is_said(page: Served, path: str) -> None:
    assert "There is nothing to show" in page.read(path, 404)


def test_a_recording_is_told_to_who_listens(project: Project, page: Served) -> None:
    stream = page.ask("/changes")
    assert stream.readline() == b": \n"
    project.faber("note", "while the tab is open")
    lines = iter(stream.readline, b"")
    assert next(line for line in lines if line.strip()) == b"data: changed\n"


@pytest.mark.parametrize("path", ["/?stale=soon", "/?status=over", "/?since=24h", "/search?q=..."])
def test_a_wrong_question_is_said(page: Served, path: str) -> None:
    assert "There is nothing to show" in page.read(path, 400)


# Who may read it


def test_only_the_browser_that_was_opened_reads_it(page: Served) -> None:
    flags = page.cookie_header.lower()
    assert {"httponly", "samesite=lax"} <= {*flags.split("; ")}
    token = page.address.removeprefix(f"http://{page.host}")
    own, page.cookie = page.cookie, ""
    assert [page.ask(path).status for path in ("/", token, f"/run/{RUN}", "/changes", "/static/page.css")] == [403] * 5
    assert "`faber-ledger page --no-browser` prints a new one" in page.read("/", 403)
    page.cookie = own
    assert page.ask("/").status == 200
    port = page.host.partition(":")[2]
    for host in ("attacker.example", "127.0.0.1", "localhost"):  # which other programs are behind, too
        assert page.ask("/", Host=f"{host}:{port}").status == 421
    assert page.ask("/", Origin="http://attacker.example").status == 403
    assert page.ask("/", Origin="null").status == 403
    assert [page.ask("/", method).status for method in ("POST", "PUT", "DELETE", "OPTIONS")] == [405] * 4


def test_the_policy_lets_nothing_from_elsewhere_in(page: Served) -> None:
    for path in ("/", f"/run/{RUN}", "/nothing", f"/run/{RUN}/markdown"):
        headers = page.ask(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none';"), path
        assert "unsafe" not in policy
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert not re.search(r"<[^>]+\s(style|on\w+)=", page.read(f"/run/{RUN}"))  # which the policy would refuse


def test_no_text_of_a_ledger_is_markup(project: Project) -> None:
    hostile = dict.fromkeys(("target", "work_id", "branch", "current_phase"), HOSTILE)
    project.change_state(**hostile, pr_url=f"javascript:{HOSTILE}")
    project.faber("note", HOSTILE)
    project.deliver(STARTED, session_id=HOSTILE)
    with Served(project.root, project.environment()) as page:
        paths = ["/", f"/run/{RUN}", f"/search?q={quote('document title')}"]
        paths += re.findall(r'href="(/run/[^"]+)"', page.read(f"/run/{RUN}"))
        for path in paths:
            answer = page.ask(html.unescape(path).replace(" ", "%20"))
            text = answer.read().decode()
            if answer.headers["content-type"].startswith("text/html"):
                assert "<script>" not in text, path
                assert "<img" not in text, path
                assert 'href="javascript' not in text, path
            assert "\u202e" not in text, path
            assert "\x1b" not in text, path


def test_the_page_listens_on_loopback_alone(page: Served) -> None:
    port = int(page.host.partition(":")[2])
    with open("/proc/net/tcp", encoding="ascii") as file:
        listening = [line.split()[1] for line in file if line.split()[3] == "0A"]
    assert [one.partition(":")[0] for one in listening if int(one.partition(":")[2], 16) == port] == ["0100007F"]


def test_the_address_reaches_the_browser_through_a_private_file(project: Project, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = f'stat -c %a "${{1#file://}}" > {seen}\ncat "${{1#file://}}" >> {seen}'
    browser = make_program(tmp_path / "browser", script)
    environment = {**project.environment(), "BROWSER": f"{browser} %s"}
    with subprocess.Popen(
        [COMMAND, "page"], cwd=project.root, env=environment, stderr=subprocess.PIPE, text=True
    ) as one:
        assert one.stderr is not None
        line = one.stderr.readline()
        said = seen.read_text()
        with open(f"/proc/{one.pid}/cmdline", encoding="utf-8") as file:
            assert "token" not in file.read()
        one.terminate()
    assert " shows the runs of shop, until Ctrl-C; for another browser --no-browser prints the whole address" in line
    assert re.fullmatch(
        r"600\n<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=http://[0-9a-f]{16}\.localhost:\d+/\?token=.*\n",
        said,
    )


# What is missing


def test_without_the_extra_the_command_says_how_to_install_it(project: Project, tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError(name='uvicorn')\n")
    said = project.said("page", code=1, env={"PYTHONPATH": str(tmp_path)})
    assert said.startswith(
        "error: the live page needs the extra faber-ledger[page]\n\nhint: install faber-ledger again"
    )


def test_a_taken_port_is_said(project: Project, page: Served) -> None:
    port = page.host.partition(":")[2]
    assert f"the port {port} cannot be used" in project.said("page", "--port", port, code=1)


def test_outside_a_project_it_says_so(project: Project, tmp_path: Path) -> None:
    project.root = tmp_path / "empty"
    project.root.mkdir()
    assert project.said("page", code=1).startswith("error: no project found")
