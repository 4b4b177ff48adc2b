"""Which run is active in a work tree: the one that hooks record on (DECISIONS 2 and 37 c).

`active_run` alone decides it. A command may choose another unfinished run for itself (`cli/ui/which_run.py`); that
makes none active.

Three names say which run is meant: two active files, which are committed, and this work tree's claim, which no commit
carries. A name is either a word of this work tree, because a tool or a command wrote it here, or git's word. A word of
this work tree holds over git's, the newer over the older, and a run that is at work over one that is not. After the
active files were put back before a merge (`put_back.py`), the claim holds until a later word of this work tree.
"""

from __future__ import annotations

import os

from faber_ledger.ledger.errors import InvalidRunId, LedgerError, RunNotFound, StateInvalid, StateMissing
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.active_file import claim_run, read_active_files, read_claim, read_put_back
from faber_ledger.runs.git import GitQuery, is_tracked, other_roots, work_tree_of
from faber_ledger.runs.run import ACTIVE_FILES, find_run, is_run_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.runs.active_file import Name
    from faber_ledger.runs.run import Run


MISSING = "missing"  # no status: neither the work tree nor the mirror has the run


class Word:
    """A name that may say which run is active. `file` is the active file; None for the claim.

    `run_id` is the run's id, which a name need not be: it may be the run's path. `at` is the word's age: its file's, or
    that of the checkout that brought it or of the commit that a rebase has written again, which `is_own` finds out.
    """

    def __init__(self, root: str, name: Name) -> None:
        self.run_id = _run_id_of(root, name.run_id)
        self.at = name.at
        self.file = name.file
        self._root = root
        self._name = name.run_id
        self._is_own = True if name.file is None else None
        self._status: object = None
        self._is_status_known = False

    def is_own(self) -> bool:
        """Return whether it is a word of this work tree; asks git once where that is not known yet.

        A checkout of the run's own branch makes it one if the run was used in this clone: the user went back to it.
        """
        if self._is_own is None:
            from faber_ledger.runs import reflog  # asks git; rarely needed

            origin, latest = reflog.find_origin(self._root, self.file or "", self._name)
            is_checkout = origin in (reflog.RETURNED, reflog.CHECKED_OUT)
            if is_checkout or origin == reflog.WRITTEN:
                self.at = min(self.at, latest)
            was_started_here = origin == reflog.RETURNED
            self._is_own = origin == reflog.WRITTEN or (is_checkout and self._is_back_on_its_branch(was_started_here))
        return self._is_own

    def belongs_here(self) -> bool:
        """Return whether the run belongs to this clone: it was used or written here, or its branch is checked out."""
        from faber_ledger.runs.belonging import belongs_here  # not for the run that is claimed

        return belongs_here(self._root, self.run_id) or self.is_own()

    def _is_back_on_its_branch(self, was_started_here: bool) -> bool:
        from faber_ledger.runs.belonging import is_own_branch, was_used_here

        was_used = was_started_here or was_used_here(self._root, self.run_id)
        return was_used and is_own_branch(self._root, self.run_id)

    @property
    def status(self) -> object:
        """The run's status; `MISSING` if there is no such run, None if its state cannot be read."""
        if not self._is_status_known:
            self._status, self._is_status_known = _status(self._root, self.run_id), True
        return self._status


