"""Load a run's specification (RECON, 0.2 Load Specification)."""

from __future__ import annotations

from faber_ledger.context.artifact import ArtifactError, parse_artifact
from faber_ledger.context.artifact_source import find_file
from faber_ledger.context.markdown import bold_lines, front_matter, title_of, wanted_sections
from faber_ledger.context.reconstitution.journal import text_or_na
from faber_ledger.files.untrusted import FileRefused, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.context.artifact import Surroundings
    from faber_ledger.context.reconstitution.journal import Journal


MAX_BYTES = 1024 * 1024
NOTHING = "ℹ No specification found (may not be created yet)"
OPTIONS = ["Skip spec loading and continue", "Regenerate specification", "Abort workflow"]


def load_specification(surroundings: Surroundings, spec_path: object, journal: Journal) -> dict[str, Any] | None:
    """Return the specification that the state names: title, type, status, sections and text; None without one.

    Raises ChoiceNeeded or Aborted if the file is there but cannot be read.
    """
    if spec_path in (None, ""):
        journal.info("spec_missing", NOTHING)
        return None
    named = {"id": "specification", "type": "markdown", "path_from_state": "artifacts.spec_path"}
    try:
        found = find_file(parse_artifact(named, ""), surroundings)
        text = _text(found["resolved"])
    except ArtifactError as error:
        if not isinstance(error.__cause__, FileRefused):
            _warn_missing(spec_path, error.message, journal)
            return None
        return _ask_unreadable(spec_path, str(error.__cause__), journal)
    except FileRefused as error:
        return _ask_unreadable(spec_path, str(error), journal)
    matter = {**bold_lines(text), **front_matter(text)}  # most of FABER's own specifications have the former
    facts = {
        "path": spec_path,
        "title": matter.get("title") or title_of(text),
        "type": matter.get("type") or None,
        "status": matter.get("status") or None,
    }
    journal.log(f"✓ Loaded specification: {text_or_na(spec_path)}")
    for name in ("title", "type", "status"):
        journal.log(f"  {name.capitalize()}: {text_or_na(facts[name])}")
    return {**facts, **wanted_sections(text), "content": text}


def _text(path: str) -> str:
    text = read_text(path, MAX_BYTES)
    if text is None:
        raise FileRefused("No such file or directory")
    return text


def _warn_missing(spec_path: object, reason: str, journal: Journal) -> None:
    journal.log(NOTHING)
    journal.warn(
        "spec_path_invalid",
        "Specification not found - continuing without specification",
        {"Path": text_or_na(spec_path), "Error": reason},
        "Spec may not have been created yet (early phase)",
    )


def _ask_unreadable(spec_path: object, reason: str, journal: Journal) -> dict[str, Any] | None:
    facts = {"Path": text_or_na(spec_path), "Error": reason}
    if journal.ask("spec_not_readable", "Specification file not readable", facts, OPTIONS) == 1:
        return None
    journal.log("ℹ The specification must be regenerated before the workflow continues")
    return {"path": spec_path, "regenerate": True}
