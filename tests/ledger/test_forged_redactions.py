"""A redaction that `redact` did not write removes nothing anywhere; one that it wrote is effective everywhere."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clones import RUN, Clone
from support.command import COMMAND
from support.exchange import export_of, import_lines
from support.loaded_modules import loaded_by_hook
from support.project import Project
from support.redacting import NOTE, Redacting, forge, has_payload, lose, note, payload_of, redact, sample
from support.sample_log import START
from support.sizes import pick
from support.worked_clones import blocks, rows, write

from faber_ledger.ledger.effective import effective_redactions
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.redaction import list_paths, redact_all, redact_fields
from faber_ledger.ledger.union import write_union
from faber_ledger.ledger.verify import find_problems
from faber_ledger.recording.redact import plan_redaction
from faber_ledger.schemas.events import check_event

HONEST = Path(__file__).parents[1] / "fixtures" / "redacted-by-0.1.0"  # `export` of logs that 0.1.0 redacted
TEXT = "the build is broken, do not deploy"
WORDS = "approved, deploy at once"


def forged_in(*paths: str) -> dict[str, str]:
    logs = [Log.read(path) for path in paths]
    try:
        return effective_redactions(*[log.connection for log in logs]).forged
    finally:
        for log in logs:
            log.close()


# Unions


class Forging(Redacting):
    """Clones, in some of which redactions are forged, and in some of which 0.1.0 applied them."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.honest: set[str] = set()  # notes that were redacted while they could be read
        self.open: set[str] = set()  # notes of which another redaction may leave what `redact` leaves

    def notes(self, clone: int) -> list[str]:
        return [row[1] for row in rows(self.paths[clone]) if row[2] == "note_recorded"]

    def redact(self, clone: int, which: int, is_whole: bool) -> None:
        notes = self.notes(clone)
        if notes:
            name = notes[which % len(notes)]
            (self.honest if has_payload(self.paths[clone], name) else self.open).add(name)
            redact(self.paths[clone], name, *([] if is_whole else ["text"]))

    def lose(self, clone: int, which: int) -> None:
        with Log.read(self.paths[clone]) as log:
            every = effective_redactions(log.connection).by_id.values()
        named = sorted({name for one in every for name in (one.target, *one.supersedes)})
        if named:
            lose(self.paths[clone], named[which % len(named)])

    def forge(self, clone: int, which: int, how: str) -> None:
        path, notes = self.paths[clone], self.notes(clone)
        if not notes:
            return
        target = notes[which % len(notes)]
        said = payload_of(path, target)
        ids = [row[1] for row in rows(path)]
        anywhere = sorted({row[1] for other in self.paths for row in rows(other) if row[2] == "event_redacted"})
        some = anywhere[which % len(anywhere)] if anywhere else "01KE791W1G0000000000000000"
        if how == "everything":
            forge(path, target, remains=redact_all(said), supersedes=[name for name in ids if name != target])
        elif how == "words":
            forge(path, target, fields=["step"], remains={**said, "step": "[redacted]", "text": WORDS})
        elif how == "whole words":
            forge(path, target, remains={**redact_all(said), "phase": "release"})
        elif how == "another's place":
            self.open.add(target)
            forge(path, target, remains=redact_all(said), supersedes=[some])
        elif how == "later words":
            forge(path, target, fields=["text"], remains={**said, "text": WORDS}, supersedes=[some])
        elif how == "a redaction":
            forge(path, some, remains={})
        elif how == "nothing known":
            forge(path, target, remains=redact_all(said), supersedes=["01KE791W1G0000000000000000"])
        else:
            forge(path, "01KE791W1G0000000000000000", remains=redact_all(said))


HOW = ["everything", "words", "whole words", "another's place", "later words", "a redaction", "nothing known", "nobody"]
clones = st.integers(0, 3)
numbers = st.integers(0, 20)
steps = st.one_of(
    st.tuples(st.just("append"), clones, st.just(0), st.integers(-40_000, 40_000)),
    st.tuples(st.just("pull"), clones, clones),
    st.tuples(st.just("redact"), clones, numbers, st.booleans()),
    st.tuples(st.just("forge"), clones, numbers, st.sampled_from(HOW)),
    st.tuples(st.just("lose"), clones, numbers),
)


