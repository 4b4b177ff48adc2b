"""The server's words are those of the local search, whatever somebody has put into a payload or a state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.searching import EVENTS, STATE

from faber_ledger.cli.reports.search import event_texts, state_texts
from faber_ledger.files.word_query import LONGEST_WORD, words_of
from faber_ledger.ledger.encoding import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.postgres import Database

PROJECT = "01K7ZZZZZZZZZZZZZZZZZZZZZZ"


def asked(database: Database, function: str, *arguments: str) -> set[str] | None:
    """Return what a function of the server says, as its owner is answered."""
    marks = ", ".join(["%s"] * len(arguments))
    with database.connect() as connection:
        row = connection.execute(f"SELECT faber_ledger.{function}({marks})".encode(), arguments).fetchone()
    assert row is not None
    return None if row[0] is None else set(row[0])


def expected(texts: Iterable[str]) -> set[str]:
    return {word[:LONGEST_WORD] for text in texts for word in words_of(text)}


def test_every_character_is_a_letter_for_both_or_for_none(database: Database) -> None:
    codes = [*range(1, 0xD800), *range(0xE000, 0x10000), *range(0x10000, 0x110000, 61)]
    text = "\n".join([f"x{chr(code)}y" for code in codes])
    assert asked(database, "words_of", text) == expected([text])


def test_small_letters_depend_on_no_locale(database: Database) -> None:
    """The tests' server knows only ASCII letters, as its locale is C; a collation of ICU knows more than we do."""
    for collation in ("C", "default"):
        with database.connect() as connection:
            row = connection.execute(
                f"SELECT faber_ledger.words_of('ÄRGER Ⴀ' COLLATE \"{collation}\")".encode()
            ).fetchone()
        assert row is not None
        assert set(row[0]) == {"ärger", "Ⴀ"}


@pytest.mark.parametrize("name", [name for name in EVENTS if name != "not searched"])
def test_each_event_has_the_words_of_the_texts_that_are_searched(database: Database, name: str) -> None:
    event = EVENTS[name]
    recorded: Any = {"event": event, "version": 1}
    found = asked(database, "event_words", PROJECT, event["type"], canonical(event))
    assert found == {f"{PROJECT}={word}" for word in expected(event_texts(recorded))}


def test_a_state_has_the_words_of_its_texts_without_our_blocks(database: Database) -> None:
    found = asked(database, "state_words", PROJECT, json.dumps(STATE))
    assert found == {f"{PROJECT}={word}" for word in expected(text for _, text in state_texts(STATE))}


@pytest.mark.parametrize(
    "said",
    [
        '{"text":"x',
        "",
        '{"text":{"a":["q"]},"findings":3}',
        "[" * 100_000,
        '{"text":' * 5000 + '"deep"' + "}" * 5000,
        '{"text":"' + " ".join([f"word{number}" for number in range(150_000)]) + '"}',  # over 1 MB of words
        '{"text":"' + "x" * 1_500_000 + '"}',
    ],
)
def test_no_payload_and_no_state_stops_an_insert(database: Database, said: str) -> None:
    for kind in ("note_recorded", "context_reconstituted"):
        asked(database, "event_words", PROJECT, kind, said)
    asked(database, "state_words", PROJECT, said)


@pytest.mark.parametrize("text", ["a\0heron", "heron \\u0000 \\\\", "lone \ud800 heron", "\U0001f680heron"])
def test_what_postgresql_does_not_know_hides_no_other_word(database: Database, text: str) -> None:
    found = asked(database, "event_words", PROJECT, "note_recorded", json.dumps({"text": text}))
    assert found is not None
    assert f"{PROJECT}=heron" in found
