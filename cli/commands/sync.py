"""`faber-ledger sync`: exchange runs with their git refs, and with the team's server."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import click

from faber_ledger.cli.reports.run_list import find_here
from faber_ledger.cli.sync import background
from faber_ledger.cli.sync.arrival import bring_runs, find_remote_run, remote_of, required_remote
from faber_ledger.cli.sync.carried import exchange_refs
from faber_ledger.cli.sync.exchange import KEPT_ON_SERVER, Exchanged, exchange_run, meet_project
from faber_ledger.cli.sync.refs import Remote, ref_name
from faber_ledger.cli.ui.output import say, show, tell, warn
from faber_ledger.cli.ui.progress import progress_bars, waiting_for
from faber_ledger.cli.ui.server import names_server, pick_server_run, server_address, server_options
from faber_ledger.cli.ui.which_run import choose_run, run_argument
from faber_ledger.cli.ui.words import events_shown, plural
from faber_ledger.ledger.command_errors import GitFailed, NoActiveRun, ServerRefused, ServerUnavailable
from faber_ledger.ledger.errors import InvalidRunId, LedgerError, RunNotFound, UnionConflict
from faber_ledger.postgres.address import Address, translate_read_only
from faber_ledger.postgres.exchange import has_event
from faber_ledger.postgres.project import ServerProject, list_runs, newest_event, open_project
from faber_ledger.postgres.server import PATIENCE, open_server
from faber_ledger.runs.carry import consent_of, note_synced, sender_of, start_sending
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.kept import run_here, runs_here
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.run import Run, find_root
from faber_ledger.runs.settings import project_id
from faber_ledger.runs.synced import SyncNote

MOST_NAMED = 10  # events of a run
HINT_NO_RUN = (
    "`faber-ledger sync --all` exchanges all runs, and `faber-ledger sync RUN` one that `faber-ledger fleet` shows"
)
HINT_RUNS = "`faber-ledger fleet` shows the runs of the server, `faber-ledger run list` those of this clone"
Chooses: TypeAlias = Callable[[Exchanged], bool]


class Wanted(NamedTuple):
    """What a sync is to do: `text` names one run, None the active one."""

    root: str
    text: str | None
    every: bool
    fetches: bool
    pushes: bool


@click.command()
@run_argument
@click.option(
    "--all", "every", is_flag=True, help="All runs: those of this clone and, without --push, those of the server."
)
@click.option(
    "--push",
    "only_push",
    is_flag=True,
    help="Only send what the server or the remote does not have; from a ref it takes what is new first.",
)
@click.option("--fetch", "only_fetch", is_flag=True, help="Only take in what this clone does not have.")
@click.option("--watch", type=click.IntRange(1), metavar="SECONDS", help="Do it again and again, until interrupted.")
@click.option("--background", "is_background", is_flag=True, hidden=True)  # the process that hooks start
@click.option("--pushed-to", metavar="REMOTE", hidden=True)  # by git's pre-push hook
@click.option("--yes", is_flag=True, help="Exchange with a server's project whose admins you have not named.")
@server_options
def sync(
    run: str | None,
    every: bool,
    only_push: bool,
    only_fetch: bool,
    watch: int | None,
    is_background: bool,
    pushed_to: str | None,
    yes: bool,
    url: str | None,
    as_json: bool,
) -> int | None:
    """Exchange runs with their git refs at the remote, and with the team's server: fetch what is new, then push.

    Refs are exchanged after `init --carry refs`: all runs of this clone, or RUN. Every event is checked before it
    enters the log, and one that is refused is named. The next sync completes an interrupted one.

    \b
    Example: faber-ledger sync --all
    Exit codes: 0 done, or nothing is new; 1 a file cannot be read or written, a
    delivery still waits, a state.json is left out, or psycopg is missing; 2 wrong usage; 10 no such run; 11 locked;
    12 newer format; 13 the remote or the server cannot be reached; 14 it refuses; 20 the ledger is damaged;
    22 an event has different contents here and there, or it is another run with this id.
    """
    if every and run is not None:
        raise click.UsageError("give RUN or --all, not both")
    if only_push and only_fetch:
        raise click.UsageError("give --push or --fetch; without them it does both")
    if watch is not None and as_json:
        raise click.UsageError("--watch prints lines: it goes without --json")
    root = find_root(os.getcwd())
    if is_background or pushed_to is not None:
        return _send_in_background(root, pushed_to)
    wanted = Wanted(root, run, every, fetches=not only_push, pushes=not only_fetch)
    if watch is None:
        return _sync(wanted, url, yes=yes, as_json=as_json)
    _watch(wanted, url, watch, yes=yes)
    return None


def _watch(wanted: Wanted, url: str | None, seconds: int, *, yes: bool) -> None:
    """Exchange the runs again and again until an interrupt, and print what changes.

    Once a round has worked, a server that is lost or refuses is waited for: one that starts may refuse for a while.
    """
    shows: Chooses = _has_news
    reason = ""  # why the round before failed
    while True:
        try:
            _sync(wanted, url, yes=yes, shows=shows)
        except (ServerUnavailable, ServerRefused) as error:
            if shows is _has_news:
                raise
            if error.message != reason:
                say(f"{error.message.rstrip('.')}; tried again every {seconds} s until the server is back")
            reason = error.message
        else:
            if reason:
                say("the server is back")
            shows, reason = _has_moved, ""
        time.sleep(seconds)


def _sync(wanted: Wanted, url: str | None, *, yes: bool, as_json: bool = False, shows: Chooses | None = None) -> int:
    """Exchange the runs once, print what happened, of all runs or those that `shows` chooses; return the exit code."""
    has_server = url is not None or names_server()
    refs, code = _exchange_refs(wanted, as_json=as_json, is_watched=shows is not None, has_server=has_server)
    if refs is not None and not has_server:
        if as_json:
            show({"refs": refs}, [], as_json=True)
        return code
    if refs is None and not has_server and consent_of(wanted.root) is not None:
        what = "this project's ledgers travel with the code: `git push` and `git pull` bring them"
        raise LedgerError(what, hint="`faber-ledger init --carry refs` sends them in git refs again")
    address = server_address(url)
    done, of_server = _exchange_with_server(wanted, address, yes=yes, as_json=as_json, shows=shows)
    code = of_server if of_server == UnionConflict.exit_code else code or of_server
    if not of_server and wanted.fetches and wanted.pushes:
        note_synced(wanted.root, address.digest, None if wanted.every else done[0]["run_id"])
    if as_json:
        about = {"project": project_id(wanted.root), "runs": done}
        show(about | ({"refs": refs} if refs is not None else {}), [], as_json=True)
    elif not done and shows is None:
        tell("no run to exchange")
    return code


def _exchange_with_server(
    wanted: Wanted,
    address: Address,
    *,
    yes: bool = False,
    as_json: bool = False,
    shows: Chooses | None = None,
    patience: float = PATIENCE,
) -> tuple[list[dict[str, Any]], int]:
    """Exchange the runs with the server, and return what was done and the exit code: a conflict's, else the first."""
    project, code = project_id(wanted.root), 0
    done: list[dict[str, Any]] = []
    with open_server(address, patience=patience) as server:
        pushes = wanted.pushes and not server.is_read_only
        remote = open_project(server, project, writer_of(wanted.root))
        meet_project(wanted.root, remote, say, is_sure=yes)
        now = wanted._replace(pushes=pushes)
        for found in _exchange_each(remote, now):
            if isinstance(found, int):
                code = code or found
                continue
            done.append(_data(found))
            is_shown = shows is None or shows(found)
            if is_shown:
                _warn_about(found)
            code = UnionConflict.exit_code if found.conflicts else code or found.code
            if is_shown and not as_json:
                tell(_line(found))
        if wanted.pushes and server.is_read_only:
            raise translate_read_only(server.address)
    return done, code


