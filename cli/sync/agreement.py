"""How this clone's ledgers travel: what `init --carry` asks, agrees to and switches (DECISIONS 57)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from faber_ledger.cli.sync.arrival import bring_runs, list_of_work, list_remote_runs, remote_of, required_remote
from faber_ledger.cli.sync.refs import digest_of_url, read_settings
from faber_ledger.cli.ui.texts import START_ONE
from faber_ledger.cli.ui.words import plural
from faber_ledger.files.text import one_line
from faber_ledger.ledger import disk
from faber_ledger.ledger.command_errors import GitFailed, ServerUnavailable
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import UNREADABLE
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.log import Log
from faber_ledger.recording.secrets.mask import mask_tokens
from faber_ledger.runs.active import is_finished
from faber_ledger.runs.carry import Consent, consent_of, sender_of, start_sending, withdraw_consent
from faber_ledger.runs.clone import lock_run, make_below, note_use
from faber_ledger.runs.git import branch_of, is_safe, is_tracked
from faber_ledger.runs.git_command import git, limit_answers
from faber_ledger.runs.kept import kept_run_ids, run_here, run_ids_here
from faber_ledger.runs.layouts import find_runs, run_ids
from faber_ledger.runs.log import has_log, open_run_log
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.publish import assume_carry, carries_refs, meant_carry, publish, why_not_published
from faber_ledger.runs.run import PROJECT_FILE, REFS, TREE, Run, clone_folder, common_directory

WHO_READS = (
    "A run's ledger can be sent in a git ref of its own to {there}: at each session's end, also after a merge, and no"
    " file of faber-ledger is in your commits. Everybody who can read that repository can then read what is recorded:"
    " sessions, what was loaded, notes and summaries, with known secrets masked."
)
SEND = "Send the ledgers of this clone to {remote}, and fetch them from there?"

SECONDS_TO_ASK = 5.0


def choose_remote(root: str, named: str | None) -> str:
    """Return the remote that is named, else the agreed one, `origin`, or the only one; raises LedgerError."""
    remotes, consent = os.fsdecode(git("remote", at=root)).split(), consent_of(root)
    likely = "origin" if "origin" in remotes else remotes[0] if len(remotes) == 1 else None
    found = named or (consent.remote if consent is not None else likely)
    if found is None:
        what = f"this repository has {len(remotes)} remotes" if remotes else "this repository has no remote"
        raise LedgerError(what, hint="name one with `--remote NAME`; `git remote add` makes one")
    if found not in remotes or not is_safe(found):
        raise LedgerError(
            f"{found!r:.80} is not a remote that can be used",
            hint="name one that `git remote` prints with `--remote NAME`",
        )
    return found


class CarryPlan(NamedTuple):
    """What `init` changes of how ledgers travel: `mode`, None for nothing; with git refs the remote, and who sends.

    `leaves_refs` says that this clone's ledgers travelled in git refs, and will travel in the tree.
    """

    mode: str | None
    remote: str = ""
    is_automatic: bool = True
    leaves_refs: bool = False


def plan_carry(root: str, asked: str | None, remote: str | None, auto_send: bool | None) -> CarryPlan:
    """Return what `init` changes of how ledgers travel; `asked` is the user's choice. Raises LedgerError.

    What the options leave open stays as this clone has agreed. The rest of this process goes on as if it was changed.
    """
    if asked is None:
        return CarryPlan(None)
    consent = consent_of(root)
    agreed = consent.is_automatic if consent is not None else True
    remote = choose_remote(root, remote) if asked == REFS else ""
    leaves_refs = asked == TREE and (consent is not None or carries_refs(root))
    assume_carry(root, asked)
    return CarryPlan(asked, remote, agreed if auto_send is None else auto_send, leaves_refs)


def is_sent_automatically(root: str, plan: CarryPlan) -> bool:
    """Return whether this clone's hooks start the sending of ledgers once the plan is carried out."""
    consent = sender_of(root)
    return plan.is_automatic if plan.mode == REFS else consent is not None and consent.is_automatic


def remote_to_offer(root: str) -> str | None:
    """Return the remote to which ledgers could be sent; None where that is decided, or there is none.

    A project whose settings are committed has decided.
    """
    is_decided = meant_carry(root) == TREE or consent_of(root) is not None or is_tracked(f"{root}/{PROJECT_FILE}")
    if is_decided or common_directory(root) is None:
        return None
    try:
        return choose_remote(root, None)
    except LedgerError:
        return None


