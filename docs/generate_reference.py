"""Write docs/reference/COMMANDS.md from the commands' help: `python docs/generate_reference.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from faber_ledger.cli.app import ALIASES, app, short_help
from faber_ledger.ledger import command_errors, errors

if TYPE_CHECKING:
    from collections.abc import Iterator

REFERENCE = Path(__file__).resolve().parent / "reference" / "COMMANDS.md"
PROGRAM = "faber-ledger"
WIDTH = 80
HEAD = """\
# Commands

<!-- Written by `make generate` from the commands' own help. Do not edit. -->

Results go to standard output, everything else to standard error. `--json` prints `{"result_version": 1, "data": …}`
(`log`: one object per line), and errors as `{"error": {"code": …, "message": …, "hint": …}}`. A run may be named by an
unambiguous beginning of its id."""
CODES = """\
## Exit codes

`session-load`, `session-save`, `run start` and `reconstitute` use only the codes of the requirement documents: 0, 1,
and 2 for wrong usage; `reconstitute` also 3, if a choice is needed and there is no terminal. `hook` always exits 0,
because exit code 2 would stop a compaction. The other commands:

| exit code | meaning | `code` in `--json` |
|---|---|---|"""


def reference() -> str:
    """Return the page."""
    return "\n".join([HEAD, "", *_overview(), "", CODES, *_codes(), *_sections()]) + "\n"


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield every command and subcommand with its full name, in the order of the program's own list."""
    with click.Context(app, info_name=PROGRAM, **_form()) as root:
        yield PROGRAM, app, root
        for name in app.list_commands(root):
            command = app.get_command(root, name)
            if command is not None:
                yield from _below(name, command, root)


def _below(
    name: str, command: click.Command, parent: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    with click.Context(command, info_name=name, parent=parent, **_form()) as context:
        yield f"{context.command_path}", command, context
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                yield from _below(inner, command.commands[inner], context)


def _form() -> dict[str, object]:
    return {"terminal_width": WIDTH, "max_content_width": WIDTH, "color": False, "help_option_names": ["-h", "--help"]}


def _overview() -> Iterator[str]:
    yield "| command | what it does |"
    yield "|---|---|"
    for path, command, _ in commands():
        if command is app or path.count(" ") > 1:
            continue
        name = path.removeprefix(f"{PROGRAM} ")
        summary = short_help(name) if name in ALIASES else command.get_short_help_str(limit=WIDTH)
        yield f"| [`{name}`](#{_anchor(path)}) | {summary} |"


def _anchor(path: str) -> str:
    return path.replace(" ", "-")


def _codes() -> Iterator[str]:
    codes: dict[int, list[str]] = {}
    meanings = {0: "Done.", 1: "It failed; the message says why.", 2: "Wrong usage.", 130: "Interrupted."}
    for kind in _kinds(errors.LedgerError):
        if f"`{kind.code}`" not in codes.setdefault(kind.exit_code, []):
            codes[kind.exit_code].append(f"`{kind.code}`")
        meanings.setdefault(kind.exit_code, (kind.__doc__ or "").strip())
    for number, meaning in sorted(meanings.items()):
        yield f"| {number} | {meaning} | {', '.join(codes.get(number, []))} |"


def _kinds(kind: type[errors.LedgerError]) -> Iterator[type[errors.LedgerError]]:
    """Yield a kind of error and all that are derived from it, in the order of the two modules."""
    yield kind
    for one in kind.__subclasses__():
        if one.__module__ in (errors.__name__, command_errors.__name__):
            yield from _kinds(one)


def _sections() -> Iterator[str]:
    for path, command, context in commands():
        yield ""
        yield f"## {path}" if path.count(" ") < 2 else f"### {path}"
        yield ""
        yield "```text"
        yield from [line.rstrip() for line in command.get_help(context).splitlines()]
        yield "```"


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` exit with 1 if it is stale."""
    page = reference()
    known = REFERENCE.read_text(encoding="utf-8") if REFERENCE.exists() else ""
    if known == page:
        return 0
    if arguments == ["--check"]:
        sys.stderr.write("docs/reference/COMMANDS.md is stale: run `make generate`\n")
        return 1
    REFERENCE.write_text(page, encoding="utf-8")
    sys.stdout.write("wrote docs/reference/COMMANDS.md\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
