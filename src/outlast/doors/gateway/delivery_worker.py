"""Delivery worker: brings the messages of one session to one chat until nothing is left to deliver.

It folds the log into an outbox and repeatedly compares it with what the chat shows: short answers are sent whole, long
ones grow in place at the platform's pace, questions are sent at once. Everything it must not forget is in the log; its
own state (what a message shows now, the draft) may be lost at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from outlast.app.chat.delivery_log import DeliveryLog
from outlast.app.streams.cursor import DraftChunk
from outlast.app.streams.event_feed import CaughtUp, EventStored, feed
from outlast.context import set_current_session_id
from outlast.core import events as e
from outlast.core.chat_route import address_of
from outlast.core.errors import OutlastError, SessionNotFound
from outlast.core.outbox import DeliveryKind, Outbox, OutboxItem, SentMessage
from outlast.doors.gateway.log import noted, warned
from outlast.doors.gateway.message_text import REPEATED, buttons_of, told
from outlast.doors.gateway.platform import (
    ChatPlatform,
    MaybeSent,
    NotSent,
    OutgoingMessage,
    Rejected,
)
from outlast.doors.gateway.split_message import split

PACE = 0.05
"""Shortest time between two reads of a store that changes all the time."""
TAKE_OVER_SECONDS = 60.0
"""After this time another gateway is presumed dead, even if that cannot be verified."""
TROUBLE_SECONDS = 2.0
"""While a chat waits, how often to check whether something prevents an answer."""
MOST_ATTEMPTS = 5
SHORTEST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
SOON = 15.0
RESERVED = 100
GONE = "·"


class DeliveryPart(NamedTuple):
    """One of the messages an item is split into: number `n` of `parts`."""

    item: OutboxItem
    n: int
    parts: int
    text: str

    @property
    def place(self) -> tuple[int, int]:
        return self.item.of_seq, self.n


class DeliveryWorker:
    """Serves one route and the session that it leads, or led, to. `trouble` says why a session gets no answer."""

    def __init__(
        self,
        platform: ChatPlatform,
        deliveries: DeliveryLog,
        route: str,
        session_id: str,
        *,
        edit_seconds: float,
        trouble: Callable[[str], str | None] = lambda session_id: None,
        take_over_seconds: float = TAKE_OVER_SECONDS,
    ) -> None:
        self.platform = platform
        self.deliveries = deliveries
        self.route = route
        self.session_id = session_id
        self.address = address_of(route)
        self.box = Outbox(route)
        self.news = asyncio.Event()
        self._edit_seconds = edit_seconds
        self._take_over_seconds = take_over_seconds
        self._trouble = trouble
        self._private = False
        self._root = session_id
        self._over = False
        self._finishing: int | None = None
        self._draft = ""
        self._attempt = 0
        self._pause = self._not_before = 0.0
        self._edited_at: dict[int, float] = {}
        self._typed_at = 0.0
        self._troubled = 0
        self._since = monotonic()
        self._shown: dict[tuple[int, int], OutgoingMessage] = {}
        self._sent: dict[tuple[int, int], tuple[int, str]] = {}
        self._unnoted: dict[tuple[int, int], tuple[int, str]] = {}
        self._not_sent: set[tuple[int, int]] = set()
        self._maybe: set[tuple[int, int]] = set()
        self._seen: dict[tuple[int, int], float] = {}
        self._renewed: set[tuple[int, int]] = set()

    async def run(self) -> None:
        """Deliver until the chat is owed nothing and waits for nothing."""
        self._root = (await asyncio.to_thread(self.deliveries.store.head, self.session_id)).root_id
        self.box = await asyncio.to_thread(self.deliveries.outbox, self.route, self.session_id)
        self.session_id = self.box.session_id  # it may have rotated in the meantime
        set_current_session_id(self.session_id)
        self._private = await self.platform.is_private(self.address.chat)
        following = asyncio.create_task(self._follow())
        try:
            while not self._is_done():
                self.news.clear()
                wait = await self._round()
                if self._is_done():
                    break
                with suppress(TimeoutError):  # not wait_for: it loses a cancel that comes together with news
                    async with asyncio.timeout(wait):
                        await self.news.wait()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def finish(self, seq: int) -> None:
        """Deliver everything up to this event, and wait for nothing after it."""
        self._finishing = seq
        self.news.set()

    def _is_done(self) -> bool:
        has_read = self._finishing is not None and self.box.seq >= self._finishing
        if has_read and not any(item.over for item in self.box.items.values()):
            return True
        return self.box.empty or self._over

    # --- the log

    async def _follow(self) -> None:
        pause = 0.5
        while not self._over:
            try:
                await self._read()
                pause = 0.5
            except SessionNotFound:
                break
            except OutlastError as error:
                warned("session.away", error, session=self.session_id)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        self._over = True
        self.news.set()

    async def _read(self) -> None:
        """Fold the events of this session until it is deleted or rotated into another session."""
        after = self.box.seq
        async for thing in feed(self.deliveries.store, self.session_id, after=after):
            match thing:
                case EventStored(stored=stored, event=event):
                    self.box.take(stored, event)
                    if isinstance(event, e.ModelRequested | e.AssistantReplied | e.ReplyInterrupted):
                        self._draft, self._attempt = "", 0
                    if isinstance(event, e.SessionRotated):
                        self.session_id = event.to_session_id
                        self.box.seq = stored.seq - 1  # the new session has its own event with this seq
                        set_current_session_id(self.session_id)
                        return
                case DraftChunk(attempt_seq=attempt, part="text", text=text):
                    self._draft = self._draft + text if attempt == self._attempt else text
                    self._attempt = attempt
                case CaughtUp():
                    self.news.set()
                    await asyncio.sleep(PACE)
                case _:
                    continue
        self._over = True

    # --- one round

    async def _round(self) -> float | None:
        """Deliver what can be delivered now; return the seconds until there is work to do without news, None if there
        is none.
        """
        due: list[float] = []
        if (left := self._not_before - monotonic()) > 0:
            return left
        try:
            for item in list(self.box.items.values()):
                due += await self._bring(item)
            due += await self._mind_waiting()
            self._pause = 0.0
        except (NotSent, MaybeSent) as trouble:
            due = [self._paused(trouble)]
        except SessionNotFound:
            self._over = True
        except OutlastError as error:  # from the store
            due = [self._paused(error)]
        return min(due, default=None)

    def _paused(self, error: OutlastError) -> float:
        self._pause = min(max(SHORTEST_PAUSE, self._pause * 2), LONGEST_PAUSE)
        wait = max(self._pause, (error.retry_after or 0.0) if isinstance(error, NotSent) else 0.0)
        self._not_before = monotonic() + wait
        warned("delivery.waits", error, route=self.route, seconds=round(wait, 1))
        return wait

    async def _mind_waiting(self) -> list[float]:
        """Show that an answer is coming, or say once why none is."""
        waits = bool(self.box.inputs) or any(not item.over for item in self.box.items.values())
        if not waits:
            return []
        trouble, asked = self._trouble(self.session_id), self._not_begun()
        if trouble is not None and asked:
            await self._tell_trouble(trouble, min(asked))
        elif monotonic() - self._typed_at >= self.platform.typing_seconds and self._is_working():
            self._typed_at = monotonic()
            await self.platform.typing(self.address)
        return [min(self.platform.typing_seconds, TROUBLE_SECONDS)]

    async def _tell_trouble(self, trouble: str, since: int) -> None:
        """Say why there is no answer; once per oldest waiting request."""
        if self._troubled != since:
            text = f"⚠️ Nothing answers here just now: {trouble}"
            await self.deliveries.tell(self.route, self.session_id, text, f"trouble {since}")
            self._troubled = since

    def _not_begun(self) -> list[int]:
        """Messages and requests of the chat that no turn works on yet, by seq."""
        if self.box.turn_item is not None:
            return []
        requests = [
            item.of_seq for item in self.box.items.values() if item.what is DeliveryKind.REQUEST and not item.over
        ]
        return [*self.box.inputs, *requests]

    def _is_working(self) -> bool:
        """Whether an answer may come at any moment: a turn runs and does not wait for the chat, or was only just
        requested.
        """
        asks = any(item.what is DeliveryKind.QUESTION and not item.over for item in self.box.items.values())
        soon = monotonic() - self._since < SOON
        return not asks and (self.box.turn_item is not None or soon)

    async def _bring(self, item: OutboxItem) -> list[float]:
        """Deliver the current state of one item; return the waits until it must be looked at again without news."""
        if item.what is DeliveryKind.REQUEST and not item.over:
            return []
        if item.what is DeliveryKind.TURN and not item.over and (wait := self._too_early(item)) is not None:
            return [wait] if wait else []
        if (waits := self._others(item)) is not None:
            return [waits]
        whole = item.over  # fixed here: while a piece is sent, the item may grow
        text = told(item, self._draft if item is self.box.turn_item else "", private=self._private)
        texts = split(text, self.platform.longest - RESERVED, self.platform.size)
        texts += [GONE] * len([n for n in item.pieces if n > len(texts) and whole])  # no longer part of the text
        try:
            for n, text in enumerate(texts, 1):
                if not await self._piece(DeliveryPart(item, n, len(texts), text)):
                    return []
            if whole:
                await self._close(item, None)
        except Rejected as rejected:
            warned("delivery.failed", rejected, route=self.route, session=self.session_id, seq=item.of_seq)
            await self._close(item, str(rejected))
        return []

    def _too_early(self, item: OutboxItem) -> float | None:
        """Seconds to wait before a reply that is being written is shown or updated; None if it is due now. 0 if there
        is no text yet, or only complete replies are shown.
        """
        if not (self.platform.can_edit and self._edit_seconds):
            return 0.0
        since = self._edited_at.setdefault(item.of_seq, monotonic())
        wait = since + self._edit_seconds - monotonic()
        if wait > 0:
            return wait
        if not told(item, self._draft).strip():
            return 0.0
        self._edited_at[item.of_seq] = monotonic()
        return None

    def _others(self, item: OutboxItem) -> float | None:
        """Seconds to wait before taking over this item from another gateway; None if no other gateway delivers it."""
        for n, piece in item.pieces.items():
            if piece.by in ("", self.deliveries.by) or self.deliveries.is_gone(piece.by):
                continue
            seen = self._seen.setdefault((item.of_seq, n * 100 + piece.attempt), monotonic())
            wait = seen + self._take_over_seconds - monotonic()
            if wait > 0:
                return wait
        return None

    # --- one message

    async def _piece(self, part: DeliveryPart) -> bool:
        """Make the chat show this part. Returns False if another gateway is delivering it."""
        if (unnoted := self._unnoted.get(part.place)) is not None:
            await self._note(part, *unnoted)
        known, piece = self._sent.get(part.place), part.item.pieces.get(part.n)
        if known is not None:
            return await self._edit(part, *known)
        if piece is None:
            return await self._send(part, 1)
        if piece.message_id is not None:
            return await self._edit(part, piece.attempt, piece.message_id)
        if part.place in self._not_sent:
            return await self._send(part, piece.attempt, begun=True)
        if not self.platform.knows_repeats:
            await self._reach()
        return await self._send(part, piece.attempt + 1)

    async def _reach(self) -> None:
        """Check that the platform is reachable before a message might appear twice: an outage uses up no attempts."""
        try:
            await self.platform.open()
        except Rejected as rejected:  # this account is rejected, not the chat
            raise NotSent(str(rejected)) from rejected

    async def _send(self, part: DeliveryPart, attempt: int, *, begun: bool = False) -> bool:
        item, place = part.item, part.place
        if attempt > MOST_ATTEMPTS and not self.platform.knows_repeats:
            raise Rejected(f"it was tried {MOST_ATTEMPTS} times and never confirmed")
        if not begun:
            if not await self.deliveries.begin(self.route, self.session_id, item.of_seq, part.n, attempt):
                return False  # the log will soon show which gateway delivers it
            item.pieces = {**item.pieces, part.n: SentMessage(attempt=attempt, by=self.deliveries.by)}
        self._not_sent.discard(place)
        message = self._outgoing(part, attempt)
        try:
            message_id = await self.platform.send(self.address, message)
        except NotSent:
            self._not_sent.add(place)
            raise
        except MaybeSent:
            self._maybe.add(place)
            if self.platform.knows_repeats:  # a retry with the same key is the same attempt
                self._not_sent.add(place)
            raise
        self._sent[place] = self._unnoted[place] = (attempt, message_id)
        if not (message.repeat and self.platform.knows_repeats):
            self._shown[place] = message
        await self._note(part, attempt, message_id)
        if place in self._shown:
            return True
        # The platform may have answered with the message of an earlier attempt, which held only part of the text.
        return await self._edit(part, attempt, message_id)

    async def _note(self, part: DeliveryPart, attempt: int, message_id: str) -> None:
        """Record in the log that the platform accepted the message, before anything else is done with it."""
        await self.deliveries.made(self.route, self.session_id, part.item.of_seq, part.n, attempt, message_id)
        self._unnoted.pop(part.place, None)

    async def _edit(self, part: DeliveryPart, attempt: int, message_id: str) -> bool:
        place, message = part.place, self._outgoing(part, attempt)
        self._sent[place] = (attempt, message_id)
        if not self.platform.can_edit or _looks_alike(self._shown.get(place), message):
            return True
        try:
            await self.platform.edit(self.address, message_id, message)
        except Rejected as rejected:  # the message was deleted, or is too old to edit
            noted("delivery.renewed", route=self.route, why=str(rejected))
            self._renewed.add(place)
            del self._sent[place]
            return await self._send(part, attempt + 1)
        self._shown[place] = message
        return True

    def _outgoing(self, part: DeliveryPart, attempt: int) -> OutgoingMessage:
        item, renewed = part.item, part.place in self._renewed
        repeat = (attempt > 1 or part.place in self._maybe) and not renewed
        marked = repeat and not self.platform.knows_repeats
        suffix = f".{attempt}" if renewed else ""
        return OutgoingMessage(
            text=f"{REPEATED}\n\n{part.text}" if marked else part.text,
            key=f"{self._root}.{item.of_seq}.{part.n}{suffix}",
            buttons=buttons_of(item, private=self._private) if part.n == part.parts else (),
            reply_to=item.reply_to if part.n == 1 and not self._private else None,
            repeat=repeat,
            facts=facts_of(item.what, self.session_id, item.of_seq, part.n, part.parts, item.outcome),
        )

    async def _close(self, item: OutboxItem, failed: str | None) -> None:
        await self.deliveries.closed(self.box, self.session_id, item.of_seq, failed)
        self.box.items.pop(item.of_seq, None)


def facts_of(
    what: DeliveryKind,
    session_id: str | None = None,
    seq: int | None = None,
    n: int = 1,
    parts: int = 1,
    outcome: str | None = None,
) -> dict[str, object]:
    """Facts about a message for programs; a message outside any session's log has neither session nor seq."""
    return {"kind": str(what), "session_id": session_id, "seq": seq, "part": n, "parts": parts, "outcome": outcome}


def _looks_alike(shown: OutgoingMessage | None, message: OutgoingMessage) -> bool:
    return shown is not None and (shown.text, shown.buttons) == (message.text, message.buttons)
