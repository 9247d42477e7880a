"""Chat commands: `/new`, `/stop` and the others.

A command's effect and its answer are one commit, keyed by the update's id, so a command that is delivered twice runs
once. Only if the chat has no session, and the command creates none, is the answer sent without being stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from outlast.app.chat.chat_router import AdmittedMessage, AlreadyAdmitted, Sender
from outlast.app.chat.session_view import found, recent, standing
from outlast.app.sessions.create import check_model
from outlast.app.sessions.session_list import SessionRow
from outlast.core.errors import AmbiguousSession, ConflictError, InvalidInput, SessionNotFound
from outlast.doors.gateway.account import GatewayAccount
from outlast.doors.gateway.approval_replies import ApprovalReplies
from outlast.doors.gateway.identity import SenderRole
from outlast.doors.gateway.message_text import DENY, ONCE, plain_line
from outlast.doors.gateway.platform import ChatUpdate
from outlast.runtime.permissions.mode import PermissionMode

LISTED = 10
NOT_HERE = "That works only in a private chat with me."
NOT_YOU = "Only an owner may do that."


class ChatCommand:
    """One command, given by one user in one chat."""

    def __init__(
        self, line: GatewayAccount, update: ChatUpdate, sender: Sender, role: SenderRole, argument: str
    ) -> None:
        self.line = line
        self.update = update
        self.sender = sender
        self.role = role
        self.argument = argument

    @property
    def mode(self) -> PermissionMode:
        """The permission mode of this chat."""
        return self.line.table.mode_of(self.update.address.chat)

    async def session(self) -> str | None:
        return await self.line.chats.leads(self.sender.route)

    async def told(self, text: str) -> AdmittedMessage | None:
        """Say this in the chat's session or, if it has none, only in the chat."""
        session_id = await self.session()
        if session_id is not None:
            return await self.line.chats.post(self.sender, session_id, text)
        await self.line.say(self.update.address, text, self.sender.update_id)
        return None


Doing = Callable[[ChatCommand], Awaitable[AdmittedMessage | None]]


class KnownCommand(NamedTuple):
    """A command: its description and function, and whether it needs an owner or a private chat."""

    about: str
    do: Doing
    owners: bool = False
    private: bool = False


async def run(command: ChatCommand, name: str) -> AdmittedMessage | None:
    """Run the command; an unknown or forbidden command is answered with a sentence."""
    known = COMMANDS.get(name)
    if known is None:
        return await command.told(f"There is no /{plain_line(name, 32)}; /help lists the commands.")
    if known.owners and command.role is not SenderRole.OWNER:
        return await command.told(NOT_YOU)
    if known.private and not command.update.private:
        return await command.told(NOT_HERE)
    try:
        return await known.do(command)
    except AlreadyAdmitted:
        raise
    except (SessionNotFound, AmbiguousSession, InvalidInput, ConflictError) as error:
        return await command.told(plain_line(str(error)))


def parsed(text: str) -> tuple[str, str] | None:
    """(name, argument) of a command; None for any other text. `/stop@our_bot` is `/stop`."""
    if not text.startswith("/") or len(text) < 2 or not text[1].isalpha():
        return None
    word, _, argument = text[1:].partition(" ")
    name = word.split("\n")[0].partition("@")[0].lower()
    return (name, argument.strip()) if name.replace("_", "").isalnum() else None


# --- one function per command ----------------------------------------------------------------------------------------


async def _help(command: ChatCommand) -> AdmittedMessage | None:
    may = [
        (name, known)
        for name, known in COMMANDS.items()
        if known.about
        and (command.role is SenderRole.OWNER or not known.owners)
        and (command.update.private or not known.private)
    ]
    lines = "\n".join(f"- /{name}: {known.about}" for name, known in may)
    return await command.told(f"Write what you want done. Commands:\n\n{lines}")


async def _new(command: ChatCommand) -> AdmittedMessage | None:
    line = command.line
    return await line.chats.begin(
        command.sender, line.place(command.update.address.chat), "A new session. What do you want to do?"
    )


async def _sessions(command: ChatCommand) -> AdmittedMessage | None:
    line, here = command.line, await command.session()
    rows = await asyncio.to_thread(recent, line.store, line.project, LISTED)
    if not rows:
        return await command.told("There are no sessions yet; just write something.")
    lines = "\n".join(f"- `{row.id[:6]}` {_titled(row)}{' ← here' if row.id == here else ''}" for row in rows)
    return await command.told(f"{lines}\n\nTo continue one of them, send /resume and its first six characters.")


def _titled(row: SessionRow) -> str:
    when = datetime.fromtimestamp(row.updated_at / 1_000_000, UTC).strftime("%d %b %H:%M UTC")
    return f"{plain_line(row.title or '(nothing said yet)', 50)} · {when}"


