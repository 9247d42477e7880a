"""Applies commits: the meaning of each write, implemented once for all adapters.

An append is checked in this order: key, existence, lease, state, `expect`. A refusal raises, and the adapter rolls the
transaction back. Adapters only read and write rows (`outlast.store.engine.transaction`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from outlast.core.errors import (
    ConflictError,
    InvalidInput,
    KeyUsed,
    SessionBusy,
    SessionEnded,
    StaleLease,
)
from outlast.core.event_row import GENESIS
from outlast.core.header import EXCERPT_LENGTH, shown
from outlast.core.ids import is_id
from outlast.store import port
from outlast.store.engine.append import base_of, live, put_events, scope_of
from outlast.store.engine.encode import CLOSES_ATTEMPT, OWN_KEY, EncodedCommit, EncodedWrite, seal
from outlast.store.engine.remove import delete, drop_blobs, forget, redact
from outlast.store.engine.restore import restore
from outlast.store.engine.transaction import HeaderRow, KeyRow, Transaction
from outlast.store.port import Chunk, Lease, Receipt
from outlast.store.process_identity import holder_is_gone, holder_pid

DELIVERIES = frozenset({"NoticePosted", "DeliveryBegun", "DeliveryMade", "DeliveryClosed"})
"""Messages are still delivered to chats after the session has ended, so these events are still accepted."""
AFTER_THE_END = DELIVERIES | {
    "SessionReopened",
    "SessionRenamed",
    "SessionArchived",
    "SessionUnarchived",
    "EventRedacted",
}
AFTER_ROTATION = AFTER_THE_END - DELIVERIES - {"SessionReopened"}
OVER = CLOSES_ATTEMPT | {"ModelRequested", "TurnStarted", "TurnEnded"}
"""After one of these events, no earlier attempt is open any more."""
PAGE = 256


def apply_commit(tx: Transaction, commit: EncodedCommit) -> list[Receipt]:
    """Apply one commit inside a transaction."""
    writes = commit.writes
    if len(writes) == 1 and writes[0].own_key and not commit.rerun:  # a fresh key: nothing to look up
        return [_DO[type(writes[0].write)](writes[0].write, tx, writes[0])]
    replayed = _replay(tx, commit)
    if replayed is not None:
        return replayed
    return [_DO[type(write.write)](write.write, tx, write) for write in writes]


def _replay(tx: Transaction, commit: EncodedCommit) -> list[Receipt] | None:
    """Return the first receipts if a keyed write of this commit was applied before."""
    found: dict[int, KeyRow] = {}
    if len(commit.writes) > 1:
        _refuse_shared_keys(tx, commit)
    for number, sealed in enumerate(commit.writes):
        if sealed.key is None or (sealed.own_key and not commit.rerun):
            continue
        row = _key_row(tx, sealed)
        if row is None:
            continue
        if row.digest and row.digest != sealed.digest:
            raise KeyUsed(
                f"key '{sealed.key}' was already used for something else (event {row.seq})",
                session_id=row.session_id,
                seq=row.seq,
            )
        found[number] = row
    if not found:
        return _deleted_before(tx, commit) if commit.rerun else None
    return [_receipt_again(sealed, found.get(number)) for number, sealed in enumerate(commit.writes)]


def _deleted_before(tx: Transaction, commit: EncodedCommit) -> list[Receipt] | None:
    """Recognize a rerun that only deletes: deletions have no key, but leave tombstones."""
    for sealed in commit.writes:
        row = tx.header(sealed.write.session_id) if isinstance(sealed.write, port.Delete) else None
        if row is None or row.deleted_at is None:
            return None
    return [_receipt_again(sealed, None) for sealed in commit.writes]


def _refuse_shared_keys(tx: Transaction, commit: EncodedCommit) -> None:
    """Refuse two writes of one commit with the same key: a key identifies one write."""
    keyed = [(scope_of(tx, sealed.write), sealed.key) for sealed in commit.writes if sealed.key and not sealed.own_key]
    if len(set(keyed)) < len(keyed):
        raise ConflictError("two writes of one commit have the same key; give each its own")


def _key_row(tx: Transaction, sealed: EncodedWrite) -> KeyRow | None:
    assert sealed.key is not None
    row = tx.key(scope_of(tx, sealed.write), sealed.key)
    if row is None and sealed.key.startswith(OWN_KEY):
        count = len(sealed.events)
        for session_id in _written_to(tx, sealed.write):
            first = tx.key_in_log(session_id, sealed.key)
            if first is not None:
                return KeyRow(first.session_id, first.seq + count - 1, count, b"")
    return row


def _written_to(tx: Transaction, write: port.Write) -> list[str]:
    """The sessions that an earlier attempt may have written to: the named one and its lineage's tip."""
    named = _session_of(write)
    row = tx.header(named) if isinstance(write, port.Append) and write.to_tip else None
    tip = tx.tip(row.root_id) if row is not None and row.rotated_to else None
    return [named] if tip is None else [named, tip]