class ActiveRun:
    """Which run is active in a work tree, and why.

    `run_id` is None if no run is active; `reason_none` then says why, or is empty if there is no active file. A run
    that `is_shown` is a colleague's, which git brought: it is named to user and agent, and nothing is recorded on it.
    `is_put_back`: it goes on by its claim, since its active file was put back before a merge.
    """

    def __init__(
        self,
        root: str,
        words: list[Word],
        word: Word | None,
        *,
        is_shown: bool | None = False,
        is_put_back: bool = False,
        reason_none: str = "",
    ) -> None:
        """Take all the `words` that were read, and the one that holds."""
        self.run_id = word.run_id if word is not None else None
        self.file = word.file if word is not None else None
        self.is_put_back = is_put_back
        self.reason_none = reason_none
        self._root = root
        self._words = words
        self._word = word
        self._is_shown = is_shown

    @property
    def is_shown(self) -> bool:
        """Whether the run is shown, not used; logs are read for it where nothing cheaper decides."""
        if self._is_shown is None:
            self._is_shown = self._word is not None and not self._word.belongs_here()
        return self._is_shown

    @property
    def is_claimed(self) -> bool:
        """Whether this work tree's claim names the run."""
        return any([word.file is None and word.run_id == self.run_id for word in self._words])

    @property
    def is_worked_on(self) -> bool:
        """Whether the run is this work tree's own work, which another run would replace.

        It is not if the run is shown, or if this is a linked work tree in which nothing was ever recorded on it. A run
        that the main work tree has pulled on its own branch is resumed there (SPEC, Example 2).
        """
        if self.run_id is None or self.is_shown:
            return False
        tree = work_tree_of(self._root)
        return tree is None or not tree.is_linked or self.is_claimed or _was_recorded(self._root, self.run_id)

    @property
    def status(self) -> object:
        """The run's status; `MISSING` if neither work tree nor mirror has the run, None if its state cannot be read."""
        return self._word.status if self._word is not None else None

    @property
    def shown_line(self) -> str:
        """The line for user and agent about a run that is shown, not used."""
        return shown_line(self.run_id or "")

    def why(self) -> str:
        """Return why the run is the active one, as half a sentence."""
        files = [word.file for word in self._words if word.run_id == self.run_id and word.file is not None]
        if self._word is None:
            return self.reason_none or "no active file names one"
        if self._word.file is None:
            also = "; the active file is put back for the merge" if self.is_put_back else ""
            return "claimed in this work tree" + (f", and named in {files[0]}" if files else also)
        return f"named in {self._word.file}, which " + ("was written here" if self._word.is_own() else "git brought")

    def find_problem(self) -> LedgerError | None:
        """Return why the run that is named cannot be used; None if work tree or mirror has it, or none is named."""
        if self._word is None:
            return None
        file = self._word.file or "the claim of this work tree"
        try:
            is_missing = not find_run(self._root, self._word.run_id).is_recorded() and self._word.status == MISSING
        except InvalidRunId as error:
            return InvalidRunId(f"{file}: {error.message}", hint=error.hint)
        hint = "get it with `git pull`, or make another one active with `faber-ledger run resume RUN`"
        return RunNotFound(f"{file} names {self.run_id}, which is not here", hint=hint) if is_missing else None

    def explain(self) -> list[str]:
        """Return a line on each other run at work that is named here, and why it is not the active one."""
        lines = [f"the active file is put back for the merge; {self.run_id} stays active here"] * self.is_put_back
        for word in self._words:
            if word.run_id == self.run_id or word.status not in progress.ACTIVE:
                continue
            if self.is_put_back and not word.is_own():
                continue
            kept = f"{self.run_id}, which is claimed here, stays active"
            if word.file is None:
                why = f"{word.run_id} is claimed here, and {self.run_id} was named here later"
            elif word.is_own():
                why = f"{word.file} names {word.run_id}, and {self.run_id} was named here later"
            else:
                why = f"git brought an active file that names {word.run_id}; {kept}"
            lines.append(f"{why} - `faber-ledger run resume {word.run_id}` makes the other one active")
        return list(dict.fromkeys(lines))

    def named_since(self, moment: float, run_id: str) -> str | None:
        """Return the other run than `run_id` that this work tree has named last after a moment (seconds since 1970)."""
        others = [word for word in self._words if word.run_id != run_id and word.at > moment]
        own = [word for word in others if word.status != MISSING and word.is_own()]
        newest = max([word for word in own if word.at > moment], key=lambda word: word.at, default=None)
        return newest.run_id if newest is not None else None


def active_run(root: str) -> ActiveRun:
    """Return which run is active in a project's work tree."""
    return _decide(root, is_alone=False)


