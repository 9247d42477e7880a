"""Reads what the search needs of a session's log, in bounded memory.

Events come in pages that shrink when their bodies are large. The text of a blob comes in pieces of `BLOB_PART` bytes,
each read by itself, so that a long text neither fills the memory nor holds a snapshot of the store open.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterator

from outlast.core import events as e
from outlast.core.errors import DamagedSession, SessionDeleted, SessionNotFound
from outlast.core.event_row import StoredEvent
from outlast.store.engine.encode import event_of
from outlast.store.log_store import LogStore
from outlast.store.read.read_view import ReadView
from outlast.store.search.documents import SAID, TITLES, SearchDocument, blob_reference, documents_of, folded

FIRST_PAGE, LARGEST_PAGE = 64, 512
FEW_BYTES, MANY_BYTES = 1024 * 1024, 4 * 1024 * 1024


def event_pages(
    store: LogStore, session_id: str, after: int, *, newest_first: bool = False
) -> Iterator[list[StoredEvent]]:
    """The events after a seq in pages of a few MiB, verified; no page is empty."""
    limit, before = FIRST_PAGE, None
    while True:
        page = store.read(session_id, after=after, before=before, limit=limit, newest_first=newest_first)
        if page:
            yield page
        if len(page) < limit:
            return
        if newest_first:
            before = page[-1].seq
        else:
            after = page[-1].seq
        size = sum(len(row.body) for row in page)
        if size < FEW_BYTES:
            limit = min(2 * limit, LARGEST_PAGE)
        elif size > MANY_BYTES:
            limit = max(1, limit // 4)


def event_without_blobs(store: LogStore, stored: StoredEvent) -> e.Event | e.Opaque:
    """The event of a row, with references in place of its blobs."""
    return event_of(stored, lambda name: blob_reference(name) or store.blob(stored.session_id, name))


def documents(
    store: LogStore, session_id: str, stored: StoredEvent, event: e.Event | e.Opaque
) -> Iterator[SearchDocument]:
    """The slices of an event's text. Raises `DamagedSession` before the first character of a damaged blob."""
    return documents_of(session_id, stored, event, lambda name: _blob_text(store, stored.session_id, name))


def _blob_text(store: LogStore, session_id: str, sha256: str) -> Iterator[str]:
    digest = hashlib.sha256()
    for part in _blob_parts(store, session_id, sha256):
        digest.update(part)
    if digest.hexdigest() != sha256:
        raise DamagedSession(session_id, None, f"blob {sha256} does not match its name")
    decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    for part in _blob_parts(store, session_id, sha256):
        yield decoder.decode(part)
    yield decoder.decode(b"", final=True)


def _blob_parts(store: LogStore, session_id: str, sha256: str) -> Iterator[bytes]:
    owner, number = session_id, 0
    while True:
        with store.inspect() as view:
            found = _blob_part(view, owner, sha256, number)
        if found is None:
            if not number:
                raise DamagedSession(session_id, None, f"blob {sha256} is missing")
            return
        owner, part = found
        yield part
        number += 1


def _blob_part(view: ReadView, owner: str, sha256: str, number: int) -> tuple[str, bytes] | None:
    """A part of a blob of this session or of one that it inherits from, with the session that holds it."""
    name: str | None = owner
    while name is not None:
        row = view.header(name)
        if row is None:
            raise SessionNotFound(f"no session {name}")
        part = view.blob_part(name, sha256, number)
        if part is not None:
            return name, part
        if number:
            return None
        if row.deleted_at is not None and row.base_id is None:
            raise SessionDeleted(f"session {name} was deleted")
        name = row.base_id
    return None


def is_readable(store: LogStore, document: SearchDocument) -> bool:
    """Whether the session still contains the document's event, unredacted."""
    try:
        rows = store.read(document.session_id, after=document.seq - 1, before=document.seq + 1)
    except (SessionNotFound, DamagedSession):
        return False
    return bool(rows) and not rows[0].redacted


def first_match(store: LogStore, session_id: str, stored: StoredEvent, query: str) -> SearchDocument | None:
    """The first slice of an event's text that contains the folded query."""
    if stored.kind not in SAID and stored.kind not in TITLES:
        return None
    slices = documents(store, session_id, stored, event_without_blobs(store, stored))
    return next((document for document in slices if query in folded(document.text)), None)
