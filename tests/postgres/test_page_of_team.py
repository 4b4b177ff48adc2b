"""`faber-ledger page --url`: the runs of the team's server, as its members' clones have pushed them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.browser import Browser
from support.postgres import DURABLE, Cluster, Database, started_server
from support.project import RUN
from support.served import Served
from support.team_server import made_team
from support.transcripts import place_of, response

if TYPE_CHECKING:
    from pathlib import Path

    from support.team_server import Team


def test_a_colleague_sees_the_run_as_it_was_pushed(team: Team) -> None:
    first, second, _ = team.clones
    first.faber("note", "the cache goes")
    path = place_of(first, "4f0c")
    first.deliver("SessionStart.startup.print", client="4f0c", fields={"transcript_path": str(path)})
    path.write_text(response("msg_1", (10, 500, 40)))
    first.deliver("SessionEnd.other.print", client="4f0c", fields={"transcript_path": str(path)})
    team.sync(first)
    session = first.of_type("session_started")[0]["session_id"]
    environment = second.environment({"FABER_LEDGER_URL": team.url})
    with Served(second.root, environment, "--project", team.project) as page:
        assert re.findall(r'<tr id="run-([^"]+)"', page.read("/")) == [RUN]
        assert '<td class="number">550</td>' in page.read("/")
        assert re.findall('title="(?:frame|architect|build): ([^"]+)"', page.read("/")) == ["done", "done", "at work"]
        stream = page.ask("/changes")
        assert stream.readline() == b": \n"
        text = page.read(f"/run/{RUN}")
        assert "the cache goes" in text
        assert f"verified: each of its {len(first.events)} events" in text
        assert f'href="/run/{RUN}/session/{session}"' in text
        assert "the cache goes" in page.read("/search?q=cache")
        first.faber("note", "it comes back")
        team.sync(first)
        lines = iter(stream.readline, b"")
        assert next(line for line in lines if line.strip()) == b"data: changed\n"
        assert "it comes back" in page.read(f"/run/{RUN}")
        page.read("/run/nothing", 404)


@pytest.mark.browser
def test_who_looks_is_told_that_the_server_is_lost_and_back(tmp_path: Path) -> None:
    with started_server(settings=DURABLE) as server:
        cluster = Cluster(server.url())
        team = made_team(Database(cluster, cluster.template), tmp_path)
        first = team.clones[0]
        team.sync(first)
        environment = first.environment({"FABER_LEDGER_URL": team.url})
        page = Served(first.root, environment, "--project", team.project)
        with Browser(tmp_path / "profile") as browser:
            browser.visit(page.address)
            browser.visit(f"http://{page.host}/run/{RUN}")
            said = "document.getElementById('live').textContent"
            browser.wait_for(f"{said} === 'live'")
            server.kill()
            browser.wait_for(f"{said}.startsWith('not connected: ')")
            assert "server" in browser.run(f"return {said}")
            assert browser.run("return document.querySelector('h1').textContent") == RUN
            server.start()
            browser.wait_for(f"{said} === 'live'")
            first.faber("note", "it comes back")
            team.sync(first)
            browser.wait_for("document.querySelector('article pre')?.textContent === 'it comes back'")
        page.__exit__(None)