def _exchange_refs(
    wanted: Wanted, *, as_json: bool, is_watched: bool, has_server: bool
) -> tuple[list[dict[str, Any]] | None, int]:
    """Exchange the runs with their git refs; return what was done and the exit code, None where nobody agreed to it.

    A remote that does not answer is an error only where no server is asked afterwards.
    """
    is_meant = carries_refs(wanted.root) and not has_server
    remote = required_remote(wanted.root) if is_meant else remote_of(wanted.root)
    if remote is None:
        return None, 0
    root, text = wanted.root, wanted.text
    is_brought = text is not None and find_here(root, text) is None
    try:
        runs = runs_here(root) if text is None else [_named_run(remote, root, text)]
        with waiting_for(remote.name):
            done = exchange_refs(remote, root, runs, warn, sends=wanted.pushes, is_named=text is not None)
    except ServerUnavailable as error:
        if not has_server:
            raise
        warn(error.message)
        return [], error.exit_code
    brought = [f"{run.run_id}: all of it fetched from {remote.name}" for run in runs] if is_brought else []
    lines = [*brought, *filter(None, [one.line(remote.name) for one in done])]
    if not lines and not is_watched:
        none_here = "no run is here: `faber-ledger run list --remote` lists those there, `run resume RUN` fetches one"
        send = ", and nothing to send" if wanted.pushes else ""
        lines = [f"nothing to fetch from {remote.name}{send}" if runs else none_here]
    if runs and text is None and not is_watched:
        more = len(remote.known.keys() - {ref_name(run.run_id) for run in runs})
        lines += [f"{remote.name} has {plural(more, 'more run')}: `faber-ledger run list --remote`"] if more else []
    for line in [] if as_json else lines:
        tell(line)
    for hint in [] if as_json else dict.fromkeys([one.hint for one in done if one.why and one.hint]):
        warn(f"hint: {hint}")
    return [one.data() for one in done], max([one.exit_code for one in done], default=0)


