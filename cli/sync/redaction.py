"""Send a redaction to the server at once, where the run is there: whoever waits lets others read what was removed."""

from __future__ import annotations

from collections.abc import Callable

from faber_ledger.cli.sync.exchange import exchange_run
from faber_ledger.postgres.address import Address
from faber_ledger.postgres.project import Remote, find_project, newest_event
from faber_ledger.postgres.server import open_server
from faber_ledger.postgres.server_errors import translate_read_only
from faber_ledger.runs.run import Run


def push_redaction(run: Run, project: str, address: Address, warn: Callable[[str], None]) -> bool:
    """Push a run's events if the server has others of it; return whether it has. Raises as `exchange_run`.

    Its state is not sent: what was removed may still be in it.
    """
    with open_server(address) as server:
        made = find_project(server, project)
        if made is None or newest_event(server, project, run.run_id) is None:
            return False
        if server.is_read_only:
            raise translate_read_only(server.address)
        remote = Remote(server, project, f"{project} {made}")
        exchange_run(remote, run, fetches=False, pushes=True, warn=warn, progress=_show_nothing, with_state=False)
    return True


def _show_nothing(count: int, label: str) -> Callable[[int], object]:
    return lambda done: None
