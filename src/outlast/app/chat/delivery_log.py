"""Deliveries: bringing what a session said to a chat, so that it arrives, and arrives once as far as anybody can know.

    DeliveryBegun (durable) > send > DeliveryMade (durable) > edits > DeliveryClosed (durable)

Whoever writes the begin of an attempt first may send it; everybody else sees that. A begin without its end means that
the sender died, or lost the platform's word: the next attempt is a possible repeat, and says so in the chat.
"""

from __future__ import annotations

import secrets
from contextlib import suppress

from outlast.core import events as e
from outlast.core.errors import ConflictError
from outlast.core.event_row import Actor
from outlast.core.outbox import GATEWAY, READ, Outbox
from outlast.runtime.commit_retry import commit_resolved
from outlast.store.log_store import LogStore
from outlast.store.port import Append, NewEvent
from outlast.store.process_identity import holder, holder_is_gone
from outlast.store.read.decode import decode_events

PAGE = 256
_ACTOR = Actor("system", GATEWAY).text()
_SETTLING = frozenset({"RouteOpened", "DeliveryClosed"})
_here: set[str] = set()
"""The gateways of this process: one that was closed is as gone as one whose process is."""


class DeliveryLog:
    """What one gateway writes about its deliveries. `by` names it in the log."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self._mark = secrets.token_hex(4)
        self.by = f"{holder()} {self._mark}"
        _here.add(self._mark)

    def close(self) -> None:
        _here.discard(self._mark)

    # --- reading

    def outbox(self, route: str, session_id: str) -> Outbox:
        """What the session, or what it has become since, owes the chat now; `session_id` says which that is. Costs as
        much as what happened since nothing was owed."""
        while (head := self.store.head(session_id)).rotated_to:
            session_id = self.store.tip(session_id)
        box, last = Outbox(route), head.last_seq
        box.session_id = session_id
        after = self._settled(route, session_id)
        while after < last:
            page = self.store.read(session_id, after=after, before=last + 1, limit=PAGE, kinds=READ)
            for stored, event in decode_events(self.store, page):
                box.take(stored, event)
            after = page[-1].seq if len(page) == PAGE else last
        box.seq = last
        return box

    def _settled(self, route: str, session_id: str) -> int:
        """The last event of which it is known that nothing before it is owed. Where nothing was ever delivered, that is
        when the chat first came: one that left and comes back is still owed what it was when it left."""
        came, before = 0, None
        while True:
            rows = self.store.read(session_id, before=before, limit=8, kinds=_SETTLING, newest_first=True)
            for stored, event in decode_events(self.store, rows):
                before = stored.seq
                match event:
                    case e.RouteOpened() if event.route == route:
                        came = stored.seq
                    case e.DeliveryClosed() if event.route == route and event.settled_seq:
                        return event.settled_seq
                    case _:
                        continue
            if not rows:
                return came

    def is_gone(self, by: str) -> bool:
        """Whether the gateway that began something certainly does not go on with it."""
        who, _, mark = by.rpartition(" ")
        return mark not in _here if who == holder() else holder_is_gone(who)

    # --- writing

    async def begin(self, route: str, session_id: str, of_seq: int, part: int, attempt: int) -> bool:
        """Whether this gateway may send it now; durable. False when another one has begun the same attempt."""
        event = e.DeliveryBegun(route=route, of_seq=of_seq, part=part, attempt=attempt, by=self.by)
        try:
            await self._write(session_id, event, key=f"delivery {route} {of_seq}.{part}.{attempt}")
        except ConflictError:
            return False
        return True

    async def made(self, route: str, session_id: str, of_seq: int, part: int, attempt: int, message_id: str) -> None:
        """The platform took it."""
        event = e.DeliveryMade(route=route, of_seq=of_seq, part=part, attempt=attempt, message_id=message_id)
        await self._write(session_id, event)

    async def closed(self, box: Outbox, session_id: str, of_seq: int, failed: str | None = None) -> None:
        """It stands in the chat as it should, or never will."""
        item = box.items.pop(of_seq, None)
        event = e.DeliveryClosed(
            route=box.route,
            of_seq=of_seq,
            outcome="delivered" if failed is None else "failed",
            reason=failed,
            settled_seq=box.settled_seq,
        )
        if item is not None:
            box.items[of_seq] = item  # until the log says so
        await self._write(session_id, event)

    async def tell(self, route: str, session_id: str, text: str, key: str) -> None:
        """A notice that nobody asked for; once, however often it is told."""
        with suppress(ConflictError):  # it was told before, in other words
            await self._write(session_id, e.NoticePosted(route=route, text=text), key=f"notice {route} {key}")

    async def _write(self, session_id: str, event: e.Event, key: str | None = None) -> None:
        write = Append(
            session_id=session_id,
            events=(NewEvent(event=event, actor=_ACTOR),),
            key=key,
            to_tip=True,
            touch=False,
        )
        await commit_resolved(self.store, write)
