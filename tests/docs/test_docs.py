"""The documentation says what the program does: generated where that can be, and otherwise run."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from shown_commands import INSTALLED, PAGES, PROJECT, masked, printed_by, shown_in
from support.program import program_folder

from faber_ledger.cli.app import COMMANDS, LazyGroup, app

REFERENCE = PROJECT / "docs" / "reference" / "COMMANDS.md"
CONTRIBUTING = PROJECT / "CONTRIBUTING.md"
ARCHITECTURE = PROJECT / "docs" / "internals" / "ARCHITECTURE.md"
THREATS = PROJECT / "docs" / "internals" / "THREATS.md"
CONFORMANCE = PROJECT / "docs" / "reference" / "CONFORMANCE.md"
LINE_BY_LINE = CONFORMANCE.parent / "conformance"
SHOWN = {page: shown_in(page.read_text(encoding="utf-8")) for page in PAGES}
# tests/postgres/test_guide.py runs those with several machines.
SHOWING = [page for page, shown in SHOWN.items() if shown and not any(one.machine for one in shown)]
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED_FILE = re.compile(r"`((?:[\w-]+/)+[\w.-]*)`")
NAMED_IN_FILE = re.compile(r"`([\w/]+\.py)`: `([\w.]+)`|`(\w+)` in `([\w/]+\.py)`")
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def name_of(page: Path) -> str:
    return str(page.relative_to(PROJECT))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=False)
    if listed.returncode:  # no git repository: an unpacked archive
        return PAGES
    return [PROJECT / name for name in os.fsdecode(listed.stdout).split("\0") if (PROJECT / name).is_file()]


# What is generated


def test_the_command_reference_is_current() -> None:
    command = [sys.executable, str(PROJECT / "docs" / "generate_reference.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def every_command() -> list[str]:
    with click.Context(app) as context:
        return [line for name in COMMANDS for line in with_subcommands(name, app.get_command(context, name))]


def with_subcommands(name: str, command: click.Command | None) -> list[str]:
    inner = command.commands if isinstance(command, click.Group) else {}
    return [name, *[line for sub in sorted(inner) for line in with_subcommands(f"{name} {sub}", inner[sub])]]


def test_every_command_is_documented() -> None:
    headings = re.findall(r"^#+ faber-ledger (.+)$", text_of(REFERENCE), re.MULTILINE)
    assert headings == every_command()
    assert isinstance(app, LazyGroup)


def test_every_command_has_a_short_help_that_fits_the_list() -> None:
    with click.Context(app, terminal_width=80, max_content_width=80) as root:
        pages = [app.get_help(root)]
        groups = [(name, app.get_command(root, name)) for name in COMMANDS]
        while groups:
            name, group = groups.pop()
            if isinstance(group, click.Group):
                groups += group.commands.items()
                with click.Context(group, info_name=name, parent=root) as context:
                    pages.append(group.get_help(context))
    listed = re.findall(r"^  ([a-z][a-z-]+) {2,}(\S.*(?:\n {8,}\S.*)*)", "\n".join(pages), re.MULTILINE)
    assert len(listed) == len(every_command())
    for name, short_help in listed:
        assert "..." not in short_help, name


# What is shown


@pytest.mark.parametrize("page", SHOWING, ids=name_of)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    """If a difference is intended, `python tools/shown_commands.py` writes the pages."""
    shown = shown_in(text_of(page))
    path = f"{program_folder()}{os.pathsep}{INSTALLED}"
    printed = printed_by([item.command for item in shown], tmp_path, path)
    assert len(printed) == len(shown)
    for item, output in zip(shown, printed, strict=True):
        assert (item.command, masked(output)) == (item.command, masked(item.output))


def test_the_readme_stays_short() -> None:
    assert len(text_of(PROJECT / "README.md").splitlines()) <= 150


def test_no_page_hides_a_command() -> None:
    """Readers of the rendered page do not see a command in a comment, and so do not run it.

    (spec-and-session-end remark 3)
    """
    for page in PAGES:
        for comment in re.findall(r"<!--.*?-->", text_of(page), re.DOTALL):
            assert not re.search(r"```|\$ |^ *(?:faber-ledger|git|python3?|echo|cat|mkdir) ", comment, re.MULTILINE), (
                page
            )


def test_the_readme_leads_from_nothing_to_a_checked_ledger() -> None:
    commands = "\n".join(item.command for item in shown_in(text_of(PROJECT / "README.md")))
    for needed in ("init", "run start", "hook session-start", "hook pre-compact", "log", "replay", "verify", "project"):
        assert f"faber-ledger {needed}" in commands


@pytest.mark.parametrize("page", [PROJECT / "README.md", CONTRIBUTING], ids=name_of)
def test_the_make_targets_of_a_page_exist(page: Path) -> None:
    makefile = text_of(PROJECT / "Makefile")
    targets = set(re.findall(r"^make ([\w-]+)|`make ([\w-]+)`", text_of(page), re.MULTILINE))
    for target in {one or other for one, other in targets}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


# What is linked and named


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, CONTRIBUTING, PROJECT / "CHANGELOG.md"], ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", text_of(page))):
        path, _, anchor = link.partition("#")
        if path.startswith(("https://", "http://")):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_reached_from_the_readme() -> None:
    readme, overview = PROJECT / "README.md", PROJECT / "docs" / "README.md"
    linked = {PROJECT / link.partition("#")[0] for link in LINK.findall(text_of(readme))}
    linked |= {(overview.parent / link).resolve() for link in LINK.findall(text_of(overview))}
    assert overview in linked
    assert set(PAGES) <= {*linked, readme}


@pytest.mark.parametrize("page", [ARCHITECTURE, CONTRIBUTING], ids=name_of)
def test_a_page_for_contributors_names_files_that_exist(page: Path) -> None:
    named = set(NAMED_FILE.findall(text_of(page)))
    assert len(named) > 20
    assert [path for path in sorted(named) if not (PROJECT / path).exists()] == []


def test_a_page_for_contributors_names_functions_that_exist() -> None:
    found = [match.groups() for match in NAMED_IN_FILE.finditer(text_of(CONTRIBUTING))]
    assert len(found) > 10
    for path, function, constant, place in found:
        source = text_of(PROJECT / (path or place))
        for name in (function or constant).split("."):
            assert re.search(rf"^ *(?:def |class ){name}\b|^{name}\b.*=", source, re.MULTILINE), (path or place, name)


def test_the_architecture_names_every_module_of_every_folder() -> None:
    section = text_of(ARCHITECTURE).partition("## The modules\n")[2].partition("\n## ")[0]
    named: dict[str, set[str]] = {}
    for folders, modules in re.findall(r"^\| (`\S+/`.*?) \| (.*) \|$", section, re.MULTILINE):
        for folder in re.findall(r"`(\S+)/`", folders):
            named[folder] = set(re.findall(r"`(\w+)`", modules))
    shipped = [path.name for path in (PROJECT / "src" / "faber_ledger").iterdir() if path.is_symlink()]
    found: dict[str, set[str]] = {}
    for path in [path for name in shipped for path in (PROJECT / name).rglob("*.py") if path.stem != "__init__"]:
        found.setdefault(str(path.parent.relative_to(PROJECT)), set()).add(path.stem)
    assert named.pop("cli/commands") == set()  # one file per command, as the row says
    del found["cli/commands"]
    for folder in ("migrations/ledger", "migrations/server"):  # revisions: the row of `migrations/` names the folders
        del found[folder]
    assert named == found


def conformance_pages() -> list[Path]:
    return [CONFORMANCE, *sorted(LINE_BY_LINE.glob("*.md"))]


@functools.cache
def functions_of(path: str) -> set[str]:
    module = ast.parse(text_of(PROJECT / path))
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef)}


def assert_tests_exist(named: set[tuple[str, str]]) -> None:
    assert [f"{path}::{name}" for path, name in sorted(named) if name not in functions_of(path)] == []


def test_conformance_names_tests_that_exist() -> None:
    named = {found for page in conformance_pages() for found in NAMED_TEST.findall(text_of(page))}
    assert len(named) > 250
    assert_tests_exist(named)


def test_the_threats_name_tests_that_exist() -> None:
    named = set(NAMED_TEST.findall(text_of(THREATS)))
    assert len(named) > 50
    assert_tests_exist(named)


@pytest.mark.parametrize("page", conformance_pages(), ids=name_of)
def test_conformance_claims_nothing_without_a_test(page: Path) -> None:
    tables = [table.splitlines() for table in re.findall(r"(?:^\|.*\n)+", text_of(page), re.MULTILINE)]
    claims = [table for table in tables if table[0].endswith("| shown by |")]
    assert claims
    for head, row in [(table[0], row) for table in claims for row in table[2:]]:
        assert NAMED_TEST.search(row.rpartition(" | ")[2]), row
        assert row.count(" | ") == head.count(" | "), row


@pytest.mark.parametrize(
    ("page", "heading", "first", "rows"),
    [
        ("CONFORMANCE", "The risks in SPEC-00027", 752, 10),
        ("conformance/SPEC-00027", "Success metrics", 741, 6),
        ("conformance/SPEC-00027", "Acceptance criteria", 789, 16),
        ("conformance/SESSION-END-WORKFLOW", "Testing checklist", 387, 16),
    ],
)
def test_conformance_has_each_line_of_a_list(page: str, heading: str, first: int, rows: int) -> None:
    section = text_of(CONFORMANCE.parent / f"{page}.md").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert [int(line) for line in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)] == [*range(first, first + rows)]


def lines_named(page: Path) -> set[int]:
    """Return the numbers in the first column of a page's tables, those within ranges included."""
    found = re.findall(r"(\d+)(?:-(\d+))?", " ".join(re.findall(r"^\| ([\d, -]+) \|", text_of(page), re.MULTILINE)))
    return {line for first, last in found for line in range(int(first), int(last or first) + 1)}


