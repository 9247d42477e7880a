"""How a search index follows the log: session by session, in small transactions, never inside a commit.

Each transaction takes a bounded amount of text, moves the session's position and can be the last one: a later run, in
this process or another, goes on from there, in the middle of a long text too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from outlast.core.errors import DamagedSession, SessionNotFound
from outlast.core.event_row import StoredEvent
from outlast.core.events import EventRedacted
from outlast.core.header import Header
from outlast.store.log_store import LogStore
from outlast.store.read.read_view import ReadMark
from outlast.store.search.documents import LOOKED_AT, SearchDocument
from outlast.store.search.event_text import documents, event_pages, event_without_blobs
from outlast.store.search.index import (
    IndexPosition,
    SearchIndex,
    first_seq,
    indexed_events,
    position_now,
    read_marks,
    sessions_behind,
)

BATCH_CHARACTERS = 262_144
"""Text of one transaction."""
BATCH_EVENTS = 512
Progress = Callable[[int, int], None]


class IndexProgress(NamedTuple):
    """How far an index is: it holds `events` of the store's `of` events. `damaged` sessions are indexed only up to the
    damage."""

    events: int
    of: int
    complete: bool
    damaged: tuple[str, ...] = ()


def progress_of(marks: Mapping[str, ReadMark], known: Mapping[str, IndexPosition]) -> IndexProgress:
    """How far an index with these positions is in a store with these sessions."""
    complete = not any(sessions_behind(marks, known)) and not _deleted(marks, known)
    return IndexProgress(*indexed_events(marks, known), complete)


class _Stopped(Exception):
    """The caller wants no further transaction."""


class CatchUp:
    """One run that brings an index up to date. `rest` is called after each transaction, with the number of indexed
    events and that of all; it returns False to stop the run."""

    def __init__(self, store: LogStore, search_index: SearchIndex, rest: Callable[[int, int], bool]) -> None:
        self._store = store
        self._index = search_index
        self._rest = rest
        self._events = self._of = 0
        self._marks: Mapping[str, ReadMark] = {}

    def run(self) -> IndexProgress:
        self._marks = marks = read_marks(self._store)
        known = self._index.known()
        drop_deleted(self._index, known, marks)
        self._events, self._of = indexed_events(marks, known)
        behind = sorted(sessions_behind(marks, known), key=lambda mark: mark.updated_at)
        damaged: list[str] = []
        try:
            self._told()
            for mark in behind:
                self._follow(mark, known.get(mark.session_id), damaged)
        except _Stopped:
            return IndexProgress(self._events, self._of, False, tuple(damaged))
        return IndexProgress(self._events, self._of, True, tuple(damaged))

    def _told(self) -> None:
        if not self._rest(min(self._events, self._of), self._of):
            raise _Stopped

    def _follow(self, mark: ReadMark, position: IndexPosition | None, damaged: list[str]) -> None:
        try:
            header = self._store.head(mark.session_id)
            while not self._follow_from(header, mark, position):
                position = self._index.position(mark.session_id)  # another process has moved it
        except SessionNotFound:
            return  # deleted meanwhile; the next run removes it from the index
        except DamagedSession:
            damaged.append(mark.session_id)

    def _follow_from(self, header: Header, mark: ReadMark, known: IndexPosition | None) -> bool:
        """Index a session from a position on. False if another process does so too."""
        here = position_now(self._store, known, mark, self._marks)
        batch = IndexBatch(header, known, anew=here != known)
        for page in event_pages(self._store, mark.session_id, here.upto):
            for stored in page:
                for document in self._documents(mark, stored, here.part, batch):
                    batch.add(document)
                    if batch.size >= BATCH_CHARACTERS and not self._write(batch, here._replace(part=document.part + 1)):
                        return False
                here = IndexPosition(here.start, stored.seq, stored.hash)
                batch.events += 1
                if batch.events >= BATCH_EVENTS and not self._write(batch, here):
                    return False
        return not (batch.anew or batch.events) or self._write(batch, here)

    def _documents(self, mark: ReadMark, stored: StoredEvent, part: int, batch: IndexBatch) -> Iterator[SearchDocument]:
        """The slices of an event from `part` on. A redaction takes documents away instead."""
        if stored.kind not in LOOKED_AT:
            return iter(())
        event = event_without_blobs(self._store, stored)
        if isinstance(event, EventRedacted):
            batch.gone += [(name, event.seq) for name in self._holders(mark, event.seq)]
            return iter(())
        return islice(documents(self._store, mark.session_id, stored, event), part, None)

    def _holders(self, mark: ReadMark, seq: int) -> list[str]:
        """The sessions under which an event of this session's history is indexed."""
        if seq > mark.base_seq:
            return [mark.session_id]
        owner, marks = self._owner(mark, seq), self._marks.values()
        return [one.session_id for one in marks if first_seq(one, self._marks) < seq and self._owner(one, seq) == owner]

    def _owner(self, mark: ReadMark, seq: int) -> str | None:
        found: ReadMark | None = mark
        while found is not None and seq <= found.base_seq:
            found = self._marks.get(found.base_id or "")
        return None if found is None or seq > found.last_seq else found.session_id

    def _write(self, batch: IndexBatch, place: IndexPosition) -> bool:
        written = self._index.put(
            batch.header, place, batch.documents, expected=batch.expected, anew=batch.anew, gone=batch.gone
        )
        if written:
            self._events += batch.events
            batch.begin(place)
            self._told()
        return written


class IndexBatch:
    """What the next transaction will write for one session."""

    def __init__(self, header: Header, expected: IndexPosition | None, *, anew: bool) -> None:
        self.header = header
        self.begin(expected)
        self.anew = anew

    def begin(self, expected: IndexPosition | None) -> None:
        self.expected = expected
        self.anew = False
        self.documents: list[SearchDocument] = []
        self.gone: list[tuple[str, int]] = []
        self.size = self.events = 0

    def add(self, document: SearchDocument) -> None:
        self.documents.append(document)
        self.size += len(document.text)


def drop_deleted(search_index: SearchIndex, known: Mapping[str, IndexPosition], marks: Mapping[str, ReadMark]) -> None:
    """Remove the sessions that the store no longer has, their texts beyond recovery."""
    gone = _deleted(marks, known)
    if gone:
        search_index.drop(gone)


def _deleted(marks: Mapping[str, ReadMark], known: Mapping[str, IndexPosition]) -> list[str]:
    return [name for name in known if name not in marks or marks[name].deleted]
