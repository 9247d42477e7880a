"""What almost every commit is, done with fewer steps: one append to a session that nobody else has touched.

The rules are the engine's, the bytes are the same, and so is the order: lock, look, write, sync. Anything out of the
ordinary (somebody else's mark, a key that is known, a blob, a segment that is full) raises `NotQuick` before anything
is written, and the commit is done in the ordinary way.
"""

from __future__ import annotations

from copy import copy
from typing import NoReturn

from msgspec import Raw

from outlast.core.event_row import StoredEvent
from outlast.store.engine.commit import apply_commit
from outlast.store.engine.encode import PLAIN, EncodedCommit
from outlast.store.engine.fast_append import KIND, VERSION, PlainAppend
from outlast.store.engine.transaction import HeaderRow, KeyRow
from outlast.store.files.commit_writer import CommitWriter
from outlast.store.files.directory import StoreDirectory
from outlast.store.files.line import EventLine, encode
from outlast.store.files.lock import LockOwner
from outlast.store.files.rows import FilesRows, check_text
from outlast.store.files.session import SessionFiles
from outlast.store.files.session_change import lines_of
from outlast.store.port import Receipt
from outlast.store.process_identity import now_us


class NotFast(Exception):
    """The ordinary way, please."""


class FastRows(FilesRows):
    """`Tx` for one session and one append. It has nothing else of what its parent works with."""

    def __init__(self, session: SessionFiles, row: HeaderRow) -> None:
        self.row = copy(row)
        self.lines: list[EventLine] = []
        self._only = session
        self._name = row.session_id

    def __getattr__(self, name: str) -> NoReturn:
        raise NotFast(name)

    def header(self, session_id: str) -> HeaderRow | None:
        if session_id != self._name:
            raise NotFast("another session")
        return self.row

    def append(self, row: HeaderRow, events: list[StoredEvent]) -> None:
        for event in events:
            check_text(event)
        self.lines = lines_of(row, events)

    def key(self, scope: str, key: str) -> KeyRow | None:
        session = self._only
        if scope != self._name or session.is_scope() or len(session.members()) > 1:
            raise NotFast("a scope of several sessions")
        if not session.keys.covers(self.row.base_seq) or session.keys.find(key) is not None:
            raise NotFast("a repeat")
        return None

    def put_key(self, scope: str, key: str, row: KeyRow) -> None:
        if scope != self._name:
            raise NotFast("a scope of several sessions")
        first = self.lines[0]
        first.count, first.digest = row.events, row.digest.hex()


def quickly(folder: StoreDirectory, session_id: str, commit: EncodedCommit, writer: CommitWriter) -> list[Receipt]:
    """The receipts of a commit of one append; raises what any commit raises, or `NotQuick`."""
    session = folder.take_open(session_id)
    if session is None:
        raise NotFast("not open")
    try:
        if not session.lock.try_enter():
            raise NotFast("busy")
        try:
            row = session.row
            if row is None or row.deleted_at is not None:
                raise NotFast("gone")  # its keys lie elsewhere
            if session.lock.peek() != LockOwner.mark() or not session.untouched() or not writer.fits(session):
                raise NotFast("touched")
            if type(commit) is PlainAppend and commit.fits(row):
                row, lines = _plainly(copy(row), commit)
                receipts = [Receipt(session_id=session_id, seq=row.last_seq, first_seq=row.last_seq)]
            else:
                rows = FastRows(session, row)
                receipts = apply_commit(rows, commit)
                row, lines = rows.row, rows.lines
            texts = [encode(line) for line in lines]
            folder.beat()
            writer.append(session, row, lines, texts)
            return receipts
        finally:
            session.lock.leave()
    finally:
        folder.give_back(session_id)


def _plainly(row: HeaderRow, commit: PlainAppend) -> tuple[HeaderRow, list[EventLine]]:
    """The header after a plain append, and its line."""
    seq = row.last_seq + 1
    hashed = commit.hash_after(row.head_hash, seq)
    commit.add_to(row, seq, hashed, now_us())
    before, after = (seq, commit.session_id, KIND, VERSION, commit.at), (hashed.hex(), row.updated_at)
    return row, [EventLine(*before, commit.actor, None, commit.own, None, PLAIN, *after, Raw(commit.body))]
