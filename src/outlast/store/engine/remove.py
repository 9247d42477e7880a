"""Permanent removal inside a transaction: redaction, deletion, and garbage collection of keys and blobs.

Which keys and blobs are garbage is found in `outlast.store.maintenance.gc`; here it is checked again and removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from outlast.core.errors import ConflictError, DamagedSession, SessionDeleted, SessionNotFound
from outlast.core.event_row import StoredEvent, body_digest
from outlast.core.events import EventRedacted
from outlast.core.header import REDACTED, Delta, counted, delta_of
from outlast.store import port
from outlast.store.engine.append import live, put_events
from outlast.store.engine.encode import PLAIN, ZSTD, EncodedWrite, event_of, plain_body, seal
from outlast.store.engine.transaction import HeaderRow, Transaction
from outlast.store.port import Receipt

_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


def mentioned(stored: StoredEvent) -> set[str] | None:
    """All digests in an event's body, in any field; None if the body cannot be read."""
    if stored.redacted:
        return set()
    if stored.enc not in (PLAIN, ZSTD):
        return None
    try:
        return {found.decode("ascii") for found in _DIGEST.findall(plain_body(stored))}
    except ValueError:
        return None


# --- redaction -----------------------------------------------------------------------------------------------------


def redact(write: port.Redact, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    row = tx.header(write.session_id)
    if row is None:
        raise SessionNotFound(f"no session {write.session_id}; `outlast sessions list` shows the existing ones")
    owner = _owner(tx, row, write.seq) if write.seq > 0 else row
    if owner is not row and owner.deleted_at is None:
        raise ConflictError(f"event {write.seq} belongs to session {owner.session_id}; redact it there")
    found = tx.rows(owner.session_id, write.seq - 1, write.seq) if 0 < write.seq <= owner.last_seq else []
    if row.deleted_at is not None and not found:
        raise SessionDeleted(f"session {row.session_id} was deleted")
    if not found:
        raise ConflictError(f"session {row.session_id} has no event {write.seq}")
    [stored] = found
    if stored.redacted:
        return Receipt(session_id=row.session_id, seq=row.last_seq, replayed=True)
    # A deleted session accepts no events: the forks that still show the event record the redaction.
    tell = [row] if row.deleted_at is None else _shown_by(tx, owner, write.seq)
    event = _blank(tx, owner, stored, write)
    receipts = [_told(tx, session, event, write) for session in tell]
    return receipts[0]


def _owner(tx: Transaction, row: HeaderRow, seq: int) -> HeaderRow:
    """The session that owns event `seq` of this session's history."""
    while seq <= row.base_seq and row.base_id is not None:
        base = tx.header(row.base_id)
        if base is None:
            raise DamagedSession(
                row.session_id, row.base_seq, f"the session {row.base_id} that it is based on is missing"
            )
        row = base
    return row


def _shown_by(tx: Transaction, owner: HeaderRow, seq: int) -> list[HeaderRow]:
    """The sessions, not deleted themselves, whose history contains this event of a deleted session."""
    nearest = [fork for fork in tx.forks(owner.session_id) if fork.base_seq >= seq]
    showing = nearest + [deeper for fork in nearest for deeper in _standing_on(tx, fork)]
    found = [fork for fork in showing if fork.deleted_at is None]
    if not found:
        raise SessionDeleted(f"session {owner.session_id} was deleted")
    return found


def _blank(tx: Transaction, row: HeaderRow, stored: StoredEvent, write: port.Redact) -> EventRedacted:
    digest = body_digest(stored.body)
    # A text in a blob counts by its length. Whether the header shows that text is not checked (see `_scrubbed`).
    unknown = _lies_in_blobs(stored)
    delta = delta_of(event_of(stored, lambda name: tx.blob(row.session_id, name) or b"?"), stored.turn)
    named = mentioned(stored) or set()
    tx.blank(row.session_id, stored.seq, digest)
    standing = _standing_on(tx, row)
    if named:
        _drop_named(tx, row, standing, named)
    for shows in (row, *standing):
        tx.drop_snapshots(shows.session_id)
        if _scrubbed(shows, delta, unknown=unknown) and shows is not row:
            tx.save(shows)
    return EventRedacted(seq=stored.seq, body_digest=digest.hex(), reason=write.reason, counted=counted(delta))


def _lies_in_blobs(stored: StoredEvent) -> bool:
    try:
        return b'"$blob"' in plain_body(stored)
    except ValueError:
        return False


def _told(tx: Transaction, row: HeaderRow, event: EventRedacted, write: port.Redact) -> Receipt:
    new = port.Append(session_id=row.session_id, events=(port.NewEvent(event=event, actor=write.actor),))
    [sealed] = seal((new,), compress=False).writes
    return put_events(tx, row, sealed, touch=True, epoch=None)


def _drop_named(tx: Transaction, row: HeaderRow, standing: list[HeaderRow], named: set[str]) -> None:
    """Drop the blobs that only the redacted event named. Forks are checked too: they may name blobs of their base."""
    there = set(tx.blobs(row.session_id))
    for session in (row, *standing):
        if not named & there:
            return
        kept = _named_in(tx.rows(session.session_id, session.base_seq, session.last_seq))
        if kept is None:
            return
        named = named - kept
    if named & there:
        tx.drop_blobs(row.session_id, keep=there - named)


def _named_in(events: Iterable[StoredEvent]) -> set[str] | None:
    """All digests in these events; None if one of the events cannot be read."""
    kept: set[str] = set()
    for stored in events:
        found = mentioned(stored)
        if found is None:
            return None
        kept |= found
    return kept


def _scrubbed(row: HeaderRow, delta: Delta, *, unknown: bool) -> bool:
    """Remove from a header the texts of the redacted event; return whether it changed. With `unknown` the exact texts
    are not known, so every text that may come from the event is removed."""
    before = row.title, row.pending_text
    titles = [title for title in (delta.title, delta.first_title) if title is not None]
    if row.title in titles or (unknown and row.title is not None and titles):
        row.title = REDACTED
    if row.pending_text is not None and (row.pending_text == delta.pending_text or (unknown and delta.pending)):
        row.pending_text = REDACTED
    return before != (row.title, row.pending_text)


# --- deletion ------------------------------------------------------------------------------------------------------


def delete(write: port.Delete, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    row = live(tx, write.session_id)
    for fork in reversed(_standing_on(tx, row)) if write.with_forks else ():
        if fork.deleted_at is None:
            _bury(tx, fork, write.actor)
    _bury(tx, row, write.actor)
    return Receipt(session_id=row.session_id, seq=row.last_seq)


def _standing_on(tx: Transaction, row: HeaderRow) -> list[HeaderRow]:
    """All forks and forks of forks, nearest first."""
    found = tx.forks(row.session_id)
    return found + [deeper for fork in found for deeper in _standing_on(tx, fork)]


def _bury(tx: Transaction, row: HeaderRow, actor: str) -> None:
    """Turn a session into a tombstone (id, time, actor, last seq, head hash) without any of its conversation."""
    tx.move_routes(row.session_id, None)
    tx.drop_chunks(row.session_id)
    tx.drop_snapshots(row.session_id)
    row.deleted_at, row.deleted_by = tx.clock(), actor
    row.title = row.pending_text = row.project_root = row.place = row.model = row.persona = None
    row.lease_token = row.lease_holder = row.work_since = None
    row.epoch += 1
    tx.save(row)
    _sweep(tx, row)


def _sweep(tx: Transaction, row: HeaderRow) -> None:
    """Erase the events that no fork shares; if none are left, continue with the base session if it is deleted too."""
    while True:
        standing = [fork.base_seq for fork in tx.forks(row.session_id)]
        keep = max(standing, default=row.base_seq)
        tx.drop_events(row.session_id, keep)
        named = _named_in(tx.rows(row.session_id, row.base_seq, keep))
        if named is not None:
            tx.drop_blobs(row.session_id, keep=named)
        if standing:
            return
        # Without events it needs no base: drop the base pointer, even if the base is not deleted.
        base_id, row.base_id = row.base_id, None
        tx.save(row)
        parent = tx.header(base_id) if base_id else None
        if parent is None or parent.deleted_at is None:
            return
        row = parent


# --- housekeeping --------------------------------------------------------------------------------------------------


def forget(write: port.Forget, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    row = tx.header(write.session_id)
    if row is not None and row.deleted_at is not None and row.deleted_at < write.deleted_before:
        tx.forget_keys(row.session_id, write.keys)
    return Receipt(session_id=write.session_id, seq=row.last_seq if row else 0)


def drop_blobs(write: port.DropBlobs, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    """Check again inside the transaction: since the search, a blob may have been named or put again."""
    row = tx.header(write.session_id)
    if row is None or row.deleted_at is not None or tx.forks(row.session_id):
        return Receipt(session_id=write.session_id, seq=row.last_seq if row else 0)
    there = tx.blobs(row.session_id)
    named = _named_in(tx.rows(row.session_id, max(write.looked_upto, row.base_seq), row.last_seq))
    if named is not None:
        gone = {name for name in write.names if there.get(name, write.put_before) < write.put_before} - named
        if gone:
            tx.drop_blobs(row.session_id, keep=set(there) - gone)
    return Receipt(session_id=row.session_id, seq=row.last_seq)
