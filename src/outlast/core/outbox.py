"""The outbox: items of a session that still have to be delivered to a chat. A fold of the log.

A chat receives the turns that answer its own inputs, the questions asked in them, the results of its requests, and the
gateway's notices; inputs from another door are answered there. An item is open until `DeliveryClosed`. Each piece of an
item is one chat message and is recorded (`DeliveryBegun`) before it is sent: a piece that was begun but not recorded as
made may or may not have arrived.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from outlast.core import events as e
from outlast.core.event_row import Actor, StoredEvent
from outlast.core.messages import text_of

GATEWAY = "gateway"
READ = frozenset(
    {
        "SessionForked",
        "InputAdmitted",
        "InputPromoted",
        "InputWithdrawn",
        "TurnStarted",
        "ModelRequested",
        "AssistantReplied",
        "ReplyInterrupted",
        "ToolCallStarted",
        "ToolCallFinished",
        "ApprovalRequested",
        "ApprovalAnswered",
        "TurnEnded",
        "BoundaryRequested",
        "Compacted",
        "RuntimeStateChanged",
        "NoticePosted",
        "DeliveryBegun",
        "DeliveryMade",
        "DeliveryClosed",
    }
)
"""The event kinds that an outbox is folded from."""


class DeliveryKind(StrEnum):
    TURN = "turn"
    QUESTION = "question"
    NOTICE = "notice"
    REQUEST = "request"


class SentMessage(msgspec.Struct, kw_only=True):
    """One message in the chat. `message_id` is the platform's; None if it is unknown whether the message was sent."""

    attempt: int
    by: str
    message_id: str | None = None


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question of the session: an approval for a call, or the model's own question (`ask_user`)."""

    name: str
    arguments: dict[str, Any]
    call_digest: str
    reason: str | None = None


class OutboxItem(msgspec.Struct, kw_only=True):
    """An item to deliver. `of_seq` is the event it began with; `needs` is the oldest event needed to build it.

    `texts` are a turn's replies or a notice's text, `partial` is the text of a reply that broke off, `working` the
    running tool. `over`: nothing will be added to the item. `answered` is the first answer to a question.
    """

    what: DeliveryKind
    of_seq: int
    needs: int
    turn: str | None = None
    reply_to: str | None = None
    texts: list[str] = []
    partial: str = ""
    working: str | None = None
    over: bool = False
    outcome: str | None = None
    reason: str | None = None
    asked: OpenQuestion | None = None
    answered: str | None = None
    facts: dict[str, Any] = {}
    pieces: dict[int, SentMessage] = {}