def _decide(root: str, *, is_alone: bool) -> ActiveRun:
    """Return the active run; if `is_alone`, whatever the clone's other work trees are working on."""
    claim = read_claim(root)
    names, problems = read_active_files(root, claim)
    if not names:
        return _decide_without_file(root, claim, "; ".join(problems))
    words = [Word(root, name) for name in ([*names, claim] if claim is not None else names)]
    if claim is not None:
        claimed = ActiveRun(root, words, words[-1])
        if all([name.run_id == claim.run_id for name in names]):
            return claimed
        note = read_put_back(root)
        is_put_back = note is not None and note.run_id == claim.run_id and claimed.status != MISSING
        if note is not None and is_put_back and claimed.named_since(note.at, claim.run_id) is None:
            return ActiveRun(root, words, words[-1], is_put_back=True)
    candidates, reason = list(words), ""
    while True:
        word = _choose(candidates)
        if word is None:
            return ActiveRun(root, words, None, reason_none=reason)
        if claim is not None and word.run_id == claim.run_id:
            return ActiveRun(root, words, word)
        is_free = is_alone or not other_roots(root) or word.is_own()  # what is cheap to know comes first
        holder = None if is_free else claimed_in_worktree(root, word.run_id)
        if holder is None:
            return ActiveRun(root, words, word, is_shown=None)
        where = f"and {word.run_id} is active in {holder}; `faber-ledger run resume {word.run_id}` makes it active here"
        reason = f"the active file came with the commit, {where}"
        candidates = [one for one in candidates if one.run_id != word.run_id]


def _choose(words: list[Word]) -> Word | None:
    """Return the word that holds, by the rules above; None if there is none."""
    if len({word.run_id for word in words}) < 2:
        return next((word for word in words if word.file is None), max(words, key=lambda word: word.at, default=None))
    there = [word for word in words if word.status != MISSING]
    at_work = [word for word in there if word.status in progress.ACTIVE]
    group = sorted(at_work or there or words, key=lambda word: word.at, reverse=True)
    if len({word.run_id for word in group}) == 1:
        return next((word for word in group if word.file is None), group[0])
    if not there:  # the claim names no file that could be corrected
        return next((word for word in words if word.file is not None), group[0])
    # One commit may carry two names, which a rebase writes again: then the claim says which is the newer.
    claimed = {word.run_id for word in words if word.file is None}
    own = [word for word in group if word.is_own()]
    return max(own, key=lambda word: (word.at, word.run_id in claimed), default=group[0])


def _decide_without_file(root: str, claim: Name | None, reason: str) -> ActiveRun:
    """Return the claimed run if a put-back removed the active file, or if git took it away together with the run.

    A put-back of another clone comes with a pull or a merge. Where git took the file, the index lacks it, or a sparse
    checkout leaves it out. The run's own files may be there nevertheless: those with changes, which a sparse checkout
    leaves, or those in conflict, as where its change is picked to a branch that lacks it.
    """
    none = ActiveRun(root, [], None, reason_none=reason)
    if claim is None:
        return none
    word = Word(root, claim)
    note = read_put_back(root)
    if note is not None and note.run_id == claim.run_id:
        return ActiveRun(root, [word], word, is_put_back=True)
    if not is_run_id(word.run_id):
        return none
    run = find_run(root, word.run_id)
    if not run.is_recorded() and _kept_run(root, word.run_id) is None:
        return none
    listed = GitQuery(["ls-files", "-t", "--", *ACTIVE_FILES], root).answer()
    if listed is None or any([not line.startswith("S ") for line in listed.splitlines()]):
        return none
    if listed or not run.is_recorded() or _is_in_conflict(run):
        return ActiveRun(root, [word], word)
    from faber_ledger.runs import reflog  # asks git; rarely needed

    is_put_back = any([reflog.was_taken_away(root, file, claim.run_id) for file in ACTIVE_FILES])
    return ActiveRun(root, [word], word, is_put_back=True) if is_put_back else none


def _kept_run(root: str, run_id: str) -> Run | None:
    from faber_ledger.runs.kept import kept_run  # only where the work tree lacks a run

    return kept_run(root, run_id)


def _is_in_conflict(run: Run) -> bool:
    paths = [run.shown(path) for path in run.required_paths]
    return bool(GitQuery(["ls-files", "-u", "--", *paths], run.root).answer_bytes())


def shown_line(run_id: str) -> str:
    """Return the line for user and agent about a run that is shown, not used."""
    what = f"the FABER run {run_id} came with git and was never used in this clone, so nothing is recorded on it"
    return f"{what}; `faber-ledger run resume {run_id}` makes it active here" if is_run_id(run_id) else what


def other_active_run(root: str, run_id: str) -> tuple[str, str | None] | None:
    """Return the run other than `run_id` that this work tree is working on, and its status.

    The status is `MISSING` if no such run is here, None if its state cannot be read.
    """
    active = active_run(root)
    if active.run_id is None or active.run_id == run_id or not active.is_worked_on:
        return None
    return active.run_id, active.status if isinstance(active.status, str) else None


