"""Appends events to a session's log inside a transaction, and resolves key scopes and fork bases."""

from __future__ import annotations

from outlast.core.errors import ConflictError, DamagedSession, SessionDeleted, SessionNotFound
from outlast.core.event_row import StoredEvent
from outlast.core.header import apply
from outlast.store import port
from outlast.store.engine.encode import EncodedWrite
from outlast.store.engine.transaction import HeaderRow, KeyRow, Transaction
from outlast.store.port import Receipt


def live(tx: Transaction, session_id: str) -> HeaderRow:
    """The header of an existing session; raises if it is unknown or deleted."""
    row = tx.header(session_id)  # the id was checked when the write was sealed
    if row is None:
        raise SessionNotFound(f"no session {session_id}; `outlast sessions list` shows the existing ones")
    if row.deleted_at is not None:
        raise SessionDeleted(f"session {session_id} was deleted")
    return row


def scope_of(tx: Transaction, write: port.Write) -> str:
    """The scope of the write's key: the lineage, unless the caller gives another scope."""
    if not isinstance(write, port.Append | port.Create):
        return ""
    if write.scope is not None:
        return write.scope
    if isinstance(write, port.Create):
        continued = tx.header(write.continues) if write.continues else None
        return continued.root_id if continued else write.header.session_id
    row = tx.header(write.session_id)
    return row.root_id if row else write.session_id


def put_events(tx: Transaction, row: HeaderRow, sealed: EncodedWrite, *, touch: bool, epoch: int | None) -> Receipt:
    """Append a write's events to the session, with their blobs and their key."""
    for digest, data in sealed.blobs.items():
        tx.put_blob(row.session_id, digest, data)
    now = tx.clock()
    previous, seq = row.head_hash, row.last_seq
    rows: list[StoredEvent] = []
    for event in sealed.events:
        seq += 1
        stored = event.row(row.session_id, seq, epoch, previous)
        previous = stored.hash
        rows.append(stored)
        apply(row, event.delta, seq=seq, at=event.at, now=now, touch=touch)
        if event.closes_attempt:
            tx.drop_chunks(row.session_id)
    row.head_hash = previous
    tx.append(row, rows)
    if sealed.key is not None and not sealed.own_key:
        tx.put_key(scope_of(tx, sealed.write), sealed.key, KeyRow(row.session_id, seq, len(rows), sealed.digest))
    return Receipt(session_id=row.session_id, seq=seq, first_seq=rows[0].seq)


def base_of(tx: Transaction, base: port.Base) -> tuple[str, bytes]:
    """The session that owns the base event (for a fork of a fork perhaps an ancestor), and the event's hash."""
    row = live(tx, base.session_id)
    if not 1 <= base.seq <= row.last_seq:
        raise ConflictError(f"session {row.session_id} has no event {base.seq}; its last one is {row.last_seq}")
    while base.seq <= row.base_seq and row.base_id is not None:
        parent = tx.header(row.base_id)
        if parent is None:
            raise DamagedSession(
                row.session_id, row.base_seq, f"the session {row.base_id} that it is based on is missing"
            )
        row = parent
    hashed = tx.hash_at(row.session_id, base.seq)
    if hashed is None:
        raise DamagedSession(row.session_id, base.seq, "event is missing")
    return row.session_id, hashed