def carry_out(root: str, plan: CarryPlan, warn: Callable[[str], None]) -> list[str]:
    """Switch how ledgers travel, once the project's files say so, and return what was done, as notes."""
    if plan.mode == REFS:
        there = _agree(root, plan)
        count = _leave_the_tree(root, warn)
        how = "sending begins now, in the background, and each session's end is sent"
        if not start_sending(root):
            how = "each session's end is sent there" if plan.is_automatic else "`faber-ledger sync` sends them"
        notes = [f"this clone sends its ledgers to {there}, where everybody who reads it can read them; {how}"]
        if count:
            notes.append(
                f"{plural(count, 'ledger.db', 'ledger.db files')} left the work tree for the log: commit what git shows"
            )
        return notes
    if plan.mode == TREE:
        withdraw_consent(root)
        count = _return_to_the_tree(root, warn) if plan.leaves_refs else 0
        written = f"{plural(count, 'ledger.db', 'ledger.db files')} written: `git add .fractary`, and commit"
        return [written] if count else []
    return list(_choice_notes(root))


def _choice_notes(root: str) -> Iterator[str]:
    """Yield what a clone could choose of how its ledgers travel, where nobody was asked."""
    consent, remote = consent_of(root), remote_to_offer(root)
    if meant_carry(root) == REFS and consent is None:
        yield (
            "this project's ledgers travel in git refs: `faber-ledger init --carry refs` lets this clone send and fetch"
            " them; everybody who can read the remote can read them"
        )
    elif remote is not None:
        yield (
            f"ledgers travel in commits; `faber-ledger init --carry refs` sends them to {remote} in git refs instead"
        )


def describe_sending(root: str) -> str:
    """Return when a new run's ledger is sent, where ledgers travel in git refs."""
    consent = consent_of(root)
    if consent is None:
        return "`faber-ledger init --carry refs` sends it"
    return f"sent to {consent.remote} at each session's end" if consent.is_automatic else "`faber-ledger sync` sends it"


def fetch_here(root: str, say: Callable[[str], None]) -> list[str]:
    """Bring the runs at work whose branch is checked out, and return what came, as notes; raises ServerUnavailable."""
    remote, branch = required_remote(root), branch_of(root)
    try:
        found = [one for one in list_remote_runs(remote, root) if one.branch == branch and one.status not in FINISHED]
        runs = bring_runs(remote, root, found, say)
    except GitFailed as error:
        raise ServerUnavailable(f"{remote.name} does not answer: {error.message}", hint=error.hint) from error
    for run in runs:
        note_use(root, run.run_id, is_taken_up=True)  # who fetches it by name of its branch goes on with it
    if not runs:
        return [f"{remote.name} has no run at work on this branch: `faber-ledger run list --remote` shows all"]
    return [f"fetched from {remote.name}: {', '.join([run.run_id for run in runs])}"]


def hint_at_remote(root: str) -> str | None:
    """Return, in words, what a clone without any run can bring from its remote; None if it has no remote to ask.

    The remote is asked twice, and has half of `SECONDS_TO_ASK` each time.
    """
    remote = remote_of(root, is_quiet=True)
    if remote is None or run_ids(root) or any(kept_run_ids(root)):
        return None
    try:
        with limit_answers(SECONDS_TO_ASK / 2):
            found, branch = list_remote_runs(remote, root), branch_of(root)
    except GitFailed as error:
        return f"this clone has no run, and {remote.name} could not be asked: {error.message}"
    if not found:
        return f"this clone has no run, and {remote.name} has none: {START_ONE}"
    here = [one.run_id for one in found if one.branch == branch and one.status not in FINISHED]
    there = f"this clone has no run; {remote.name} has {len(found)}"
    if not here:
        return (
            f"{there}, none of which is at work on this branch: `faber-ledger run list --remote` shows them, and"
            " `faber-ledger run resume RUN` brings one"
        )
    return (
        f"{there}, {len(here)} of which {'is' if len(here) == 1 else 'are'} at work on this branch:"
        f" `faber-ledger run resume {here[0] if len(here) == 1 else 'RUN'}` or `faber-ledger init --fetch`"
    )