def _receipt_again(sealed: EncodedWrite, row: KeyRow | None) -> Receipt:
    if row is None:
        return Receipt(session_id=_session_of(sealed.write), replayed=True)
    return Receipt(session_id=row.session_id, seq=row.seq, first_seq=row.seq - row.events + 1, replayed=True)


def _session_of(write: port.Write) -> str:
    match write:
        case port.Create() | port.Restore():
            return write.header.session_id
        case port.PutChunk() | port.Renew() | port.Release():
            return write.lease.session_id
        case port.PutRoute():
            return write.session_id or ""
        case port.MoveRoutes():
            return write.to_session_id
        case port.PutNote():
            return ""
        case _:
            return write.session_id


def sessions_of(write: port.Write) -> list[str]:
    """Every session that a write names, for adapters that take locks before the transaction begins."""
    named = [_session_of(write)]
    if isinstance(write, port.Create | port.Restore):
        named += [name for name in (write.base and write.base.session_id, write.continues) if name]
    if isinstance(write, port.MoveRoutes):
        named.append(write.from_session_id)
    return [name for name in named if name]


def held(row: HeaderRow, lease: Lease) -> None:
    """Raise `StaleLease` unless the lease is the session's current one."""
    if row.lease_token != lease.token or lease.epoch not in (0, row.epoch):
        raise StaleLease(
            f"the lease on session {row.session_id} (epoch {lease.epoch}) was taken over; now epoch {row.epoch}"
        )


