"""How a search index follows the log: session by session, each with its own watermark, never inside a commit.

An index holds the documents of each session's own events. Inherited events are found in the session that owns them;
once that session is deleted, its forks hold what they inherited. A watermark is the last event's seq and hash: a
session that no longer contains it, for example after a restore from a backup, is indexed again from its beginning.
Adapters that support search implement `SearchIndex` and `SearchProvider`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from outlast.core.errors import DamagedSession, SessionNotFound
from outlast.core.events import EventRedacted
from outlast.core.header import Header
from outlast.store.engine.encode import event_of
from outlast.store.log_store import LogStore
from outlast.store.read.read_view import ReadMark
from outlast.store.search.documents import LOOKED_AT, SearchDocument, document_of

PAGE = 512
Progress = Callable[[int, int], None]


class IndexPosition(NamedTuple):
    """The indexed part of a session: the events after `start` up to `upto`, whose hash is `hash`."""

    start: int
    upto: int
    hash: bytes


class IndexMatch(NamedTuple):
    """A matching document, and the list fields of its session."""

    document: SearchDocument
    owner_id: str
    root_id: str
    title: str | None
    state: str
    updated_at: int
    project_key: str | None
    project_root: str | None
    project_fingerprint: str | None
    rotated_to: str | None


class SearchIndex(Protocol):
    """Storage of documents. Each method is one transaction."""

    def known(self) -> Mapping[str, IndexPosition]: ...

    def put(
        self, header: Header, place: IndexPosition, documents: list[SearchDocument], *, anew: bool, gone: list[int]
    ) -> None:
        """Add documents of a session and move its position to `place`. `anew` first removes all its documents; `gone`
        lists the seqs of redacted events to remove."""
        ...

    def drop(self, session_ids: Iterable[str]) -> None:
        """Remove these sessions, beyond recovery."""
        ...

    def found(self, query: str, owner_id: str) -> Iterator[IndexMatch]:
        """Exactly the documents that contain the folded query, most recently indexed first."""
        ...

    def close(self) -> None: ...


def catch_up(store: LogStore, search_index: SearchIndex, progress: Progress | None = None) -> list[str]:
    """Bring an index up to date; return the damaged sessions, which are indexed only up to the damage."""
    with store.inspect() as view:
        marks = {mark.session_id: mark for mark in view.marks()}
    known = search_index.known()
    gone = [name for name in known if name not in marks or marks[name].deleted]
    if gone:
        search_index.drop(gone)
    behind = [(mark, _start(mark, marks)) for mark in marks.values() if not mark.deleted]
    behind = [(mark, start) for mark, start in behind if not _is_current(known.get(mark.session_id), mark, start)]
    behind.sort(key=lambda one: one[0].updated_at)
    done, total = 0, sum(mark.last_seq - _from(known.get(mark.session_id), start) for mark, start in behind)
    damaged: list[str] = []
    again: set[str] = set()
    for mark, start in behind:
        for count in _follow(store, search_index, mark, start, known.get(mark.session_id), again, damaged):
            done += count
            if progress is not None:
                progress(min(done, total), total)
    for name in again:  # an event that they inherited was redacted through another fork
        mark = marks[name]
        for _ in _follow(store, search_index, mark, _start(mark, marks), None, set(), damaged):
            pass
    return damaged


def _is_current(place: IndexPosition | None, mark: ReadMark, start: int) -> bool:
    return place is not None and place == (start, mark.last_seq, mark.head_hash)


def _from(place: IndexPosition | None, start: int) -> int:
    return start if place is None else place.upto


def _start(mark: ReadMark, marks: Mapping[str, ReadMark]) -> int:
    """The seq after which a session's documents begin: its base, or an earlier event if its base session was
    deleted."""
    start, base = mark.base_seq, marks.get(mark.base_id or "")
    while base is not None and base.deleted:
        start, base = base.base_seq, marks.get(base.base_id or "")
    return start if mark.base_id else 0


def _follow(
    store: LogStore,
    search_index: SearchIndex,
    mark: ReadMark,
    start: int,
    place: IndexPosition | None,
    again: set[str],
    damaged: list[str],
) -> Iterator[int]:
    """Index a session from its watermark on; yield the number of events of each page."""
    session_id = mark.session_id
    try:
        header = store.head(session_id)
        anew = place is None or place.start != start or not _still_there(store, session_id, place)
        upto = start if anew or place is None else place.upto
        hashed = b"" if anew or place is None else place.hash
        while True:
            page = store.read(session_id, after=upto, limit=PAGE)
            if not page and not anew:
                return
            documents: list[SearchDocument] = []
            gone: list[int] = []
            for stored in page:
                if stored.kind not in LOOKED_AT:
                    continue
                event = event_of(stored, lambda name, at=stored: store.blob(at.session_id, name))
                if isinstance(event, EventRedacted):
                    gone.append(event.seq)
                    if event.seq <= mark.base_seq:
                        again.update(name for name, other in search_index.known().items() if other.start < event.seq)
                elif (document := document_of(session_id, stored, event)) is not None:
                    documents.append(document)
            if page:
                upto, hashed = page[-1].seq, page[-1].hash
            search_index.put(header, IndexPosition(start, upto, hashed), documents, anew=anew, gone=gone)
            anew = False
            yield len(page)
            if len(page) < PAGE:
                return
    except SessionNotFound:
        return  # deleted meanwhile; the next search removes it from the index
    except DamagedSession:
        damaged.append(session_id)


def _still_there(store: LogStore, session_id: str, place: IndexPosition) -> bool:
    """Whether the log still contains the watermark's event."""
    if place.upto == 0:
        return True
    rows = store.read(session_id, after=place.upto - 1, before=place.upto + 1)
    return bool(rows) and rows[0].hash == place.hash


class SearchProvider(Protocol):
    """Opens, updates and removes the index of one store."""

    @property
    def trouble(self) -> tuple[type[Exception], ...]:
        """The exceptions that this provider and its index raise if the index cannot be used."""
        ...

    def is_broken(self, error: Exception) -> bool:
        """Whether the index is broken and must be rebuilt; otherwise it is only unavailable at the moment."""
        ...

    def exists(self) -> bool: ...

    def open(self) -> SearchIndex:
        """Open the index; create it if there is none."""
        ...

    def catch_up(self, store: LogStore, search_index: SearchIndex, progress: Progress | None = None) -> list[str]:
        """Bring the index up to date; return the damaged sessions, which are indexed only in part."""
        ...

    def remove(self) -> None: ...
