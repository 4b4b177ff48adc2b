"""Write docs/reference/COMMANDS.md from the commands' help: `python docs/generate_reference.py [--check]`."""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from faber_ledger.cli.app import ALIASES, SECTIONS, app
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
unambiguous beginning of its id. Tables are cut to the terminal's width, in a pipe to 100 characters or `COLUMNS`. Every
command has `-h` and `--help`; `faber-ledger --version` prints the version."""
SHARED = """\
## Options of several commands

| option | meaning |
|---|---|"""
OF_ALL = ("0 done", "2 wrong usage")  # what the head of the page says of all commands
USUAL = (  # what a text says of an exit code that the table says, too
    "10 no such run or ledger",
    "10 no such run",
    "11 locked",
    "12 newer format",
    "12 the server's schema is newer",
    "12 the server is newer than this program",
    "13 the server cannot be reached",
    "13 the server is not available",
    "14 it refuses",
    "20 the ledger is damaged",
    "130 interrupted",
)
SEVERAL = 3  # an option with one text in so many commands is explained once
CODES = """\
## Exit codes

`session-load`, `session-save`, `run start` and `reconstitute` use only the codes of the requirement documents: 0, 1,
and 2 for wrong usage; `reconstitute` also 3, if a choice is needed and there is no terminal. `hook` always exits 0,
because exit code 2 would stop a compaction. All others may end with 0 and 2, which the texts below leave out, and a
number alone has its meaning in this table:

| exit code | meaning | `code` in `--json` |
|---|---|---|"""


def reference() -> str:
    """Return the page."""
    shared = _shared()
    options = ["| `{}` | {} |".format(*[word.replace("|", "\\|") for word in one]) for one in sorted(shared)]
    return "\n".join([HEAD, "", *_overview(), "", CODES, *_codes(), "", SHARED, *options, *_sections(shared)]) + "\n"


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
    return {"terminal_width": WIDTH, "max_content_width": WIDTH, "color": False, "help_option_names": []}


def _overview() -> Iterator[str]:
    for title, section in SECTIONS.items():
        links = [f"[`{name}`](#{_anchor(f'{PROGRAM} {name}')})" for name in section]
        yield f"- {title}: {', '.join(links)}"


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


def _shared() -> set[tuple[str, str]]:
    """Return the options that several commands have with the same text; two if no other has another text for it."""
    records = [
        record
        for path, command, context in commands()
        if path.removeprefix(f"{PROGRAM} ") not in ALIASES
        for option in command.params
        if isinstance(option, click.Option) and (record := option.get_help_record(context))
    ]
    texts = Counter([names for names, _ in set(records)])
    return {one for one in records if records.count(one) >= (2 if texts[one[0]] == 1 else SEVERAL)}


def _sections(shared: set[tuple[str, str]]) -> Iterator[str]:
    known = {path.removeprefix(f"{PROGRAM} "): command for path, command, _ in commands()}
    for path, command, context in commands():
        name = path.removeprefix(f"{PROGRAM} ")
        if command is app:
            continue
        yield ""
        yield f"## {path}" if path.count(" ") < 2 else f"### {path}"
        yield ""
        if name in ALIASES:
            yield from _alias(ALIASES[name], command, known[ALIASES[name]], context)
        elif isinstance(command, click.Group):
            yield inspect.cleandoc(command.help or "")
        else:
            yield from _block(command, context, shared)


def _alias(target: str, command: click.Command, stands_for: click.Command, context: click.Context) -> Iterator[str]:
    yield f"Alias of [`{target}`](#{_anchor(f'{PROGRAM} {target}')})."
    for option in command.params:
        record = option.get_help_record(context)
        if record and option.name not in {known.name for known in stands_for.params}:
            yield f"`{record[0]}`: {record[1]}"


def _block(command: click.Command, context: click.Context, shared: set[tuple[str, str]]) -> Iterator[str]:
    """Yield a command's help; options that are explained above are only named."""
    elsewhere = [
        option
        for option in command.params
        if isinstance(option, click.Option) and option.get_help_record(context) in shared
    ]
    names = [option.opts[-1] for option in elsewhere]
    for option in elsewhere:
        option.hidden = True
    yield "```text"
    yield from [line.rstrip() for line in _without_usual_codes(command.get_help(context)).splitlines()]
    if names:
        yield from ("", f"Also: {', '.join(names)}")
    yield "```"
    for option in elsewhere:
        option.hidden = False


def _without_usual_codes(text: str) -> str:
    for usual in OF_ALL:
        words = r"\s+".join(map(re.escape, usual.split()))
        text = re.sub(rf"(?<=codes: ){words}[;.]\s*|;\s+{words}(?=[;.])", "", text)
    for usual in USUAL:
        number, _, words = usual.partition(" ")
        text = re.sub(rf"\b{number}\s+" + r"\s+".join(map(re.escape, words.split())) + r"(?=[;.])", number, text)
    return text


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
