"""`faber-ledger init --commands` and `uninstall`: the requirement documents' slash commands, as files of the client."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from support.project import Project

PLUGIN = Path(__file__).parents[2] / "plugin"
FOLDER = ".claude/commands/fractary-faber"
SKILL_OF = {
    "prime-context": "session-load",
    "session-end": "session-save",
    "session-load": "session-load",
    "session-save": "session-save",
}


def init(project: Project, *arguments: str, code: int = 0) -> str:
    return project.said("init", "--commands", *arguments, code=code)


def names(project: Project) -> list[str]:
    return sorted(path.stem for path in (project.root / FOLDER).glob("*"))


def content(project: Project) -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in (project.root / FOLDER).iterdir()}


# What is written


def test_each_command_is_its_skills_text_and_an_owner_line(project: Project) -> None:
    said = init(project)
    assert names(project) == sorted(SKILL_OF)
    for name, skill in SKILL_OF.items():
        text = (PLUGIN / "skills" / skill / "SKILL.md").read_bytes()
        written = (project.root / FOLDER / f"{name}.md").read_bytes()
        assert written.startswith(text)
        (last,) = written.removeprefix(text).decode().splitlines()
        assert hashlib.sha256(text).hexdigest() in last
        assert last.startswith("<!-- written by faber-ledger init --commands")
        assert last.endswith("-->")
        assert f"created    {FOLDER}/{name}.md\n" in said
        assert f"{FOLDER}/{name}.md" in said.partition("next: commit ")[2]


def test_a_dry_run_shows_the_commands_and_writes_none(project: Project) -> None:
    assert f"+++ b/{FOLDER}/prime-context.md" in init(project, "--dry-run")
    assert names(project) == []


# What is not ours


def test_a_file_of_the_user_is_kept_and_nothing_else_is_written(project: Project) -> None:
    mine = project.write(f"{FOLDER}/session-save.md", "Say goodbye.\n")
    said = init(project, code=1)
    assert f"{FOLDER}/session-save.md is there already" in said
    assert "hint: " in said
    assert names(project) == ["session-save"]
    assert mine.read_text() == "Say goodbye.\n"
    assert not (project.root / ".claude/settings.json").exists()


@pytest.mark.parametrize("change", [b"%s\nOne more line.\n", b"One more line.\n%s"])
def test_a_command_that_the_user_has_changed_is_kept(project: Project, change: bytes) -> None:
    init(project)
    file = project.root / FOLDER / "session-load.md"
    file.write_bytes(changed := change % file.read_bytes())
    assert "is there already" in init(project, code=1)
    assert f"unchanged  {FOLDER}/session-load.md" in project.said("uninstall")
    assert content(project) == {"session-load": changed}


def test_what_another_version_wrote_is_renewed_and_removed(project: Project) -> None:
    init(project)
    new = content(project)
    older = b"---\ndescription: As an earlier version had it\n---\n"
    signed = new["session-load"].splitlines()[-1].decode()
    text = (PLUGIN / "skills/session-load/SKILL.md").read_bytes()
    signed = signed.replace(hashlib.sha256(text).hexdigest(), hashlib.sha256(older).hexdigest())
    file = project.write(f"{FOLDER}/session-load.md", older + f"{signed}\n".encode())
    assert f"changed    {FOLDER}/session-load.md" in init(project)
    assert content(project) == new
    file.write_bytes(older + f"{signed}\n".encode())
    project.said("uninstall")
    assert not (project.root / ".claude").exists()


def test_a_folder_that_leads_out_of_the_project_is_not_written_to(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "dotfiles"
    outside.mkdir()
    (project.root / ".claude").mkdir()
    link = project.root / ".claude/commands"
    link.symlink_to(outside)
    assert "leads out of the project" in init(project, code=1)
    assert [*outside.iterdir()] == []
    link.unlink()
    init(project)
    link.rename(outside / "moved")
    link.symlink_to(outside / "moved")
    project.said("uninstall")
    assert names(project) == sorted(SKILL_OF)


# Removal


def test_uninstall_removes_just_these_and_the_empty_folder(project: Project) -> None:
    init(project)
    mine = project.write(".claude/commands/mine.md", "Mine.\n")
    project.said("uninstall")
    assert [path for path in (project.root / ".claude").rglob("*") if path.is_file()] == [mine]
    assert not mine.with_name("fractary-faber").exists()


def test_git_may_have_changed_the_line_ends(project: Project) -> None:
    init(project)
    for file in (project.root / FOLDER).iterdir():
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    project.said("uninstall")
    assert not (project.root / ".claude").exists()
