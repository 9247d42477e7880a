"""Processes updates in a fixed order; nothing is decided before the sender is known.

who > forwarded > where > button > text > length > command > answer to a question > message
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import suppress

import msgspec

from outlast.app.chat.chat_router import AdmittedMessage, Sender
from outlast.core.errors import SessionNotFound
from outlast.doors.gateway.account import GatewayAccount
from outlast.doors.gateway.approval_replies import ApprovalReplies
from outlast.doors.gateway.commands import ChatCommand, parsed, run
from outlast.doors.gateway.identity import SenderRole
from outlast.doors.gateway.log import noted, warned
from outlast.doors.gateway.platform import ChatUpdate

LONGEST = 32_768
PAIR = "/pair"
PAIRED = "✅ You are an owner here now. /help lists the commands."


class UpdateHandler:
    """Processes the updates of one account. Durable on return."""

    def __init__(self, line: GatewayAccount) -> None:
        self.line = line

    async def take(self, update: ChatUpdate) -> AdmittedMessage | None:
        """Process an update; returns where it was stored, None if nothing was stored. Raises ConflictError if its id
        was used for another update.
        """
        line = self.line
        role = await asyncio.to_thread(line.identity.role, update.user)
        if role is None:
            await self._stranger(update)
            return None
        if update.forwarded:
            noted("update.forwarded", gateway=line.table.name, update=update.update_id)
            return None
        if not (update.private or self._is_meant(update)):
            return None
        route = line.route(update.address, update.user, private=update.private)
        sender = Sender(
            route=route,
            user=update.user,
            update_id=update.update_id,
            asked=digest_of(update),
            message_id=update.message_id,
        )
        taken = await self._taken(update, sender, role)
        if taken is not None and update.pressed is not None and not taken.replayed:
            await line.platform.acknowledge(update)
        if taken is not None:
            await self.attend(route, taken.session_id)
        return taken

    async def attend(self, route: str, session_id: str) -> None:
        """Wake the session if it has work, and deliver its messages."""
        line = self.line
        for one in {session_id, await line.chats.leads(route) or session_id}:
            with suppress(SessionNotFound):  # deleted in the meantime: no chat waits for it
                head = await asyncio.to_thread(line.store.head, one)
                if head.has_work:
                    line.pool.wake(one)
                line.deliver(route, one, head.root_id)

    def _is_meant(self, update: ChatUpdate) -> bool:
        """Whether a message in a group is meant for the bot."""
        match self.line.table.groups:
            case "always":
                return True
            case "addressed":
                return update.addressed or update.pressed is not None
            case _:
                return False

    async def _stranger(self, update: ChatUpdate) -> None:
        """Handle an unknown user. Only the right pairing code gets an answer; everything else gets no hint."""
        text = (update.text or "").strip()
        word, _, code = text.partition(" ")
        offered = code if word.lower() == PAIR else text
        if update.private and not update.forwarded and update.pressed is None and 8 <= len(offered) <= 12:
            pairing = self.line.identity.pairing
            if await asyncio.to_thread(pairing.pair, update.user, offered, time.time()):
                warned("user.paired", gateway=self.line.table.name, user=update.user)
                await self.line.say(update.address, PAIRED, update.update_id)
                return
        noted("user.unknown", gateway=self.line.table.name, user=update.user)

    async def _taken(self, update: ChatUpdate, sender: Sender, role: SenderRole) -> AdmittedMessage | None:
        answering = ApprovalReplies(self.line, update, sender, role)
        if update.pressed is not None:
            return await answering.pressed()
        command = ChatCommand(self.line, update, sender, role, "")
        if update.text is None:
            return await command.told(f"I can read text only, so {update.media or 'this'} was ignored.")
        text = update.text.strip()
        if len(text) > LONGEST:
            return await command.told(
                f"That message has {len(text):,} characters, and I accept at most {LONGEST:,}: put it into a file."
            )
        if (given := parsed(text)) is not None:
            command.argument = given[1]
            return await run(command, given[0])
        if not text:
            return None
        answered = await answering.replied(text)
        if answered is not None:
            return await command.told(answered) if isinstance(answered, str) else answered
        return await self.line.chats.admit(sender, text, self.line.place(update.address.chat), self.line.table.busy)


def digest_of(update: ChatUpdate) -> str:
    """Digest of the content of an update: equal only for equal content."""
    said = msgspec.json.encode((update.text, update.media, update.pressed, update.reply_to))
    return hashlib.sha256(said).hexdigest()[:32]
