"""Where `summaries` is false, what a compaction came to stays in its clone: found by the next session, by no commit."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.files_with import files_with
from support.project import PROTOCOL, RUN, Project
from support.summaries import HEAD, ME, OTHER, POST, STARTUP, compacted, packet

from faber_ledger.cli.setup.project import QUESTION

ASKED = QUESTION.format(travel="committed")
SETTING = ".fractary/faber/ledger.json"
PROJECT_ID = re.compile(r',?\s*"project": "[0-7][0-9A-HJKMNP-TV-Z]{25}"')
SAID = "We chose flock over fcntl."
DEFAULT = "true"  # where nobody is asked, or the answer is Return


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a new project, set up by `init --no-summaries`, with a run that was started in it."""
    return started(tmp_path / "myproject", "--no-summaries")


def started(root: Path, *options: str, files: dict[str, str] | None = None) -> Project:
    project = Project.fresh(root)
    for name, content in {PROTOCOL: "# Orchestration\n", **(files or {})}.items():
        project.write(name, content)
    project.said("init", *options)
    project.said("run", "start", "--work-id", "258", "--run-id", RUN)
    committed(project)
    return project


def committed(project: Project) -> None:
    project.commit("Work", "--allow-empty")


def kept(project: Project) -> list[Path]:
    folder = project.root / ".git/faber-ledger/runs" / project.run_id
    return sorted(path for path in folder.iterdir() if path.name.startswith("summary-"))


def in_git(project: Project, text: str) -> bool:
    """Return whether any object of the repository holds a text."""
    command = ["git", "cat-file", "--batch", "--batch-all-objects"]
    objects = subprocess.run(command, cwd=project.root, capture_output=True, check=True).stdout
    return text.encode() in objects


# What is kept, and which sessions get it


def test_the_next_session_gets_a_kept_summary_and_no_commit_has_it(project: Project) -> None:
    assert settings_of(project) == '{"summaries": false}\n'
    packet(project, STARTUP, ME)
    compacted(project, ME, f"<analysis>thoughts</analysis>\n<summary>\n{SAID}\nDB_PASSWORD=hunter2hunter\n</summary>")
    (path,) = kept(project)
    assert path.read_text() == f"{SAID}\nDB_PASSWORD=[masked]"
    assert path.stat().st_mode & 0o777 == 0o600
    (event,) = project.of_type("compaction_completed")
    assert "summary" not in event
    report = packet(project, STARTUP, OTHER)
    assert f"{HEAD}\n\nMade at {project.events[-1]['at'][:11]}" in report
    assert f"Z`\n\n> {SAID}\n> DB_PASSWORD=[masked]\n" in report
    project.said("seal")
    committed(project)
    assert files_with(project.root, SAID) == [str(path.relative_to(project.root))]
    assert not in_git(project, SAID)
    assert in_git(project, "compaction_completed")
    assert files_with(project.root, "hunter2") == []
    project.assert_projected()


def test_a_clone_never_has_the_summary_and_a_linked_work_tree_does(project: Project, tmp_path: Path) -> None:
    packet(project, STARTUP, ME)
    compacted(project, ME, SAID)
    project.said("seal")
    committed(project)
    clone = project.clone(tmp_path / "clone", "desktop")
    assert HEAD not in packet(clone, STARTUP, OTHER)
    assert files_with(clone.root, SAID) == []
    project.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    linked = Project(tmp_path / "linked")
    linked.said("run", "resume", RUN)
    assert f"> {SAID}\n" in packet(linked, STARTUP, OTHER)


def test_the_newest_sixteen_of_a_run_are_kept(project: Project) -> None:
    packet(project, STARTUP, ME)
    for number in range(18):
        project.deliver(POST, client=ME, fields={"compact_summary": f"number {number}"})
    assert [path.read_text() for path in kept(project)] == [f"number {number}" for number in range(2, 18)]
    assert "> number 17\n" in packet(project, STARTUP, OTHER)


# What waits in the inbox


def test_a_waiting_compaction_keeps_its_summary_out_of_the_log(project: Project) -> None:
    """The process that records it may lack the variable, or be on a branch with another setting."""
    env = {"FABER_LEDGER_SUMMARIES": "0"}
    project.write(SETTING, '{"summaries": true}')
    packet(project, STARTUP, ME)
    project.ledger_path.rename(project.run / "aside")
    project.refuse()
    answer = project.deliver(POST, client=ME, fields={"compact_summary": SAID}, env=env)
    assert "it waits in" in answer.errors
    assert [name.split("/")[1] for name in files_with(project.root, SAID)] == ["faber-ledger"]
    assert len(files_with(project.root / ".git/faber-ledger/inbox", SAID)) == 1  # its user alone reads it
    project.relent()
    (project.run / "aside").rename(project.ledger_path)
    project.write(SETTING, '{"summaries": true}')
    project.said("project")
    (event,) = project.of_type("compaction_completed")
    assert "summary" not in event
    project.write(SETTING, '{"summaries": false}')
    assert f"> {SAID}\n" in packet(project, STARTUP, OTHER)
    project.assert_projected()


