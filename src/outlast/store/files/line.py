"""One line of a segment: an event with all fields of its row, as JSON that can be searched with grep.

The body stands in the line byte for byte as it was hashed, so it is cut out again unchanged. What the hash does not
cover (`u` and the fields after the body) is what the store itself adds: the header's `updated_at` after this event, a
key's scope, count and digest, a lease. A CRC-32 at the end of every line covers all of it, and lets a line be judged
without its predecessor.

`more` says how many lines of the same commit follow; a commit whose last line is missing was never made.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from outlast.core.errors import InvalidInput
from outlast.core.event_row import StoredEvent
from outlast.core.header import Delta
from outlast.store.engine.encode import PLAIN
from outlast.store.engine.transaction import HeaderRow
from outlast.store.files import former_name

FORMAT = 1
CRC_LENGTH = 18  # ,"crc":"xxxxxxxx"}
BEGINS = re.compile(rb'\{"seq":\d{1,19},"session":"[a-z2-7]{26}"')
"""How an event's line begins, wherever it stands."""


class LeaseState(NamedTuple):
    """A lease as of its `n`th change; of several, the one with the highest `n` counts."""

    n: int
    epoch: int
    token: str | None
    holder: str | None
    since: int
    expires: int
    boot: str | None

    @classmethod
    def of(cls, row: HeaderRow, n: int) -> LeaseState:
        return cls(n, row.epoch, row.lease_token, row.lease_holder, row.lease_since, row.lease_expires, row.lease_boot)

    def give(self, row: HeaderRow) -> None:
        row.epoch, row.lease_token, row.lease_holder = self.epoch, self.token, self.holder
        row.lease_since, row.lease_expires, row.lease_boot = self.since, self.expires, self.boot


class SegmentHead(Struct, omit_defaults=True):
    """The first line of a segment. `header` is what the session was created with; only the first segment has it."""

    outlast: int
    session: str
    segment: int
    base_seq: int
    prev: str
    header: HeaderRow | None = None


class EventLine(Struct):
    seq: int
    session: str
    kind: str
    v: int
    at: int
    actor: str
    turn: str | None
    key: str | None
    epoch: int | None
    enc: str
    hash: str
    u: int
    body: Raw
    redacted: bool | UnsetType = UNSET
    more: int | UnsetType = UNSET
    scope: str | UnsetType = UNSET
    count: int | UnsetType = UNSET
    digest: str | UnsetType = UNSET
    lease: LeaseState | UnsetType = UNSET
    delta: Delta | UnsetType = UNSET
    """Of a redacted event: what it had added to the header, without its words."""
    masked: list[str] | UnsetType = UNSET
    """Of a redaction: the fields of the header that it took away."""
    imported: bool | UnsetType = UNSET
    """Whether another store wrote it, and it came here in a file."""

    def event(self) -> StoredEvent:
        return StoredEvent(
            self.session,
            self.seq,
            self.kind,
            self.v,
            self.at,
            self.actor,
            self.turn,
            self.key,
            self.epoch,
            self.enc,
            self._stored_body(),
            bytes.fromhex(self.hash),
            self.redacted is True,
        )

    def _stored_body(self) -> bytes:
        if self.redacted is True:
            return bytes.fromhex(msgspec.json.decode(self.body, type=str))
        if self.enc != PLAIN:
            return base64.b64decode(msgspec.json.decode(self.body, type=str), validate=True)
        return bytes(self.body)


_encoder = msgspec.json.Encoder()
_line = msgspec.json.Decoder(EventLine)
_head = msgspec.json.Decoder(SegmentHead)


def line_of(event: StoredEvent, updated_at: int) -> EventLine:
    body = event.body
    if event.redacted:
        body = _encoder.encode(body.hex())
    elif event.enc != PLAIN:
        body = _encoder.encode(base64.b64encode(body).decode("ascii"))
    return EventLine(
        event.seq,
        event.session_id,
        event.kind,
        event.v,
        event.at,
        event.actor,
        event.turn,
        event.key,
        event.epoch,
        event.enc,
        event.hash.hex(),
        updated_at,
        Raw(body),
        True if event.redacted else UNSET,
    )


def encode(value: Struct) -> bytes:
    """A value as one line: JSON, its checksum, a newline."""
    try:
        data = _encoder.encode(value)[:-1]
    except UnicodeEncodeError as error:
        raise InvalidInput(f"an actor, a turn or a name holds text that is not valid Unicode: {error}") from error
    return b'%b,"crc":"%08x"}\n' % (data, zlib.crc32(data))


def intact(text: bytes) -> bool:
    """Whether a line (without its newline) is what was written."""
    if len(text) < CRC_LENGTH or text[-CRC_LENGTH:-10] != b',"crc":"' or text[-2:] != b'"}':
        return False
    return b"%08x" % zlib.crc32(memoryview(text)[:-CRC_LENGTH]) == text[-10:-2]


def whole(data: bytes) -> bool:
    """Whether a file of one line is what was written."""
    return data[-1:] == b"\n" and intact(data[:-1])


def decode(text: bytes) -> EventLine | None:
    """The event's line in these bytes; None when they are not what was written."""
    if not intact(text):
        return None
    try:
        return _line.decode(text)
    except msgspec.DecodeError:
        return None


def decode_head(text: bytes) -> SegmentHead | None:
    if not intact(text):
        return None
    try:
        return _head.decode(former_name.head(text))
    except msgspec.DecodeError:
        return None


def seq_in(text: bytes) -> int:
    """The seq of an intact line, without decoding all of it; 0 where it is no event's line."""
    return int(text[7 : text.index(b",")]) if BEGINS.match(text) else 0


def events_in(text: bytes) -> list[StoredEvent]:
    """Every whole row in these bytes: two, where the newline between two lines was changed."""
    event = event_in(text)
    if event is not None:
        return [event]
    starts = [found.start() for found in BEGINS.finditer(text)]
    parts = [text[start:end] for start, end in zip(starts, [*starts, len(text)][1:], strict=True)]
    found = [event_in(part) or event_in(part[:-1]) for part in parts]
    return [event for event in found if event is not None]


def event_in(text: bytes) -> StoredEvent | None:
    """The row in a line, if it is intact."""
    line = decode(text)
    try:
        return None if line is None else line.event()
    except (ValueError, binascii.Error):
        return None
