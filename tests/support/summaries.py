"""Compactions with a summary."""

from __future__ import annotations

from typing import Any

from support.project import Project

STARTUP = "SessionStart.startup.interactive"
RESUME = "SessionStart.resume.interactive"
COMPACT = "SessionStart.compact.interactive"
PRE = "PreCompact.auto.print"
POST = "PostCompact.auto.print"
ME = "324802ff-0231-4ac6-8eb6-c6c99574fbae"
OTHER = "896a4fa5-ad77-46c8-a2a2-fd88bd4be979"
THIRD = "11111111-ad77-46c8-a2a2-fd88bd4be979"
HEAD = "## What another conversation on this run came to"


def compacted(project: Project, client: str, said: str, **more: Any) -> None:
    """Compact a client's conversation, with a summary."""
    project.deliver(PRE, client=client, fields={"prompt_id": said[:40]})
    project.deliver(COMPACT, client=client, fields={"prompt_id": said[:40]})
    assert project.deliver(POST, client=client, fields={"compact_summary": said}, **more).output == b""


def packet(project: Project, recorded: str, client: str, **more: Any) -> str:
    text = project.deliver(recorded, client=client, **more).packet
    assert text is not None
    return text
