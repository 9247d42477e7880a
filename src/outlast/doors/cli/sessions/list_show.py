"""`outlast sessions list` and `outlast sessions show`: the stored sessions, and the content of one."""

from __future__ import annotations

import shutil
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outlast.app.sessions.session_list import SessionListing, SessionRow, listed, open_readonly, resolve_session
from outlast.core.messages import Message
from outlast.core.redaction import mapped
from outlast.doors.cli.options import Json, SessionId, Store
from outlast.doors.cli.output import age, counted, moment, print_json
from outlast.doors.cli.quick import Quick
from outlast.doors.terminal_text import cut, plain, spelled

if TYPE_CHECKING:
    from outlast.app.sessions.detail import SessionDetailView

app = typer.Typer()
TOOL_LINES = 40
"""How many lines of tool output are shown without `--all`."""


class StateFilter(StrEnum):
    ACTIVE = "active"
    ENDED = "ended"
    ARCHIVED = "archived"


@app.command("list", cls=Quick)
def list_sessions(
    all_projects: Annotated[bool, typer.Option("--all-projects", "-a", help="Sessions of all projects.")] = False,
    state: Annotated[StateFilter | None, typer.Option("--state", help="Only these.")] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Part of the title.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of rows.")] = 50,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Cursor of the previous page.")] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """List the sessions of this project: of this folder, or of the same repository in other folders.

    Archived ones are out of sight; --state archived shows them.
    """
    project = None if all_projects else Path.cwd()
    found = listed(store, project=project, state=state, title=title, limit=limit, cursor=cursor)
    if json:
        print_json({"sessions": found.sessions, "damaged": found.damaged, "cursor": found.cursor})
        return
    _print_list(found, all_projects)


def _print_list(found: SessionListing, all_projects: bool) -> None:
    now = time.time_ns() // 1000
    width = max(40, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None
    for row in found.sessions:
        line = _line(row, now, all_projects)
        print(line if width is None else cut(line, width))
    for session_id in found.damaged:
        print(f"{session_id[:8]}  DAMAGED; `outlast verify {session_id[:8]}` tells what")
    if not found.sessions and not found.damaged:
        where = "" if all_projects else " of this project; --all-projects shows the others"
        print(f"no sessions{where}")
    if found.cursor is not None:
        print(f"... more: --cursor {found.cursor}")


def _line(row: SessionRow, now: int, all_projects: bool) -> str:
    state = row.state if row.state != "active" else None
    under = f"sub-agent of {row.parent_session_id[:8]}" if row.depth and row.parent_session_id else None
    marks = [mark for mark in (state, row.activity, under) if mark]
    said = f"  [{', '.join(marks)}]" if marks else ""
    project = f"  ({plain(Path(row.project_root).name)})" if all_projects and row.project_root else ""
    messages = counted(row.message_count, "message")
    what = f"{plain(row.title or '(no title)')}{said}{project}"
    return f"{row.id[:8]}  {age(row.updated_at, now):>11}  {messages:>14}  {what}"


# ---- show -----------------------------------------------------------------------------------------------------------


@app.command("show")
def show(
    session: SessionId,
    everything: Annotated[
        bool, typer.Option("--all", help="Include archived messages and complete tool output.")
    ] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Show the messages of a session. Each has a seq, for `fork --at` and `rewind --to`."""
    from outlast.app.sessions.detail import detail

    with open_readonly(store) as opened:
        found = detail(opened, resolve_session(opened, session), include_archived=everything)
    if json:
        print_json({**_facts(found), "messages": [_row(message) for message in found.messages]})
        return
    _print_head(found)
    for message in found.messages:
        _print_message(message, everything)
    _print_foot(found)


def _facts(found: SessionDetailView) -> dict[str, Any]:
    return {
        "session": found.session,
        "interrupted": found.interrupted,
        "running": found.running,
        "waiting": found.waiting,
        "hidden": found.hidden,
        "last_seq": found.session.last_seq,
    }


def _row(message: Message) -> dict[str, Any]:
    """A message in the form of the HTTP API."""
    return {
        "seq": message.seq,
        "role": message.role,
        "content": _valid(message.content),
        "tool_calls": [
            mapped({"id": call.id, "name": call.name, "arguments": call.arguments}, _valid)
            for call in message.tool_calls
        ],
        "is_summary": message.is_summary,
        "archived": message.archived,
        "interrupted": message.interrupted,
        "ts": message.at,
    }


def _valid(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _print_head(found: SessionDetailView) -> None:
    row = found.session
    print(f"{row.id}  {plain(row.title or '(no title)')}")
    facts = [row.state, row.model, row.persona, row.project_root, "imported" if row.imported else None]
    print("  " + " · ".join(plain(fact) for fact in facts if fact))
    if row.rotated_to:
        print(f"  continues as {row.rotated_to}")
    if row.parent_session_id:
        print(f"  came from {plain(row.parent_session_id)}")
    print()


def _print_message(message: Message, everything: bool) -> None:
    from outlast.app.sessions.detail import call_label

    marks = {"archived": message.archived, "summary": message.is_summary, "interrupted": message.interrupted}
    said = "".join(f" [{name}]" for name, is_so in marks.items() if is_so)
    print(f"── {message.seq} {message.role.value}{said} · {moment(message.at or 0)}")
    lines = message.content.splitlines()
    kept = lines if everything or message.role.value != "tool" else lines[:TOOL_LINES]
    for line in kept:
        print(spelled(line, keep="\t"))
    if len(kept) < len(lines):
        print(f"... {counted(len(lines) - len(kept), 'more line')}; --all shows them")
    for call in message.tool_calls:
        print(f"→ {plain(call_label(call.name, call.arguments))}")
    print()


def _print_foot(found: SessionDetailView) -> None:
    name = found.session.id[:8]
    if found.interrupted:
        print(f"The last turn was {plain(found.interrupted)}. `outlast sessions resume {name}` continues it.")
    elif found.running:
        print(f"A turn is running ({plain(found.running)}).")
    elif found.waiting:
        print(f"{counted(found.waiting, 'message')} not answered yet; `outlast sessions resume {name}` continues.")
    if found.hidden:
        print(f"{counted(found.hidden, 'message')} archived; --all shows them")
