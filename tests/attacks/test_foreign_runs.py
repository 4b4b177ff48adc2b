"""A peer brings another run, or another content, under an id that this clone knows: the mirror keeps its own."""

from __future__ import annotations

import re
import shlex
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from support.clones import LEDGER, RUN, Clone
from support.forged_events import add_head, forged_row
from support.forging import forge
from support.sample_log import START
from support.worked_clones import rows

from faber_ledger.ledger.encoding import HASH, ID, INSERT, PAYLOAD, SEQ, canonical
from faber_ledger.ledger.errors import UnionConflict
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import write_union

if TYPE_CHECKING:
    from pathlib import Path

    from faber_ledger.ledger.encoding import Row

SAID, PRIVATE, EVIL = "deploy only after Bob approves", "a private thought", "EVIL WORDS"
OTHER_ID = "7ZZZZZZZZZZZZZZZZZZZZZZZZ1"


class Pair:
    """Alice, whose pushed note mallory has, and her branch `evil`, on which mallory puts what he likes."""

    def __init__(self, folder: Path) -> None:
        self.alice = Clone.first(folder / "alice")
        begin(self.alice.ledger, RUN)
        for kept in (self.alice.root / ".git/faber-ledger/runs").glob("*/log.db"):
            kept.unlink()
        self.alice.faber("note", "add", SAID)
        self.alice.faber("project", RUN)
        self.alice.commit("a note")
        self.pushed = self.alice.ledger.read_bytes()
        self.alice.git("checkout", "-q", "-b", "evil")
        self.alice.git("checkout", "-q", "main")

    def think(self) -> None:
        """Let alice record what she does not push."""
        self.alice.faber("note", "add", PRIVATE)

    def lure(self, ledger: bytes) -> None:
        """Let alice check out the branch on which the ledger is another one."""
        self.alice.git("checkout", "-q", "-f", "evil")
        self.alice.ledger.write_bytes(ledger)
        self.alice.git("commit", "-q", "--no-verify", "-am", "evil")

    @property
    def log(self) -> Path:
        return self.alice.root / ".git/faber-ledger/runs" / RUN / "log.db"


def begin(path: Path, run_id: str) -> None:
    """Write a log that begins with the start of a run."""
    path.unlink(missing_ok=True)
    started: Any = {"type": "run_started", "run_id": run_id, "workflow_id": "w", "work_id": "666"}
    note: Any = {"type": "note_recorded", "kind": "note", "text": EVIL, "phase": None, "step": None}
    with Log.open(str(path)) as log:
        log.append([{"event": started}], at=START, writer="ab" * 16)
        log.commit()
        if path.name != "ledger.db":
            log.begin()
            log.append([{"event": note}], at=START, writer="ab" * 16)
            log.commit()


def start_anew(folder: Path, run_id: str = RUN) -> Path:
    begin(folder / "evil.db", run_id)
    return folder / "evil.db"


