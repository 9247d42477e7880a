"""A batch of appends as the arguments of the SQL function `holdfast.append`, and its answer, in wire format.

Packed by hand rather than by the driver's adapters, because it is the hot path: one array of records, each field with
its type and length before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from holdfast.store.engine import AFTER_ROTATION, AFTER_THE_END
from holdfast.store.port import Append
from holdfast.store.postgres.link import Link
from holdfast.store.sealing import Commit, Sealed, SealedWrite

COMMAND = b"SELECT holdfast.append($1, $2, $3, $4)"
FORMATS = (1, 1, 1, 0)
RECORD = "SELECT 'holdfast.new_event'::regtype::oid"
LOCK_SECONDS = 5
MOST_EVENTS = 8
"""An append of more events is quicker through the engine than in as many rounds."""

BOOL, BYTEA, INT8, TEXT = 16, 17, 20, 25
_array = Struct(">iiIii").pack
_length = Struct(">i").pack
_number = Struct(">Iiq").pack
_head = Struct(">Ii").pack
_eight = Struct(">q").pack
_three_numbers = Struct(">iIiqIiq").pack
_no_number = _head(INT8, -1)
_no_text = _head(TEXT, -1)
_no_bytes = _head(BYTEA, -1)
_no_bool = _head(BOOL, -1)
_true, _false = _head(BOOL, 1) + b"\1", _head(BOOL, 1) + b"\0"
_later_event = _no_text + _no_text + _no_bytes + _no_number + _no_number + _no_bool + _no_bool
_FIELDS = 36


def is_plain(commit: Commit) -> bool:
    """Whether the commit is one append that `holdfast.append` can carry out."""
    if len(commit.writes) != 1:
        return False
    sealed = commit.writes[0]
    return isinstance(sealed.write, Append) and not sealed.blobs and len(sealed.events) <= MOST_EVENTS


def append(link: Link, commits: Sequence[Commit], record: int) -> dict[int, int]:
    """Carry out what can be carried out, durably; the last seq of each commit that was written, by its place.

    `record` is the number that this database gave to the type of `new_events`.
    """
    answer = link.call(COMMAND, arguments([commit.writes[0] for commit in commits], record), FORMATS)
    numbers = _numbers(answer)
    half = len(numbers) // 2
    return dict(zip(numbers[:half], numbers[half:], strict=True))


def arguments(appends: Sequence[SealedWrite], record: int) -> tuple[bytes | None, ...]:
    records: list[bytes] = []
    rounds: dict[str, int] = {}
    closing: list[int] = []
    for place, sealed in enumerate(appends):
        write = sealed.write
        assert isinstance(write, Append)
        session, owner, whole = _text(write.session_id), _writer(write), _whole(write, sealed)
        done = rounds.get(write.session_id, 0)
        for event in sealed.events:
            done += 1
            records.append(_record(place, done, session, event, owner, whole))
            whole = _later_event
            if event.closes_attempt:
                closing.append(place)
        rounds[write.session_id] = done
    most = _eight(max(rounds.values()))
    return _records(record, records), most, _bigints(closing) if closing else None, b"%ds" % LOCK_SECONDS


def _record(place: int, turn: int, session: bytes, event: Sealed, owner: bytes, whole: bytes) -> bytes:
    delta = event.delta
    return b"".join(
        (
            _three_numbers(_FIELDS, INT8, 8, place, INT8, 8, turn),
            session,
            _text(event.kind),
            _number(INT8, 8, event.v),
            _number(INT8, 8, event.at),
            _text(event.actor),
            _text(event.turn),
            _text(event.enc),
            _bytes(event.body),
            _bytes(event.digest),
            _bytes(event.fields),
            _number(INT8, 8, delta.messages),
            _number(INT8, 8, delta.input_tokens),
            _number(INT8, 8, delta.output_tokens),
            _number(INT8, 8, delta.pending),
            _text(delta.pending_text),
            _text(delta.title),
            _text(delta.first_title),
            _text(delta.state or None),
            _text(delta.rotated_to or None),
            _text(delta.model or None),
            _text(delta.persona or None),
            _text(delta.turn),
            _true if delta.turn_over else _false,
            _true if delta.boundary else _false,
            owner,
            whole,
        )
    )


def _writer(write: Append) -> bytes:
    touch = _true if write.touch else _false
    if write.lease is None:
        return touch + _no_text + _no_number
    return touch + _text(write.lease.token) + _number(INT8, 8, write.lease.epoch)


def _whole(write: Append, sealed: SealedWrite) -> bytes:
    """What belongs to the append and not to one of its events."""
    assert sealed.key is not None
    kinds = {event.kind for event in sealed.events}
    return b"".join(
        (
            _text(sealed.key),
            _text(write.scope),
            _bytes(sealed.digest),
            _number(INT8, 8, len(sealed.events)),
            _no_number if write.expect is None else _number(INT8, 8, write.expect),
            _true if kinds <= AFTER_ROTATION and not write.to_tip else _false,
            _true if kinds <= AFTER_THE_END else _false,
        )
    )


def _records(kind: int, records: list[bytes]) -> bytes:
    out = [_array(1, 0, kind, len(records), 1)]
    for record in records:
        out += (_length(len(record)), record)
    return b"".join(out)


def _bigints(numbers: list[int]) -> bytes:
    return _array(1, 0, INT8, len(numbers), 1) + b"".join(_length(8) + _eight(number) for number in numbers)


def _numbers(answer: bytes | None) -> list[int]:
    """The numbers in an array of bigint without nulls."""
    if answer is None or len(answer) < 20:
        return []
    return [int.from_bytes(answer[at + 4 : at + 12], "big", signed=True) for at in range(20, len(answer), 12)]


def _text(text: str | None) -> bytes:
    if text is None:
        return _no_text
    data = text.encode()
    return _head(TEXT, len(data)) + data


def _bytes(data: bytes) -> bytes:
    return _head(BYTEA, len(data)) + data