class Outbox:
    """The open items of one chat after event `seq` of the session, oldest first, and the chat's unanswered inputs."""

    def __init__(self, route: str) -> None:
        self.route = route
        self.session_id = ""
        self.seq = 0
        self.items: dict[int, OutboxItem] = {}
        self.inputs: dict[int, str | None] = {}
        self._turn: StoredEvent | None = None

    @property
    def empty(self) -> bool:
        """Whether the chat has no open item and no unanswered input."""
        return not self.items and not self.inputs

    @property
    def settled_seq(self) -> int:
        """No open item or input needs an event up to this seq."""
        needed = [*self.inputs, *(item.needs for item in self.items.values())]
        return min(needed) - 1 if needed else self.seq

    def take(self, stored: StoredEvent, event: e.Event | e.Opaque) -> None:
        """Add one event."""
        self.seq = max(self.seq, stored.seq)
        match event:
            case e.SessionForked():
                self._forked(event)
            case e.InputAdmitted(message_id=message_id):
                if route_in(stored.actor) == self.route:
                    self.inputs[stored.seq] = message_id
            case e.InputWithdrawn(inputs=inputs):
                self._answered(inputs)
            case e.TurnStarted(inputs=inputs):
                self._turn = stored
                self._join(inputs)
            case e.InputPromoted(inputs=inputs):
                self._join(inputs)
            case e.BoundaryRequested(what=what):
                if route_in(stored.actor) == self.route:
                    self.items[stored.seq] = OutboxItem(
                        what=DeliveryKind.REQUEST, of_seq=stored.seq, needs=stored.seq, facts={"request": what}
                    )
            case e.Compacted(tokens_before=before, tokens_after=after, summarised=False):
                self._carried_out(f"Old tool outputs are left out now: about {before:,} tokens became {after:,}.")
            case e.Compacted(tokens_before=before, tokens_after=after):
                self._carried_out(f"Older messages are summarised now: about {before:,} tokens became {after:,}.")
            case e.RuntimeStateChanged(changes={"boundary_refused": {"why": why}}):
                self._carried_out(f"Nothing was done: {why}.")
            case e.NoticePosted() if event.route == self.route:
                if event.text:  # a notice without text exists only for its key
                    self._noticed(stored, event)
            case e.DeliveryBegun() | e.DeliveryMade() | e.DeliveryClosed() if event.route == self.route:
                self._delivered(event)
            case _:
                self._said(stored, event)

    @property
    def turn_item(self) -> OutboxItem | None:
        """The item of the running turn, if the turn is for this chat."""
        return self.items.get(self._turn.seq) if self._turn is not None else None

    # --- items to deliver

    def _forked(self, event: e.SessionForked) -> None:
        """A rotation carries all items over; the inherited items of a fork are delivered by the original session."""
        self._turn = None
        carried = event.carried_inputs if event.reason == "rotate" else []
        self.inputs = {seq: to for seq, to in self.inputs.items() if seq in carried}
        if event.reason != "rotate":
            self.items = {}

    def _join(self, inputs: list[int]) -> None:
        """If the turn reads one of the chat's inputs, open an item for what the turn says from here on."""
        ours = [seq for seq in inputs if seq in self.inputs]
        turn = self._turn
        if turn is None or not ours or turn.seq in self.items:
            return
        self.items[turn.seq] = OutboxItem(
            what=DeliveryKind.TURN,
            of_seq=turn.seq,
            needs=min(ours),
            turn=turn.turn,
            reply_to=self.inputs[ours[0]],
        )

    def _noticed(self, stored: StoredEvent, event: e.NoticePosted) -> None:
        self.items[stored.seq] = OutboxItem(
            what=DeliveryKind.NOTICE,
            of_seq=stored.seq,
            needs=stored.seq,
            reply_to=event.reply_to,
            texts=[event.text],
            facts=event.facts,
            over=True,
        )

    def _carried_out(self, text: str) -> None:
        """Finish the chat's boundary requests: they were carried out or refused."""
        for item in self.items.values():
            if item.what is DeliveryKind.REQUEST and not item.over:
                item.over, item.texts = True, [text]

    def _said(self, stored: StoredEvent, event: e.Event | e.Opaque) -> None:
        """Add an event of the running turn to its item; ignored if the turn is not for this chat."""
        item = self.turn_item
        match event:
            case e.TurnEnded():
                self._ended(item, event)
            case e.ApprovalAnswered():
                self._decided(event)
            case _ if item is None:
                return
            case e.ModelRequested():
                item.partial = ""
            case e.AssistantReplied(parts=parts):
                item.partial, text = "", text_of(parts)
                item.texts = [*item.texts, text] if text.strip() else item.texts
            case e.ReplyInterrupted(parts=parts):
                item.partial = text_of(parts)
            case e.ToolCallStarted(name=name):
                item.working = name
            case e.ToolCallFinished():
                item.working = None
            case e.ApprovalRequested():
                self._asked(stored, event, item)
            case _:
                return

    def _asked(self, stored: StoredEvent, event: e.ApprovalRequested, turn: OutboxItem) -> None:
        asked = OpenQuestion(
            name=event.name, arguments=event.arguments, call_digest=event.call_digest, reason=event.reason
        )
        self.items[stored.seq] = OutboxItem(
            what=DeliveryKind.QUESTION,
            of_seq=stored.seq,
            needs=turn.needs,
            turn=stored.turn,
            reply_to=turn.reply_to,
            asked=asked,
        )

    def _decided(self, event: e.ApprovalAnswered) -> None:
        item = self.items.get(event.approval_seq)
        if item is not None:
            self._finish_question(item, event.answer)

    def _finish_question(self, item: OutboxItem, answer: str) -> None:
        """Finish a question; drop it if the chat never saw it."""
        item.answered, item.over = answer, True
        if not item.pieces:
            del self.items[item.of_seq]

    def _ended(self, item: OutboxItem | None, event: e.TurnEnded) -> None:
        if item is not None:
            item.over, item.working = True, None
            item.outcome, item.reason = event.outcome, event.reason
            for question in [one for one in self.items.values() if one.what is DeliveryKind.QUESTION and not one.over]:
                self._finish_question(question, "dropped")
        self._turn = None
        self._answered(event.answered)

    def _answered(self, inputs: list[int]) -> None:
        for seq in inputs:
            self.inputs.pop(seq, None)

    # --- deliveries

    def _delivered(self, event: e.DeliveryBegun | e.DeliveryMade | e.DeliveryClosed) -> None:
        item = self.items.get(event.of_seq)
        if item is None:
            return
        match event:
            case e.DeliveryBegun(part=part, attempt=attempt, by=by):
                item.pieces = {**item.pieces, part: SentMessage(attempt=attempt, by=by)}
            case e.DeliveryMade(part=part, message_id=message_id):
                known = item.pieces.get(part) or SentMessage(attempt=event.attempt, by="")
                item.pieces = {**item.pieces, part: msgspec.structs.replace(known, message_id=message_id)}
            case e.DeliveryClosed():  # pragma: no branch
                del self.items[event.of_seq]


def route_in(actor: str) -> str | None:
    """Return the chat route an input came from; None if it came through another door."""
    found = Actor.parse(actor)
    return found.client if found.door == GATEWAY and found.client else None