def _named_run(remote: Remote, root: str, text: str) -> Run:
    """Return the run that a text names, which is fetched if only the remote has it; raises RunNotFound."""
    if find_here(root, text) is not None:
        return choose_run(root, text)
    try:
        found = find_remote_run(remote, root, text)
        brought = bring_runs(remote, root, [found], warn) if found is not None else []
    except GitFailed as error:
        raise ServerUnavailable(f"{remote.name} could not be asked: {error.message}", hint=error.hint) from error
    if not brought:
        hint = (
            "`faber-ledger run list --remote` shows the runs at the remote, `faber-ledger run list` those of this clone"
        )
        raise RunNotFound(f"neither this clone nor {remote.name} has a run {text!r:.80}", hint=hint)
    return brought[0]


def _send_in_background(root: str, pushed_to: str | None) -> int:
    """Exchange all runs as the process that a hook starts, detached, or start that.

    Git's own hook, of a push to `pushed_to`, has it started.
    """
    if os.getsid(0) == os.getpid() and pushed_to is None:
        every = Wanted(root, None, every=True, fetches=True, pushes=True)
        background.exchange_in_background(
            root, lambda address: _exchange_with_server(every, address, patience=background.PATIENCE)[1]
        )
        return 0
    consent = sender_of(root)
    if pushed_to is None or (consent is not None and pushed_to == consent.remote):
        start_sending(root)
    return 0


def _exchange_each(remote: ServerProject, wanted: Wanted) -> Iterator[Exchanged | int]:
    """Exchange each run; yield its result, or an exit code if the run failed, after a warning.

    Raises ServerUnavailable and ServerRefused: the runs before are exchanged.
    """
    newest = newest_event(remote.server, remote.project)
    has_failed = False
    not_begun = []
    for run in _choose(remote, wanted, newest[0] if newest else 0):
        try:
            with progress_bars() as progress:
                found = exchange_run(
                    remote, run, fetches=wanted.fetches, pushes=wanted.pushes, warn=warn, progress=progress
                )
            if found.left_out and lacks_ledger(run):
                not_begun.append(run.run_id)
            yield found
        except (ServerUnavailable, ServerRefused):
            raise
        except (LedgerError, sqlite3.DatabaseError, OSError) as error:
            if not wanted.every:
                raise
            has_failed = True
            warn(f"{run.run_id} is left out: {error}")
            yield error.exit_code if isinstance(error, LedgerError) else 1
    if wanted.every and wanted.fetches and newest is not None and not has_failed:
        note = SyncNote(wanted.root, remote.key, "")
        note.position, note.anchor, note.again = newest[0], newest, not_begun
        note.save()


