"""Taking away for good, inside a transaction: redaction, deletion, and what nobody can ask for any more."""

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
    """The digests that an event's body mentions, in whatever way it names its blobs; None where that cannot be told."""
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
        raise SessionNotFound(f"no session {write.session_id}; `outlast sessions list` shows those there are")
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
    # A deleted session takes no event: the forks that still show this one say that it was redacted.
    tell = [row] if row.deleted_at is None else _shown_by(tx, owner, write.seq)
    event = _blank(tx, owner, stored, write)
    receipts = [_told(tx, session, event, write) for session in tell]
    return receipts[0]


def _owner(tx: Transaction, row: HeaderRow, seq: int) -> HeaderRow:
    """The session that an event of this one's history belongs to."""
    while seq <= row.base_seq and row.base_id is not None:
        base = tx.header(row.base_id)
        if base is None:
            raise DamagedSession(row.session_id, row.base_seq, f"the session {row.base_id} it stands on is missing")
        row = base
    return row


def _shown_by(tx: Transaction, owner: HeaderRow, seq: int) -> list[HeaderRow]:
    """The living sessions whose history holds this event of a deleted one."""
    nearest = [fork for fork in tx.forks(owner.session_id) if fork.base_seq >= seq]
    showing = nearest + [deeper for fork in nearest for deeper in _standing_on(tx, fork)]
    found = [fork for fork in showing if fork.deleted_at is None]
    if not found:
        raise SessionDeleted(f"session {owner.session_id} was deleted")
    return found


def _blank(tx: Transaction, row: HeaderRow, stored: StoredEvent, write: port.Redact) -> EventRedacted:
    digest = body_digest(stored.body)
    # A text that lies in a blob counts by its length. Whether it is what a header shows is not looked into.
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
    """Drop the blobs that only the redacted event named; a fork may name what lies in its base."""
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
    """All that these mention; None where that cannot be told of one of them."""
    kept: set[str] = set()
    for stored in events:
        found = mentioned(stored)
        if found is None:
            return None
        kept |= found
    return kept


def _scrubbed(row: HeaderRow, delta: Delta, *, unknown: bool) -> bool:
    """Take from a header what the redacted event had put there; `unknown` when nobody knows what exactly that was."""
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
    """Forks, and forks of forks, nearest first."""
    found = tx.forks(row.session_id)
    return found + [deeper for fork in found for deeper in _standing_on(tx, fork)]


def _bury(tx: Transaction, row: HeaderRow, actor: str) -> None:
    """Leave a tombstone (id, time, actor, last seq and head hash) and nothing that was said."""
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
    """Erase what no fork stands on; then the same for the buried session that this one stood on."""
    while True:
        standing = [fork.base_seq for fork in tx.forks(row.session_id)]
        keep = max(standing, default=row.base_seq)
        tx.drop_events(row.session_id, keep)
        named = _named_in(tx.rows(row.session_id, row.base_seq, keep))
        if named is not None:
            tx.drop_blobs(row.session_id, keep=named)
        if standing:
            return
        # It holds no events any more, so it stands on nothing: let its base go, even one that still lives.
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
    """Look once more, now that nobody can write: a blob may have been named or put again since it was looked for."""
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
