"""Calls the SQL functions `outlast.append` and `append_one`: encodes a batch of appends and decodes the result.

Encoded by hand instead of with the driver's adapters, because this is the hot path: records in PostgreSQL's wire
format, each field preceded by its type and length.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from outlast.core.header import Delta
from outlast.store.engine.commit import AFTER_ROTATION, AFTER_THE_END
from outlast.store.engine.encode import EncodedCommit, EncodedEvent, EncodedWrite
from outlast.store.port import Append
from outlast.store.postgres.connection import PostgresConnection

MANY = b"SELECT outlast.append($1, $2, $3, $4)"
ONE = b"SELECT outlast.append_one($1)"
TYPES = "SELECT 'outlast.new_event'::regtype::oid, 'outlast.header_change'::regtype::oid"
MOST_EVENTS = 8
"""An append of more events is faster through the engine: the function takes one round per event."""

BOOL, BYTEA, INT8, TEXT = 16, 17, 20, 25
_array = Struct(">iiIii").pack
_length = Struct(">i").pack
_number = Struct(">Iiq").pack
_head = Struct(">Ii").pack
_eight = Struct(">q").pack
_two_numbers = Struct(">iIiqIiq").pack
_no_number = _head(INT8, -1)
_no_text = _head(TEXT, -1)
_no_bytes = _head(BYTEA, -1)
_no_bool = _head(BOOL, -1)
_true, _false = _head(BOOL, 1) + b"\1", _head(BOOL, 1) + b"\0"
_later_event = _no_text + _no_bool + _no_text + _no_bytes + _no_number + _no_number + _no_bool + _no_bool
_nobody = _no_text + _no_number
_FIELDS = 29
_CHANGE_FIELDS = 14


class RecordTypes(NamedTuple):
    """OIDs of the record types in this database."""

    event: int
    change: int


def is_plain(commit: EncodedCommit) -> bool:
    """Whether the commit is a single append that the SQL functions can execute."""
    if len(commit.writes) != 1:
        return False
    sealed = commit.writes[0]
    return isinstance(sealed.write, Append) and not sealed.blobs and len(sealed.events) <= MOST_EVENTS


def append(
    link: PostgresConnection, commits: Sequence[EncodedCommit], types: RecordTypes, *, again: bool
) -> dict[int, int]:
    """Write the commits that can be written, durably; return the last seq of each written one, by its place.

    The commits must be sorted by session. `again`: an earlier attempt may have been committed.
    """
    batch = _Batch(types)
    for place, commit in enumerate(commits):
        commit.rerun = commit.rerun or again
        batch.add(place, commit.writes[0], again=commit.rerun)
    if len(batch.records) == 1:
        seq = link.call(ONE, (batch.records[0],))
        return {} if seq is None else {0: _number_in(seq)}
    flags = _bool(batch.changes), _bool(batch.closes)
    numbers = _numbers_in(link.call(MANY, (batch.array(), _eight(batch.rounds), *flags)))
    half = len(numbers) // 2
    return dict(zip(numbers[:half], numbers[half:], strict=True))


class _Batch:
    """The events of a batch as records, and the function's arguments that concern the whole batch."""

    def __init__(self, types: RecordTypes) -> None:
        self.records: list[bytes] = []
        self.rounds = 0
        self.changes = self.closes = False
        self._types = types
        self._session: str | None = None
        self._round = 0

    def add(self, place: int, sealed: EncodedWrite, *, again: bool) -> None:
        write = sealed.write
        assert isinstance(write, Append)
        if write.session_id != self._session:
            self._session, self._round = write.session_id, 0
        session, writer = _name(write.session_id), _writer(write)
        whole = _whole(write, sealed, fresh=sealed.own_key and not again)
        for event in sealed.events:
            self._round += 1
            change = _change(event.delta, self._types.change)
            self.changes = self.changes or change is not None
            self.closes = self.closes or event.closes_attempt
            change = change or _head(self._types.change, -1)
            numbers = _two_numbers(_FIELDS, INT8, 8, place, INT8, 8, self._round)
            self.records.append(_record(numbers, session, event, change, writer, whole))
            whole = _later_event
        self.rounds = max(self.rounds, self._round)

    def array(self) -> bytes:
        out = [_array(1, 0, self._types.event, len(self.records), 1)]
        for record in self.records:
            out += (_length(len(record)), record)
        return b"".join(out)


