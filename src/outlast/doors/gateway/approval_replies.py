"""Answers to a session's questions from a chat: by a button, a reply, or a command.

An approval counts only from an owner, in a private chat, and only for the exact call that a message of the gateway
showed there: that message is looked up in the log, and the open question must still be about the same call. Nothing
else approves. A question from the model (`ask_user`) may be answered by any user who may talk in that chat.
"""

from __future__ import annotations

import asyncio

from outlast.app.chat.chat_router import AdmittedMessage, Sender
from outlast.app.chat.session_view import (
    OpenSession,
    ShownQuestion,
    answered_at,
    found,
    of_chat,
    open_questions,
    shown_in,
)
from outlast.core.errors import ConflictError
from outlast.core.outbox import OutboxItem
from outlast.doors.gateway.account import GatewayAccount
from outlast.doors.gateway.identity import SenderRole
from outlast.doors.gateway.log import warned
from outlast.doors.gateway.message_text import (
    DENY,
    ONCE,
    SESSION,
    call_text,
    choices_of,
    is_readable,
    linked_question,
    unpressed,
)
from outlast.doors.gateway.platform import ChatUpdate

YES = frozenset({"y", "yes", "ok", "allow", "approve", "once", "👍", "✅"})
NO = frozenset({"n", "no", "deny", "reject", "👎", "❌"})
LOOKS, LOOK_SECONDS = 10, 0.1
_TOLD = {ONCE: "Allowed once.", SESSION: "Allowed for this session.", DENY: "Denied."}


