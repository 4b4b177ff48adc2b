"""What no function of faber-ledger answers ends a command with one clear error, and changes nothing here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.lying import EVENTS, events_with, lying
from support.sizes import few, pick
from support.team_server import Team, made_team

from faber_ledger.ledger.encoding import COLUMNS

if TYPE_CHECKING:
    from pathlib import Path

    from support.postgres import Database

EVENT = ("position", *COLUMNS)
FETCH, PUSH, FLEET, SEARCH = ("sync", "--fetch"), ("sync", "--push"), ("fleet",), ("search", "zebra")
OTHER_TYPE = "'{}'::jsonb"
DEEP = "(repeat('[', 3000) || repeat(']', 3000))::jsonb"


class Question(NamedTuple):
    """A function, the columns of its answer that a command reads, those of them that may be null, and the command."""

    function: str
    columns: tuple[str, ...]
    nullable: tuple[str, ...]
    command: tuple[str, ...]

    def answer(self, changed: str, value: str) -> str:
        """Return a query of its answer in which one column has another value."""
        is_single = self.columns == (self.function,)
        honest = [f"honest AS {name}" if is_single else name for name in self.columns]
        shown = [
            f"({value}) AS {name}" if name == changed else one for name, one in zip(self.columns, honest, strict=True)
        ]
        return f"SELECT {', '.join(shown)} FROM honest"


OF_EVENT = ("session_id", "client", "salt", "payload", "payload_hash")
QUESTIONS = [
    Question("events_after", EVENT, OF_EVENT, FETCH),
    Question("state_of", ("content", "digest"), (), FETCH),
    Question("push_events", ("added", "conflicts"), (), PUSH),
    Question("newest_of_runs", ("run_id", "id", "type", "at", "writer"), (), FLEET),
    Question("find_events", ("project", "run_id", *EVENT), OF_EVENT, SEARCH),
    Question("projects", ("id", "created_at"), (), FETCH),
    Question("members", ("role", "is_admin"), (), ("db", "members")),
    Question("projects", ("id", "name"), (), FLEET),
    Question("newest_event", ("position", "id"), (), FETCH),
    Question("has_event", ("has_event",), (), FETCH),
    Question("count_events", ("count_events",), (), FETCH),
    Question("runs_with_news", ("runs_with_news",), (), ("sync", "--all")),
    Question("events_with_ids", EVENT, OF_EVENT, FETCH),
    Question("state_of", ("at", "digest"), (), PUSH),
    Question("put_state", ("put_state",), (), PUSH),
    Question("session_events", ("run_id", *EVENT), OF_EVENT, FLEET),
    Question("who_brought", ("run_id", "id", "writer", "role", "pushed_by"), ("role",), FLEET),
    Question("newest_states", ("run_id", "state"), ("state",), FLEET),
    Question("find_states", ("project", "run_id", "id", "at", "content"), (), SEARCH),
    Question("expel", ("expel",), (), ("db", "expel", "nobody")),
]
UNREAD = {  # by the command of a question
    "session_events": {"position", "parents", "salt", "payload_hash", "hash"},
    "find_events": {"position"},
    "newest_states": {"state"},  # it is a document: `{}` is one
}
ABSURD = {
    "projects": {"created_at": ["'0001-01-01'::timestamp", "'infinity'::timestamptz", "'4000-01-01 BC'::timestamptz"]},
    "newest_event": {"position": ["-1::bigint", "(2::numeric ^ 70)"], "id": ["E'a\\x01'", "'../../x'", "''"]},
    "count_events": {"count_events": ["-1::bigint"]},
    "events_after": {
        "position": ["-1::bigint", "0::bigint", "(2::numeric ^ 70)"],
        "seq": ["(2::numeric ^ 70)"],
        "id": ["''", "'../../x'", "E'\\x1b[31m'", "repeat('A', 65)"],
        "at": ["repeat('9', 65)"],
        "writer": ["repeat('w', 4097)"],
        "parents": ["decode(repeat('ab', 524289), 'hex')"],
        "payload": ["repeat('x', 8388609)"],
        "hash": ["decode(repeat('ab', 33), 'hex')"],
    },
    "state_of": {"digest": ["decode(repeat('ab', 33), 'hex')"], "content": ["'another'"]},
    "push_events": {
        "added": ["-1::bigint", "1000000::bigint", DEEP],
        "conflicts": ["ARRAY[NULL]::text[]", "ARRAY['01KE0000000000000000000001']"],
    },
    "newest_states": {"state": [DEEP, "'[1]'::jsonb", "'1'::jsonb"]},
    "find_events": {"payload": ["repeat('x', 8388609)", DEEP]},
}


@pytest.fixture
def team(database: Database, tmp_path: Path) -> Team:
    """A run that is on the server, with a redaction; the second clone does not have all of its events."""
    made = made_team(database, tmp_path)
    first, second, _ = made.clones
    assert first.faber("note", "add", "a secret").returncode == 0
    assert first.faber("redact", first.events[-1]["id"], "--yes").returncode == 0
    assert first.faber("note", "add", "a zebra was seen").returncode == 0
    first.change_state(work_description="a zebra crosses")
    made.synced(first)
    assert made.sync(second, "--push").returncode == 1  # it lacks the redaction; so that its note has an anchor
    assert first.faber("note", "add", "another zebra").returncode == 0
    made.synced(first)
    return made


def told(question: Question) -> list[str]:
    """Return the answers that are tried: each column of another type and NULL, and what is absurd of its own type."""
    read = [name for name in question.columns if name not in UNREAD.get(question.function, ())]
    tried = [(name, OTHER_TYPE) for name in read]
    tried += [(name, "NULL") for name in read if name not in question.nullable]
    absurd = ABSURD.get(question.function, {})
    tried += [(name, value) for name in question.columns for value in absurd.get(name, ())]
    return [question.answer(*one) for one in tried]


@pytest.mark.long
@pytest.mark.parametrize("question", few(QUESTIONS, 4), ids=lambda one: f"{one.function}-{one.command[0]}")
def test_an_answer_that_none_of_ours_gives_is_one_error(team: Team, question: Question) -> None:
    first, second, _ = team.clones
    clone = second if question.command == FETCH else first
    if question.function == "events_with_ids":
        with lying(team.database, events_with(hash="sha256(hash)"), *EVENTS):
            assert team.sync(clone, "--fetch").returncode == 0
    if question.function == "state_of" and question.command == FETCH:
        second.state_path.unlink()
        team.sync(second, "--fetch")
        second.state_path.unlink()
    before = team.export(clone)
    for number, answer in enumerate(told(question)[:: pick(12, 1)]):
        if question.command == PUSH:
            assert clone.faber("note", "add", f"note {number}").returncode == 0
            clone.change_state(current_phase=f"phase {number}")
            before = team.export(clone)
        with lying(team.database, answer, question.function):
            done = clone.faber(*question.command, env={"FABER_LEDGER_URL": team.url})
        assert (done.returncode, done.stdout) == (14, ""), (answer, done)
        assert done.stderr.count("error: ") == 1, answer
        assert "Traceback" not in done.stderr, answer
        assert len(done.stderr) < 2000, answer
        assert "\x1b" not in done.stderr
        assert team.export(clone) == before
    assert team.sync(clone).returncode == 0
    assert team.export(clone).count(b"zebra") == 2
    assert clone.faber("verify").returncode == 0


@pytest.mark.parametrize(
    ("revision", "code"), [("NULL::text", 14), ("repeat('9', 2000000) || E'\\x01\\x1b[31m\\u202e'", 12)]
)
def test_a_revision_that_is_none_is_one_error(team: Team, revision: str, code: int) -> None:
    with team.database.connect() as connection:
        connection.execute("ALTER TABLE faber_ledger.alembic_version RENAME TO honest_version")
        connection.execute(f"CREATE VIEW faber_ledger.alembic_version AS SELECT {revision} AS version_num".encode())
        connection.execute("GRANT SELECT ON faber_ledger.alembic_version TO PUBLIC")
    done = team.sync(team.clones[0])
    assert (done.returncode, done.stdout, done.stderr.count("error: ")) == (code, "", 1), done.stderr
    assert len(done.stderr) < 2000
    assert "\x1b" not in done.stderr
