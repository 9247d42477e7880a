"""Fast path for the most common commit: one short text message appended to one session.

A `PlainAppend` stores byte for byte the same row as the `EncodedCommit` from `seal`, but holds only what that row
needs: between two syncs the caches are cold, so untouched memory saves time. `writes` builds the full form on demand
from the same event, time and key.
"""

from __future__ import annotations

import msgspec

from outlast.core.codec import VERSIONS
from outlast.core.event_row import body_digest, chain, hashed_fields
from outlast.core.events import MessageAppended
from outlast.core.header import ACTIVE, delta_of
from outlast.core.ids import ID_LENGTH
from outlast.core.messages import Role, TextPart
from outlast.store.engine.encode import COMPRESS_FROM, PLAIN, EncodedCommit, EncodedWrite, own_key, seal
from outlast.store.engine.transaction import HeaderRow
from outlast.store.port import Append, NewEvent, Write
from outlast.store.process_identity import now_us

KIND = MessageAppended.__name__
VERSION = VERSIONS[KIND]
_encode = msgspec.json.Encoder(order="sorted").encode


class PlainAppend(EncodedCommit):
    """A commit of one append without a caller's key, lease, scope or `expect`."""

    __slots__ = ("actor", "at", "body", "digest", "event", "own", "session_id", "to_tip", "touch")

    def __init__(self, session_id: str, event: MessageAppended, actor: str, touch: bool, body: bytes) -> None:
        self._writes = None
        self.to_tip = False
        self.rerun = False
        self.size = len(body)
        self.session_id, self.event, self.actor, self.touch = session_id, event, actor, touch
        self.at, self.own = now_us(), own_key()
        self.body, self.digest = body, body_digest(body)

    @property
    def key(self) -> str:
        return self.own

    @property
    def writes(self) -> tuple[EncodedWrite, ...]:
        if self._writes is None:
            new = NewEvent(event=self.event, actor=self.actor, at=self.at)
            write = Append(
                session_id=self.session_id, events=(new,), key=self.own, to_tip=self.to_tip, touch=self.touch
            )
            [sealed] = seal((write,), compress=False).writes
            self._writes = (msgspec.structs.replace(sealed, own_key=True),)
        return self._writes

    def fits(self, row: HeaderRow) -> bool:
        """Whether the session accepts this append without further checks; if not, the engine must apply it."""
        return row.state == ACTIVE and row.deleted_at is None and not row.rotated_to and not self.rerun

    def hash_after(self, previous: bytes, seq: int) -> bytes:
        """The hash of the row, given the hash of the row before it."""
        fields = hashed_fields(self.session_id, KIND, VERSION, self.at, self.actor, None, self.own, PLAIN)
        return chain(previous, seq, None, fields, self.digest)

    def add_to(self, row: HeaderRow, seq: int, hashed: bytes, now: int) -> None:
        """Update the header as `outlast.core.header.apply` would for a message."""
        row.last_seq, row.head_hash = seq, hashed
        row.message_count += 1
        row.last_message_at = self.at
        if row.title is None:
            row.title = delta_of(self.event).first_title
        if self.touch:
            row.updated_at = max(now, row.updated_at + 1)


def plain_message(session_id: str, event: MessageAppended, actor: str, touch: bool) -> PlainAppend | None:
    """The fast append of this message; None if the message is not plain or may have to be refused.

    The id is not fully validated: no session has an invalid id, and the engine reports that.
    """
    if len(event.parts) != 1 or type(event.role) is not Role:
        return None
    part = event.parts[0]
    if type(part) is not TextPart or type(part.text) is not str or len(part.text) >= COMPRESS_FROM:
        return None
    if type(session_id) is not str or len(session_id) != ID_LENGTH or not session_id.isascii():
        return None
    if not actor.isascii() or "\0" in actor:
        return None
    try:
        body = _encode(event)
    except UnicodeEncodeError:
        return None
    return PlainAppend(session_id, event, actor, touch, body) if len(body) < COMPRESS_FROM else None


def plain_append(write: Write) -> PlainAppend | None:
    """The fast form of any write; None if it needs the general path."""
    if type(write) is not Append or len(write.events) != 1 or write.key is not None:
        return None
    if write.lease is not None or write.scope is not None or write.expect is not None:
        return None
    new = write.events[0]
    if type(new.event) is not MessageAppended or new.turn is not None or new.at is not None:
        return None
    plain = plain_message(write.session_id, new.event, new.actor, write.touch)
    if plain is not None:
        plain.to_tip = write.to_tip
    return plain
