"""Read view of a SQLite store that also finds damage: reads rows without trusting b-trees, and runs SQLite's checks.

A damaged key hides rows from every lookup although they are still in the file, so `scan` reads the whole table and then
the file's pages (`page_salvage`). The caller decides by its hash whether a row is genuine.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from outlast.core.errors import DamagedSession, StoreUnavailable
from outlast.core.event_row import StoredEvent
from outlast.core.ids import is_id
from outlast.store.engine.transaction import HeaderRow, KeyRow
from outlast.store.maintenance.migrations import migrations
from outlast.store.port import Chunk, Query, Snapshot
from outlast.store.read.inspection import StoredKey, StoreFlaw
from outlast.store.read.read_view import EventSlice, ListedSession, fits, in_order, last_in, place_in, place_of
from outlast.store.sqlite.page_salvage import PageSalvage
from outlast.store.sqlite.rows import UNREADABLE, SqliteRows, listed_title, readable

CHEAP_PAGES = 131_072  # SQLite's quick check always runs up to 256 MiB
SEQS = 2**32 - 1

# Columns by position, not by name: the events may be intact when the definition of their table is not.
UPWARDS = "SELECT rowid, * FROM events ORDER BY rowid"
NEXT_OWNER = "SELECT id >> 32 FROM events WHERE id > ? ORDER BY id LIMIT 1"
# As bytes: reading text that is no longer valid UTF-8 would fail.
SESSIONS_UP = "SELECT sid, CAST(session_id AS BLOB) FROM sessions NOT INDEXED ORDER BY sid"
UNINDEXED = "SELECT sid FROM sessions NOT INDEXED WHERE session_id = ?"
SESSIONS_BY_NAME = "SELECT sid, CAST(session_id AS BLOB) FROM sessions ORDER BY session_id"
COLUMNS = (
    "SELECT owner_id, state, project_key, base_id, deleted_at, listed_at, header, crc "
    "FROM sessions WHERE session_id = ?"
)
LAST = "\U0010ffff"
ROUTES_FROM = "SELECT route, session_id FROM routes WHERE route >= ? AND route < ? ORDER BY route"
KEYS_OF = (
    "SELECT CAST(scope AS BLOB), CAST(key AS BLOB), CAST(session_id AS BLOB), seq, count, digest FROM keys "
    "WHERE session_id IN (SELECT value FROM json_each(?))"
)
OLD_KEYS = (
    "SELECT k.scope, k.key, k.session_id, s.deleted_at FROM keys k LEFT JOIN sessions s ON s.session_id = k.session_id "
    "WHERE (k.scope, k.key) > (?, ?) ORDER BY k.scope, k.key LIMIT ?"
)
OLD_BLOBS = (
    "SELECT b.sid, b.sha256, b.chunk, b.at, s.session_id, s.deleted_at FROM blobs b JOIN sessions s ON s.sid = b.sid "
    "WHERE (b.sid, b.sha256, b.chunk) > (?, ?, ?) ORDER BY b.sid, b.sha256, b.chunk LIMIT ?"
)
LOST_KEYS = (
    "SELECT CAST(a.key AS BLOB), a.seq FROM keys a WHERE NOT EXISTS "
    "(SELECT 1 FROM keys b WHERE b.scope = a.scope AND b.key = a.key) LIMIT 100"
)
TITLE = "SELECT folded FROM titles WHERE sid = (SELECT sid FROM sessions WHERE session_id = ?)"
NOTED = "SELECT 1 FROM work WHERE owner_id = ? AND since = ? AND session_id = ?"
SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY type, name"


class SqliteView(SqliteRows):
    """Read view of one transaction. `close` releases the database file, which is opened only if there is damage."""

    _pages_read: PageSalvage | None = None

    # --- sessions

    def _find(self, session_id: str) -> tuple[int, HeaderRow] | None:
        """Check the table before reporting a session as missing: a damaged index must not hide it."""
        known = super()._find(session_id)
        if known is None and self._execute(UNINDEXED, (session_id,)).fetchone() is not None:
            raise DamagedSession(session_id, None, "its entry in the index of sessions is wrong")
        return known

    # --- housekeeping

    def note(self) -> str | None:
        text = self._execute("SELECT value FROM meta WHERE name = 'housekeeping'").get
        return text if isinstance(text, str) else None

    def old_keys(self, cursor: str, deleted_before: int, limit: int) -> EventSlice:
        rows = self._execute(OLD_KEYS, (*place_in(cursor, ["", ""]), limit)).fetchall()
        found = [
            (session_id, (scope, key) if deleted_at is not None and deleted_at < deleted_before else None)
            for scope, key, session_id, deleted_at in rows
        ]
        return EventSlice.of(found, rows and rows[-1][:2], more=len(rows) == limit)

    def old_blobs(self, cursor: str, after: int, before: int, limit: int) -> EventSlice:
        rows = self._execute(OLD_BLOBS, (*place_in(cursor, [-1, "", 0]), limit)).fetchall()
        found = [
            (session_id, (sha256, "") if chunk == 0 and deleted_at is None and after <= at < before else None)
            for _, sha256, chunk, at, session_id, deleted_at in rows
        ]
        return EventSlice.of(found, rows and rows[-1][:3], more=len(rows) == limit)

    # --- all sessions

    def everything(self) -> tuple[list[str], list[str]]:
        owners, trouble = self._owners()
        return sorted({name for name, _ in owners}), trouble

    def _owners(self) -> tuple[set[tuple[str, int]], list[str]]:
        """Return every session id with its number, from table and index, and from the pages if those are damaged."""
        found: set[tuple[str, int]] = set()
        trouble: list[str] = []
        for sql in (SESSIONS_UP, SESSIONS_BY_NAME):
            try:
                for sid, data in self._execute(sql):
                    name = _text(data)
                    if isinstance(sid, int) and is_id(name):
                        found.add((name, sid))
                    else:
                        trouble.append(f"session number {sid} has a damaged id: {name!r}")
            except UNREADABLE as error:
                trouble.append(f"the list of sessions cannot be read as a whole ({error})")
        if trouble:
            found |= {(name, sid) for sid, names in self._pages_of_file().sessions.items() for name in names}
        return found, list(dict.fromkeys(trouble))

    # --- events

    def scan(self, session_id: str) -> Iterator[StoredEvent]:
        owners, _ = self._owners()
        mine = {sid for name, sid in owners if name == session_id}
        known = {sid for _, sid in owners}
        try:
            for values in self._execute(UPWARDS):
                # A row with an unknown session number may belong to this session: the number may be damaged.
                if values[0] >> 32 in mine or values[0] >> 32 not in known:
                    yield _event(session_id, values)
        except UNREADABLE:
            pass  # the rows after the damage are read from the pages below
        pages = self._pages_of_file()
        for sid in mine | (pages.numbers() - known):
            for rowid, values in pages.events(sid):
                yield _event(session_id, (rowid, *values))

    def _pages_of_file(self) -> PageSalvage:
        if self._pages_read is None:
            with _told():
                self._pages_read = PageSalvage(Path(self._connection.db_filename("main")))
        return self._pages_read

    def close(self) -> None:
        if self._pages_read is not None:
            self._pages_read.close()
            self._pages_read = None

    # --- other reads, with errors about unreadable rows translated

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

    def routes(self, prefix: str = "") -> list[tuple[str, str]]:
        with _told():
            if not prefix:
                return self._execute("SELECT route, session_id FROM routes ORDER BY route").fetchall()
            ends = (prefix, prefix + LAST)
            return self._execute(ROUTES_FROM, ends).fetchall()

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
        try:
            return super().blob(session_id, sha256)
        except (*UNREADABLE, DamagedSession):
            sids = {sid for name, sid in self._owners()[0] if name == session_id}
            return self._pages_of_file().blob(sids, sha256)

    def snapshot(self, session_id: str, at_most: int) -> Snapshot | None:
        with _told():
            return super().snapshot(session_id, at_most)

    def listed(self, query: Query, position: tuple[int, str], limit: int) -> list[ListedSession]:
        try:
            return super().listed(query, position, limit)
        except UNREADABLE:
            return self._listed_singly(query, position, limit)

    def _listed_singly(self, query: Query, position: tuple[int, str], limit: int) -> list[ListedSession]:
        """List sessions one header at a time, because the table or its index cannot be read as a whole.

        Sessions with unreadable headers come last; `?` stands for sessions whose ids cannot be read.
        """
        names, trouble = self.everything()
        found = [ListedSession("?", last_in(query), None)] if trouble else []
        for name in names:
            row = self._readable(name)
            if row is None or fits(row, query):
                found.append(ListedSession(name, last_in(query) if row is None else place_of(row, query), row))
        return in_order(found, query, position)[:limit]

    def _readable(self, session_id: str) -> HeaderRow | None:
        try:
            return self.header(session_id)
        except DamagedSession:
            return None

    def with_prefix(self, prefix: str, owner_id: str, limit: int) -> list[str]:
        try:
            return super().with_prefix(prefix, owner_id, limit)
        except UNREADABLE:
            names = [name for name in self.everything()[0] if name.startswith(prefix)]
            rows = {name: self._readable(name) for name in names}
            return [name for name, row in rows.items() if row is None or fits(row, Query(owner_id=owner_id))][:limit]

    # --- consistency checks

    def flaws(self, session_id: str) -> Iterator[StoreFlaw]:
        """Compare the columns that lists filter by, and the work table, with the header."""
        try:
            found = self._execute(COLUMNS, (session_id,)).fetchone()
        except UNREADABLE:
            return  # its header cannot be read either, which is already reported
        if found is None or (row := readable(*found[-2:])) is None:
            return
        told = (row.owner_id, row.state, row.project_key, row.base_id, row.deleted_at)
        if told != found[:-3] or not isinstance(found[-3], int) or found[-3] > row.updated_at:
            yield StoreFlaw("the columns that lists are filtered by differ from its header")
        if not self._is_titled(row):
            yield StoreFlaw("the title that searches use differs from its header")
        if row.work_since is not None and not self._is_noted(row):
            yield StoreFlaw("it has work, but the index of work does not list it")

    def _is_titled(self, row: HeaderRow) -> bool:
        try:
            return self._execute(TITLE, (row.session_id,)).get == listed_title(row)
        except UNREADABLE:
            return True  # `checks` reports damage to the table as a whole

    def _is_noted(self, row: HeaderRow) -> bool:
        try:
            return self._execute(NOTED, (row.owner_id, row.work_since, row.session_id)).get is not None
        except UNREADABLE:
            return True  # `checks` reports damage to the table as a whole

    def checks(self, deep: bool) -> Iterator[StoreFlaw]:
        for check in (self._schema, self._strangers, self._lost_keys, self._work, lambda: self._pages(deep)):
            try:
                yield from map(StoreFlaw, check())
            except (apsw.Error, UnicodeDecodeError) as error:
                yield StoreFlaw(f"SQLite: {error}")

    def _lost_keys(self) -> Iterator[str]:
        """Find keys that exist but that an index lookup misses: a repeated commit relies on the lookup."""
        for key, seq in self._execute(LOST_KEYS):
            yield f"the key {_text(key)!r} of an event {seq} is stored, but a look-up does not find it"

    def _work(self) -> Iterator[str]:
        """Find rows of the work table that contradict the session's header."""
        for owner_id, since, session_id in self._execute("SELECT owner_id, since, session_id FROM work"):
            try:
                row = self.header(session_id)
            except DamagedSession:
                continue  # reported for the session itself
            if row is None or (row.owner_id, row.work_since) != (owner_id, since):
                yield f"work since {since} is listed for session {session_id}, whose header shows no work"

    def _pages(self, deep: bool) -> Iterator[str]:
        if deep:
            found = self._execute("PRAGMA integrity_check(100)")
        elif self._connection.pragma("page_count") <= CHEAP_PAGES:
            found = self._execute("PRAGMA quick_check(100)")
        else:
            return
        yield from (f"SQLite: {line}" for (text,) in found for line in text.splitlines() if text != "ok")

    def _schema(self) -> Iterator[str]:
        """Compare the schema with the one that the applied migrations create."""
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
        """Find events that belong to no session."""
        owners, _ = self._owners()
        known = {sid for _, sid in owners}
        sid = -1
        while True:
            found = self._execute(NEXT_OWNER, (sid << 32 | SEQS,)).get
            if found is None or found <= sid:
                return
            if found not in known:
                yield f"there are events of session number {found}, but the session does not exist"
            sid = found


@contextmanager
def _told() -> Generator[None]:
    try:
        yield
    except UNREADABLE as error:
        raise StoreUnavailable(
            f"a part of the database cannot be read ({error}); `outlast verify` tells which"
        ) from error


def _event(session_id: str, values: tuple[Any, ...]) -> StoredEvent:
    """Build an event from a row of `rowid, *`, whose second value repeats the row's id."""
    return StoredEvent(session_id, values[0] & SEQS, *values[2:12])._replace(redacted=values[12] == 1)


def _text(data: object) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data or "")
