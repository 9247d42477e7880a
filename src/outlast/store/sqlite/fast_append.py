"""What almost every commit is, done with fewer steps than the engine takes: a plain append to a session that takes it.

The rules and the rows are the engine's. A session that is not there or not active, and a commit that is run again, are
the engine's own business.
"""

from __future__ import annotations

import zlib

import apsw

from outlast.store.engine.commit import apply_commit
from outlast.store.engine.encode import PLAIN, EncodedCommit
from outlast.store.engine.fast_append import KIND, VERSION, PlainAppend
from outlast.store.engine.transaction import HeaderRow
from outlast.store.port import Receipt
from outlast.store.process_identity import now_us
from outlast.store.sqlite.rows import INSERT_EVENT, SAVE_HEADER, First, SqliteRows, encode


def put(connection: apsw.Connection, rows: SqliteRows, commit: EncodedCommit) -> list[Receipt]:
    """Carry out one commit inside a transaction of this connection."""
    row = rows.header(commit.session_id) if type(commit) is PlainAppend else None
    if row is None or type(commit) is not PlainAppend or not commit.fits(row):
        return apply_commit(rows, commit)
    known = rows.heads[commit.session_id]
    rows.dirty[commit.session_id] = known
    return [_insert(connection, known[0], row, commit)]


def put_alone(
    connection: apsw.Connection, known: tuple[int, HeaderRow], first: First | None, commit: PlainAppend
) -> Receipt | None:
    """The only commit of a transaction, to the session that a list shows first: then no index has to be touched.

    None, and nothing was done, when it has to be done in another way.
    """
    sid, row = known
    if not commit.fits(row) or first != (row.session_id, row.state, row.base_id, None):
        return None
    receipt = _insert(connection, sid, row, commit)
    header = encode(row)
    connection.execute(SAVE_HEADER, (header, zlib.crc32(header), sid))
    return receipt


def _insert(connection: apsw.Connection, sid: int, row: HeaderRow, commit: PlainAppend) -> Receipt:
    seq = row.last_seq + 1
    hashed = commit.hash_after(row.head_hash, seq)
    commit.add_to(row, seq, hashed, now_us())
    values = (
        sid << 32 | seq,
        KIND,
        VERSION,
        commit.at,
        commit.actor,
        None,
        commit.own,
        None,
        PLAIN,
        commit.body,
        hashed,
    )
    connection.execute(INSERT_EVENT, values)
    return Receipt(session_id=row.session_id, seq=seq, first_seq=seq)
