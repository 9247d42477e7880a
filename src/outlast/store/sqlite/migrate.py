"""Data steps of SQLite migrations, run after a migration's SQL inside the same transaction.

Also reads which migrations a database has, without migrating it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import msgspec

from outlast.core.event_row import StoredEvent
from outlast.store.engine.transaction import HeaderRow
from outlast.store.maintenance.header_rebuild import refold
from outlast.store.maintenance.migrations import AppliedMigration, Progress
from outlast.store.sqlite import setup
from outlast.store.sqlite.rows import (
    HEADER,
    PUT_TITLE,
    PUT_WORK,
    SAVE_HEADER,
    UNREADABLE,
    encode,
    listed_title,
    readable,
)

HEADERS = (
    "SELECT sid, header, crc FROM sessions NOT INDEXED WHERE sid > ? AND deleted_at IS NULL ORDER BY sid LIMIT 256"
)
SESSIONS = "SELECT count(*) FROM sessions NOT INDEXED WHERE deleted_at IS NULL"
EVENTS_OF_KINDS = (
    "SELECT id & 4294967295, kind, v, at, actor, turn, key, epoch, enc, body, hash, redacted IS 1 FROM events "
    "WHERE id > ? AND id <= ? AND kind IN (SELECT value FROM json_each(?)) ORDER BY id"
)
BLOB = "SELECT data FROM blobs WHERE sid = ? AND sha256 = ? ORDER BY chunk"


def fill_headers(connection: apsw.Connection, progress: Progress | None) -> None:
    """Fill the header fields of migration 4 and the work table."""
    past = _SqliteHistory(connection)
    try:
        total = connection.execute(SESSIONS).get
        for done, (sid, row) in enumerate(past.all(), 1):
            _fill(connection, past, sid, row)
            if progress is not None:
                progress(min(done, total), total)
    except UNREADABLE:
        return  # the rest of the session list is damaged: leave it as it is, `verify` reports it


def _fill(connection: apsw.Connection, past: _SqliteHistory, sid: int, row: HeaderRow) -> None:
    try:
        if not refold(row, past):
            return
    except UNREADABLE:
        return
    header = encode(row)
    connection.execute(SAVE_HEADER, (header, zlib.crc32(header), sid))
    if row.work_since is not None:
        connection.execute(PUT_WORK, (row.owner_id, row.work_since, row.session_id))


def fill_titles(connection: apsw.Connection, progress: Progress | None) -> None:
    """Fill the table of titles of migration 6."""
    try:
        for sid, row in _SqliteHistory(connection).all():
            title = listed_title(row)
            if title is not None:
                connection.execute(PUT_TITLE, (sid, row.owner_id, title))
    except UNREADABLE:
        return  # the rest of the session list is damaged: leave it as it is, `verify` reports it


class _SqliteHistory:
    """Stored sessions, in the form that `refold` reads."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute: Callable[..., Any] = connection.execute

    def all(self) -> Iterator[tuple[int, HeaderRow]]:
        after = -1
        while page := self._execute(HEADERS, (after,)).fetchall():
            after = page[-1][0]
            for sid, header, crc in page:
                row = readable(header, crc)
                if row is not None:
                    yield sid, row

    def row(self, session_id: str) -> HeaderRow | None:
        found = self._execute(HEADER, (session_id,)).fetchone()
        return None if found is None else readable(*found[1:])

    def events(self, row: HeaderRow, kinds: tuple[str, ...], upto: int) -> Iterator[StoredEvent]:
        sid = self._sid(row)
        wanted = msgspec.json.encode(kinds).decode()
        found = self._execute(EVENTS_OF_KINDS, (sid << 32, sid << 32 | upto, wanted))
        return (StoredEvent(row.session_id, *values) for values in found)

    def blob(self, row: HeaderRow, sha256: str) -> bytes:
        found = self._execute(BLOB, (self._sid(row), sha256)).fetchall()
        return b"".join(data for (data,) in found if isinstance(data, bytes))

    def _sid(self, row: HeaderRow) -> int:
        return self._execute("SELECT sid FROM sessions WHERE session_id = ?", (row.session_id,)).get or -1


AFTER: dict[int, Callable[[apsw.Connection, Progress | None], None]] = {4: fill_headers, 6: fill_titles}
"""Data steps by migration number."""


APPLIED = "SELECT number, checksum, min_reader FROM migrations ORDER BY number"


def applied(path: Path) -> list[AppliedMigration]:
    setup.check_version()
    setup.check_plain(path)
    connection = setup.connect(path)
    try:
        setup.identify(connection, path)
        return applied_in(connection, path)
    finally:
        connection.close()


def applied_in(connection: apsw.Connection, path: Path) -> list[AppliedMigration]:
    with setup.translated(path):
        if not connection.table_exists("main", "migrations"):
            return []
        return [AppliedMigration(*cast("tuple[int, str, int]", row)) for row in connection.execute(APPLIED)]
