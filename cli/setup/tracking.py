"""What git does with a run's files: the rules by which it ignores them, staging them, and what is to be committed."""

import os

from faber_ledger.cli.setup.git import IGNORE_FILE, LEDGER_PATTERNS
from faber_ledger.cli.ui.changes import display_path
from faber_ledger.files.change import FileChange
from faber_ledger.ledger.command_errors import GitFailed, GitIgnores
from faber_ledger.runs.git_command import limit_answers, run_git
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.publish import carries_refs, meant_carry
from faber_ledger.runs.run import RUNS, TREE, Run
from faber_ledger.runs.settings import project_settings

# Rules that ignore them

EXAMPLE = "example-258-20260101-000000-abc123"
GIT_SECONDS = 30.0


def files_that_travel(run: Run) -> tuple[str, ...]:
    """Return the paths of the run's files that another machine needs to resume it.

    They are none where ledgers travel in git refs. `metadata.json` may be ignored, and so may a state in FABER's folder
    of runs, as FABER proposes: a pull would set it back. A project that has chosen the tree may still ignore its states
    from the time when refs had them.
    """
    if carries_refs(run.root):
        return ()
    is_fabers = run.shown(run.directory).startswith(f"{RUNS[1]}/")
    return (run.ledger_path,) if is_fabers or meant_carry(run.root) == TREE else run.required_paths


def check_not_ignored(root: str) -> str | None:
    """Raise GitIgnores if git ignores a new run's ledger.db or state.json; return None if not.

    Returns a sentence if git cannot be asked. The error names each rule's file, line and pattern: without its ledger a
    run cannot be resumed on another machine.
    """
    runs = project_settings(root, os.environ).new_runs
    example = Run(root, EXAMPLE, os.path.join(root, *runs.split("/"), EXAMPLE))
    names = tuple([example.shown(path) for path in files_that_travel(example)])
    code, output, complaint = _ask_git(root, names)
    if "not a git repository" in complaint:
        return "this is not a git repository: nothing is tracked, and the ledger stays on this machine"
    if "symbolic link" in complaint:
        raise GitIgnores(
            f"git does not look behind a link: {complaint}",
            hint="replace the link with the folder itself, then run `faber-ledger init` again",
        )
    if code > 1:
        return f"git could not say whether it tracks the ledger: {complaint}"
    rules = rules_of(output)
    if rules:
        raise GitIgnores(
            "git ignores what must be committed: " + "; ".join(rules),
            hint=f"change the rule so that git tracks {runs}/, then run `faber-ledger init` again; nothing was written",
        )
    return None


def rules_against(root: str, paths: tuple[str, ...]) -> list[str]:
    """Return the rules by which git ignores any of the paths, one phrase each; none if git cannot be asked."""
    code, output, _ = _ask_git(root, paths)
    return rules_of(output) if code == 0 else []


def is_ignored(root: str, path: str) -> bool:
    """Return whether git ignores a file, given by its path in the project; false if git cannot be asked."""
    return bool(rules_against(root, (path,)))


def is_left_out(path: str, root: str) -> bool:
    """Return whether git ignores a file that it does not track: `git add` would fail on it."""
    return run_git("check-ignore", "--quiet", "--", path, at=root).returncode == 0


def rules_of(output: str) -> list[str]:
    """Parse `git check-ignore -v -z` into one phrase per ignored file; git prints `!` rules too, which keep a file.

    Our own rules for ledgers that travel in refs are left out: `init` changes them.
    """
    fields = output.split("\0")
    found = zip(fields[0::4], fields[1::4], fields[2::4], fields[3::4], strict=False)
    return [
        f"{_display_name(path)} (rule `{pattern}`, line {line} of {source})"
        for source, line, pattern, path in found
        if not pattern.startswith("!") and (pattern not in LEDGER_PATTERNS or not source.endswith(IGNORE_FILE))
    ]


def _display_name(path: str) -> str:
    """Return a file's name for display; the run of the example paths does not exist."""
    folder, _, name = path.rpartition("/")
    return f"a run's {name}, in {folder.removesuffix(EXAMPLE)}" if folder.endswith(f"/{EXAMPLE}") else path


def _ask_git(root: str, paths: tuple[str, ...]) -> tuple[int, str, str]:
    """Ask git for the rules that ignore the paths, tracked or not; return its exit code, output and first complaint."""
    options = ("-v", "-z", "--no-index", "--stdin")
    content = "\0".join(paths).encode("utf-8", "surrogateescape")
    try:
        with limit_answers(GIT_SECONDS):
            answer = run_git("check-ignore", *options, at=root, content=content)
    except GitFailed as error:
        return 2, "", error.message
    complaint = answer.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
    return answer.returncode, answer.stdout.decode("utf-8", "replace"), complaint.removeprefix("fatal: ")


# What to commit


def names_to_commit(changes: list[FileChange], root: str, untracked: str = "all") -> list[str]:
    """Return the paths in the project that git has to commit now: not hooks of git, nor files of the user's own.

    Files that git does not track are among them unless `untracked` is "no".
    """
    names = [display_path(change.path, root) for change in changes if not change.executable]
    inside = [name for name in names if not os.path.isabs(name)]
    asked = ["status", "--porcelain", "-z", "--no-renames", f"--untracked-files={untracked}", "--", *inside]
    found = tuple(((GitQuery(asked, root).answer() if inside else None) or "").split("\0"))
    return [name for name in inside if any([entry.endswith(name) for entry in found])]