class ApprovalReplies:
    """Answers from one user in one chat."""

    def __init__(self, line: GatewayAccount, update: ChatUpdate, sender: Sender, role: SenderRole) -> None:
        self.line = line
        self.update = update
        self.sender = sender
        self.role = role

    @property
    def may_approve(self) -> bool:
        return self.role is SenderRole.OWNER and self.update.private

    # --- by button or reply

    async def pressed(self) -> AdmittedMessage | None:
        """Handle a pressed button. Returns None if the user may not answer, or the button is outdated or was already
        used.
        """
        shown = await self._shown(self.update.message_id)
        if shown is None:
            return None
        question = await self._open(shown)
        if question is None:
            return await self._pressed_before(shown)
        if (reaction := reacted(self.update.pressed or "")) is not None:
            return await self._reacted(question, reaction)
        data = unpressed(self.update.pressed or "")
        if data is None or data[0] != shown.seq or not shown.call_digest.startswith(data[1]):
            return None
        answer = data[2]
        if question.asked.name == "ask_user":
            choices = choices_of(question.asked)
            return await self._answer(question, choices[int(answer)]) if _indexes(answer, choices) else None
        return await self._approve(question, answer)

    async def _pressed_before(self, shown: ShownQuestion) -> AdmittedMessage | None:
        """Return the original receipt if this update was already processed; None if the button was pressed again."""
        update_id = self.sender.update_id
        seq = await asyncio.to_thread(answered_at, self.line.store, shown, self.sender.route, update_id)
        return AdmittedMessage(session_id=shown.session_id, seq=seq, replayed=True) if seq is not None else None

    async def _reacted(self, question: OpenSession, reaction: str) -> AdmittedMessage | None:
        if question.asked.name == "ask_user" or reaction not in YES | NO:
            return None
        return await self._approve(question, ONCE if reaction in YES else DENY)

    async def replied(self, text: str) -> AdmittedMessage | str | None:
        """Handle a text that may answer a question: a reply to its message or, for a question from the model, the next
        text. Returns a sentence for the user if the text is not a valid answer, None if no question is meant.
        """
        shown = await self._shown(self.update.reply_to)
        question = await self._open(shown) if shown is not None else await self._asked_here()
        if question is None:
            return "That question is no longer open." if shown is not None else None
        if question.asked.name == "ask_user":
            return await self._answer(question, text)
        word = text.strip().lower()
        if word not in YES | NO:
            return "Answer with yes or no, or with a button."
        taken = await self._approve(question, ONCE if word in YES else DENY)
        return taken if taken is not None else "That answer was not accepted."

    # --- by command

    async def commanded(self, answer: str, argument: str) -> str | AdmittedMessage | None:
        """`/approve`, `/deny`: answer the open question of this chat, or of the session that is named. Returns a
        sentence for the user if there is nothing to answer.
        """
        if not self.update.private:
            return "Please answer questions in a private chat with me."
        if argument in (SESSION, ONCE):
            answer, argument = (argument if answer != DENY else DENY), ""
        waiting = [one for one in await self._waiting(argument) if one.asked.name != "ask_user"]
        shown = await self._all_shown()
        seen = [one for one in waiting if _as_shown(one) in shown]  # a word approves only a call shown here
        if len(seen) == 1:
            taken = await self._approve(seen[0], answer)
            return taken if taken is not None else "That question has already been answered."
        if len(seen) > 1:
            return "Several questions are open: press a button under the one you mean, or reply to it."
        if not waiting:
            return "No question is open."
        return await self._show(waiting[0])

    async def _waiting(self, prefix: str) -> list[OpenSession]:
        """Open questions in the sessions of this chat, or in the session whose id starts with `prefix`."""
        line = self.line
        if prefix:
            named = await asyncio.to_thread(found, line.store, line.project, prefix)
            sessions = [named.id]
        else:
            sessions = await asyncio.to_thread(of_chat, line.store, self.sender.route)
        lists = [await asyncio.to_thread(open_questions, line.store, one) for one in sessions]
        return [one for questions in lists for one in questions]

    async def _show(self, question: OpenSession) -> str | AdmittedMessage:
        """Show the question in this chat, with buttons: a call must be seen before it is approved."""
        session_id = await self.line.chats.leads(self.sender.route)
        if session_id is None:
            return "Send /new first, then ask again."
        facts = {"question": linked_question(question.session_id, question.seq, question.asked)}
        text = f"{call_text(question.asked)}\n\nAnswer with a button, or with /approve or /deny."
        return await self.line.chats.post(self.sender, session_id, text, facts=facts)

    # --- helpers

    async def _shown(self, message_id: str | None) -> ShownQuestion | None:
        """The question that a message of the gateway in this chat showed."""
        for _ in range(LOOKS if message_id is not None else 0):
            found = await self._all_shown(message_id)
            if found:
                return found[0]
            if not await self._waiting(""):
                return None
            await asyncio.sleep(LOOK_SECONDS)  # the user may answer before the log has the sent message
        return None

    async def _all_shown(self, message_id: str | None = None) -> list[ShownQuestion]:
        store, route = self.line.store, self.sender.route
        sessions = await asyncio.to_thread(of_chat, store, route)
        lists = [await asyncio.to_thread(shown_in, store, route, one, message_id) for one in sessions]
        return [shown for each in lists for shown in each]

    async def _open(self, shown: ShownQuestion) -> OpenSession | None:
        """The question, if it is still open and still about the same call."""
        waiting = await asyncio.to_thread(open_questions, self.line.store, shown.session_id)
        fitting = (one for one in waiting if (one.seq, one.asked.call_digest) == (shown.seq, shown.call_digest))
        return next(fitting, None)

    async def _asked_here(self) -> OpenSession | None:
        """The open question from the model in this chat, if any: a turn waiting for an answer cannot read other
        messages.
        """
        for session_id in await asyncio.to_thread(of_chat, self.line.store, self.sender.route):
            if (await asyncio.to_thread(self.line.store.head, session_id)).turn is None:
                continue
            box = await asyncio.to_thread(self.line.deliveries.outbox, self.sender.route, session_id)
            for item in box.items.values():
                if _waits_for_words(item) and item.asked is not None:
                    return OpenSession(session_id=session_id, seq=item.of_seq, asked=item.asked)
        return None

    async def _approve(self, question: OpenSession, answer: str) -> AdmittedMessage | None:
        if not self.may_approve or answer not in _TOLD:
            warned("approval.refused", session=question.session_id, seq=question.seq, user=self.update.user)
            return None
        if answer != DENY and not is_readable(question.asked):
            return None
        return await self._answer(question, answer, _TOLD[answer])

    async def _answer(self, question: OpenSession, answer: str, told: str = "") -> AdmittedMessage | None:
        said = "" if self.line.platform.can_edit else told
        try:
            return await self.line.chats.answer(self.sender, _as_shown(question), answer, said)
        except ConflictError:
            return None  # another user answered first, or this update was already processed


def _as_shown(question: OpenSession) -> ShownQuestion:
    return ShownQuestion(session_id=question.session_id, seq=question.seq, call_digest=question.asked.call_digest)


def _waits_for_words(item: OutboxItem) -> bool:
    """Whether this is an open question from the model that the chat has seen."""
    asks = item.asked is not None and item.asked.name == "ask_user" and not item.over
    return asks and any(piece.message_id for piece in item.pieces.values())


def reacted(data: str) -> str | None:
    """The reaction put under a message, on platforms that have reactions; None for a button."""
    mark, found, sign = data.partition(":")
    return sign.replace("\ufe0f", "") if found and mark == "react" else None


def _indexes(answer: str, choices: list[str]) -> bool:
    return answer.isdecimal() and int(answer) < len(choices)
