"""The list of commands and click's own errors read like everything else that the program prints."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.command import COMMAND, run_command

from faber_ledger.cli.app import ALIASES, COMMANDS, SECTIONS

if TYPE_CHECKING:
    from pathlib import Path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command([COMMAND, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_every_command_is_in_one_section_of_the_help(tmp_path: Path) -> None:
    shown = run(tmp_path, "--help").stdout
    names = [match for match in re.findall(r"^  ([a-z-]+)  ", shown, re.M) if not match.startswith("-")]
    assert sorted(names) == sorted(COMMANDS)
    titles = re.findall(r"^([A-Z][a-z ]+):$", shown, re.M)
    assert [title for title in titles if title != "Options"] == list(SECTIONS)


@pytest.mark.parametrize("name", ALIASES)
def test_an_alias_is_marked_as_one(tmp_path: Path, name: str) -> None:
    assert re.search(rf"^  {name} +Alias of `{ALIASES[name]}`\.$", run(tmp_path, "--help").stdout, re.M)


@pytest.mark.parametrize(
    ("arguments", "message", "command"),
    [
        (["stauts"], "no such command 'stauts'. Did you mean 'status'?", "faber-ledger"),
        (["run", "strat"], "no such command 'strat'. Did you mean 'start'?", "faber-ledger run"),
        (["log", "--typ", "x"], "no such option '--typ'. Did you mean '--type'?", "faber-ledger log"),
        (["run", "resume"], "give RUN or --work-id", "faber-ledger run resume"),
        (["nothing-like-it"], "no such command 'nothing-like-it'", "faber-ledger"),
    ],
)
def test_wrong_usage_has_the_form_of_every_error(
    tmp_path: Path, arguments: list[str], message: str, command: str
) -> None:
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {message}\n\nhint: run `{command} --help`\n"


def test_wrong_usage_is_one_object_with_json(tmp_path: Path) -> None:
    done = run(tmp_path, "status", "--jsom", "--json")
    assert done.returncode == 2
    assert json.loads(done.stderr)["error"] == {
        "code": "usage",
        "message": "no such option '--jsom'. Did you mean '--json'?",
        "hint": "run `faber-ledger status --help`",
    }
