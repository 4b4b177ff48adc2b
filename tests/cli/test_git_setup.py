"""What keeps git from a run's files (filters, older lines), and what `init` leaves to the user."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clones import FOLDER, LEDGER, STATE, Clone
from support.command import COMMAND
from support.project import Project

ATTRIBUTES = ".fractary/.gitattributes"
FIRST = "# >>> faber-ledger: how git merges and shows a run's files (`faber-ledger uninstall` removes this block)\n"
LAST = "# <<< faber-ledger\n"
OLDER = "/runs/**/ledger.db binary merge=faber-ledger diff=faber-ledger\n/runs/**/state.json merge=faber-ledger\n"


def doctor(clone: Clone) -> str:
    return clone.call(str(COMMAND), "doctor").stdout


def attributes(clone: Clone, path: str) -> dict[str, str]:
    listed = clone.git("check-attr", "--all", "--", path).splitlines()
    return dict([line.split(": ")[1:] for line in listed])


def use_lfs(clone: Clone) -> None:
    """Do what `git lfs install` and `git lfs track "*.db"` do; what it stores is not the file."""
    clone.git("config", "--local", "filter.lfs.clean", "printf pointer")
    (clone.root / ".gitattributes").write_text("*.db filter=lfs diff=lfs merge=lfs -text\n")


# --- attributes


def test_the_filter_of_a_rule_above_does_not_reach_a_run(one: Clone) -> None:
    use_lfs(one)
    assert attributes(one, "other.db")["filter"] == "lfs"
    for path in (LEDGER, STATE):
        found = attributes(one, path)
        assert (found["filter"], found["merge"]) == ("unset", "faber-ledger"), path
    one.advance("second")
    assert one.git("cat-file", "-s", f"HEAD:{LEDGER}") == f"{one.ledger.stat().st_size}\n"


@pytest.mark.parametrize("path", [LEDGER, STATE, f"{FOLDER}/metadata.json"])
def test_hosting_sites_may_fold_our_files(one: Clone, path: str) -> None:
    assert attributes(one, path)["linguist-generated"] == "set"


def test_other_lines_are_named_by_doctor_and_renewed_by_init(one: Clone) -> None:
    path = one.root / ATTRIBUTES
    renewed = path.read_text()
    path.write_text(f"mine -text\n{FIRST}{OLDER}{LAST}# and mine\n")
    said = doctor(one)
    assert f"git.lines: our lines in {ATTRIBUTES} differ from this version's" in said
    one.faber("init", "--git-only")
    assert path.read_text() == f"mine -text\n{renewed}# and mine\n"
    assert "git.lines:" not in doctor(one)


def test_uninstall_leaves_no_backup_for_git_to_add(tmp_path: Path) -> None:
    """A backup is never in git : it may have words that were redacted since."""
    project = Project.made(tmp_path / "project")
    project.faber("init", "--git-only")
    project.deliver("SessionStart.startup.print")
    project.deliver("SessionEnd.other.print")
    backup = project.run / "state.json.backup"
    project.faber("uninstall")
    assert backup.exists()
    assert "backup" not in project.git("status", "--porcelain", "--untracked-files=all")
    backup.unlink()
    (project.root / ".fractary/faber/.active-run-id").unlink()
    assert "removed    .fractary/.gitignore\n" in project.faber("uninstall").stdout
