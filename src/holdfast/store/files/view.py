"""What readers see: each session as of the moment it was first looked at, and the rest of the directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import is_id
from holdfast.core.log import StoredEvent
from holdfast.store.files import disk, gone, opening, txn
from holdfast.store.files.catalog import Catalog, Listing, scan
from holdfast.store.files.folder import Folder
from holdfast.store.files.line import Line, event_in
from holdfast.store.files.lock import unfinished
from holdfast.store.files.place import FILES, Place
from holdfast.store.files.routes import Routes
from holdfast.store.files.scopes import FOLDER as SCOPES
from holdfast.store.files.scopes import Scope
from holdfast.store.files.segment import Segment, pieces
from holdfast.store.files.segments import count_sealed
from holdfast.store.files.session import Capture, read_lineage
from holdfast.store.files.snapshots import find_snapshot
from holdfast.store.host import boot_id, boot_ms
from holdfast.store.inspection import StoredKey
from holdfast.store.log_store import Listed
from holdfast.store.port import Chunk, Query, Snapshot
from holdfast.store.tx import KeyRow, Row


class FilesView:
    """`View`. Close it to let go of the files it opened."""

    def __init__(self, folder: Folder, catalog: Catalog) -> None:
        self._folder = folder
        self._catalog = catalog
        self._captures: dict[str, Capture] = {}
        self._listings: list[tuple[str, Listing]] | None = None

    def close(self) -> None:
        for capture in self._captures.values():
            if capture.segments is not None:
                capture.segments.close()

    def _capture(self, session_id: str) -> Capture:
        capture = self._captures.get(session_id)
        if capture is None:
            capture = self._captures[session_id] = (
                self._folder.capture(session_id) if is_id(session_id) else Capture(None)
            )
        return capture

    # --- sessions

    def lease_clock(self) -> tuple[int, str]:
        return boot_ms(), boot_id()

    def header(self, session_id: str) -> Row | None:
        return self._capture(session_id).row

    def hole(self, session_id: str) -> int | None:
        """The first event of a session that could not be read when its header was added up."""
        return self._capture(session_id).hole

    def rows(self, session_id: str, after: int, upto: int) -> list[StoredEvent]:
        segments = self._capture(session_id).segments
        return [] if segments is None else segments.rows(after, upto)

    def hash_at(self, session_id: str, seq: int) -> bytes | None:
        segments = self._capture(session_id).segments
        return None if segments is None else segments.hash_at(seq)

    def chunks(self, session_id: str, after: int) -> list[Chunk]:
        return [chunk for chunk in self._capture(session_id).chunks if chunk.n > after]

    def tip(self, root_id: str) -> str | None:
        return (read_lineage(Place(self._folder.path, root_id)) or [None])[-1]

    def route(self, route: str) -> str | None:
        with self._folder.standing_still():
            return Routes.load(self._folder.path).leads.get(route)

    def blob(self, session_id: str, sha256: str) -> bytes | None:
        path = Place(self._folder.path, session_id).blob(sha256) if is_id(session_id) else None
        return None if path is None else disk.read(path)

    def snapshot(self, session_id: str, at_most: int) -> Snapshot | None:
        return find_snapshot(Place(self._folder.path, session_id), at_most)

    # --- lists

    def _sorted(self) -> list[tuple[str, Listing]]:
        if self._listings is None:
            found = self._catalog.listings().items()
            self._listings = sorted(found, key=lambda one: (one[1].updated_at, one[0]), reverse=True)
        return self._listings

    def listed(self, query: Query, before: tuple[int, str], limit: int) -> list[Listed]:
        found: list[Listed] = []
        for session_id, listing in self._sorted():
            if (listing.updated_at, session_id) < before and _fits(listing.row, query):
                found.append(Listed(session_id, listing.updated_at, listing.row))
                if len(found) == limit:
                    break
        return found

    def with_prefix(self, prefix: str, owner_id: str, limit: int) -> list[str]:
        found: list[str] = []
        for session_id, files in sorted(scan(self._folder).items()):
            if session_id.startswith(prefix) and not files.gone:
                row = self.header(session_id)
                if row is not None and row.owner_id == owner_id and row.deleted_at is None:
                    found.append(session_id)
        return found[:limit]

    # --- for those who look for damage

    def everything(self) -> tuple[list[str], list[str]]:
        return sorted(scan(self._folder)), []

    def scan(self, session_id: str) -> Iterator[StoredEvent]:
        for path in _segments(Place(self._folder.path, session_id)):
            segment = Segment.open(path)
            if segment is None:
                continue
            with closing(segment):
                for piece in pieces(segment.fd, 0, segment.size):
                    event = event_in(piece.text)
                    if event is not None and event.session_id == session_id:
                        yield event

    def keys_of(self, session_ids: Collection[str]) -> list[StoredKey]:
        found: list[StoredKey] = []
        for session_id in session_ids:
            row = self.header(session_id)
            if row is None:
                continue
            with self._folder.using(session_id) as session, session.mutex:
                if row.deleted_at is not None:
                    found += [
                        StoredKey(
                            key.scope or row.root_id,
                            key.key,
                            KeyRow(session_id, key.seq, key.count, bytes.fromhex(key.digest)),
                        )
                        for key in gone.read_keys(session.place)
                    ]
                else:
                    found += [_stored_key(line, row) for line in session.keyed_lines()]
        return found

    def blobs_of(self, session_id: str) -> list[str]:
        try:
            names = os.listdir(Place(self._folder.path, session_id).blobs())
        except FileNotFoundError:
            return []
        return sorted(name for name in names if not name.startswith("."))

    def routes(self) -> list[tuple[str, str]]:
        with self._folder.standing_still():
            return sorted(Routes.load(self._folder.path).leads.items())

    def lineages(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for name in sorted(os.listdir(self._folder.path)):
            if name.endswith(".lineage.json") and is_id(name[:26]):
                members = read_lineage(Place(self._folder.path, name[:26]))
                found += [(name[:26], members[-1])] if members else []
        return found

    def flaws(self, session_id: str) -> Iterator[str]:
        """The first line of each file, which readers can do without while the index knows what it said."""
        place = Place(self._folder.path, session_id)
        numbered = (place.sealed(number) for number in range(1, count_sealed(place) + 1))
        for path in (*numbered, place.live):
            segment = Segment.open(path)
            if segment is None:
                continue
            with closing(segment):
                head = segment.head
            if head is None or head.session != session_id:
                yield f"the first line of {path.name} does not match its checksum"

    def checks(self, deep: bool) -> Iterator[str]:
        """Every small file by its checksum; the names of files nobody knows."""
        yield from self._strangers()
        for name in sorted(os.listdir(self._folder.path / SCOPES)):
            if name.endswith(".jsonl"):
                yield from _trouble(Scope(self._folder.path, f"{SCOPES}/{name[:-6]}").refresh)
        for left in txn.outstanding(self._folder.path):
            yield f"an unfinished commit is left in {txn.FOLDER}/{left}.json"
        yield from _trouble(lambda: Routes.load(self._folder.path))
        yield from _trouble(self.lineages)
        for session_id in self.everything()[0]:
            yield from self._locks(session_id)

    def _strangers(self) -> Iterator[str]:
        known = {opening.NAME, "routes.json", "pulse", "store.lock", *opening.FOLDERS, *opening.HARMLESS}
        for name in sorted(os.listdir(self._folder.path)):
            if name not in known and not (is_id(name[:26]) and name[26:27] == "."):
                yield f"{name} is not a file of this store"

    def _locks(self, session_id: str) -> Iterator[str]:
        data = disk.read(Place(self._folder.path, session_id).lock)
        if data is not None and (left := unfinished(data)) is not None:
            yield f"session {session_id} waits for the unfinished commit {left}"


def _segments(place: Place) -> list[Path]:
    """Every segment that lies there, in order, whatever is missing between them."""
    numbers: list[int] = []
    for name in os.listdir(place.folder):
        match = FILES.fullmatch(name)
        if match is not None and match[1] == place.session_id and match[2] and match[3] == "jsonl":
            numbers.append(int(match[2]))
    return [*(place.sealed(number) for number in sorted(numbers)), place.live]


def _fits(row: Row | None, query: Query) -> bool:
    if row is None:
        return True
    return (
        row.owner_id == query.owner_id
        and (query.state is None or row.state == query.state)
        and (query.project_key is None or row.project_key == query.project_key)
        and (query.base_id is None or row.base_id == query.base_id)
    )


def _stored_key(line: Line, row: Row) -> StoredKey:
    count = line.count or 1
    key = KeyRow(line.session, line.seq + count - 1, count, bytes.fromhex(line.digest or ""))
    return StoredKey(line.scope or row.root_id, line.key or "", key)


def _trouble(check: Callable[[], object]) -> Iterator[str]:
    try:
        check()
    except HoldfastError as error:
        yield str(error)
