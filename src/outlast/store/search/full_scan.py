"""Search without an index: reads every session. Always correct; slow in proportion to the size of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from outlast.core.errors import DamagedSession, SessionNotFound
from outlast.core.header import Header
from outlast.store.engine.encode import event_of
from outlast.store.log_store import LogStore
from outlast.store.port import Query
from outlast.store.read.read_view import ReadMark
from outlast.store.search.documents import SAID, TITLES, SearchDocument, document_of, folded
from outlast.store.search.index import PAGE, IndexMatch

Progress = Callable[[int, int], None]


def scan(
    store: LogStore, query: str, owner_id: str, damaged: list[str], progress: Progress | None = None
) -> Iterator[IndexMatch]:
    """Yield what an index would find: sessions by newest activity, in each session the newest document first."""
    with store.inspect() as view:
        marks = {mark.session_id: mark for mark in view.marks()}
    for done, header in enumerate(_headers(store, owner_id)):
        if progress is not None:
            progress(done, len(marks))
        try:
            hits = [document for document in _documents(store, header, marks) if query in folded(document.text)]
        except SessionNotFound:
            continue
        except DamagedSession:
            damaged.append(header.session_id)
            continue
        for document in reversed(hits):
            yield found_in(document, header)


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
        page = store.find(Query(owner_id=owner_id, limit=PAGE, cursor=cursor))
        yield from page.headers
        cursor = page.cursor
        if cursor is None:
            return


def _documents(store: LogStore, header: Header, marks: Mapping[str, ReadMark]) -> Iterator[SearchDocument]:
    start, base = header.base_seq, marks.get(header.base_id or "")
    while base is not None and base.deleted:
        start, base = base.base_seq, marks.get(base.base_id or "")
    while True:
        page = store.read(header.session_id, after=start, limit=PAGE)
        for stored in page:
            if stored.kind in SAID or stored.kind in TITLES:
                event = event_of(stored, lambda name, at=stored: store.blob(at.session_id, name))
                document = document_of(header.session_id, stored, event)
                if document is not None:
                    yield document
        if len(page) < PAGE:
            return
        start = page[-1].seq
