"""What a person means by a word about one run's log: an event, a session, an artifact; and what is near if nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faber_ledger.ledger.errors import NotFound
from faber_ledger.runs.progress import PHASES

if TYPE_CHECKING:
    from faber_ledger.ledger.lookup import Match
    from faber_ledger.runs.run import Run

ANYTHING = ("event", "session", "artifact")


def thing_meant(run: Run, text: str, kinds: tuple[str, ...] = ANYTHING) -> Match:
    """Give the one thing that a text means in a run's log; raises NotFound, naming what is near or what it may be."""
    from faber_ledger.ledger.lookup import MOST, matches, near

    found = [one for one in matches(run.ledger_path, text) if one.kind in kinds]
    if len(found) == 1:
        return found[0]
    if found:
        more = "\n  and others" if len(found) > MOST else ""
        raise NotFound(
            f"{text} may be several things in {run.run_id}:\n{_listed(found[:MOST])}{more}",
            hint="give more of the id, or the whole of it",
        )
    close = [one for one in near(run.ledger_path, text) if one.kind in kinds]
    told = f"; near it are:\n{_listed(close)}" if close else ""
    name = " or ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))
    raise NotFound(
        f"there is no {name} {text} in {run.run_id}{told}",
        hint=f"run `faber-ledger log {run.run_id}` to see its events",
    )


def session_meant(run: Run, text: str | None) -> str | None:
    """Give a session's id, or the client's id that several may share; None for None. Raises as `thing_meant`."""
    from faber_ledger.ledger.lookup import is_client

    if text is None or is_client(run.ledger_path, text):
        return text
    return thing_meant(run, text, ("session",)).id


def machine_meant(run: Run, text: str | None) -> str | None:
    """Give a machine that the log knows; raises NotFound with those that it knows."""
    from faber_ledger.ledger.lookup import is_writer, machines

    if text is None or is_writer(run.ledger_path, text):
        return text
    return _known(run, "machine", text, machines(run.ledger_path))


def phase_meant(run: Run, text: str | None) -> str | None:
    """Give FABER's phase, or one that the log knows; raises NotFound with those that it knows."""
    from faber_ledger.ledger.lookup import phases

    return text if text is None or text in PHASES else _known(run, "phase", text, phases(run.ledger_path))


def _known(run: Run, kind: str, text: str, names: list[str]) -> str:
    if text in names:
        return text
    told = f": it knows {', '.join(names)}" if names else ""
    raise NotFound(
        f"no event of {run.run_id} has the {kind} {text}{told}",
        hint=f"run `faber-ledger log {run.run_id}` to see its events",
    )


def _listed(found: list[Match]) -> str:
    return "\n".join([f"  {one.kind} {one.id}{f' ({one.words})' if one.words else ''}" for one in found])
