"""`outlast sessions list`: this project's sessions, wherever its folder was then; newest activity first."""

import shutil
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from outlast.app.sessions.listing import SessionListing, SessionRow, listed
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import counted, plain, print_json
from outlast.doors.cli.quick import Quick
from outlast.doors.cli.sessions.age import age
from outlast.doors.cli.sessions.arguments import verb
from outlast.doors.terminal_cells import cut

app = verb()


class StateFilter(StrEnum):
    ACTIVE = "active"
    ENDED = "ended"
    ARCHIVED = "archived"


@app.command("list", cls=Quick)
def list_sessions(
    all_projects: Annotated[bool, typer.Option("--all-projects", "-a", help="Not only this folder's.")] = False,
    state: Annotated[StateFilter | None, typer.Option("--state", help="Only these.")] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Part of the title.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Where the last page ended.")] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """List the sessions of this project: of this folder, or of the same repository wherever it was.

    Archived ones are out of sight; --state archived shows them.
    """
    project = None if all_projects else Path.cwd()
    found = listed(store, project=project, state=state, title=title, limit=limit, cursor=cursor)
    if json:
        print_json({"sessions": found.sessions, "damaged": found.damaged, "cursor": found.cursor})
        return
    _show(found, all_projects)


def _show(found: SessionListing, all_projects: bool) -> None:
    now = time.time_ns() // 1000
    width = max(40, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None
    for row in found.sessions:
        line = _line(row, now, all_projects)
        print(line if width is None else cut(line, width))
    for session_id in found.damaged:
        print(f"{session_id[:8]}  DAMAGED; `outlast verify {session_id[:8]}` tells what")
    if not found.sessions and not found.damaged:
        where = "" if all_projects else " of this project; --all-projects shows those of others"
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
