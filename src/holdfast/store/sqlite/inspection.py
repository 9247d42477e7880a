"""A SQLite store for those who look for damage: rows found without trusting b-trees, and what SQLite itself finds.

A damaged key hides rows from every search while they still lie there, so `scan` reads tables from both ends and asks
for single rows in between; whether a row is genuine is decided by its hash, not here.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import msgspec

from holdfast.core.errors import DamagedSession, StoreUnavailable
from holdfast.core.ids import is_id
from holdfast.core.log import StoredEvent
from holdfast.store.inspection import StoredKey
from holdfast.store.migrations import migrations
from holdfast.store.port import Chunk, Query, Snapshot
from holdfast.store.sqlite.rows import HASH, UNREADABLE, SqliteRows, readable
from holdfast.store.tx import KeyRow, Row
from holdfast.store.view import Listed

CHEAP_PAGES = 131_072  # up to 256 MiB SQLite's quick check is always made
SEQS = 2**32 - 1
ROOM = 1024

# By place, not by name: the events are whole even where the definition of their table is not.
UPWARDS = "SELECT rowid, * FROM events ORDER BY rowid"
DOWNWARDS = "SELECT rowid, * FROM events ORDER BY rowid DESC"
ONE = "SELECT rowid, * FROM events WHERE rowid = ?"
NEXT_OWNER = "SELECT id >> 32 FROM events WHERE id > ? ORDER BY id LIMIT 1"
SESSIONS_UP = "SELECT sid, session_id FROM sessions NOT INDEXED ORDER BY sid"
SESSIONS_DOWN = "SELECT sid, session_id FROM sessions NOT INDEXED ORDER BY sid DESC"
UNINDEXED = "SELECT sid FROM sessions NOT INDEXED WHERE session_id = ?"
SESSIONS_BY_NAME = "SELECT sid, session_id FROM sessions ORDER BY session_id"
COLUMNS = (
    "SELECT owner_id, state, project_key, base_id, deleted_at, listed_at, header, crc "
    "FROM sessions WHERE session_id = ?"
)
# As bytes: a text that is no longer UTF-8 could not be read at all.
KEYS_OF = (
    "SELECT CAST(scope AS BLOB), CAST(key AS BLOB), CAST(session_id AS BLOB), seq, count, digest FROM keys "
    "WHERE session_id IN (SELECT value FROM json_each(?))"
)
SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY type, name"


class SqliteView(SqliteRows):
    """What readers get."""

    # --- sessions

    def _find(self, session_id: str) -> tuple[int, Row] | None:
        """Absent is only what is not in the table either: a damaged index must not make a session look missing."""
        known = super()._find(session_id)
        if known is None and self._execute(UNINDEXED, (session_id,)).fetchone() is not None:
            raise DamagedSession(session_id, None, "its entry in the index of sessions is wrong")
        return known

    def everything(self) -> tuple[list[str], list[str]]:
        owners, trouble = self._owners()
        return sorted({name for name, _ in owners}), trouble

    def _owners(self) -> tuple[set[tuple[str, int]], list[str]]:
        """Every session with its number, from the table both ways and from the index."""
        found: set[tuple[str, int]] = set()
        trouble: list[str] = []
        for sql in (SESSIONS_UP, SESSIONS_DOWN, SESSIONS_BY_NAME):
            try:
                for sid, name in self._execute(sql):
                    if isinstance(name, str) and is_id(name):
                        found.add((name, sid))
                    else:
                        trouble.append(f"session number {sid} has a damaged id: {name!r}")
            except UNREADABLE as error:
                trouble.append(f"the list of sessions cannot be read as a whole ({error})")
        return found, list(dict.fromkeys(trouble))

    # --- events

    def scan(self, session_id: str) -> Iterator[StoredEvent]:
        owners, _ = self._owners()
        mine = {sid for name, sid in owners if name == session_id}
        known = {sid for _, sid in owners}
        gone_by: set[int] = set()
        for sql in (UPWARDS, DOWNWARDS):
            try:
                for values in self._execute(sql):
                    sid = values[0] >> 32
                    # A row under a number that nobody has may be ours: the number may be what is damaged.
                    if sid in mine or sid not in known:
                        gone_by.add(values[0])
                        yield _event(session_id, values)
                break
            except UNREADABLE:
                continue
        for sid in mine:
            yield from self._one_by_one(session_id, sid, gone_by)

    def _one_by_one(self, session_id: str, sid: int, without: set[int]) -> Iterator[StoredEvent]:
        """Rows between those that were found, and some past them."""
        found = [number & SEQS for number in without if number >> 32 == sid]
        # A damaged key can be any number: believe only those that so many rows can have, gaps included.
        last = max((seq for seq in found if seq <= 16 * len(found) + ROOM), default=0)
        for seq in range(1, last + ROOM):
            if sid << 32 | seq in without:
                continue
            try:
                values = self._execute(ONE, (sid << 32 | seq,)).fetchone()
            except UNREADABLE:
                yield from self._hash_only(session_id, sid, seq)
                continue
            if values is not None:
                yield _event(session_id, values)

    def _hash_only(self, session_id: str, sid: int, seq: int) -> Iterator[StoredEvent]:
        """Of a row that cannot be read, what proves the next one."""
        try:
            hashed = self._execute(HASH, (sid << 32 | seq,)).get
        except UNREADABLE:
            return
        if isinstance(hashed, bytes):
            yield StoredEvent(session_id, seq, "", 0, 0, "", None, None, None, "", b"", hashed)

    # --- the rest, with unreadable rows told in our words

    def keys_of(self, session_ids: Collection[str]) -> list[StoredKey]:
        with _told():
            found = self._execute(KEYS_OF, (msgspec.json.encode(list(session_ids)).decode(),))
            return [
                StoredKey(_text(scope), _text(key), KeyRow(_text(name), *receipt))
                for scope, key, name, *receipt in found
            ]

    def blobs_of(self, session_id: str) -> list[str]:
        with _told():
            found = self._execute("SELECT DISTINCT sha256 FROM blobs WHERE sid = ?", (self._sid(session_id),))
            return [sha256 for (sha256,) in found]

    def routes(self) -> list[tuple[str, str]]:
        with _told():
            return self._execute("SELECT route, session_id FROM routes ORDER BY route").fetchall()

    def lineages(self) -> list[tuple[str, str]]:
        with _told():
            return self._execute("SELECT root_id, tip_id FROM lineage ORDER BY root_id").fetchall()

    def hash_at(self, session_id: str, seq: int) -> bytes | None:
        with _told():
            return super().hash_at(session_id, seq)

    def chunks(self, session_id: str, after: int) -> list[Chunk]:
        with _told():
            return super().chunks(session_id, after)

    def blob(self, session_id: str, sha256: str) -> bytes | None:
        with _told():
            return super().blob(session_id, sha256)

    def snapshot(self, session_id: str, at_most: int) -> Snapshot | None:
        with _told():
            return super().snapshot(session_id, at_most)

    def listed(self, query: Query, before: tuple[int, str], limit: int) -> list[Listed]:
        with _told():
            return super().listed(query, before, limit)

    # --- what the database itself finds

    def flaws(self, session_id: str) -> Iterator[str]:
        """What lists select by must be what the header says."""
        try:
            found = self._execute(COLUMNS, (session_id,)).fetchone()
        except UNREADABLE:
            return  # its header cannot be read either, which is told already
        if found is None or (row := readable(*found[-2:])) is None:
            return
        told = (row.owner_id, row.state, row.project_key, row.base_id, row.deleted_at)
        if told != found[:-3] or not isinstance(found[-3], int) or found[-3] > row.updated_at:
            yield "what lists select by is not what it says"

    def checks(self, deep: bool) -> Iterator[str]:
        for check in (self._schema, self._strangers):
            try:
                yield from check()
            except (apsw.Error, UnicodeDecodeError) as error:
                yield f"SQLite: {error}"
        try:
            yield from self._pages(deep)
        except (apsw.Error, UnicodeDecodeError) as error:
            yield f"SQLite: {error}"

    def _pages(self, deep: bool) -> Iterator[str]:
        if deep:
            found = self._execute("PRAGMA integrity_check(100)")
        elif self._connection.pragma("page_count") <= CHEAP_PAGES:
            found = self._execute("PRAGMA quick_check(100)")
        else:
            return
        yield from (f"SQLite: {line}" for (text,) in found for line in text.splitlines() if text != "ok")

    def _schema(self) -> Iterator[str]:
        """The tables must be those that the applied migrations make."""
        applied = {number for (number,) in self._execute("SELECT number FROM migrations")}
        fresh = apsw.Connection(":memory:")
        try:
            for migration in migrations("sqlite"):
                if migration.number in applied:
                    fresh.execute(migration.sql).fetchall()
            expected = {row[:2]: row for row in fresh.execute(SCHEMA)}
        finally:
            fresh.close()
        found = {row[:2]: row for row in self._execute(SCHEMA)}
        for name in sorted(set(expected) | set(found), key=str):
            if expected.get(name) != found.get(name):
                yield f"the definition of {name[0]} {name[1]} is not the one that the migrations make"

    def _strangers(self) -> Iterator[str]:
        """Rows of the log that belong to no session."""
        owners, _ = self._owners()
        known = {sid for _, sid in owners}
        sid = -1
        while True:
            found = self._execute(NEXT_OWNER, (sid << 32 | SEQS,)).get
            if found is None or found <= sid:
                return
            if found not in known:
                yield f"there are events of session number {found}, and no such session"
            sid = found


@contextmanager
def _told() -> Generator[None]:
    try:
        yield
    except UNREADABLE as error:
        raise StoreUnavailable(
            f"a part of the database cannot be read ({error}); `holdfast verify` tells which"
        ) from error


def _event(session_id: str, values: tuple[Any, ...]) -> StoredEvent:
    """A row of `rowid, *`, in which the second value is the row's id again."""
    return StoredEvent(session_id, values[0] & SEQS, *values[2:12])._replace(redacted=values[12] == 1)


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")