def _record(numbers: bytes, session: bytes, event: EncodedEvent, change: bytes, writer: bytes, whole: bytes) -> bytes:
    delta = event.delta
    return b"".join(
        (
            numbers,
            session,
            _name(event.kind),
            _number(INT8, 8, event.v),
            _number(INT8, 8, event.at),
            _name(event.actor),
            _name(event.turn),
            _name(event.enc),
            _bytes(event.body),
            _bytes(event.fields + event.digest),
            _number(INT8, 8, delta.messages),
            _number(INT8, 8, delta.pending),
            _text(delta.pending_text),
            _number(INT8, 8, delta.estimated),
            _text(delta.first_title),
            change,
            _true if event.closes_attempt else _false,
            writer,
            whole,
        )
    )


def _change(delta: Delta, kind: int) -> bytes | None:
    """Encode the header fields that few events change; None if this event changes none of them."""
    if not (
        delta.input_tokens
        or delta.output_tokens
        or delta.title is not None
        or delta.state
        or delta.rotated_to
        or delta.model
        or delta.persona
        or delta.turn is not None
        or delta.turn_over
        or delta.boundary
        or delta.reported
        or delta.plan_mode is not None
        or delta.requested
        or delta.settled
    ):
        return None
    data = b"".join(
        (
            _length(_CHANGE_FIELDS),
            _number(INT8, 8, delta.input_tokens),
            _number(INT8, 8, delta.output_tokens),
            _text(delta.title),
            _text(delta.state or None),
            _text(delta.rotated_to or None),
            _text(delta.model or None),
            _text(delta.persona or None),
            _text(delta.turn),
            _true if delta.turn_over else _false,
            _true if delta.boundary else _false,
            _true if delta.reported else _false,
            _no_bool if delta.plan_mode is None else _true if delta.plan_mode else _false,
            _number(INT8, 8, delta.requested),
            _number(INT8, 8, delta.settled),
        )
    )
    return _head(kind, len(data)) + data


def _writer(write: Append) -> bytes:
    touch = _true if write.touch else _false
    if write.lease is None:
        return touch + _nobody
    return touch + _text(write.lease.token) + _number(INT8, 8, write.lease.epoch)


def _whole(write: Append, sealed: EncodedWrite, *, fresh: bool) -> bytes:
    """Encode the fields that belong to the append as a whole and not to one of its events."""
    assert sealed.key is not None
    events = sealed.events
    kinds = events[0].kind if len(events) == 1 else " ".join(event.kind for event in events)
    return b"".join(
        (
            _text(sealed.key),
            _true if fresh else _false,
            _name(write.scope),
            _bytes(sealed.digest),
            _number(INT8, 8, len(events)),
            _no_number if write.expect is None else _number(INT8, 8, write.expect),
            _taken_late(kinds, write.to_tip),
        )
    )


@lru_cache(1024)
def _taken_late(kinds: str, to_tip: bool) -> bytes:
    """Encode whether a rotated session, and an ended one, still accept events of these kinds."""
    found = set(kinds.split(" "))
    rotated = _true if found <= AFTER_ROTATION and not to_tip else _false
    return rotated + (_true if found <= AFTER_THE_END else _false)


def _bool(value: bool) -> bytes:
    return b"\1" if value else b"\0"


def _number_in(answer: bytes) -> int:
    return int.from_bytes(answer, "big", signed=True)


def _numbers_in(answer: bytes | None) -> list[int]:
    """Decode an array of bigint without nulls."""
    if answer is None:
        return []
    return [_number_in(answer[at + 4 : at + 12]) for at in range(20, len(answer), 12)]


@lru_cache(1024)
def _name(text: str | None) -> bytes:
    """Encode a text that recurs often, cached."""
    return _text(text)


def _text(text: str | None) -> bytes:
    if text is None:
        return _no_text
    data = text.encode()
    return _head(TEXT, len(data)) + data


def _bytes(data: bytes) -> bytes:
    return _head(BYTEA, len(data)) + data
