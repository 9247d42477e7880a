"""Fast path for the most common commit: a plain append to an active session, in fewer steps than the engine takes.

It applies the engine's rules and writes the same rows. Missing or inactive sessions and repeated commits go to the
engine.
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
    """Execute one commit inside the open transaction of this connection."""
    row = rows.header(commit.session_id) if type(commit) is PlainAppend else None
    if row is None or type(commit) is not PlainAppend or not commit.fits(row):
        return apply_commit(rows, commit)
    known = rows.heads[commit.session_id]
    rows.dirty[commit.session_id] = known
    return [_insert(connection, known[0], row, commit)]


def put_alone(
    connection: apsw.Connection, known: tuple[int, HeaderRow], first: First | None, commit: PlainAppend
) -> Receipt | None:
    """Write the only commit of a transaction if its session is already first in the list: no index changes then.

    Returns None, having written nothing, if the commit needs the general path: the first one may set the title.
    """
    sid, row = known
    if row.title is None or not commit.fits(row) or first != (row.session_id, row.state, row.base_id, None):
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