def graft(ledger: Path, others: list[Row]) -> None:
    """Put rows into a ledger, and make the last of them a head."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.executemany(INSERT, others)
        connection.execute("INSERT INTO head (seq, hash) VALUES (?, ?)", (others[-1][SEQ], others[-1][HASH]))


def texts(path: Path) -> str:
    return "\n".join([str(row[PAYLOAD]) for row in rows(str(path))])


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def start_session(clone: Clone, client: str) -> str:
    done = clone.deliver("session-start", client, hook_event_name="SessionStart", source="startup")
    return (done.stdout + done.stderr).decode()


def assert_kept_apart(pair: Pair, *, lacks: str, is_foreign: bool = False) -> None:
    """Check that the run goes on in the log alone: nothing of it enters a foreign file."""
    alice, brought = pair.alice, pair.alice.ledger.read_bytes()
    before = alice.state_path.read_bytes()
    said = start_session(alice, "lured")
    assert ("is the ledger of another run" if is_foreign else "a copy of it is kept for 30 days") in said
    alice.faber("note", "add", "afterwards")
    kept, shown = texts(pair.log), alice.faber("log").stdout
    for found in (kept, shown):
        assert all([text in found for text in (SAID, PRIVATE, "afterwards")])
        assert lacks not in found
    assert "\nerror " not in alice.call("faber-ledger", "doctor").stdout
    for command in ("status", "project"):
        shown = alice.faber(command, RUN).stdout
        assert ("because the file there is another run's; the log has all events\n" in shown) == is_foreign
    alice.call("faber-ledger", "seal", RUN)
    alice.faber("verify", RUN)
    if is_foreign:
        assert (alice.ledger.read_bytes(), alice.state_path.read_bytes()) == (brought, before)
        alice.git("checkout", "-q", "-f", "main")
        alice.faber("seal", RUN)  # main is not the run's branch
    assert all([text in texts(alice.ledger) for text in (SAID, PRIVATE, "afterwards")])
    assert lacks not in texts(alice.ledger)
    alice.faber("verify", RUN)


def test_a_copied_first_event_gets_no_private_event(pair: Pair, tmp_path: Path) -> None:
    """(H11)"""
    evil = start_anew(tmp_path)
    graft(evil, rows(str(pair.alice.ledger))[:1])
    pair.think()
    pair.lure(evil.read_bytes())
    assert_kept_apart(pair, lacks=EVIL)


def test_a_strangers_run_alone_takes_nothing_over(pair: Pair, tmp_path: Path) -> None:
    """(H11)"""
    evil = start_anew(tmp_path)
    pair.think()
    pair.lure(evil.read_bytes())
    assert_kept_apart(pair, lacks=EVIL, is_foreign=True)


def test_a_second_start_enters_no_clone_with_the_first(pair: Pair, tmp_path: Path) -> None:
    """(H11)"""
    evil, grown = start_anew(tmp_path, "evil-run"), tmp_path / "grown.db"
    pair.think()
    grown.write_bytes(pair.pushed)
    graft(grown, rows(str(evil)))
    pair.lure(grown.read_bytes())
    assert_kept_apart(pair, lacks=EVIL)


def test_no_union_or_merge_takes_a_second_start(pair: Pair, tmp_path: Path) -> None:
    """(H11)"""
    alice, grown = pair.alice, tmp_path / "grown.db"
    grown.write_bytes(pair.pushed)
    graft(grown, rows(str(start_anew(tmp_path))))
    with pytest.raises(UnionConflict, match="two runs were started under one id") as refused:
        write_union([str(alice.ledger), str(grown)], str(tmp_path / "x.db"))
    assert str(grown) in str(refused.value)
    alice.faber("merge-driver", "base", str(alice.ledger), str(grown), "--", LEDGER, code=1)
    assert alice.ledger.read_bytes() == pair.pushed


def test_a_forged_row_with_the_hash_of_a_first_event_shares_none(pair: Pair, tmp_path: Path) -> None:
    """(H11)"""
    evil = start_anew(tmp_path)
    first = list(rows(str(pair.alice.ledger))[0])
    first[ID], first[PAYLOAD] = OTHER_ID, canonical({"run_id": RUN})
    graft(evil, [tuple(first)])
    with pytest.raises(UnionConflict, match="two runs were started under one id"):
        write_union([str(pair.alice.ledger), str(evil)], str(tmp_path / "x.db"))


@pytest.fixture
def forked(pair: Pair, tmp_path: Path) -> Path:
    """A ledger in which alice's note has another content that is as sound, and what came after it is gone."""
    path = tmp_path / "forked.db"
    path.write_bytes(pair.pushed)
    (note,) = [row for row in rows(str(path)) if SAID in str(row[PAYLOAD])]
    forge(path, f"DELETE FROM event WHERE seq >= {note[SEQ]}")
    said = canonical({"kind": "note", "text": EVIL, "phase": None, "step": None})
    add_head(path, forged_row(path, id=note[ID], payload=said))
    add_head(path, forged_row(path, payload=canonical({"kind": "note", "text": "HERS", "phase": None, "step": None})))
    return path


def test_another_content_under_a_known_id_takes_no_event_away(pair: Pair, forked: Path) -> None:
    """(H5)"""
    pair.think()
    pair.lure(forked.read_bytes())
    assert_kept_apart(pair, lacks=EVIL)


def test_a_merge_of_two_contents_names_a_way_out_that_works(pair: Pair, forked: Path) -> None:
    """(H5)"""
    alice = pair.alice
    pair.think()
    alice.faber("project", RUN)
    alice.commit("mine")
    alice.git("checkout", "-q", "evil")
    alice.ledger.write_bytes(forked.read_bytes())
    alice.git("commit", "-q", "--no-verify", "-am", "evil")
    alice.git("checkout", "-q", "main")
    output = alice.git("merge", "-q", "--no-edit", "evil", code=1)
    assert "with 2 contents" in output
    found = alice.faber("resolve", code=1)
    advised = re.findall(r"`([^`]*)`", found.stdout[found.stdout.index("with 2 contents") :])[:3]
    for words in [shlex.split(command) for command in advised]:
        alice.call(*words)
    alice.faber("resolve")
    alice.git("commit", "-q", "--no-edit")
    kept = texts(alice.ledger)
    assert (SAID in kept, PRIVATE in kept, EVIL in kept) == (True, True, False)
    assert alice.faber("verify", RUN).stdout.startswith(f"{RUN}: sound\n")
