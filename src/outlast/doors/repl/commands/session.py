"""Which session: new, others, forks, names."""

from __future__ import annotations

from rich.text import Text

from outlast.core.errors import OutlastError
from outlast.core.header import Header
from outlast.doors.repl.commands.port import Command
from outlast.doors.repl.controller import Room
from outlast.doors.repl.render.escape import readable
from outlast.doors.repl.render.style import HERE
from outlast.doors.repl.resume_prompt import arrived
from outlast.doors.repl.session_picker import age, choose_session, session_rows
from outlast.doors.repl.transcript import show_transcript
from outlast.session import ConversationSession

LISTED = 20


async def new(room: Room, arguments: str) -> None:
    await room.take(None)
    room.say("a new session; the last one is kept (/resume goes back)", "dim")


async def clear(room: Room, arguments: str) -> None:
    if not room.session.exists:
        room.say("nothing was said here yet", "dim")
        return
    await room.boundary("clear")


async def sessions(room: Room, arguments: str) -> None:
    rows = session_rows(room.desk.agent.store, None if arguments == "all" else room.desk.agent.project_root)
    if not rows:
        room.say("there is no session of this project yet; /sessions all shows those of others", "dim")
        return
    for row in rows[:LISTED]:
        here = HERE if row.session_id == room.session.session_id else " "
        line = Text(f"{here} {row.session_id[:8]}  {age(row.updated_at):>8}  ", style="dim")
        line.append(readable(row.title or "(untitled)"), style="")
        line.append(f"  {row.message_count} messages{'' if row.state == 'active' else f', {row.state}'}", style="dim")
        room.put(line)
    if len(rows) > LISTED:
        room.say(f"and {len(rows) - LISTED} more: /resume searches them", "dim")


async def resume(room: Room, arguments: str) -> None:
    store = room.desk.agent.store
    wanted = arguments.strip() or await choose_session(room.pick, store, room.desk.agent.project_root)
    if not wanted:
        return
    found = ConversationSession.resume(wanted, store=store)
    if found.header.has_ended:
        name = found.session_id[:8]
        raise OutlastError(f"session {name} has ended; `outlast sessions reopen {name}` opens it again")
    before = room.desk.agent.project_root
    await room.take(found)
    show_transcript(room)
    if room.desk.agent.project_root != before:
        room.say(f"this session works in {room.desk.agent.project_root}")
    await arrived(room)


async def rename(room: Room, arguments: str) -> None:
    if not arguments.strip():
        raise OutlastError("give the new title: /rename TITLE")
    room.session.persist()
    room.follow_new()
    await room.desk.service.rename(room.session.session_id, arguments.strip())


async def fork(room: Room, arguments: str) -> None:
    if not room.session.exists:
        raise OutlastError("nothing was said here yet, so there is nothing to fork")
    if arguments.strip() and not arguments.strip().isdecimal():
        raise OutlastError("give the number of the event to fork at, or nothing for here: /fork [SEQ]")
    source = room.session.session_id
    forked = room.session.fork(at=int(arguments) if arguments.strip() else None)
    await room.take(forked)
    room.say(f"this is a fork; {source[:8]} stays as it is", "dim")


async def tree(room: Room, arguments: str) -> None:
    """The family of this session: what it was forked from, and what was forked from it."""
    rows = {row.session_id: row for row in session_rows(room.desk.agent.store, None, limit=1000, archived=True)}
    here = room.session.session_id
    root = here
    while root in rows and (above := _base(rows[root])) in rows:
        root = above
    if root not in rows:
        room.say("nothing was said here yet", "dim")
        return
    _branch(room, rows, root, "", here)


def _base(row: Header) -> str:
    return row.base_id or row.parent_session_id or ""


def _branch(room: Room, rows: dict[str, Header], at: str, indent: str, here: str) -> None:
    row = rows[at]
    mark = f"{HERE} " if at == here else "● "
    base = f" at event {row.base_seq}" if row.base_seq else ""
    line = Text(f"{indent}{mark}{at[:8]}  ", style="bold" if at == here else "")
    line.append(f"{readable(row.title or '(untitled)')}  {age(row.updated_at)}{base}", style="dim")
    room.put(line)
    for child in sorted((one for one in rows.values() if _base(one) == at), key=lambda one: one.created_at):
        _branch(room, rows, child.session_id, indent + "  ", here)


async def leave(room: Room, arguments: str) -> None:
    room.screen.app.exit(result=0)


SESSIONS = (
    Command("new", "begin another session; this one is kept", new),
    Command("clear", "archive the messages and go on in this session", clear),
    Command("sessions", "list the sessions of this project, or all", sessions, "[all]", ("all",)),
    Command("resume", "go on with another session", resume, "[ID]"),
    Command("rename", "give this session a title", rename, "TITLE"),
    Command("fork", "go on in a copy from here, or from an event", fork, "[SEQ]"),
    Command("tree", "show the forks of this session", tree),
    Command("quit", "leave; everything is kept", leave),
)