def united(*paths: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write_union(paths, f"{folder}/united.db")
        return Path(f"{folder}/united.db").read_bytes()


@pytest.mark.long
@given(st.lists(steps, max_size=14), st.permutations([0, 1, 2, 3]))
@settings(max_examples=pick(10, 40))
def test_unions_with_honest_and_forged_redactions_do_not_depend_on_order(
    work: list[tuple[Any, ...]], order: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = Forging(folder, [0, 5, -5, 900], [1, 2, 3, 4])
        for clone in range(4):  # the events that they share
            made.append(0, 0, 0)
            made.pull(clone, 0)
        for step, *arguments in work:
            getattr(made, step)(*arguments)
        one, two, three, four = [made.paths[number] for number in order]
        known = {row[1] for path in made.paths for row in rows(path) if row[10] is not None}
        whole = united(one, two, three, four)
        assert united(four, two, three, one) == united(one, one, two, three, three, four) == whole
        left = write(folder / "left", united(write(folder / "first", united(one, two)), three))
        right = write(folder / "right", united(two, write(folder / "last", united(four, three))))
        assert united(left, four) == united(one, right) == united(left, right) == whole
        again = write(folder / "again", whole)
        assert united(again) == united(again, one) == united(two, again) == whole
        for row in rows(again):
            if row[2] == "note_recorded" and row[1] not in made.open:
                assert (row[10] is not None) == (row[1] in known and row[1] not in made.honest)
        for number in order:  # and all clones end with the same
            for other in order:
                made.pull(number, other)
        for number in order:
            made.pull(number, order[-1])
            assert Path(made.paths[number]).read_bytes() == whole
            assert blocks(made.paths[number]) == blocks(again)


@pytest.mark.parametrize("names", [["before", "other"], ["before", "other", "apart"], ["before", "apart", "after"]])
def test_payloads_that_0_1_0_redacted_stay_removed_in_every_order(tmp_path: Path, names: list[str]) -> None:
    content = {name: (HONEST / f"{name}.jsonl").read_bytes() for name in names}
    for name in names:
        import_lines(content[name], str(tmp_path / f"{name}.db"))
    for order in itertools.permutations(names):
        out = str(tmp_path / "out.db")
        write_union([str(tmp_path / f"{name}.db") for name in order], out)
        assert export_of(out) == content[names[-1]]
    assert forged_in(*[str(tmp_path / f"{name}.db") for name in names]) == {}


# One redaction


@pytest.mark.long
def test_every_planned_redaction_is_effective_where_the_payload_still_is(tmp_path: Path) -> None:
    before = str(tmp_path / "before.db")
    names = sample(tmp_path / "before.db")
    tried = 0
    for name in names.values():
        choices: list[list[str]] = [[], *[[path] for path in list_paths(payload_of(before, name))]]
        for first, second in itertools.product(choices, repeat=2):
            path = str(tmp_path / "after.db")
            shutil.copyfile(before, path)
            try:
                redact(path, name, *first)
            except LedgerError:
                continue  # it cannot be redacted
            tried += 1
            if tried % pick(28, 7) and first and second:
                continue  # only some of the pairs: all of them take a minute
            for fields in ([], second):
                try:
                    redact(path, name, *fields)
                except LedgerError:
                    continue
            assert forged_in(path) == forged_in(path, before) == {}
            both = write(tmp_path / "both.db", united(before, path))
            assert rows(both) == rows(path)
    assert tried > 40


def test_a_redaction_of_what_redact_refuses_is_forged(tmp_path: Path) -> None:
    names = sample(tmp_path / "a.db")
    refused = 0
    for kind, name in names.items():
        said = payload_of(str(tmp_path / "a.db"), name)
        for fields in ([], *[[path] for path in list_paths(said)]):
            try:
                with Log.read(str(tmp_path / "a.db")) as log:
                    plan_redaction(log, name, fields, None, check_event)
                continue
            except LedgerError:
                pass
            if fields and fields[0].startswith("findings."):
                continue  # `verify` reports an unknown severity as not fitting the event's shape
            path = write(tmp_path / "forged.db", (tmp_path / "a.db").read_bytes())
            forged = forge(
                path, name, fields=fields, remains=redact_fields(said, fields)[0] if fields else redact_all(said)
            )
            assert list(forged_in(path)) == [forged], (kind, fields)
            write_union([path], path)
            assert has_payload(path, name)
            refused += 1
    assert refused >= 6


def noted(path: Path, *texts: str) -> list[str]:
    """Write a log of notes and return their ids."""
    with Log.open(str(path), "OFF") as log:
        recorded = log.append([{"event": {**NOTE, "text": text}} for text in texts], at=START, writer="a" * 32)  # type: ignore[typeddict-item]  # an event with other fields
        log.commit()
    return [one["id"] for one in recorded]


WHOLE = {"kind": "note", "phase": "build", "step": "[redacted]", "text": "[redacted]"}


@pytest.mark.parametrize(
    ("fields", "remains"),
    [
        (["step"], {**NOTE, "step": "[redacted]", "text": WORDS}),
        (["step"], {**NOTE, "text": TEXT}),
        (["step"], {"kind": "note", "phase": "build", "step": "[redacted]"}),
        (["step"], {"kind": "note", "phase": "build", "step": "[redacted]", "text": "[redacted]"}),
        (["step"], {"kind": "note", "phase": "build", "step": "[redacted]", "text": TEXT, "also": "words"}),
        (["text"], {"kind": "note", "phase": "build", "step": "implement", "text": WORDS}),
        ([], {**WHOLE, "text": WORDS}),
        ([], {**WHOLE, "phase": "release"}),
        ([], {**WHOLE, "kind": "summary"}),
        ([], {**WHOLE, "kind": "[redacted]"}),
        ([], {**WHOLE, "step": "implement"}),
        ([], {**WHOLE, "session_id": "another"}),
        ([], {}),
    ],
)
def test_a_redaction_that_leaves_anything_else_is_forged(
    tmp_path: Path, fields: list[str], remains: dict[str, Any]
) -> None:
    path = str(tmp_path / "a.db")
    (name,) = noted(tmp_path / "a.db", TEXT)
    forged = forge(path, name, fields=fields, remains={key: value for key, value in remains.items() if key != "type"})
    write_union([path], path)
    assert (list(forged_in(path)), payload_of(path, name)["text"]) == ([forged], TEXT)
    lost = write(tmp_path / "lost.db", Path(path).read_bytes())
    lose(lost, name)
    assert (WORDS in str(payload_of(lost, name))) == (remains.get("text") == WORDS and fields == ["step"])
    assert united(lost, path) == united(path, lost) == united(path)


NOTE_LEFT = {"kind": "note", "phase": "build", "step": "[redacted]"}


def test_a_boolean_of_another_type_is_forged(tmp_path: Path) -> None:
    names = sample(tmp_path / "a.db")
    path, name = str(tmp_path / "a.db"), names["artifact_failed"]
    left = redact_all(payload_of(path, name))
    forged = forge(path, name, remains={**left, "required": int(left["required"])})
    assert list(forged_in(path)) == [forged]


def test_a_complete_redaction_after_one_of_fields_is_effective_where_the_payload_still_is(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    (name,) = noted(tmp_path / "a.db", TEXT)
    before = write(tmp_path / "before.db", Path(path).read_bytes())
    redact(path, name, "phase")
    middle = write(tmp_path / "middle.db", Path(path).read_bytes())
    redact(path, name)
    assert united(before, path) == united(middle, before, path) == united(path)
    assert payload_of(path, name)["phase"] == "[redacted]"


CONTRADICTIONS: list[dict[str, Any]] = [
    {"text": WORDS},
    {"text": 7},
    {"text": None},
    {"other": WORDS},
    {"kind": "summary"},
    {"kind": "summary", "text": WORDS},
]


@pytest.mark.parametrize("kind", ["note", "summary"])
@pytest.mark.parametrize("fields", [[], ["text"]], ids=["whole", "text"])
def test_nothing_that_redactions_contradict_each_other_about_is_shown_once_the_payload_is_gone(
    tmp_path: Path, kind: str, fields: list[str]
) -> None:
    path = str(tmp_path / "a.db")
    with Log.open(path, "OFF") as log:
        (recorded,) = log.append([{"event": {**NOTE, "kind": kind, "text": TEXT}}], at=START, writer="a" * 32)  # type: ignore[typeddict-item]  # an event with other fields
        log.commit()
    name = recorded["id"]
    before = write(tmp_path / "before.db", Path(path).read_bytes())
    redact(path, name, "step")
    for number, changes in enumerate(CONTRADICTIONS):
        said = {**changes, "kind": "note"} if changes.get("kind") == kind else changes
        other = write(tmp_path / f"{number}.db", Path(before).read_bytes())
        remains = {"kind": kind, "phase": "[redacted]", "step": "implement", "text": TEXT, **said}
        forge(other, name, fields=["phase"], remains=remains)
        lose(other, name)
        both = write(tmp_path / "both.db", united(other, path))
        assert WORDS not in str(payload_of(both, name))
        assert payload_of(both, name)["step"] == "[redacted]"
        (finding,) = find_problems(both, check_event=check_event)
        assert (finding.kind, finding.event) == ("forged_redaction", name)
        assert f"`faber-ledger redact {name} --field phase --field step --yes`" in (finding.hint or "")
        redact(both, name, *fields)
        assert payload_of(both, name)["text"] == "[redacted]"
        if "other" in said:  # a member that no note has, which no redaction can name, stays beside the new one
            continue
        assert list(find_problems(both, check_event=check_event)) == []
        assert united(both, before) == united(before, both) == united(both)  # it holds against the payload, too


def test_small_forged_redactions_of_a_large_event_do_not_each_write_it_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.db")
    (name,) = noted(tmp_path / "a.db", "\n" * 100_000)
    forged = [forge(path, name, fields=["step"], remains={**NOTE_LEFT, "text": str(number)}) for number in range(20)]
    large = []

    def counted(payload: dict[str, Any], fields: Any) -> Any:
        large.append(len(payload.get("text", "")) > 1000)
        return redact_fields(payload, fields)

    monkeypatch.setattr("faber_ledger.ledger.effective.redact_fields", counted)
    assert sorted(forged_in(path)) == sorted(forged)
    assert large
    assert not any(large)


def test_a_redaction_removes_nothing_until_the_one_that_it_replaces_arrives(tmp_path: Path) -> None:
    (first,) = noted(tmp_path / "a.db", TEXT)
    path = str(tmp_path / "a.db")
    later = write(tmp_path / "later.db", Path(path).read_bytes())
    with Log.open(later, "OFF") as log:
        (known,) = log.append([{"event": note(1)}], at=START + 9, writer="b" * 32)
        log.commit()
    forged = forge(path, first, remains=WHOLE, supersedes=[known["id"]])
    other = write(tmp_path / "other.db", united(path))
    assert payload_of(other, first)["text"] == TEXT
    assert forged_in(other) == {}
    assert united(other, later) == united(later, path)
    assert list(forged_in(other, later)) == [forged]
    assert has_payload(write(tmp_path / "all.db", united(later, other)), first)


def test_a_waiting_redaction_does_not_prevent_another(tmp_path: Path) -> None:
    (name,) = noted(tmp_path / "a.db", TEXT)
    path = str(tmp_path / "a.db")
    forge(path, name, remains=WHOLE, supersedes=["01KE791W1G0000000000000000"])
    redact(path, name)
    assert not has_payload(path, name)
    with Log.read(path) as log:
        assert [one.supersedes for one in effective_redactions(log.connection).by_event[name]][1:] == [[]]


def test_a_changed_copy_of_a_redaction_or_of_its_event_does_not_count(tmp_path: Path) -> None:
    from support.forging import forge as change

    path = str(tmp_path / "a.db")
    first, second = noted(tmp_path / "a.db", TEXT, "another")
    forge(path, first, fields=["step"], remains={**NOTE, "step": "[redacted]", "text": WORDS})
    changed = tmp_path / "changed.db"
    shutil.copyfile(path, changed)
    change(changed, f"UPDATE event SET payload = replace(payload, '{TEXT}', '{WORDS}') WHERE id = '{first}'")
    assert united(str(changed), path) == united(path, str(changed)) == united(path)
    redact(path, second)
    shutil.copyfile(path, changed)
    change(changed, f"UPDATE event SET payload = replace(payload, '{second}', '{first}') WHERE type = 'event_redacted'")
    assert united(str(changed), path) == united(path, str(changed)) == united(path)


def test_very_many_and_very_deep_fields_are_judged_quickly(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    (name,) = noted(tmp_path / "a.db", TEXT)
    deep = ".".join(["a"] * 200_000)
    forged = forge(path, name, fields=[deep, *[f"text.{number}" for number in range(50_000)]], remains=WHOLE)
    assert list(forged_in(path)) == [forged]


# The commands, in clones


@pytest.fixture
def victim(tmp_path: Path) -> Project:
    """Return a clone with a session and a note, all of which the peer's clone has."""
    made = Project.made(tmp_path / "victim")
    assert made.faber("init", "--git-only").returncode == 0
    made.deliver("SessionStart.startup.print")
    assert made.faber("note", "add", TEXT).returncode == 0
    committed(made, "Work")
    return made


@pytest.fixture
def peer(victim: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PATH", f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}")
    made = victim.clone(tmp_path / "peer", "desktop")
    victim.git("remote", "add", "peer", str(made.root))
    assert made.faber("init", "--git-only").returncode == 0
    return made


def committed(project: Project, message: str) -> None:
    project.git("add", "-A")
    project.git("commit", "--quiet", "--no-verify", "-m", message)


def mirror_of(project: Project) -> str:
    return str(project.root / ".git" / "faber-ledger" / "runs" / project.run_id / "ledger.db")


def pull(project: Project) -> None:
    project.git("pull", "--quiet", "--no-rebase", "--no-edit", "peer", "main")


def note_of(project: Project) -> str:
    return next(one["id"] for one in project.events if one["event"]["type"] == "note_recorded")


def forgery(peer: Project, how: str) -> tuple[str, list[str]]:
    """Write a forged redaction into the peer's ledger; return its id, and the events whose payloads 0.1.0 removes."""
    path, name = str(peer.ledger_path), note_of(peer)
    said = payload_of(path, name)
    if how == "everything":
        ids = [one["id"] for one in peer.events]
        return forge(path, name, remains=redact_all(said), supersedes=ids), ids
    return forge(path, name, fields=["step"], remains={**said, "step": None, "text": WORDS}), [name]


def assert_named(project: Project, *forged: str) -> None:
    done = project.faber("verify", project.run_id, "--json")
    found = json.loads(done.stdout)["data"]["runs"][0]["findings"]
    kinds = {(one["kind"], one["event"]) for one in found}
    assert (done.returncode, kinds) == (20, {("forged_redaction", name) for name in forged}), done.stdout


def assert_whole(project: Project, before: list[Any]) -> None:
    """Check that nothing is lost here or in the mirror, and that the state shows it."""
    mirrored = os.path.exists(mirror_of(project)) and os.path.getsize(mirror_of(project)) > 0
    for path in [str(project.ledger_path), *([mirror_of(project)] if mirrored else [])]:
        assert {row[1] for row in rows(path) if row[10] is None} == set()
    assert project.events[: len(before)] == before
    assert project.state["sessions"] == project.folded()["sessions"]


def test_show_and_log_say_that_a_redaction_is_forged_and_removes_nothing(victim: Project, peer: Project) -> None:
    forged, _ = forgery(peer, "everything")
    committed(peer, "more")
    pull(victim)
    name = note_of(victim)
    assert victim.faber("redact", name, "--field", "text", "--yes").returncode == 0
    (line, honest) = victim.faber("log", "--type", "event_redacted").stdout.splitlines()
    assert f"redaction of the whole payload in event {name}" in line
    assert line.endswith(" (forged: it removes nothing)")
    assert f"redaction of text in event {name}" in honest
    assert "forged" not in honest
    output = victim.faber("show", forged).stdout
    assert "\nforged      it removes nothing: " in output
    assert " took " not in output
    assert json.loads(victim.faber("show", forged, "--json").stdout)["data"]["forged"]
    assert json.loads(victim.faber("show", name, "--json").stdout)["data"]["forged"] is None


@pytest.mark.parametrize("how", ["everything", "words"])
@pytest.mark.parametrize("is_old", [True, False])
@pytest.mark.parametrize("merges", [True, False])
def test_a_peers_forged_redaction_removes_nothing_after_a_pull(
    victim: Project, peer: Project, how: str, is_old: bool, merges: bool
) -> None:
    before = victim.events
    forged, lost = forgery(peer, how)
    if is_old:
        lose(str(peer.ledger_path), *lost)
    committed(peer, "Look, nothing")
    if merges:
        assert victim.faber("note", "add", "mine").returncode == 0
        committed(victim, "Mine")
    pull(victim)
    if merges or not is_old:
        assert_named(victim, forged)
    else:
        assert f"event {forged}" in victim.faber("verify", victim.run_id).stdout  # held against the mirror
    answer = victim.deliver("SessionStart.resume.print", client="two", pid="2")
    assert (answer.code, answer.errors) == (0, "")
    assert TEXT in (answer.packet or "")
    assert WORDS not in (answer.packet or "")
    assert victim.log_lines == []
    assert_whole(victim, before if not merges else before[:1])
    assert_named(victim, forged)
    done = victim.faber("seal")
    assert done.returncode == 0, done.stderr
    assert "it is forged" in done.stderr
    victim.git("commit", "--quiet", "-m", "On")
    peer.git("fetch", "--quiet", "origin")
    peer.git("merge", "--quiet", "--no-edit", "origin/main")
    assert peer.faber("project").returncode == 0
    assert_whole(peer, victim.events[:2])
    assert_named(peer, forged)


@pytest.mark.parametrize("how", ["everything", "words"])
def test_union_restores_what_a_forged_redaction_removed(
    victim: Project, peer: Project, how: str, tmp_path: Path
) -> None:
    forged, lost = forgery(peer, how)
    lose(str(peer.ledger_path), *lost)
    for number, order in enumerate(itertools.permutations([victim.ledger_path, peer.ledger_path])):
        done = victim.faber("union", *map(str, order), "-o", str(tmp_path / f"{number}.db"))
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "0.db").read_bytes() == (tmp_path / "1.db").read_bytes()
    shutil.copyfile(tmp_path / "0.db", peer.ledger_path)
    assert_named(peer, forged)
    assert peer.faber("project").returncode == 0
    assert_whole(peer, victim.events)


@pytest.mark.parametrize("is_old", [True, False])
def test_an_import_removes_nothing_for_a_forged_redaction(victim: Project, peer: Project, is_old: bool) -> None:
    before = victim.events
    forged, lost = forgery(peer, "everything")
    if is_old:
        lose(str(peer.ledger_path), *lost)
    exported = peer.root / "events.jsonl"
    exported.write_text(peer.faber("export").stdout)
    done = victim.faber("import", str(exported))
    assert (done.returncode, "redacted" in done.stdout) == (0, False), done.stderr
    assert_whole(victim, before)
    assert_named(victim, forged)


def test_an_import_restores_what_was_lost_to_a_forged_redaction(victim: Project, peer: Project) -> None:
    exported = victim.root.parent / "events.jsonl"
    exported.write_text(victim.faber("export").stdout)
    forged, lost = forgery(peer, "everything")
    assert peer.faber("project").returncode == 0
    for path in (str(peer.ledger_path), mirror_of(peer)):
        lose(path, *lost)
    assert peer.faber("project", "--rebuild").returncode == 0
    assert_named(peer, forged, *lost)
    done = peer.faber("import", str(exported), "--dry-run")
    assert (done.returncode, "payloads that the log had lost would be restored" in done.stdout) == (0, True)
    done = peer.faber("import", str(exported))
    assert (done.returncode, "payloads that the log had lost are restored" in done.stdout) == (0, True), done.stderr
    assert_whole(peer, victim.events)
    assert_named(peer, forged)


def test_a_payload_that_git_still_has_is_named_with_the_command_that_restores_it(
    victim: Project, peer: Project
) -> None:
    before = peer.events
    forged, lost = forgery(peer, "words")
    lose(str(peer.ledger_path), *lost)
    committed(peer, "Look, nothing")
    done = peer.faber("verify", "--git", "--json")
    (found,) = [one for one in json.loads(done.stdout)["data"]["runs"][0]["findings"] if "forged" in one["kind"]]
    assert (done.returncode, found["event"]) == (20, forged)
    command = found["hint"].split("`")[1]
    subprocess.run(["sh", "-c", command], cwd=peer.run, env=peer.environment(dict(os.environ)), check=True)
    assert peer.faber("project").returncode == 0
    (peer.run / "kept.db").unlink()
    assert_whole(peer, before)
    assert_named(peer, forged)


def test_a_redaction_removes_a_payload_that_a_forged_one_names_too(victim: Project, peer: Project) -> None:
    forgery(peer, "words")
    committed(peer, "Look, nothing")
    pull(victim)
    name = note_of(victim)
    done = victim.faber("redact", name, "--yes")
    assert done.returncode == 0, done.stderr
    assert not has_payload(str(victim.ledger_path), name)
    assert not has_payload(mirror_of(victim), name)
    assert payload_of(str(victim.ledger_path), name)["text"] == "[redacted]"
    committed(victim, "Redact")
    peer.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    assert peer.faber("project").returncode == 0
    assert not has_payload(str(peer.ledger_path), name)
    assert peer.events == victim.events
    for project in (victim, peer):
        assert project.faber("verify", project.run_id).returncode == 0
        assert WORDS.encode() not in project.ledger_path.read_bytes()


@pytest.mark.parametrize("phase", ["release", "build"])
def test_a_forged_redaction_does_not_prevent_a_commit(victim: Project, phase: str) -> None:
    name = note_of(victim)
    said = payload_of(str(victim.ledger_path), name)
    forge(str(victim.ledger_path), name, fields=["step"], remains={**said, "step": None, "phase": phase, "text": WORDS})
    assert victim.faber("redact", name, "--field", "phase", "--yes").returncode == 0
    assert_named(victim, name)
    assert WORDS not in victim.faber("log").stdout
    done = victim.faber("seal")
    assert (done.returncode, "contradict each other" in done.stderr) == (0, True)


def test_a_seal_warns_once_of_many_forged_redactions(victim: Project) -> None:
    name = note_of(victim)
    for _ in range(3):
        forge(str(victim.ledger_path), name, fields=["step"], remains={"text": WORDS})
    done = victim.faber("seal")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("it is forged") == 1
    assert "(3 events in all)" in done.stderr


def test_git_merge_succeeds_with_a_forged_redaction(tmp_path: Path) -> None:
    one = Clone.first(tmp_path / "one")
    two = one.clone("two")
    ids = one.ids()
    forged = forge(str(two.ledger), min(ids), remains={}, supersedes=sorted(ids))
    lose(str(two.ledger), *ids)
    two.commit("Look, nothing")
    one.advance("mine")
    one.git("pull", "-q", "--no-rebase", "--no-edit", "../two", "main")
    one.record("more")
    assert {row[1] for row in rows(str(one.ledger)) if row[10] is None} == set()
    assert forged in one.faber("verify", RUN, code=20).stdout


def test_a_hook_judges_redactions_only_where_logs_are_united(victim: Project) -> None:
    assert "faber_ledger.ledger.log" in loaded_by_hook("session-end", victim.root)
    count = len(victim.events)
    assert "faber_ledger.ledger.effective" not in loaded_by_hook("session-start", victim.root)
    assert len(victim.events) > count
