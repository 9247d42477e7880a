"""Imports rows of another store inside a transaction; their bytes and hashes stay unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from outlast.core.codec import INT_MAX, INT_MIN
from outlast.core.errors import ConflictError, DamagedSession, InvalidInput, SessionDeleted
from outlast.core.event_row import GENESIS, StoredEvent, body_digest, check_chain
from outlast.core.header import Delta, apply, delta_of, delta_of_redacted, imported
from outlast.store import port
from outlast.store.engine.append import base_of, live
from outlast.store.engine.encode import OWN_KEY, PLAIN, ZSTD, EncodedWrite, content_of, digest_of, event_of, plain_body
from outlast.store.engine.transaction import HeaderRow, KeyRow, Transaction
from outlast.store.port import Receipt

UNKNOWN_DIGEST = bytes(32)
"""Digest of a key whose write can no longer be recomputed, because a body was redacted: a repeat is refused."""


def restore(write: port.Restore, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    row = tx.header(write.header.session_id)
    if row is None:
        row = _begun(write, tx)
    else:
        _refuse_others(row, write)
        row.epoch = max(row.epoch, write.header.epoch)
        tx.save(row)
    events = list(write.events)
    _check(row, events)
    blobs = dict(write.blobs)
    for name, data in blobs.items():
        tx.put_blob(row.session_id, name, data)
    deltas = {event.seq: imported(_delta(event, write.counted, blobs, tx)) for event in events}
    for event in events:
        row.updated_at = max(row.updated_at + 1, event.at)
        apply(row, deltas[event.seq], seq=event.seq, at=event.at, now=0, touch=False)
    _check_sums(row)
    row.head_hash = events[-1].hash
    row.imported_seq = row.last_seq
    tx.restore(row, events, {event.seq: deltas[event.seq] for event in events if event.redacted}, keys_in(events))
    return Receipt(session_id=row.session_id, seq=row.last_seq, first_seq=events[0].seq)


def _begun(write: port.Restore, tx: Transaction) -> HeaderRow:
    given = write.header
    row = HeaderRow(**{name: getattr(given, name) for name in given.__struct_fields__})
    row.root_id = row.session_id
    row.last_seq, row.head_hash = 0, GENESIS
    row.created_at = row.created_at or write.events[0].at
    row.imported_seq = 0
    row.estimated_tokens, row.requests, row.work_since = 0, 0, None
    if write.base is not None:
        owner, hashed = base_of(tx, write.base)
        row.base_id, row.base_seq = owner, write.base.seq
        row.last_seq, row.head_hash = write.base.seq, hashed
    if write.continues is not None:
        row.root_id = live(tx, write.continues).root_id
        tx.put_tip(row.root_id, row.session_id)
    tx.create(row)
    return row


def _refuse_others(row: HeaderRow, write: port.Restore) -> None:
    """Refuse to continue a session unless it was restored and has no new events since."""
    if row.deleted_at is not None:
        raise SessionDeleted(f"session {row.session_id} was deleted here")
    if row.imported_seq != row.last_seq or write.events[0].seq <= row.last_seq:
        raise ConflictError(f"session {row.session_id} already exists with other events; nothing was changed")


def _check(row: HeaderRow, events: list[StoredEvent]) -> None:
    if any(event.session_id != row.session_id for event in events):
        raise InvalidInput(f"an event of another session is among those of {row.session_id}")
    try:
        check_chain(row.head_hash, row.last_seq, events)
    except DamagedSession as error:
        raise InvalidInput(f"session {row.session_id} is damaged at event {error.seq}: {error.what}") from error


def _check_sums(row: HeaderRow) -> None:
    """Refuse sums beyond 64 bits, which forged rows can produce."""
    for name in row.__struct_fields__:
        number = getattr(row, name)
        if isinstance(number, int) and not INT_MIN <= number <= INT_MAX:
            raise InvalidInput(f"session {row.session_id}: its {name} is a number beyond 64 bits")


def _delta(
    event: StoredEvent, counted: Mapping[int, Mapping[str, int]], blobs: Mapping[str, bytes], tx: Transaction
) -> Delta:
    if event.redacted:
        return delta_of_redacted(event.kind, event.turn, counted.get(event.seq, {}))

    def blob(name: str) -> bytes:  # may have come with an earlier part
        return blobs.get(name) or tx.blob(event.session_id, name) or b"?"

    return delta_of(event_of(event, blob), event.turn)


def keys_in(events: Sequence[StoredEvent]) -> list[tuple[str, KeyRow]]:
    """The callers' keys, each with its original write: the events from the key up to the next key."""
    starts = [place for place, event in enumerate(events) if event.key is not None]
    found: list[tuple[str, KeyRow]] = []
    for start, end in pairwise([*starts, len(events)]):
        first, last = events[start], events[end - 1]
        if first.key is None or first.key.startswith(OWN_KEY):
            continue
        found.append((first.key, KeyRow(first.session_id, last.seq, end - start, _digest(events[start:end]))))
    return found


def _digest(events: Sequence[StoredEvent]) -> bytes:
    content: list[bytes] = []
    for event in events:
        if event.enc not in (PLAIN, ZSTD) or (event.redacted and event.enc != PLAIN):
            return UNKNOWN_DIGEST
        digest = event.body if event.redacted else body_digest(plain_body(event))
        content.append(content_of(event.kind, event.v, digest))
    return digest_of(content, None)