async def _resume(command: ChatCommand) -> AdmittedMessage | None:
    line = command.line
    if not command.argument:
        return await _sessions(command)
    row = await asyncio.to_thread(found, line.store, line.project, command.argument.split()[0])
    if row.state == "ended":
        return await command.told(f"Session {row.id[:6]} has ended; reopen it in the terminal, or choose another one.")
    if row.id == await command.session():
        return await command.told(f"This chat is in session {row.id[:6]} already.")
    text = f"This chat is in session `{row.id[:6]}` now: {plain_line(row.title or '(nothing said yet)', 50)}"
    return await line.chats.join(command.sender, row.id, command.mode, text)


async def _stop(command: ChatCommand) -> AdmittedMessage | None:
    session_id = await command.session()
    now = await asyncio.to_thread(standing, command.line.store, session_id) if session_id else None
    if session_id is None or now is None or not (now.running or now.waiting):
        return await command.told("Nothing is running.")
    return await command.line.chats.interrupt(command.sender, session_id, "/stop", "Stopping.")


async def _status(command: ChatCommand) -> AdmittedMessage | None:
    line, session_id = command.line, await command.session()
    if session_id is None:
        return await command.told(f"No session yet; just write something. Rights here: {command.mode}.")
    now = await asyncio.to_thread(standing, line.store, session_id)
    row = now.summary
    does = "working" if now.running else "idle"
    does = "waiting for an answer to its question" if now.questions else does
    trouble = line.pool.trouble(session_id) or now.trouble
    lines = [
        f"Session `{row.id[:6]}`: {plain_line(row.title or '(nothing said yet)', 50)}",
        f"- {does}{f', {now.waiting} more waiting' if now.waiting else ''}",
        f"- model {plain_line(now.model or line.settings.model or 'the default one', 60)}",
        f"- rights {command.mode}",
        f"- {row.message_count:,} messages, {row.total_input_tokens:,} tokens in, {row.total_output_tokens:,} out",
        *([f"- compacted {now.compactions} times"] if now.compactions else []),
        *([f"- ⚠️ {plain_line(trouble)}"] if trouble else []),
    ]
    return await command.told("\n".join(lines))


async def _compact(command: ChatCommand) -> AdmittedMessage | None:
    session_id = await command.session()
    if session_id is None:
        return await command.told("There is nothing to compact yet.")
    what = "rotate" if command.line.table.compaction == "rotate" else "compact"
    return await command.line.chats.request(command.sender, session_id, what)


async def _model(command: ChatCommand) -> AdmittedMessage | None:
    line, session_id = command.line, await command.session()
    if not command.argument:
        now = await asyncio.to_thread(standing, line.store, session_id) if session_id else None
        name = (now.model if now else None) or line.settings.model or "the default one"
        return await command.told(f"The model is {plain_line(name, 60)}; /model provider:name chooses another.")
    if session_id is None:
        return await command.told("There is no session yet; write something first, then choose its model.")
    check_model(line.settings, command.argument.split()[0])
    name = command.argument.split()[0]
    text = f"From the next turn on: {plain_line(name, 60)}."
    return await line.chats.choose_model(command.sender, session_id, name, text)


async def _approve(command: ChatCommand) -> AdmittedMessage | None:
    return await _answered(command, ONCE)


async def _deny(command: ChatCommand) -> AdmittedMessage | None:
    return await _answered(command, DENY)


async def _answered(command: ChatCommand, answer: str) -> AdmittedMessage | None:
    answering = ApprovalReplies(command.line, command.update, command.sender, command.role)
    outcome = await answering.commanded(answer, command.argument)
    return await command.told(outcome) if isinstance(outcome, str) else outcome


COMMANDS: Mapping[str, KnownCommand] = {
    "new": KnownCommand("start a new session", _new),
    "sessions": KnownCommand("list the newest sessions of this project", _sessions, owners=True, private=True),
    "resume": KnownCommand("continue one of them here", _resume, owners=True, private=True),
    "status": KnownCommand("show the status of this session", _status),
    "stop": KnownCommand("stop the running turn", _stop),
    "compact": KnownCommand("summarise older messages now", _compact, owners=True),
    "model": KnownCommand("show or choose the model", _model, owners=True),
    "approve": KnownCommand(
        "allow the requested call once (or: /approve session)", _approve, owners=True, private=True
    ),
    "deny": KnownCommand("refuse the requested call", _deny, owners=True, private=True),
    "help": KnownCommand("this list", _help),
    "start": KnownCommand("", _help),
}
"""All commands by name. `start` is sent by Telegram's start button."""
