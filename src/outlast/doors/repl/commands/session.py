"""Commands that choose or create a session: new, clear, resume, rename, fork, tree, quit."""

from __future__ import annotations

from rich.text import Text

from outlast.core.errors import OutlastError
from outlast.core.header import Header
from outlast.doors.repl.commands.port import ReplCommand
from outlast.doors.repl.controller import ReplController
from outlast.doors.repl.render.style import HERE
from outlast.doors.repl.resume_prompt import arrived
from outlast.doors.repl.session_picker import age, choose_session, session_rows
from outlast.doors.repl.transcript import show_transcript
from outlast.doors.terminal_text import readable
from outlast.session import ConversationSession

LISTED = 20


async def new(controller: ReplController, arguments: str) -> None:
    await controller.take(None)
    controller.say("a new session; the last one is kept (/resume goes back)", "dim")


async def clear(controller: ReplController, arguments: str) -> None:
    if not controller.session.exists:
        controller.say("this session has no messages yet", "dim")
        return
    await controller.boundary("clear")


async def sessions(controller: ReplController, arguments: str) -> None:
    rows = session_rows(
        controller.repl_session.agent.store, None if arguments == "all" else controller.repl_session.agent.project_root
    )
    if not rows:
        controller.say("there is no session of this project yet; /sessions all shows the other projects", "dim")
        return
    for row in rows[:LISTED]:
        here = HERE if row.session_id == controller.session.session_id else " "
        line = Text(f"{here} {row.session_id[:8]}  {age(row.updated_at):>8}  ", style="dim")
        line.append(readable(row.title or "(untitled)"), style="")
        line.append(f"  {row.message_count} messages{'' if row.state == 'active' else f', {row.state}'}", style="dim")
        controller.put(line)
    if len(rows) > LISTED:
        controller.say(f"and {len(rows) - LISTED} more: /resume searches them", "dim")


async def resume(controller: ReplController, arguments: str) -> None:
    store = controller.repl_session.agent.store
    wanted = arguments.strip() or await choose_session(
        controller.pick, store, controller.repl_session.agent.project_root
    )
    if not wanted:
        return
    found = ConversationSession.resume(wanted, store=store)
    if found.header.has_ended:
        name = found.session_id[:8]
        raise OutlastError(f"session {name} has ended; `outlast sessions reopen {name}` reopens it")
    before = controller.repl_session.agent.project_root
    await controller.take(found)
    show_transcript(controller)
    if controller.repl_session.agent.project_root != before:
        controller.say(f"this session works in {controller.repl_session.agent.project_root}")
    await arrived(controller)


async def rename(controller: ReplController, arguments: str) -> None:
    if not arguments.strip():
        raise OutlastError("give the new title: /rename TITLE")
    controller.session.persist()
    controller.follow_new()
    await controller.repl_session.service.update_async(controller.session.session_id, title=arguments.strip())


async def fork(controller: ReplController, arguments: str) -> None:
    if not controller.session.exists:
        raise OutlastError("this session has no messages yet, so there is nothing to fork")
    if arguments.strip() and not arguments.strip().isdecimal():
        raise OutlastError("give the number of the event to fork at, or nothing for here: /fork [SEQ]")
    source = controller.session.session_id
    forked = controller.session.fork(at=int(arguments) if arguments.strip() else None)
    await controller.take(forked)
    controller.say(f"this is a fork; {source[:8]} stays as it is", "dim")


async def tree(controller: ReplController, arguments: str) -> None:
    """Show the fork tree of this session: its ancestors and everything forked from them."""
    rows = {
        row.session_id: row
        for row in session_rows(controller.repl_session.agent.store, None, limit=1000, archived=True)
    }
    here = controller.session.session_id
    root = here
    while root in rows and (above := _base(rows[root])) in rows:
        root = above
    if root not in rows:
        controller.say("this session has no messages yet", "dim")
        return
    _branch(controller, rows, root, "", here)


def _base(row: Header) -> str:
    return row.base_id or row.parent_session_id or ""


def _branch(controller: ReplController, rows: dict[str, Header], at: str, indent: str, here: str) -> None:
    row = rows[at]
    mark = f"{HERE} " if at == here else "● "
    base = f" at event {row.base_seq}" if row.base_seq else ""
    line = Text(f"{indent}{mark}{at[:8]}  ", style="bold" if at == here else "")
    line.append(f"{readable(row.title or '(untitled)')}  {age(row.updated_at)}{base}", style="dim")
    controller.put(line)
    for child in sorted((one for one in rows.values() if _base(one) == at), key=lambda one: one.created_at):
        _branch(controller, rows, child.session_id, indent + "  ", here)


async def leave(controller: ReplController, arguments: str) -> None:
    controller.screen.app.exit(result=0)


SESSIONS = (
    ReplCommand("new", "start a new session; this one is kept", new),
    ReplCommand("clear", "archive the messages and continue this session", clear),
    ReplCommand("sessions", "list the sessions of this project, or all", sessions, "[all]", ("all",)),
    ReplCommand("resume", "continue another session", resume, "[ID]"),
    ReplCommand("rename", "give this session a title", rename, "TITLE"),
    ReplCommand("fork", "continue in a copy, from here or from an event", fork, "[SEQ]"),
    ReplCommand("tree", "show the forks of this session", tree),
    ReplCommand("quit", "leave; the session is kept", leave),
)
