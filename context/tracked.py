"""Whether git tracks a file: what belongs to one machine, and yet came with a commit, decides nothing here."""

from __future__ import annotations

import os

from faber_ledger.context.git import Question, place_of


def is_tracked(path: str) -> bool | None:
    """Return whether a file is in git's index or in its last commit; None without git.

    If git does not answer, the file counts as tracked: whoever made the repository may be the reason.
    """
    folder, name = os.path.split(os.path.abspath(path))
    folder = os.path.realpath(folder)
    place = place_of(folder)  # of the file's own folder: it may lie in a submodule
    if place is None:
        return None
    inside = os.path.relpath(os.path.join(folder, name), place.top).replace(os.sep, "/")
    # Some file systems ignore case. An index may lack what the last commit has; before the first commit there is none.
    for tree in (["--with-tree=HEAD"], []):
        question = ["--no-literal-pathspecs", "ls-files", "-z", *tree, "--", f":(literal,icase){inside}"]
        listed = Question(question, place.top).answer_bytes()
        if listed is not None:
            return listed != b""
    return True
