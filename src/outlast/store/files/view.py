"""What readers see: each session as of the moment it was first looked at, and the rest of the directory."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterator
from contextlib import closing, contextmanager

from outlast.core.errors import OutlastError
from outlast.core.event_row import StoredEvent
from outlast.core.ids import is_id
from outlast.store.engine.transaction import HeaderRow, KeyRow
from outlast.store.files import disk, keys
from outlast.store.files.directory import StoreDirectory
from outlast.store.files.inspection import flaws_between, flaws_of, segment_files
from outlast.store.files.line import EventLine, events_in
from outlast.store.files.paths import NOTE, SessionPaths, blobs_in
from outlast.store.files.segment import Segment, pieces
from outlast.store.files.session import SessionCapture
from outlast.store.files.session_list import SessionCatalog, SessionListPage, scan
from outlast.store.files.small_files import RouteTable, find_snapshot, read_gone, read_lineage
from outlast.store.log_store import ListedSession
from outlast.store.port import Chunk, Query, Snapshot
from outlast.store.read.inspection import StoredKey, StoreFlaw
from outlast.store.read.read_view import (
    BLOB_PART,
    EventSlice,
    ReadMark,
    ReadView,
    fits,
    in_order,
    last_in,
    mark_of,
    place_of,
)


class FilesView(ReadView):
    """Close it to let go of the files it opened."""

    def __init__(self, folder: StoreDirectory, catalog: SessionCatalog) -> None:
        self._folder = folder
        self._catalog = catalog
        self._captures: dict[str, SessionCapture] = {}
        self._listings: list[tuple[str, SessionListPage]] | None = None

    def close(self) -> None:
        for capture in self._captures.values():
            if capture.segments is not None:
                capture.segments.close()

    @contextmanager
    def _told(self) -> Generator[None]:
        """What the disk says, in our words, and at once: who looks for damage goes on with the next file."""
        try:
            yield
        except OSError as error:
            raise disk.translation(error, self._folder.path) from error

    def _capture(self, session_id: str) -> SessionCapture:
        capture = self._captures.get(session_id)
        if capture is None:
            with self._told():
                capture = self._folder.capture(session_id) if is_id(session_id) else SessionCapture(None)
            self._captures[session_id] = capture
        return capture

    # --- sessions

    def header(self, session_id: str) -> HeaderRow | None:
        return self._capture(session_id).row

    def hole(self, session_id: str) -> int | None:
        """The first event of a session that could not be read when its header was added up."""
        return self._capture(session_id).hole

    def rows(self, session_id: str, after: int, upto: int) -> list[StoredEvent]:
        segments = self._capture(session_id).segments
        with self._told():
            return [] if segments is None else segments.rows(after, upto)

    def chunks(self, session_id: str, after: int) -> list[Chunk]:
        return [chunk for chunk in self._capture(session_id).chunks if chunk.n > after]

    def tip(self, root_id: str) -> str | None:
        with self._told():
            return (read_lineage(SessionPaths(self._folder.path, root_id)) or [None])[-1]

    def route(self, route: str) -> str | None:
        with self._told():
            return self._folder.steadily(self._leads).get(route)

    def _leads(self) -> dict[str, str]:
        return RouteTable.load(self._folder.path).leads

    def blob(self, session_id: str, sha256: str) -> bytes | None:
        path = SessionPaths(self._folder.path, session_id).blob(sha256) if is_id(session_id) else None
        with self._told():
            return None if path is None else disk.read(path)

    def blob_part(self, session_id: str, sha256: str, number: int) -> bytes | None:
        path = SessionPaths(self._folder.path, session_id).blob(sha256) if is_id(session_id) else None
        with self._told():
            return None if path is None else disk.read(path, number * BLOB_PART, BLOB_PART) or None

    def snapshot(self, session_id: str, at_most: int) -> Snapshot | None:
        with self._told():
            return find_snapshot(SessionPaths(self._folder.path, session_id), at_most)

    # --- lists

    def _sorted(self) -> list[tuple[str, SessionListPage]]:
        if self._listings is None:
            found = self._catalog.listings().items()
            self._listings = sorted(found, key=lambda one: (one[1].updated_at, one[0]), reverse=True)
        return self._listings

    def listed(self, query: Query, position: tuple[int, str], limit: int) -> list[ListedSession]:
        if query.pending:
            return self._with_work(query, position)[:limit]
        found: list[ListedSession] = []
        for session_id, listing in self._sorted():
            if (listing.updated_at, session_id) < position and (listing.row is None or fits(listing.row, query)):
                found.append(ListedSession(session_id, listing.updated_at, listing.row))
                if len(found) == limit:
                    break
        return found

    def _with_work(self, query: Query, position: tuple[int, str]) -> list[ListedSession]:
        """Few of many: only those are put in order."""
        found: list[ListedSession] = []
        for session_id, listing in self._catalog.with_work().items():
            if listing.row is None:
                found.append(ListedSession(session_id, last_in(query), None))
            elif fits(listing.row, query):
                found.append(ListedSession(session_id, place_of(listing.row, query), listing.row))
        return in_order(found, query, position)

    def marks(self) -> list[ReadMark]:
        marks = [mark_of(listing.row) for _, listing in self._sorted() if listing.row is not None]
        for session_id, files in scan(self._folder).items():
            if files.gone and (row := self._buried(session_id)) is not None:
                marks.append(mark_of(row))
        return marks

    def _buried(self, session_id: str) -> HeaderRow | None:
        try:
            return self.header(session_id)
        except OutlastError:
            return None

    def with_prefix(self, prefix: str, owner_id: str, limit: int) -> list[str]:
        found: list[str] = []
        for session_id, files in sorted(scan(self._folder).items()):
            if session_id.startswith(prefix) and not files.gone and self._may_belong_to(owner_id, session_id):
                found.append(session_id)
        return found[:limit]

    def _may_belong_to(self, owner_id: str, session_id: str) -> bool:
        """A session that cannot be read must not look as if it were not there."""
        try:
            row = self.header(session_id)
        except OutlastError:
            return True
        return row is not None and row.owner_id == owner_id and row.deleted_at is None

    # --- housekeeping

    def note(self) -> str | None:
        data = disk.read(self._folder.path / NOTE)
        return None if data is None else data.decode("utf-8", "replace")

    def old_keys(self, cursor: str, deleted_before: int, limit: int) -> EventSlice:
        ending = ".gone.keys.json"
        names = [name[:26] for name in os.listdir(self._folder.path) if name.endswith(ending) and is_id(name[:26])]
        names = sorted(name for name in names if name > cursor)[:limit]
        found: dict[str, list[tuple[str, str]]] = {}
        for session_id in names:
            place = SessionPaths(self._folder.path, session_id)
            row = read_gone(place)
            if row is not None and row.deleted_at is not None and row.deleted_at < deleted_before:
                found[session_id] = [(key.scope or row.root_id, key.key) for key in keys.read_keys(place)]
        return EventSlice(found, names[-1] if len(names) == limit else "")

    def old_blobs(self, cursor: str, after: int, before: int, limit: int) -> EventSlice:
        found: dict[str, list[tuple[str, str]]] = {}
        looked, last = 0, ""
        for session_id in sorted(name for name in os.listdir(self._folder.path / "blobs") if name > cursor):
            if looked >= limit:
                return EventSlice(found, last)
            last = session_id
            there = blobs_in(SessionPaths(self._folder.path, session_id)) if is_id(session_id) else {}
            looked += 1 + len(there)
            names = [(name, "") for name, at in there.items() if after <= at < before]
            if names and not SessionPaths(self._folder.path, session_id).gone.exists():
                found[session_id] = names
        return EventSlice(found, "")

    # --- for those who look for damage

    def everything(self) -> tuple[list[str], list[str]]:
        return sorted(scan(self._folder)), []

    def scan(self, session_id: str) -> Iterator[StoredEvent]:
        for path in segment_files(SessionPaths(self._folder.path, session_id)):
            try:
                segment = Segment.open(path)
            except OSError:
                continue  # it is named where the header is asked for
            if segment is None:
                continue
            with closing(segment):
                try:
                    found = [event for piece in pieces(segment.fd, 0, segment.size) for event in events_in(piece.text)]
                except OSError:
                    continue
            yield from (event for event in found if event.session_id == session_id)

    def keys_of(self, session_ids: Collection[str]) -> list[StoredKey]:
        found: list[StoredKey] = []
        for session_id in session_ids:
            try:
                row = self.header(session_id)
            except OutlastError:
                continue  # keys stand in the lines, and what is wrong with those is told where they are judged
            if row is not None:
                found += self._keys(session_id, row)
        return found

    def _keys(self, session_id: str, row: HeaderRow) -> list[StoredKey]:
        with self._told(), self._folder.using(session_id) as session, session.mutex:
            if row.deleted_at is None:
                return [_stored_key(line, row) for line in session.keyed_lines()]
            return [
                StoredKey(
                    key.scope or row.root_id,
                    key.key,
                    KeyRow(session_id, key.seq, key.count, bytes.fromhex(key.digest)),
                )
                for key in keys.read_keys(session.place)
            ]

    def blobs_of(self, session_id: str) -> list[str]:
        with self._told():
            return sorted(blobs_in(SessionPaths(self._folder.path, session_id)))

    def routes(self, prefix: str = "") -> list[tuple[str, str]]:
        with self._told():
            leads = self._folder.steadily(self._leads)
        return sorted((route, name) for route, name in leads.items() if route.startswith(prefix))

    def lineages(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        with self._told():
            for name in sorted(os.listdir(self._folder.path)):
                if name.endswith(".lineage.json") and is_id(name[:26]):
                    members = read_lineage(SessionPaths(self._folder.path, name[:26]))
                    found += [(name[:26], members[-1])] if members else []
        return found

    def flaws(self, session_id: str) -> Iterator[StoreFlaw]:
        try:
            capture = self._capture(session_id)
        except OutlastError:
            capture = SessionCapture(None)
        return flaws_of(self._folder, session_id, capture)

    def checks(self, deep: bool) -> Iterator[StoreFlaw]:
        return flaws_between(self._folder)


def _stored_key(line: EventLine, row: HeaderRow) -> StoredKey:
    count = line.count or 1
    key = KeyRow(line.session, line.seq + count - 1, count, bytes.fromhex(line.digest or ""))
    return StoredKey(line.scope or row.root_id, line.key or "", key)
