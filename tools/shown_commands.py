"""Run the commands that the pages show, each page's in one shell, in order, in an empty folder.

A ```console block shows commands, each after `$ `, with what they print. A ```sh setup block is a script that a reader
can paste; it prints nothing. `python tools/shown_commands.py [PAGE…]` writes what the commands print now into pages.
Where a word follows `console`, the block is run on the machine of that name, by tests/postgres/test_guide.py, which
starts the server that these machines share.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parent.parent
PAGES = sorted([PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")])
HOME = "/home/dev"  # shown in place of the folder in which the commands run
BLOCK = re.compile(r"^```(console(?: \w+)?|sh setup)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MASKS = [
    (re.compile(r"\b\d{8}-\d{6}-[a-z0-9]{6}\b"), "<stamp>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r"\b\d{8}T\d{6}Z"), "<stamp>"),
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "<id>"),
    (re.compile(r"((?:\d+  |^)<time>  \w+ +)[a-z0-9]{6}  ", re.MULTILINE), r"\1<six>  "),
    (re.compile(r"^[a-z0-9]{6}  ", re.MULTILINE), "<six>  "),
    (re.compile(r"without those of [a-z0-9]{6},"), "without those of <six>,"),
    (re.compile(r"\bopen {2,}"), "open  "),  # its column is as wide as the longest number of seconds
    (re.compile(r"^session +machine +.*$", re.MULTILINE), "<the table's head>"),
    (re.compile(r"\b(unknown|over \d+ seconds?) +(?=abandoned)"), "<seconds>"),  # heard of within one, or not
    (re.compile(r"\b\d+ seconds?\b *"), "<seconds>"),  # with the padding of its column
    (re.compile(r"\b\d+ bytes\b|\b\d+\.\d KB\b"), "<size>"),  # a state contains the name of its folder
    (re.compile(r"\b(\d+ minutes? ago|just now)\b"), "<minutes> ago"),
    (re.compile(r"\b(linux|darwin)\b"), "<platform>"),
    # Git has 0.3 s to say it.
    (re.compile(r"checked out at the end(, with uncommitted changes)?"), "checked out at the end"),
    (re.compile(r"\b[0-9a-f]{7,64}\b"), "<hex>"),
    (re.compile(r"…$", re.MULTILINE), "<cut>"),
]


class Shown(NamedTuple):
    """A command of a page, and its output according to the page; and the machine, where the page has several."""

    command: str
    output: str
    machine: str = ""


def shown_in(page: str) -> list[Shown]:
    """Return the commands of a page, in order; a set-up script counts as one command."""
    found = []
    for block in BLOCK.finditer(page):
        if block[1] == "sh setup":
            found.append(Shown(block[2].rstrip("\n"), ""))
            continue
        for part in re.split(r"^\$ ", block[2], flags=re.MULTILINE)[1:]:
            lines = part.splitlines(keepends=True)
            count = 1
            while count < len(lines) and lines[count].startswith("> "):
                count += 1
            command = lines[0] + "".join([line[2:] for line in lines[1:count]])
            machine = block[1].partition(" ")[2]
            found.append(Shown(command.rstrip("\n"), "".join(lines[count:]), machine))
    return found


INSTALLED = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # a PATH with the program


def environment_of(home: Path, machine: str, path: str = INSTALLED) -> dict[str, str]:
    """Return the variables of a shell on a machine; the caller's client, git settings and home do not reach it."""
    foreign = ("CLAUDE", "GIT_", "FABER", "PG", "OLDPWD")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | {
        "PATH": path,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "FABER_LEDGER_HOSTNAME": machine,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "Dev",
        "GIT_AUTHOR_EMAIL": "dev@example.org",
        "GIT_COMMITTER_NAME": "Dev",
        "GIT_COMMITTER_EMAIL": "dev@example.org",
        "PYTHONUTF8": "1",
    }


def printed_by(commands: list[str], folder: Path, path: str = INSTALLED) -> list[str]:
    """Run commands in one shell in `folder`; return what each prints, standard error included."""
    end = "---- end of a command ----"
    script = "".join([f"{command}\nprintf '%s\\n' '{end}'\n" for command in commands])
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment_of(folder, "laptop", path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    real = {str(folder): HOME, os.path.realpath(folder): HOME}
    text = ran.stdout.decode()
    for path, stands_for in sorted(real.items(), key=lambda item: -len(item[0])):
        text = text.replace(path, stands_for)
    return text.split(f"{end}\n")[:-1]


def masked(output: str) -> str:
    """Replace ids, times and everything else that differs from run to run."""
    for pattern, word in MASKS:
        output = pattern.sub(word, output)
    return output


def renew(page: str, outputs: list[str]) -> str:
    """Return the page with these outputs, or unchanged if only ids and times differ."""
    found = shown_in(page)
    rest = list(zip(found, outputs, strict=True))

    def block(match: re.Match[str]) -> str:
        if match[1] == "sh setup":
            rest.pop(0)
            return match[0]
        parts = []
        for _ in re.findall(r"^\$ ", match[2], flags=re.MULTILINE):
            shown, output = rest.pop(0)
            command = shown.command.replace("\n", "\n> ")
            parts.append(f"$ {command}\n{output}")
        return f"```{match[1]}\n{''.join(parts)}```"

    same = [masked(shown.output) == masked(output) for shown, output in rest]
    return page if all(same) else BLOCK.sub(block, page)


def main() -> int:
    """Write what the commands print now into the pages that are named, or into all."""
    for path in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        page = path.read_text(encoding="utf-8")
        found = shown_in(page)
        if not found or any([shown.machine for shown in found]):
            continue
        commands = [shown.command for shown in found]
        folder = Path(tempfile.mkdtemp())
        try:
            text = renew(page, printed_by(commands, folder))
        finally:
            shutil.rmtree(folder)
        if text != page:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"renewed {path.relative_to(PROJECT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
