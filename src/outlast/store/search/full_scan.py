"""Search without an index: reads sessions. Always correct; slow in proportion to what is read.

A scan of the whole store serves where no index is possible. An index that is not yet up to date is supplemented by a
scan of the newest events that it does not hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from outlast.core.errors import DamagedSession, SessionNotFound
from outlast.core.header import Header
from outlast.store.log_store import LogStore
from outlast.store.port import Query
from outlast.store.read.read_view import ReadMark
from outlast.store.search.documents import SearchDocument
from outlast.store.search.event_text import event_pages, first_match
from outlast.store.search.index import IndexMatch, IndexPosition, first_seq, position_now, read_marks, sessions_behind

LIST_PAGE = 512
NEWEST_EVENTS = 1000
NEWEST_SECONDS = 1.0
Progress = Callable[[int, int], None]


def scan(
    store: LogStore, query: str, owner_id: str, damaged: list[str], progress: Progress | None = None
) -> Iterator[IndexMatch]:
    """Yield what an index would find: sessions by newest activity, in each session the newest event first."""
    marks = read_marks(store)
    for done, header in enumerate(_headers(store, owner_id)):
        if progress is not None:
            progress(done, len(marks))
        mark = marks.get(header.session_id)
        start = header.base_seq if mark is None else first_seq(mark, marks)
        try:
            for page in event_pages(store, header.session_id, start, newest_first=True):
                for stored in page:
                    document = first_match(store, header.session_id, stored, query)
                    if document is not None:
                        yield found_in(document, header)
        except SessionNotFound:
            continue
        except DamagedSession:
            damaged.append(header.session_id)


def scan_newest(
    store: LogStore,
    query: str,
    owner_id: str,
    marks: Mapping[str, ReadMark],
    known: Mapping[str, IndexPosition],
    damaged: list[str],
) -> Iterator[IndexMatch]:
    """Yield matches among the newest 1,000 events that an index with these positions does not hold, though the store's
    sessions (`marks`) do. Stops early after
    `NEWEST_SECONDS`, but never before the newest event was compared."""
    left, deadline = NEWEST_EVENTS, time.monotonic() + NEWEST_SECONDS
    for mark in sorted(sessions_behind(marks, known), key=lambda mark: -mark.updated_at):
        try:
            header = store.head(mark.session_id)
            if header.owner_id != owner_id:
                continue
            indexed = position_now(store, known.get(mark.session_id), mark, marks)
            for page in event_pages(store, mark.session_id, indexed.upto, newest_first=True):
                for stored in page:
                    document = first_match(store, mark.session_id, stored, query)
                    if document is not None:
                        yield found_in(document, header)
                    left -= 1
                    if left == 0 or time.monotonic() > deadline:
                        return
        except SessionNotFound:
            continue
        except DamagedSession:
            damaged.append(mark.session_id)


def found_in(document: SearchDocument, header: Header) -> IndexMatch:
    return IndexMatch(
        document,
        header.owner_id,
        header.root_id or header.session_id,
        header.title,
        header.state,
        header.updated_at,
        header.project_key,
        header.project_root,
        header.project_fingerprint,
        header.rotated_to,
    )


def _headers(store: LogStore, owner_id: str) -> Iterator[Header]:
    cursor: str | None = None
    while True:
        page = store.find(Query(owner_id=owner_id, limit=LIST_PAGE, cursor=cursor))
        yield from page.headers
        cursor = page.cursor
        if cursor is None:
            return
