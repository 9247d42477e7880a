"""Rows that follow from each other: no seq is missing, every hash is what it must be, no stale driver wrote.

The rule of the hash is written down in `docs/internals/append.md` and computed here once more, from its words:

    SHA-256( hash before | seq and epoch, 8 bytes each | fields | SHA-256 of the stored body )

with -1 for no epoch; the fields are session, kind, actor and enc as `LENGTH:TEXT`, turn and key the same or `-`, then
`v;at;`. Lengths are in characters.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator

from tests.crash.evidence import GENESIS, Head, Row, Stored
from tests.crash.violation import Violation


def prefixed(text: str | None) -> str:
    return "-" if text is None else f"{len(text)}:{text}"


def hash_of(before: bytes, row: Row) -> bytes:
    """What the row's hash must be."""
    fields = "".join(prefixed(text) for text in (row.session_id, row.kind, row.actor, row.enc, row.turn, row.key))
    numbers = struct.pack(">qq", row.seq, -1 if row.epoch is None else row.epoch)
    body = hashlib.sha256(row.body).digest()
    return hashlib.sha256(before + numbers + f"{fields}{row.v};{row.at};".encode() + body).digest()


def broken_chains(stored: Stored) -> Iterator[Violation]:
    for session_id in sorted(stored.heads.keys() | stored.rows.keys()):
        head = stored.heads.get(session_id)
        if head is None:
            yield Violation("damaged", session_id, "there are events, but no session")
            continue
        yield from _broken_chain(stored, head, stored.rows.get(session_id, []))


def _broken_chain(stored: Stored, head: Head, rows: list[Row]) -> Iterator[Violation]:
    before, seq, epoch = _base_hash(stored, head), head.base_seq, 0
    for row in rows:
        seq += 1
        if row.seq != seq:
            yield Violation("gap", head.session_id, f"event {row.seq} stands where {seq} must be", seq - 1, row.seq)
            seq = row.seq
        elif hash_of(before, row) != row.hash:
            yield Violation("damaged", head.session_id, f"event {seq} does not match its hash", seq, seq)
        before = row.hash
        if row.epoch is not None and row.epoch < epoch:
            told = f"event {seq} was written under epoch {row.epoch}, after epoch {epoch} had taken over"
            yield Violation("stale writer", head.session_id, told, seq - 1, seq)
        epoch = max(epoch, row.epoch or 0)
    if seq != head.last_seq:
        yield Violation("gap", head.session_id, f"the last event is {seq}, the session says {head.last_seq}", seq, seq)
    elif before != head.head_hash:
        yield Violation("damaged", head.session_id, "the last event is not the one that the session names", seq, seq)


def _base_hash(stored: Stored, head: Head) -> bytes:
    if head.base_id is None:
        return GENESIS
    return next((row.hash for row in stored.rows.get(head.base_id, []) if row.seq == head.base_seq), GENESIS)
