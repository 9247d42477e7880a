"""Sessions as rows to choose from: title, age, project, last words."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from outlast.app.stores import LogStore
from outlast.core.errors import OutlastError, SessionNotFound
from outlast.core.header import ARCHIVED, Header
from outlast.core.messages import Role
from outlast.doors.repl.call_line import one_line
from outlast.doors.repl.picker import Option, Picker
from outlast.session import ConversationSession

Pick = Callable[[str, Sequence[Option[str]]], Awaitable[Any]]
_SPANS = ((60, "s", 1), (3600, "min", 60), (86_400, "h", 3600), (86_400 * 365, "d", 86_400))


def age(at: int) -> str:
    """How long ago, in one short word."""
    seconds = max(0, time.time() - at / 1e6)
    for limit, unit, size in _SPANS:
        if seconds < limit:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // (86_400 * 365))} y"


def session_rows(store: LogStore, project: Path | None, limit: int = 200, *, archived: bool = False) -> list[Header]:
    """The sessions that people began, newest activity first; those of sub-agents are left out."""
    rows = ConversationSession.list(project_root=project, store=store, limit=limit)
    hidden = {"damaged"} if archived else {"damaged", ARCHIVED}
    return [row for row in rows if row.depth == 0 and row.state not in hidden]


def session_option(store: LogStore, row: Header) -> Option[str]:
    project = Path(row.project_root).name if row.project_root else ""
    state = "" if row.state == "active" else f" · {row.state}"
    note = f"{row.session_id[:8]} · {age(row.updated_at)} ago · {project}{state}"
    return Option(row.session_id, one_line(row.title or "(untitled)"), note, lambda: last_words(store, row.session_id))


def last_words(store: LogStore, session_id: str) -> str:
    """The beginning of the last thing that was said."""
    try:
        found = ConversationSession.load(session_id=session_id, store=store)
        said = found.history(6) if found is not None else []
    except OutlastError as error:
        return one_line(str(error), 100)
    for message in reversed(said):
        if message.role in {Role.USER, Role.ASSISTANT} and message.content.strip():
            return f"{'you' if message.role is Role.USER else 'it'}: {one_line(message.content, 100)}"
    return ""


async def choose_session(pick: Pick | None, store: LogStore, project: Path) -> str | None:
    """Let the user choose: this project's sessions first, then all others."""
    here = session_rows(store, project)
    known = {row.session_id for row in here}
    others = [row for row in session_rows(store, None) if row.session_id not in known]
    options = [session_option(store, row) for row in (*here, *others)]
    if not options:
        raise SessionNotFound("there is no session yet; `outlast` begins one")
    if pick is None:
        return await Picker("Resume", options).choose()
    return await pick("Resume", options)
