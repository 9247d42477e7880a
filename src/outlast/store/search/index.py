"""How a shelf follows the log: session by session, each with its own watermark, never in anybody's commit.

A shelf holds the documents of each session's own events. What a session inherits is found in the session that said it;
once that one is deleted, its forks hold what they inherited. A watermark is the last event's seq and hash: a session
that is not what the shelf has seen of it, restored from a backup for example, is read again from its beginning.

What a store's adapter does for search, if it can: keep a shelf beside the store.
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
    """How far a session is on the shelf: events after `start` up to `upto`, the last with this hash."""

    start: int
    upto: int
    hash: bytes


class IndexMatch(NamedTuple):
    """A document on the shelf, and what a list shows of its session."""

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
    """Where documents lie. Each method is one transaction."""

    def known(self) -> Mapping[str, IndexPosition]: ...

    def put(
        self, header: Header, place: IndexPosition, documents: list[SearchDocument], *, anew: bool, gone: list[int]
    ) -> None:
        """Documents of a session, at `place` then; `anew`: in the place of all it had; `gone`: without these events."""
        ...

    def drop(self, session_ids: Iterable[str]) -> None:
        """Take these sessions away, beyond recovery."""
        ...

    def found(self, query: str, owner_id: str) -> Iterator[IndexMatch]:
        """Documents that hold the folded query, the newest on the shelf first; no other."""
        ...

    def close(self) -> None: ...


def catch_up(store: LogStore, search_index: SearchIndex, progress: Progress | None = None) -> list[str]:
    """Bring a shelf up to date; the sessions that are damaged, of which it holds what comes before the damage."""
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
    for name in again:  # what they inherited was redacted through another fork
        mark = marks[name]
        for _ in _follow(store, search_index, mark, _start(mark, marks), None, set(), damaged):
            pass
    return damaged


def _is_current(place: IndexPosition | None, mark: ReadMark, start: int) -> bool:
    return place is not None and place == (start, mark.last_seq, mark.head_hash)


def _from(place: IndexPosition | None, start: int) -> int:
    return start if place is None else place.upto


def _start(mark: ReadMark, marks: Mapping[str, ReadMark]) -> int:
    """After which event a session's documents begin: where its own events do, unless what it stands on was deleted."""
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
    """Read a session on from its watermark; how many events at a time."""
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
        return  # deleted meanwhile; the next search takes it from the shelf
    except DamagedSession:
        damaged.append(session_id)


def _still_there(store: LogStore, session_id: str, place: IndexPosition) -> bool:
    """Whether the log still holds the event that the watermark names."""
    if place.upto == 0:
        return True
    rows = store.read(session_id, after=place.upto - 1, before=place.upto + 1)
    return bool(rows) and rows[0].hash == place.hash


class SearchProvider(Protocol):
    """Opens the shelf of one store, brings it up to date, throws it away."""

    @property
    def trouble(self) -> tuple[type[Exception], ...]:
        """What these and the shelf's methods raise when the shelf cannot be used."""
        ...

    def is_broken(self, error: Exception) -> bool:
        """Whether that is the shelf's own fault, so that it must be made anew; else it is only not to be had now."""
        ...

    def exists(self) -> bool: ...

    def open(self) -> SearchIndex:
        """The shelf, made if there is none."""
        ...

    def catch_up(self, store: LogStore, search_index: SearchIndex, progress: Progress | None = None) -> list[str]:
        """Bring it up to date; the damaged sessions, of which it holds only a part."""
        ...

    def remove(self) -> None: ...
