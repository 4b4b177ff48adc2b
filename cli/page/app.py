"""The page's paths, each with its view, and the stream that says that something has changed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode

import click
from jinja2 import Environment, PackageLoader
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from faber_ledger import __version__
from faber_ledger.cli.page import views
from faber_ledger.cli.reports.chart import shorten
from faber_ledger.cli.ui.attention import Filters, list_by_need, parse_duration, state_words
from faber_ledger.cli.ui.words import short_age, tokens_shown
from faber_ledger.files.text import escape, escape_lines
from faber_ledger.files.word_query import parse_query
from faber_ledger.ledger.clock import now, seconds_of
from faber_ledger.ledger.command_errors import ServerRefused, ServerUnavailable, UsageFailed
from faber_ledger.ledger.errors import LedgerError, RunNotFound
from faber_ledger.runs.progress import STATUSES

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.requests import Request

    from faber_ledger.cli.page.source import Source

PROBLEMS = (HTTPException, LedgerError, click.UsageError, sqlite3.DatabaseError)  # that are shown
# 503: the script keeps what is shown, and says why it is not connected.
CODES: dict[type[LedgerError], int] = {RunNotFound: 404, UsageFailed: 400, ServerUnavailable: 503, ServerRefused: 503}
WORDS_OF_STEP = {"done": "done", "now": "at work", "failed": "failed", "ahead": "to come"}
LONGEST = 120  # letters of a text in a table
RUNS_A_PAGE = 50
MOST_VIEWS = 8  # runs whose view is kept
MOST_HITS = 100
LOOK_SECONDS = 0.5  # between two looks for a change


def build_app(source: Source) -> Starlette:
    """Return the application that shows the runs of a source."""
    page = Page(source)
    views_by_path: dict[str, Callable[[Request], Response]] = {
        "/": page.show_list,
        "/search": page.show_search,
        "/run/{run_id}": page.show_run,
        "/run/{run_id}/chart": page.show_chart,
        "/run/{run_id}/markdown": page.show_markdown,
        "/run/{run_id}/session/{session_id}": page.show_session,
        "/run/{run_id}/event/{event_id}": page.show_event,
    }
    static = StaticFiles(packages=[("faber_ledger", "cli/page/static")])
    return Starlette(
        routes=[
            *[Route(path, view, methods=["GET"]) for path, view in views_by_path.items()],
            Route("/changes", page.stream_changes, methods=["GET"]),
            Mount("/static", static),
        ],
        exception_handlers=dict.fromkeys(PROBLEMS, page.show_problem),
    )


class Page:
    """The views of a source's runs; each reads what is there now."""

    def __init__(self, source: Source) -> None:
        self._source = source
        # An unchanged log is not folded again.
        self._read_run = lru_cache(maxsize=MOST_VIEWS)(lambda run_id, version: views.read_run(source, run_id))
        self._templates = Environment(loader=PackageLoader("faber_ledger", "cli/page/templates"), autoescape=True)
        self._templates.filters.update(
            line=escape, lines=escape_lines, short=partial(shorten, most=LONGEST), part=_part, age=_age
        )
        self._templates.globals.update(
            title=source.title,
            version=__version__,
            steps_of=views.steps_of,
            link_of=views.link_of,
            tokens_shown=tokens_shown,
            statuses=STATUSES,
            words_of_step=WORDS_OF_STEP,
        )

    def show_list(self, request: Request) -> Response:
        """Show the runs, those that need somebody first."""
        query = request.query_params
        rows = list_by_need(self._source.list_rows(_read_filters(query)))
        page, pages = _choose_page(query.get("page"), len(rows), RUNS_A_PAGE, default=1)
        shown = rows[(page - 1) * RUNS_A_PAGE :][:RUNS_A_PAGE]
        for row in shown:
            row["words"] = "unreadable" if row.get("problem") else state_words(row)
        kept = [(name, value) for name, value in query.multi_items() if name != "page"]
        to_page = f"/?{urlencode([*kept, ('page', '')])}"
        return self._render(
            "list.html", rows=shown, count=len(rows), query=query, page=page, pages=pages, to_page=to_page
        )

    def show_run(self, request: Request) -> Response:
        """Show one run."""
        run_id, view = self._read(request)
        count = view.timeline["events"]
        query, sessions = request.query_params, list(views.session_rows(view))
        page, pages = _choose_page(query.get("page"), count, views.EVENTS_A_PAGE, default=None)
        shown, more = _choose_page(query.get("sessions"), len(sessions), views.SESSIONS_A_PAGE, default=1)
        with self._source.open_log(run_id) as log:
            events = views.read_events(log, count - (pages - page) * views.EVENTS_A_PAGE)  # the last page is full
        state, problem = self._state_of(run_id)
        return self._render(
            "run.html",
            run_id=run_id,
            problem=problem,
            view=view,
            standing=views.standing_of(state),
            facts=views.facts_of(state, view),
            chart=views.draw(view.timeline, "") if len(sessions) <= views.MOST_DRAWN else "",
            count=len(sessions),
            texts=views.newest_texts(state, view),
            sessions=sessions[(shown - 1) * views.SESSIONS_A_PAGE :][: views.SESSIONS_A_PAGE],
            shown=shown,
            more=more,
            events=events,
            page=page,
            pages=pages,
        )

    def show_chart(self, request: Request) -> Response:
        """Show the chart of a run alone."""
        run_id, view = self._read(request)
        return self._render("chart.html", run_id=run_id, chart=views.draw(view.timeline, f"/run/{_part(run_id)}"))

    def show_markdown(self, request: Request) -> Response:
        """Return a run as Markdown."""
        run_id, view = self._read(request)
        return PlainTextResponse(escape_lines(views.markdown_of(run_id, self._state_of(run_id)[0], view)))

    def show_session(self, request: Request) -> Response:
        """Show what a session was given, and its events."""
        run_id, view = self._read(request)
        session_id = unquote(request.path_params["session_id"])
        session = next((one for one in views.session_rows(view) if one["id"] == session_id), None)
        if session is None:
            raise HTTPException(404, f"{run_id} has no session {session_id}")
        with self._source.open_log(run_id) as log:
            given, events = views.given_to(log, session_id), views.events_of_session(log, session_id)
        into = next((one.compacted_into for one in events if one.compacted_into not in (None, session_id)), None)
        about = {"session": session, "compacted_into": into, "given": given, "events": events}
        return self._render("session.html", run_id=run_id, **about)

    def show_event(self, request: Request) -> Response:
        """Show all that is stored of an event."""
        run_id, event_id = unquote(request.path_params["run_id"]), unquote(request.path_params["event_id"])
        with self._source.open_log(run_id) as log:
            event = views.find_event(log, event_id)
        if event is None:
            raise HTTPException(404, f"{run_id} has no event {event_id}")
        return self._render("event.html", run_id=run_id, event=event)

    def show_search(self, request: Request) -> Response:
        """Show the runs and events that have words."""
        text = request.query_params.get("q", "").strip()
        groups, has_more = self._source.search(parse_query(text), MOST_HITS) if text else ([], False)
        return self._render("search.html", text=text, groups=groups, has_more=has_more)

    async def stream_changes(self, request: Request) -> Response:
        """Send a line whenever something has changed, as long as the tab is there."""

        async def changes() -> AsyncIterator[bytes]:
            known = await run_in_threadpool(self._source.version)
            yield b": \n\n"
            while not (request.app.state.server.should_exit or await request.is_disconnected()):
                await asyncio.sleep(LOOK_SECONDS)
                version = await run_in_threadpool(self._source.version)
                if version != known:
                    known = version
                    yield b"data: changed\n\n"

        return StreamingResponse(changes(), media_type="text/event-stream")

    def show_problem(self, request: Request, error: Exception) -> Response:
        """Show why there is nothing to show."""
        code, message, hint = 500, str(error), "run `faber-ledger verify`"  # a damaged log
        if isinstance(error, HTTPException):
            code, message, hint = error.status_code, error.detail, ""
        elif isinstance(error, click.UsageError):
            code, message, hint = 400, error.message, ""
        elif isinstance(error, LedgerError):
            code, message, hint = CODES.get(type(error), 500), error.message, error.hint or ""
        return self._render("problem.html", code, message=message, hint=hint)

    def _state_of(self, run_id: str) -> tuple[dict[str, Any], str | None]:
        """Return a run's state, and why it cannot be read, if so."""
        try:
            return self._source.state_of(run_id), None
        except LedgerError as error:
            return {}, error.message

    def _read(self, request: Request) -> tuple[str, views.RunView]:
        run_id = unquote(request.path_params["run_id"])
        return run_id, self._read_run(run_id, self._source.version_of(run_id))

    def _render(self, template: str, code: int = 200, /, **values: Any) -> Response:
        return HTMLResponse(self._templates.get_template(template).render(values), code)


