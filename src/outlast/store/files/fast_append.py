"""Fast path for the most common commit: one short message appended to a session that is open and unchanged.

Same checks, same bytes and same order as the general path: lock, look, write, unlock, sync. Whatever is not so plain
(a session that another process may have changed, a full segment, an ended session) is left to the general path before
anything is written.
"""

from __future__ import annotations

from copy import copy

from msgspec import Raw

from outlast.store.engine.encode import PLAIN
from outlast.store.engine.fast_append import KIND, VERSION, PlainAppend
from outlast.store.engine.transaction import HeaderRow
from outlast.store.files.commit_writer import CommitWriter
from outlast.store.files.directory import StoreDirectory
from outlast.store.files.line import EventLine
from outlast.store.port import Receipt
from outlast.store.process_identity import now_us


def append_plain(folder: StoreDirectory, commit: PlainAppend, writer: CommitWriter) -> Receipt | None:
    """The receipt of a plain append; raises what the write raised. None if the general path must do it."""
    session_id = commit.session_id
    session = folder.take(session_id)
    try:
        folder.enter()
        try:
            folder.current(session)
            if session.row is None or not commit.fits(session.row) or session.lost or not writer.fits(session):
                return None
            folder.changing = frozenset((session_id,))
            row = copy(session.row)
            writer.append(session, row, [_line(row, commit)], session.lease_n)
        finally:
            folder.leave()
        writer.finish()
    except BaseException:
        with session.mutex:
            session.forget()
        raise
    finally:
        writer.close()
        folder.changing = frozenset()
        folder.give_back(session_id)
    if session_id in writer.failed:
        raise writer.failed[session_id]
    return Receipt(session_id=session_id, seq=row.last_seq, first_seq=row.last_seq)


def _line(row: HeaderRow, commit: PlainAppend) -> EventLine:
    """The line of a plain append; `row` becomes the header after it."""
    seq = row.last_seq + 1
    hashed = commit.hash_after(row.head_hash, seq)
    commit.add_to(row, seq, hashed, now_us())
    before, after = (seq, commit.session_id, KIND, VERSION, commit.at), (hashed.hex(), row.updated_at)
    return EventLine(*before, commit.actor, None, commit.own, None, PLAIN, *after, Raw(commit.body))