def _choose(remote: ServerProject, wanted: Wanted, upto: int) -> list[Run]:
    """Return the runs to exchange: the one named or active, or all of this clone and those with news on the server."""
    root = wanted.root
    if not wanted.every:
        try:
            return [choose_run(root, wanted.text)]
        except NoActiveRun as error:
            error.hint = HINT_NO_RUN
            raise
        except RunNotFound as error:
            error.hint = HINT_RUNS
            try:
                picked = pick_server_run(remote.server, remote.project, wanted.text or "")
            except (InvalidRunId, RunNotFound):
                raise error from None
            return [run_here(root, picked)]
    found = {run.run_id: run for run in runs_here(root)}
    if wanted.fetches:
        note = SyncNote(root, remote.key, "")
        anchor = note.anchor
        is_known = anchor is not None and has_event(remote.server, remote.project, *anchor)
        news = list_runs(remote.server, remote.project, note.position if is_known else 0, upto)
        for name in dict.fromkeys([*news, *note.again]):
            try:
                run = run_here(root, name)
                found.setdefault(run.run_id, run)
            except InvalidRunId as error:
                warn(f"a run of the server is left out: {error.message}")
    return [found[name] for name in sorted(found)]


def _has_news(found: Exchanged) -> bool:
    return bool(_has_moved(found) or found.state or found.left_out or found.conflicts or found.waiting)


def _has_moved(found: Exchanged) -> bool:
    return bool(found.fetched or found.pushed or found.state in ("fetched", "pushed"))


def _warn_about(found: Exchanged) -> None:
    """Warn about events with two contents, events not removed or left out, and deliveries that wait."""
    lines = [
        f"{found.run_id}: event {name} differs from the one on the server ({who} there): both stay as they are"
        for name, who in found.conflicts.items()
    ]
    lines += [f"{found.run_id}: event {name}: {KEPT_ON_SERVER}" for name in found.not_removed]
    lines += [f"{found.run_id}: event {name} is left out: {why}" for name, why in found.left_out.items()]
    for line in lines[:MOST_NAMED]:
        warn(line)
    if len(lines) > MOST_NAMED:
        warn(f"{found.run_id}: and {len(lines) - MOST_NAMED} more")
    if found.conflicts:
        warn(f"hint: run `faber-ledger verify {found.run_id}` here, and where the other is from")
    if found.waiting:
        warn(f"{found.run_id}: not recorded yet, so not pushed: {plural(found.waiting, 'delivery', 'deliveries')}")
        warn("hint: fix what stopped it, as the hook log says, then run this command again")


def _line(found: Exchanged) -> str:
    if not _has_news(found):
        return f"{found.run_id}: nothing new"
    parts = [f"{events_shown(found.fetched)} fetched, {found.pushed} pushed"]
    if found.state is not None:
        parts.append(f"state.json {found.state}")
    if found.left_out:
        parts.append(f"{len(found.left_out)} left out")
    if found.conflicts:
        parts.append(plural(len(found.conflicts), "conflict"))
    if found.waiting:
        parts.append(f"{plural(found.waiting, 'delivery', 'deliveries')} not recorded")
    return f"{found.run_id}: {', '.join(parts)}"


def _data(found: Exchanged) -> dict[str, Any]:
    left_out = [{"id": name, "why": why} for name, why in found.left_out.items()]
    conflicts = [{"id": name, "who": who} for name, who in found.conflicts.items()]
    known = {name: value for name, value in found._asdict().items() if name != "code"}
    return known | {"left_out": left_out, "conflicts": conflicts}