def _append(write: port.Append, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    row = live(tx, write.session_id)
    if write.to_tip and row.rotated_to:
        row = live(tx, tx.tip(row.root_id) or write.session_id)
        sealed = _for_session(sealed, row.session_id)
    if write.lease is not None:
        held(row, write.lease)
    if row.has_ended or row.rotated_to:
        _still_takes(row, sealed)
    if write.expect is not None and write.expect != row.last_seq:
        raise ConflictError(
            f"session {row.session_id} has moved on: expected event {write.expect}, it is at {row.last_seq}"
        )
    return put_events(tx, row, sealed, touch=write.touch, epoch=row.epoch if write.lease else None)


def _still_takes(row: HeaderRow, sealed: EncodedWrite) -> None:
    """Refuse events that an ended or rotated session does not accept; a rotated session cannot be reopened."""
    if row.rotated_to and any(event.kind not in AFTER_ROTATION for event in sealed.events):
        raise SessionEnded(f"session {row.session_id} has ended; it continues as {row.rotated_to}")
    if row.has_ended and any(event.kind not in AFTER_THE_END for event in sealed.events):
        raise SessionEnded(f"session {row.session_id} has ended; reopen it or fork it to go on")


def _for_session(sealed: EncodedWrite, session_id: str) -> EncodedWrite:
    """Seal the write again for the lineage's tip: the session id is part of each row's hash."""
    assert isinstance(sealed.write, port.Append)
    moved = port.Append(session_id=session_id, events=sealed.write.events, key=sealed.key, scope=sealed.write.scope)
    [again] = seal((moved,), compress=any(event.enc != "plain" for event in sealed.events)).writes
    return msgspec.structs.replace(again, own_key=sealed.own_key)


def _create(write: port.Create, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    given = write.header
    if not is_id(given.session_id):
        raise InvalidInput(f"'{given.session_id}' is not a session id")
    if tx.header(given.session_id) is not None:
        raise ConflictError(f"session {given.session_id} exists already")
    row = HeaderRow(**{name: getattr(given, name) for name in given.__struct_fields__})
    _fit(row)
    row.created_at = row.created_at or tx.clock()
    row.root_id = row.session_id
    row.last_seq, row.head_hash = 0, GENESIS
    row.estimated_tokens, row.requests, row.work_since = 0, 0, None  # derived only from its own events
    if write.base is not None:
        owner, hashed = base_of(tx, write.base)
        row.base_id, row.base_seq = owner, write.base.seq
        row.last_seq, row.head_hash = write.base.seq, hashed
    if write.continues is not None:
        row.root_id = live(tx, write.continues).root_id
        tx.put_tip(row.root_id, row.session_id)
    tx.create(row)
    return put_events(tx, row, sealed, touch=True, epoch=None)


def _fit(row: HeaderRow) -> None:
    """Cut display texts to the length they also have when an event sets them; ids and paths were checked before."""
    for name in ("title", "model", "persona"):
        text = getattr(row, name)
        setattr(row, name, text and shown(text))
    row.pending_text = row.pending_text and shown(row.pending_text, EXCERPT_LENGTH)


def _put_chunk(write: port.PutChunk, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    row = live(tx, write.lease.session_id)
    held(row, write.lease)
    chunk = Chunk(attempt_seq=write.attempt_seq, n=write.n, part=write.part, data=write.data)
    last = tx.last_chunk(row.session_id, write.attempt_seq)
    if write.n == last + 1:
        if write.n == 1:  # later chunks need no check: closing the attempt drops its chunks, so n would not match
            _refuse_unless_open(tx, row, write.attempt_seq)
        tx.put_chunk(row.session_id, chunk)
    elif write.n > last:
        raise ConflictError(f"chunk {write.n} of attempt {write.attempt_seq} leaves a gap after {last}")
    elif tx.chunk(row.session_id, write.attempt_seq, write.n) != chunk:
        raise ConflictError(f"chunk {write.n} of attempt {write.attempt_seq} was already written differently")
    return Receipt(session_id=row.session_id, seq=row.last_seq)


def _refuse_unless_open(tx: Transaction, row: HeaderRow, attempt_seq: int) -> None:
    """Refuse a draft unless its attempt is the session's own and still open: no event would ever remove the draft."""
    after = attempt_seq - 1
    while row.base_seq <= after < row.last_seq:
        found = tx.rows(row.session_id, after, min(after + PAGE, row.last_seq))
        if not found or (after < attempt_seq and found[0].kind != "ModelRequested"):
            break
        if any(event.kind in OVER for event in found if event.seq > attempt_seq):
            raise ConflictError(
                f"attempt {attempt_seq} of session {row.session_id} is closed and accepts no more draft chunks"
            )
        after += len(found)
    if after < row.last_seq or attempt_seq > row.last_seq:
        raise ConflictError(
            f"session {row.session_id} has no attempt {attempt_seq}: there is no ModelRequested at that position"
        )


def _put_route(write: port.PutRoute, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    if write.session_id is not None:
        live(tx, write.session_id)
    if write.expect is not msgspec.UNSET and (leads := tx.locked_route(write.route)) != write.expect:
        told = f"leads to session {leads}" if leads else "leads nowhere"
        raise ConflictError(f"the route was moved meanwhile: it {told} now, not to the expected session")
    tx.put_route(write.route, write.session_id)
    return Receipt(session_id=write.session_id or "")


def _move_routes(write: port.MoveRoutes, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    live(tx, write.to_session_id)
    tx.move_routes(write.from_session_id, write.to_session_id)
    return Receipt(session_id=write.to_session_id)


def _put_blob(write: port.PutBlob, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    row = live(tx, write.session_id)
    tx.put_blob(row.session_id, write.sha256, write.data)
    return Receipt(session_id=row.session_id, seq=row.last_seq)


def _claim(write: port.Claim, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    row = live(tx, write.session_id)
    now, boot = tx.lease_clock()
    if row.lease_token != write.token:
        if row.lease_token is not None and not write.force and not expired(row, now, boot):
            raise SessionBusy(
                f"session {row.session_id} is driven by {holder_pid(row.lease_holder or '?')}; "
                "wait for it, follow it, or stop that process"
            )
        row.epoch += 1
        row.lease_token, row.lease_holder, row.lease_since = write.token, write.holder, tx.clock()
    row.lease_expires, row.lease_boot = now + write.ttl_ms, boot
    tx.save(row)
    return Receipt(session_id=row.session_id, seq=row.last_seq, lease=Lease(row.session_id, row.epoch, write.token))


def expired(row: HeaderRow, now: int, boot: str) -> bool:
    """Whether the lease may be taken over: it timed out, is from another boot, or its holder is dead."""
    if row.lease_boot != boot or row.lease_expires <= now:
        return True
    return row.lease_holder is not None and holder_is_gone(row.lease_holder)


def _renew(write: port.Renew, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    row = live(tx, write.lease.session_id)
    held(row, write.lease)
    now, boot = tx.lease_clock()
    row.lease_expires, row.lease_boot = now + write.ttl_ms, boot
    tx.save(row)
    return Receipt(
        session_id=row.session_id, seq=row.last_seq, lease=Lease(row.session_id, row.epoch, write.lease.token)
    )


def _release(write: port.Release, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    row = live(tx, write.lease.session_id)
    if row.lease_token == write.lease.token:
        row.lease_token = row.lease_holder = row.lease_boot = None
        row.lease_expires = 0
        tx.save(row)
    return Receipt(session_id=row.session_id, seq=row.last_seq)


def _put_snapshot(write: port.PutSnapshot, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    row = live(tx, write.session_id)
    if write.seq <= row.last_seq:
        tx.put_snapshot(row.session_id, write.seq, write.fold_version, write.state)
    return Receipt(session_id=row.session_id, seq=row.last_seq)


def _put_note(write: port.PutNote, tx: Transaction, sealed: EncodedWrite) -> Receipt:
    tx.put_note(write.text)
    return Receipt(session_id="")


_DO: dict[type[Any], Callable[[Any, Transaction, EncodedWrite], Receipt]] = {
    port.Append: _append,
    port.Create: _create,
    port.PutChunk: _put_chunk,
    port.PutRoute: _put_route,
    port.MoveRoutes: _move_routes,
    port.PutBlob: _put_blob,
    port.Claim: _claim,
    port.Renew: _renew,
    port.Release: _release,
    port.Redact: redact,
    port.Delete: delete,
    port.PutSnapshot: _put_snapshot,
    port.Restore: restore,
    port.Forget: forget,
    port.DropBlobs: drop_blobs,
    port.PutNote: _put_note,
}