# What removes it


def test_a_redaction_of_the_compaction_removes_it(project: Project) -> None:
    packet(project, STARTUP, ME)
    compacted(project, ME, SAID)
    compacted(project, ME, "another")
    first, second = kept(project)
    (first.parent / "summary-01K0000000000000000000000").write_text(SAID)  # of a delivery that waited, and came twice
    name = next(one["id"] for one in project.events if one["event"]["type"] == "compaction_completed")
    for ending in (".tmp", ".4711.tmp"):  # of a process that was killed while it wrote
        (first.parent / f"summary-{name}{ending}").write_text(SAID[:-1])
    report = project.said("redact", name, "--yes")
    assert f"removed: {first.relative_to(project.root)}" in report
    assert kept(project) == [second]
    assert files_with(project.root, SAID[:-1]) == []
    assert "> another\n" in packet(project, STARTUP, OTHER)


def test_a_redaction_cleans_kept_summaries_with_the_same_text(project: Project) -> None:
    packet(project, STARTUP, ME)
    compacted(project, ME, "The customer is Ada Lovelace, as ever.")
    project.said("note", "add", "Ada Lovelace")
    project.said("redact", project.events[-1]["id"], "--yes")
    (path,) = kept(project)
    assert path.read_text() == "The customer is [redacted], as ever."
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_redaction_that_another_clone_made_removes_it(project: Project, tmp_path: Path) -> None:
    packet(project, STARTUP, ME)
    compacted(project, ME, SAID)
    project.said("seal")
    committed(project)
    name = next(one["id"] for one in project.events if one["event"]["type"] == "compaction_completed")
    clone = project.clone(tmp_path / "clone", "desktop")
    clone.said("init", "--git-only")
    clone.said("redact", name, "--yes")
    clone.said("seal")
    committed(clone)
    project.git("pull", "--quiet", "--no-rebase", "--no-edit", str(clone.root), "main")
    project.said("note", "add", "and on")
    assert HEAD not in packet(project, STARTUP, OTHER)
    assert kept(project) == []


# What `init` writes, and what it says


def test_settings_that_cannot_be_read_stop_it_before_anything_is_written(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.write(SETTING, b"{ no JSON")
    project.git("init", "--quiet")
    assert f"error: {SETTING}: " in project.said("init", code=1)
    found = [path.relative_to(project.root).parts for path in project.root.rglob("*")]
    assert {"/".join(parts) for parts in found if parts[0] != ".git"} == {".fractary", ".fractary/faber", SETTING}


def test_settings_behind_a_link_out_of_the_project_are_refused(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.write(PROTOCOL, "")
    project.git("init", "--quiet")
    (tmp_path / "theirs.json").write_text("{}")
    (project.root / ".fractary/faber").mkdir(parents=True)
    (project.root / SETTING).symlink_to(tmp_path / "theirs.json")
    assert "is behind a link that leads out of the project" in project.said("init", code=1)
    assert (tmp_path / "theirs.json").read_text() == "{}"


def settings_of(project: Project) -> str:
    """Return the project's settings without its id, which they must have."""
    text, count = PROJECT_ID.subn("", (project.root / SETTING).read_text())
    assert count == 1
    return text


def terminal(root: Path, *words: str, answers: list[str]) -> tuple[Project, str]:
    """Run `init` on a terminal in a new project; return it, and what was shown."""
    project = Project.fresh(root)
    shown, code = project.on_terminal("init", *words, answers=answers)
    assert code == 0, shown
    return project, shown


def test_on_a_terminal_init_says_what_is_masked_and_asks_once(tmp_path: Path) -> None:
    project, shown = terminal(tmp_path / "p", answers=[""])
    assert shown.count(ASKED) == 1
    asked = " ".join(shown.partition(ASKED)[0].split())
    assert "which git takes to every clone, or in this clone alone" in asked
    assert "Masked before: tokens and keys of known forms, passwords in URLs, private keys" in asked
    assert "Not masked: a secret without a known form or such a word before it, names of people and customers" in asked
    assert settings_of(project) == f'{{"summaries": {DEFAULT}}}\n'
    assert "are recorded and committed" in shown
    assert ASKED not in terminal(tmp_path / "p", answers=[])[1]


def test_where_a_setting_or_an_option_decides_nobody_is_asked(tmp_path: Path) -> None:
    for name, word in (("stays", "--no-summaries"), ("recorded", "--summaries")):
        assert ASKED not in terminal(tmp_path / name, word, answers=[])[1]
    project = started(tmp_path / "theirs", "--summaries")
    assert settings_of(project) == '{"summaries": true}\n'
    clone = project.clone(tmp_path / "clone", "desktop")
    shutil.rmtree(clone.root / ".claude")
    assert ASKED not in clone.on_terminal("init", "--carry", "tree")[0]
    assert ASKED not in clone.on_terminal("init", "--git-only")[0]
    assert ASKED not in terminal(tmp_path / "dry", "--dry-run", answers=[])[1]
    assert ASKED not in terminal(tmp_path / "json", "--json", answers=[])[1]
