"""The search index of a store as the search sees it: its documents, and for each session the position up to which the
index holds it.

An index holds the documents of each session's own events. Inherited events are found in the session that owns them;
once that session is deleted, its forks hold what they inherited. A position is the last event's seq and hash: a session
that no longer contains it, for example after a restore from a backup, is indexed again from its beginning.
Adapters that support search implement `SearchIndex` and `SearchProvider`; `catch_up` lets an index follow the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from outlast.core.header import Header
from outlast.store.log_store import LogStore
from outlast.store.read.read_view import ReadMark
from outlast.store.search.documents import SearchDocument


class IndexPosition(NamedTuple):
    """The indexed part of a session: the events after `start` up to `upto`, whose hash is `hash`, and the first `part`
    slices of the next event."""

    start: int
    upto: int
    hash: bytes
    part: int = 0


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

    def position(self, session_id: str) -> IndexPosition | None: ...

    def put(
        self,
        header: Header,
        place: IndexPosition,
        documents: list[SearchDocument],
        *,
        expected: IndexPosition | None,
        anew: bool,
        gone: list[tuple[str, int]],
    ) -> bool:
        """Add documents of a session and move its position to `place`. `anew` first removes all its documents; `gone`
        lists the redacted events to remove, by session and seq. False, and nothing is changed, if the position is not
        the `expected` one: another process has moved it."""
        ...

    def drop(self, session_ids: Iterable[str]) -> None:
        """Remove these sessions, beyond recovery."""
        ...

    def found(self, query: str, owner_id: str) -> Iterator[IndexMatch]:
        """Exactly the events that contain the folded query, most recently indexed first, each with the first slice
        that contains it."""
        ...

    def current(self, fingerprint: str) -> int | None:
        """The number of events in the index if it was up to date with a store of this fingerprint."""
        ...

    def remember(self, fingerprint: str, events: int) -> None:
        """Note that the index is up to date with a store of this fingerprint."""
        ...

    def close(self) -> None: ...


class SearchProvider(Protocol):
    """Opens and removes the index of one store."""

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

    def fingerprint(self) -> str | None:
        """What changes with every change of the store; None if that cannot be told cheaply."""
        ...

    def remove(self) -> None: ...


def read_marks(store: LogStore) -> dict[str, ReadMark]:
    """The positions of all sessions of a store."""
    with store.inspect() as view:
        return {mark.session_id: mark for mark in view.marks()}


def indexed_events(marks: Mapping[str, ReadMark], known: Mapping[str, IndexPosition]) -> tuple[int, int]:
    """How many events an index with these positions holds, and how many a complete one would."""
    events = of = 0
    for mark in marks.values():
        if not mark.deleted:
            start, position = first_seq(mark, marks), known.get(mark.session_id)
            of += mark.last_seq - start
            if position is not None and position.start == start:
                events += min(position.upto, mark.last_seq) - start
    return events, of


def sessions_behind(marks: Mapping[str, ReadMark], known: Mapping[str, IndexPosition]) -> Iterator[ReadMark]:
    """The sessions with events that an index with these positions does not hold."""
    for mark in marks.values():
        current = IndexPosition(first_seq(mark, marks), mark.last_seq, mark.head_hash)
        if not mark.deleted and known.get(mark.session_id) != current:
            yield mark


def first_seq(mark: ReadMark, marks: Mapping[str, ReadMark]) -> int:
    """The seq after which a session's documents begin: its base, or an earlier event if its base session was
    deleted."""
    start, base = mark.base_seq, marks.get(mark.base_id or "")
    while base is not None and base.deleted:
        start, base = base.base_seq, marks.get(base.base_id or "")
    return start if mark.base_id else 0


def position_now(
    store: LogStore, position: IndexPosition | None, mark: ReadMark, marks: Mapping[str, ReadMark]
) -> IndexPosition:
    """The position from which a session has to be indexed: its start if the log no longer contains the position."""
    start = first_seq(mark, marks)
    if position is None or position.start != start or not _still_there(store, mark.session_id, position):
        return IndexPosition(start, start, b"")
    return position


def _still_there(store: LogStore, session_id: str, position: IndexPosition) -> bool:
    """Whether the log still contains the position's event."""
    if position.upto == position.start and not position.hash:
        return True
    rows = store.read(session_id, after=position.upto - 1, before=position.upto + 1)
    return bool(rows) and rows[0].hash == position.hash