def find_work_at_remote(root: str, work_id: str, warn: Callable[[str], None]) -> str | None:
    """Return the run of a work item at the remote, the newest at work, else the newest; None if there is none.

    None, too, if this clone has not agreed to git refs, or the remote does not answer, which is a warning.
    """
    remote = remote_of(root)
    try:
        listed = list_remote_runs(remote, root) if remote is not None else []
    except GitFailed as error:
        warn(f"the remote could not be asked: {error.message}")
        return None
    found = list_of_work(listed, work_id)
    return found[0].run_id if found else None


def newest_of_work(root: str, named: str, work_id: str, warn: Callable[[str], None]) -> str:
    """Return the run of a work item that only the remote has, if the one here is finished; else name it."""
    there = find_work_at_remote(root, work_id, warn)
    if there is None or there in run_ids_here(root):
        return named
    chosen, other = (there, named) if is_finished(run_here(root, named)) else (named, there)
    warn(f"note: {chosen} is meant; the work item {work_id} also has {other}")
    return chosen


def _agree(root: str, plan: CarryPlan) -> str:
    """Keep this clone's consent below the git directory, and return where it sends; raises OSError."""
    make_below(root, clone_folder(root) or root)
    consent = Consent(root)
    consent.remote, consent.is_automatic = plan.remote, plan.is_automatic
    settings = read_settings(root)
    consent.url = digest_of_url(settings, plan.remote)
    consent.save(durable=True)
    return where_it_pushes(root, plan.remote or "")


def where_it_pushes(root: str, name: str) -> str:
    """Return the name of a remote, with its push URLs if they are others."""
    urls, pushed = [
        git("remote", "get-url", "--all", *more, "--", name, at=root).decode("utf-8", "replace").splitlines()
        for more in ((), ("--push",))
    ]
    there = " and ".join([mask_tokens(one_line(url)) for url in pushed])
    return name if urls == pushed else f"{name}, that is to its push URL {there}"


def _leave_the_tree(root: str, warn: Callable[[str], None]) -> int:
    """Take the work tree's ledgers into the logs and remove them here and from git's index; return how many.

    One that the log cannot take whole stays.
    """
    taken = [run for run in find_runs(root) if os.path.isfile(run.ledger_path) and take_whole(run, warn)]
    if taken:
        names = "\0".join([run.ledger_path for run in taken])
        remove = ("rm", "--cached", "--force", "--quiet", "--ignore-unmatch")
        given = ("--pathspec-from-file=-", "--pathspec-file-nul")
        git("--literal-pathspecs", *remove, *given, at=root, content=os.fsencode(names))
        for run in taken:
            disk.remove(run.ledger_path)
    return len(taken)


def take_whole(run: Run, warn: Callable[[str], None]) -> bool:
    """Take a work tree's file into the log, and return whether that has each of its events now; else warn why."""
    try:
        with lock_run(run), open_run_log(run, warn) as opened:
            if opened.note.heads == opened.log.heads_text() or _has_all_of(run.ledger_path, opened.log):
                return True
        warn(f"{run.shown(run.ledger_path)} stays: the log lacks something of it, as `faber-ledger verify` says")
    except (LedgerError, OSError, *UNREADABLE) as error:
        why = error.message if isinstance(error, LedgerError) else error
        warn(f"{run.shown(run.ledger_path)} stays: {why}")
    return False


def _has_all_of(path: str, log: Log) -> bool:
    """Return whether a log has every event of a file, which may be older than the log; raises as `open_untrusted`."""
    question = "SELECT id, hash FROM event"
    with open_untrusted(path) as offered:
        return {*offered.connection.execute(question)} <= {*log.connection.execute(question)}


def _return_to_the_tree(root: str, warn: Callable[[str], None]) -> int:
    """Write the logs of the work tree's runs into it, on whatever branch it is, and return how many were written.

    A file that is barred, as another run's, stays.
    """
    count = 0
    for run in filter(has_log, find_runs(root)):
        try:
            with lock_run(run), open_run_log(run, warn) as opened:
                why, before = why_not_published(run, None, opened.note, on_purpose=True), opened.note.shape
                if why is not None:
                    warn(f"{run.shown(run.ledger_path)} stays: {why}")
                    continue
                publish(run, opened, warn)
                opened.note.save()
                count += opened.note.shape != before
        except LedgerError as error:
            warn(f"{run.run_id}: {error.message}")
    return count