def claim_if_active(root: str, active: ActiveRun, run_id: str, warn: Callable[[str], None]) -> None:
    """Claim a run if it is the active one, so that an active file that git brings does not switch it."""
    if active.run_id == run_id and not active.is_claimed:
        try:
            claim_run(root, run_id)
        except LedgerError as error:  # what happened on the run is in its ledger
            warn(f"{error.message} - {error.hint}")


def theirs_is_claimed_here(root: str, ours: str, theirs: str) -> bool:
    """Return whether, of the two sides of an active file in a merge, `theirs` is the run of this work tree.

    When a stash is applied, and in a rebase, git calls "ours" the side that came. Without a claim, the run of this work
    tree is the one on which something was recorded here.
    """
    claim = read_claim(root)
    if claim is not None and claim.run_id in (ours, theirs):
        return claim.run_id == theirs
    return _was_recorded(root, theirs) and not _was_recorded(root, ours)


# Other work trees of the clone


def claimed_in_worktree(root: str, run_id: str) -> str | None:
    """Return the project's root in another work tree that is working on the run, if this one is not; else None.

    Another work tree is working on a run if it has the run's state or ledger, and the run is active there and claimed;
    in the main one, if something was recorded on it. Two kinds of run count as the main work tree's own, and None is
    returned there: a run that was recorded in it while it has no claim, and a run that is finished in its copy.
    """
    tree, others = work_tree_of(root), other_roots(root)
    claim = read_claim(root) if others else None
    if tree is None or not others or (claim is not None and claim.run_id == run_id):
        return None
    if not tree.is_linked:
        is_mine = claim is None and _was_recorded(root, run_id)
        if is_mine or _status(root, run_id) in progress.FINISHED:
            return None
    return next((other for other in others if _is_claimed(other, run_id)), None)


def check_not_claimed_elsewhere(root: str, run_id: str, command: str) -> None:
    """Raise LedgerError if another work tree is working on a run: the copy here is what a merge brought.

    `command` is what the hint says to run in the other work tree.
    """
    elsewhere = claimed_in_worktree(root, run_id)
    if elsewhere is not None:
        from faber_ledger.files.text import quote_word  # only for the hint

        hint = f"run `cd {quote_word(elsewhere)} && faber-ledger {command}`"
        raise LedgerError(f"the run {run_id} is active in {elsewhere}", hint=hint)


def _is_claimed(root: str, run_id: str) -> bool:
    """Return whether a work tree is working on a run; one that lacks the run's files is not."""
    tree = work_tree_of(root)
    if not is_run_id(run_id) or not find_run(root, run_id).is_recorded():
        return False
    active = _decide(root, is_alone=True)
    if tree is None or active.run_id != run_id:
        return False
    return active.is_claimed or (not tree.is_linked and _was_recorded(root, run_id))


def _was_recorded(root: str, run_id: str) -> bool:
    """Return whether something was recorded on the run in this work tree: that makes its lock file.

    A lock file that git tracks came with a commit and proves nothing.
    """
    try:
        path = find_run(root, run_id).lock_path
    except InvalidRunId:
        return False
    return os.path.exists(path) and is_tracked(path) is not True


def _run_id_of(root: str, name: str) -> str:
    """Return the id of the run that a name means: the name itself, or another if it is the run's path."""
    try:
        return find_run(root, name).run_id if "/" in name or "-run-" in name else name
    except InvalidRunId:
        return name


def _status(root: str, run_id: str) -> object:
    """Return a run's status, or `MISSING`; from a backup if its state is broken at the moment, as by a stopped merge.

    For a run that only this clone's mirror has, the copy of its state beside the mirror says it.
    """
    try:
        run = find_run(root, run_id)
    except InvalidRunId:
        return MISSING
    here = run if run.is_recorded() else _kept_run(root, run.run_id)
    if here is None:
        return MISSING
    if here.is_kept:
        from faber_ledger.runs.left_state import bring_copy_up_to_date  # only where git took the run away

        bring_copy_up_to_date(run)
    try:
        return state_file.look_at_state(here, state_file.LARGEST_TO_ASK).value.get("status")
    except (StateInvalid, StateMissing):
        backup = state_file.read_backup(here, state_file.LARGEST_TO_ASK)
        return backup[1].value.get("status") if backup else None
    except LedgerError:
        return None
