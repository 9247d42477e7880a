"""Delivery log: records deliveries to chats, so that every item arrives, and arrives once as far as can be known.

    DeliveryBegun (durable) > send > DeliveryMade (durable) > edits > DeliveryClosed (durable)

The gateway that first commits DeliveryBegun for an attempt may send it; other gateways see that event. DeliveryBegun
without DeliveryMade means that the sender died or did not get the platform's response: the next attempt may be a
duplicate, and says so in the chat.
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
"""Open gateways of this process. A closed gateway counts as gone, like one whose process ended."""


class DeliveryLog:
    """Writes and reads the deliveries of one gateway. `by` names the gateway in the log."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self._mark = secrets.token_hex(4)
        self.by = f"{holder()} {self._mark}"
        _here.add(self._mark)

    def close(self) -> None:
        _here.discard(self._mark)

    # --- reading

    def outbox(self, route: str, session_id: str) -> Outbox:
        """What the session, or the session it was rotated to, still owes the chat; the outbox's `session_id` names the
        session. The cost is proportional to the events since nothing was owed."""
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
        """The last event up to which everything is known to be delivered. If nothing was ever delivered, this is the
        chat's first RouteOpened: a chat that left and came back is still owed what it was owed when it left."""
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
        """Whether the gateway named `by` certainly no longer runs."""
        who, _, mark = by.rpartition(" ")
        return mark not in _here if who == holder() else holder_is_gone(who)

    # --- writing

    async def begin(self, route: str, session_id: str, of_seq: int, part: int, attempt: int) -> bool:
        """Commit DeliveryBegun; return whether this gateway may send the item now. False if another gateway has begun
        the same attempt."""
        event = e.DeliveryBegun(route=route, of_seq=of_seq, part=part, attempt=attempt, by=self.by)
        try:
            await self._write(session_id, event, key=f"delivery {route} {of_seq}.{part}.{attempt}")
        except ConflictError:
            return False
        return True

    async def made(self, route: str, session_id: str, of_seq: int, part: int, attempt: int, message_id: str) -> None:
        """Record that the platform accepted the message."""
        event = e.DeliveryMade(route=route, of_seq=of_seq, part=part, attempt=attempt, message_id=message_id)
        await self._write(session_id, event)

    async def closed(self, box: Outbox, session_id: str, of_seq: int, failed: str | None = None) -> None:
        """Record that the item is completely delivered, or has failed for good."""
        item = box.items.pop(of_seq, None)
        event = e.DeliveryClosed(
            route=box.route,
            of_seq=of_seq,
            outcome="delivered" if failed is None else "failed",
            reason=failed,
            settled_seq=box.settled_seq,
        )
        if item is not None:
            box.items[of_seq] = item  # it stays owed until the commit succeeds
        await self._write(session_id, event)

    async def tell(self, route: str, session_id: str, text: str, key: str) -> None:
        """Post an unsolicited notice; once per `key`, however often this is called."""
        with suppress(ConflictError):  # it was posted before with another text
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