def _read_filters(query: QueryParams) -> Filters:
    """Return which runs are asked for; raises UsageError."""
    stale, status, since = query.get("stale"), query.get("status"), query.get("since")
    if status and status not in STATUSES:
        raise click.UsageError(f"{status!r:.80} is not one of {', '.join(STATUSES)}")
    since_at = seconds_of(f"{since}T00:00:00Z") if since else None
    if since and since_at is None:
        raise click.UsageError(f"{since!r:.80} is not a date such as 2026-01-05")
    return Filters(
        mine="mine" in query,
        waiting="waiting" in query,
        failed="failed" in query,
        work_id=query.get("work_id") or None,
        status=status or None,
        stale=None if stale is None else parse_duration(stale or "24h"),
        since=since_at,
    )


def _choose_page(wanted: str | None, count: int, size: int, *, default: int | None) -> tuple[int, int]:
    """Return the page that is asked for, else the default (None: the last), and how many there are."""
    pages = max(1, -(-count // size))
    number = int(wanted) if wanted and wanted.isdecimal() and len(wanted) < 9 else default or pages
    return min(max(1, number), pages), pages


def _part(text: str) -> str:
    """Return a text as one part of a path: an id may have a slash, which is quoted twice, as servers unquote once."""
    return quote(quote(text, safe=""), safe="")


def _age(at: str | None) -> str:
    seconds = seconds_of(at)
    return "-" if seconds is None else short_age(now() - seconds)