def test_conformance_has_each_reconstitution_error_and_reload_validation() -> None:
    assert {*range(422, 438)} <= lines_named(LINE_BY_LINE / "CONTEXT-RECONSTITUTION.md")
    assert {*range(612, 617)} <= lines_named(LINE_BY_LINE / "CONTEXT-RELOAD-PROTOCOL.md")


# What must not be there


def test_no_file_names_this_machine_or_a_package_registry() -> None:
    registries = [".".join(parts) for parts in (("pypi", "org"), ("files", "pythonhosted", "org"), ("pypi", "python"))]
    here = {str(PROJECT), os.path.realpath(PROJECT), sys.prefix}
    for path in tracked():
        content = path.read_bytes().decode("utf-8", "replace")
        for forbidden in [*registries, *here]:
            assert forbidden not in content, f"{path.relative_to(PROJECT)} names {forbidden}"


FETCHED_BY_NAME = re.compile(
    r"(?:\b(?:pip3?|pipx|uv|uv tool) (?:install|run|add|download|wheel)|\buvx)(?: +-\S+)* +"
    r"['\"]?faber[-_.]ledger(?![-_.\w]*\.(?:whl|tar\.gz)| @ )",
    re.IGNORECASE,
)


def test_no_file_teaches_to_fetch_a_name_that_is_not_ours_yet() -> None:
    """Until a release is published, anybody can take the name in a registry."""
    for path in {*tracked(), *PAGES} - {Path(__file__)}:
        found = FETCHED_BY_NAME.search(path.read_bytes().decode("utf-8", "replace"))
        assert found is None, f"{path.relative_to(PROJECT)} teaches `{found and found[0]}`"
