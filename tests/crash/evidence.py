"""What the checker goes by: rows as they lie in the store, what commands left behind, what clients wrote down.

All of it is read here with SQL, JSON and zstd of our own. Nothing of Outlast is used: a fault in its reading would
otherwise excuse the same fault in its writing.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg
import zstandard

GENESIS = bytes(32)


class Unreadable(Exception):
    """A body that is no JSON."""


class Row(NamedTuple):
    """One event as stored. `body` is the stored bytes, which the hash is over."""

    session_id: str
    seq: int
    kind: str
    v: int
    at: int
    actor: str
    turn: str | None
    key: str | None
    epoch: int | None
    enc: str
    body: bytes
    hash: bytes

    def said(self) -> dict[str, Any]:
        """The body, decoded; `Unreadable` when it is none."""
        try:
            plain = zstandard.ZstdDecompressor().decompress(self.body) if self.enc == "zstd" else self.body
            return json.loads(plain)
        except (ValueError, zstandard.ZstdError) as error:
            raise Unreadable(f"event {self.seq} cannot be read ({error})") from error


class Head(NamedTuple):
    """What the store says of a session without reading its events."""

    session_id: str
    base_id: str | None
    base_seq: int
    last_seq: int
    head_hash: bytes
    pending: int
    turn: str | None
    rotated_to: str | None
    lease_token: str | None


@dataclass
class Stored:
    heads: dict[str, Head] = field(default_factory=dict[str, Head])
    rows: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]])
    keys: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict[tuple[str, str], tuple[str, int]])
    chunks: dict[str, int] = field(default_factory=dict[str, int])


class Settled(NamedTuple):
    """What is still open: inputs nobody answered, turns, and how many turns have ended so far."""

    waiting: int
    open_turns: int
    ended: int

    @property
    def is_so(self) -> bool:
        return not self.waiting and not self.open_turns


class Ack(NamedTuple):
    """A client was told that its message is stored: as event `seq` of that session."""

    session_id: str
    job: str
    key: str
    seq: int


class Heard(NamedTuple):
    """An event as a client got it over its stream, `when` seconds after the run began."""

    seq: int
    kind: str
    at: int
    turn: str | None
    body: Any
    when: float = 0.0


@dataclass
class ClientLog:
    """All that one client heard of one session; `broken` is what was wrong with the stream itself."""

    client: str
    session_id: str
    heard: list[Heard] = field(default_factory=list[Heard])
    broken: str = ""


@dataclass
class Evidence:
    stored: Stored
    acks: list[Ack]
    logs: list[ClientLog]
    witness: list[str]
    files: dict[str, str]


# ---- PostgreSQL -----------------------------------------------------------------------------------------------------

_PG_HEADS = (
    "SELECT session_id, base_id, base_seq, last_seq, head_hash, pending_count, turn, rotated_to, lease_token"
    " FROM outlast.sessions WHERE deleted_at IS NULL"
)
_PG_ROWS = (
    "SELECT session_id, seq, kind, v, at, actor, turn, key, epoch, enc, body, hash"
    " FROM outlast.events ORDER BY session_id, seq"
)
_PG_OPEN = (
    "SELECT coalesce(sum(pending_count), 0), count(turn),"
    " (SELECT count(*) FROM outlast.events WHERE kind = 'TurnEnded') FROM outlast.sessions WHERE deleted_at IS NULL"
)


def _connected(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    options = "-c default_transaction_read_only=on"
    return psycopg.connect(url, autocommit=True, options=options, connect_timeout=5)


def read_postgres(url: str) -> Stored:
    with _connected(url) as connection:
        heads = connection.execute(_PG_HEADS).fetchall()
        rows = connection.execute(_PG_ROWS).fetchall()
        keys = connection.execute("SELECT scope, key, session_id, seq FROM outlast.keys").fetchall()
        chunks = connection.execute("SELECT session_id, count(*) FROM outlast.chunks GROUP BY session_id").fetchall()
    return _stored((Head(*head) for head in heads), (Row(*row) for row in rows), keys, chunks)


def settled_postgres(url: str) -> Settled:
    with _connected(url) as connection:
        found = connection.execute(_PG_OPEN).fetchone()
    assert found is not None
    return Settled(*(int(number) for number in found))


# ---- SQLite ---------------------------------------------------------------------------------------------------------

_ROWS = (
    "SELECT s.session_id, e.id & 4294967295, e.kind, e.v, e.at, e.actor, e.turn, e.key, e.epoch, e.enc, e.body, e.hash"
    " FROM events e JOIN sessions s ON s.sid = e.id >> 32 ORDER BY e.id"
)
_CHUNKS = "SELECT s.session_id, count(*) FROM chunks c JOIN sessions s ON s.sid = c.id >> 32 GROUP BY 1"


def read_sqlite(path: Path) -> Stored:
    """From a copy: the file itself is left alone."""
    with tempfile.TemporaryDirectory(prefix="hf-lab-") as folder:
        for name in (path, path.with_name(f"{path.name}-wal")):
            if name.exists():
                shutil.copy(name, folder)
        connection = apsw.Connection(str(Path(folder) / path.name))
        try:
            heads = [_head(name, header) for name, header in connection.execute(_SQLITE_HEADS)]
            rows = [Row(*row) for row in connection.execute(_ROWS)]
            keys = list(connection.execute("SELECT scope, key, session_id, seq FROM keys"))
            chunks = list(connection.execute(_CHUNKS))
        finally:
            connection.close()
    return _stored(heads, rows, keys, chunks)


_SQLITE_HEADS = "SELECT session_id, header FROM sessions WHERE deleted_at IS NULL"


def _head(session_id: str, header: bytes) -> Head:
    found = json.loads(header)
    return Head(
        session_id=session_id,
        base_id=found.get("base_id"),
        base_seq=found.get("base_seq", 0),
        last_seq=found.get("last_seq", 0),
        head_hash=_bytes(found.get("head_hash")),
        pending=found.get("pending_count", 0),
        turn=found.get("turn"),
        rotated_to=found.get("rotated_to"),
        lease_token=found.get("lease_token"),
    )


def _bytes(text: str | None) -> bytes:
    import base64

    return base64.b64decode(text) if text else GENESIS


def settled_sqlite(path: Path) -> Settled:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(5_000)
        heads = [_head(name, header) for name, header in connection.execute(_SQLITE_HEADS)]
        ended = connection.execute("SELECT count(*) FROM events WHERE kind = 'TurnEnded'").get
    finally:
        connection.close()
    return Settled(sum(head.pending for head in heads), sum(head.turn is not None for head in heads), int(str(ended)))


def _stored(heads: Iterable[Head], rows: Iterable[Row], keys: Iterable[Any], chunks: Iterable[Any]) -> Stored:
    stored = Stored({head.session_id: head for head in heads})
    for row in rows:
        stored.rows.setdefault(row.session_id, []).append(row)
    stored.keys = {(scope, key): (session_id, int(seq)) for scope, key, session_id, seq in keys}
    stored.chunks = {session_id: int(count) for session_id, count in chunks}
    return stored
