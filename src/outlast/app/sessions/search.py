"""Search over all sessions of a store.

A search waits at most `WAIT_SECONDS` until the index is up to date. An answer from an index that is still behind says
so (`indexed`), and includes the newest events that the index does not hold. A damaged index is dropped and rebuilt.
Where no index is possible (a files store, a read-only store, a PostgreSQL role that may not create tables) every
session is scanned instead. There is one hit per lineage: the newest match, with the date and title of the session that
contains it, and the session to resume.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from outlast.core.errors import InvalidInput, StoreUnavailable
from outlast.runtime.prompt.project_identity import project_fingerprint, project_key
from outlast.store import place_of
from outlast.store.log_store import LogStore
from outlast.store.read.read_view import ReadMark
from outlast.store.search.catch_up import IndexProgress, progress_of
from outlast.store.search.documents import MOST_QUERY, Snippet, folded, snippet_of
from outlast.store.search.event_text import is_readable
from outlast.store.search.full_scan import scan, scan_newest
from outlast.store.search.index import IndexMatch, SearchIndex, SearchProvider, indexed_events, read_marks
from outlast.store.search.indexer import SearchIndexer, indexer_of

WAIT_SECONDS = 0.3
Progress = Callable[[int, int], None]


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """One lineage with a match: `session_id` contains it at event `seq`, `resume_id` is the session to resume."""

    session_id: str
    resume_id: str
    title: str | None
    state: str
    project_root: str | None
    updated_at: int
    seq: int
    turn: str | None
    at: int
    role: str
    snippet: Snippet


class IndexedEvents(msgspec.Struct, frozen=True):
    """How many `of` the store's events were searched: fewer while the index is being made."""

    events: int
    of: int


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    query: str
    hits: list[SearchHit]
    indexed: IndexedEvents
    more: bool = False
    damaged: list[str] = []

    @property
    def is_whole(self) -> bool:
        """Whether everything was searched that can be read."""
        return self.indexed.events >= self.indexed.of or bool(self.damaged)


class Searcher:
    """Searches one store; keeps its index open until it is closed. For one thread."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._indexer = _indexer(store)
        self._search_index: SearchIndex | None = None

    def search(
        self,
        query: str,
        *,
        owner_id: str = "local",
        limit: int = 20,
        project: Path | None = None,
        wait: float | None = WAIT_SECONDS,
        progress: Progress | None = None,
    ) -> SearchPage:
        """The newest matches of a text, in any script, ignoring case. Waits so many seconds for the index, without
        `wait` until it is up to date. Raises `InvalidInput` if the text is empty or too long."""
        wanted = _folded_query(query)
        damaged: list[str] = []
        hits: dict[str, SearchHit] = {}
        more = False
        state = _Searched(damaged)
        with closing(self._found(wanted, owner_id, state, wait, progress)) as found:
            for one in _of_project(found, project):
                if one.root_id in hits or not (state.is_current or is_readable(self._store, one.document)):
                    continue
                if len(hits) == limit:
                    more = True
                    break
                hits[one.root_id] = _hit(self._store, one, wanted)
        newest_first = sorted(hits.values(), key=lambda hit: -hit.at)
        indexed = IndexedEvents(state.events, state.of)
        return SearchPage(query=query, hits=newest_first, indexed=indexed, more=more, damaged=sorted(set(damaged)))

    def matches(self, query: str, *, owner_id: str = "local") -> Iterator[tuple[str, int]]:
        """Every match as (session, seq), unordered; waits until the index is up to date."""
        with closing(self._found(_folded_query(query), owner_id, _Searched([]), None, None)) as found:
            for one in found:
                yield one.document.session_id, one.document.seq

    def close(self) -> None:
        search_index, self._search_index = self._search_index, None
        if search_index is not None:
            search_index.close()

    def _found(
        self, query: str, owner_id: str, state: _Searched, wait: float | None, progress: Progress | None
    ) -> Generator[IndexMatch]:
        """Matches from the index, which is rebuilt once if damaged; without an index, from a scan of the sessions."""
        told: set[tuple[str, int]] = set()
        for again in (False, True):
            if self._indexer is None:
                break
            try:
                search_index = self._current_index(self._indexer, state, wait, progress, again=again)
                if not state.is_current:
                    marks, known = state.marks or read_marks(self._store), search_index.known()
                    state.events, state.of = indexed_events(marks, known)
                    newest = scan_newest(self._store, query, owner_id, marks, known, state.damaged)
                    yield from _not_told(newest, told)
                yield from _not_told(search_index.found(query, owner_id), told)
                return
            except self._indexer.provider.trouble as error:
                self.close()
                if again or not self._indexer.provider.is_broken(error):
                    break
                self._indexer.rebuild_next()
        _, state.of = indexed_events(read_marks(self._store), {})
        state.events, state.is_current = state.of, True
        yield from _not_told(scan(self._store, query, owner_id, state.damaged, progress), told)

    def _current_index(
        self, indexer: SearchIndexer, state: _Searched, wait: float | None, progress: Progress | None, *, again: bool
    ) -> SearchIndex:
        """The open index, brought up to date as far as the time allows; `again` after it proved to be broken."""
        if not again:
            search_index = self._opened(indexer)
            fingerprint = indexer.provider.fingerprint()
            if fingerprint is not None:
                events = search_index.current(fingerprint)
                known = None if events is None else IndexProgress(events, events, True)
            else:
                state.marks = read_marks(self._store)
                known = progress_of(state.marks, search_index.known())
            if known is not None and known.complete:
                state.note(known)
                return search_index
        removals = indexer.removals
        state.note(indexer.catch_up(wait, progress))
        if again or indexer.removals != removals:
            self.close()
        return self._opened(indexer)

    def _opened(self, indexer: SearchIndexer) -> SearchIndex:
        if self._search_index is None:
            self._search_index = indexer.provider.open()
        return self._search_index


class _Searched:
    """What a search learns about its index on the way."""

    def __init__(self, damaged: list[str]) -> None:
        self.damaged = damaged
        self.events = self.of = 0
        self.is_current = True
        self.marks: Mapping[str, ReadMark] = {}

    def note(self, state: IndexProgress) -> None:
        self.events, self.of, self.is_current = state.events, state.of, state.complete
        self.damaged += state.damaged


def search(
    store: LogStore,
    query: str,
    *,
    owner_id: str = "local",
    limit: int = 20,
    project: Path | None = None,
    wait: float | None = WAIT_SECONDS,
    progress: Progress | None = None,
) -> SearchPage:
    """One search with its own index connection; see `Searcher.search`."""
    with closing(Searcher(store)) as searcher:
        return searcher.search(query, owner_id=owner_id, limit=limit, project=project, wait=wait, progress=progress)


def rebuild(store: LogStore, progress: Progress | None = None) -> None:
    """Drop the index and build it again; does nothing for a store without an index."""
    indexer = _indexer(store)
    if indexer is None:
        return
    try:
        indexer.rebuild(progress)
    except indexer.provider.trouble as error:
        raise StoreUnavailable(
            f"the search index cannot be created ({error}); search reads every session instead"
        ) from error


def forget(store: LogStore) -> None:
    """Remove deleted sessions from the index, if there is one."""
    indexer = _indexer(store)
    if indexer is None:
        return
    try:
        indexer.forget_deleted()
    except indexer.provider.trouble as error:
        told = f"the session is deleted, but the search index could not be cleaned ({error})"
        try:
            indexer.provider.remove()
        except indexer.provider.trouble:
            raise StoreUnavailable(f"{told}; run `outlast sessions search --rebuild`") from error


def _folded_query(query: str) -> str:
    if not query:
        raise InvalidInput("the search text is empty; give a word, or a part of one")
    if len(query) > MOST_QUERY:
        raise InvalidInput(f"the text to search for has {len(query)} characters; search for at most {MOST_QUERY}")
    return folded(query)


# --- with or without an index ----------------------------------------------------------------------------------------


def _indexer(store: LogStore) -> SearchIndexer | None:
    provider = search_provider(store)
    return None if provider is None else indexer_of(store, provider)


def search_provider(store: LogStore) -> SearchProvider | None:
    scheme, _ = place_of(store.url)
    if scheme == "sqlite":
        from outlast.store.sqlite import SqliteStore
        from outlast.store.sqlite.search_index import SqliteSearchProvider

        return SqliteSearchProvider(store.path) if isinstance(store, SqliteStore) else None
    if scheme == "postgresql":
        from outlast.store.postgres import PostgresStore
        from outlast.store.postgres.search_index import PostgresSearchProvider

        return PostgresSearchProvider(store.address) if isinstance(store, PostgresStore) else None
    return None


def _not_told(found: Iterable[IndexMatch], told: set[tuple[str, int]]) -> Iterator[IndexMatch]:
    """Skip matches that were already returned: an index may fail in the middle of a search."""
    for one in found:
        place = (one.document.session_id, one.document.seq)
        if place not in told:
            told.add(place)
            yield one


def _of_project(found: Iterable[IndexMatch], project: Path | None) -> Iterator[IndexMatch]:
    if project is None:
        yield from found
        return
    key, repository = project_key(project), project_fingerprint(project)
    for one in found:
        if one.project_key == key or (repository is not None and one.project_fingerprint == repository):
            yield one


def _hit(store: LogStore, one: IndexMatch, query: str) -> SearchHit:
    document = one.document
    return SearchHit(
        session_id=document.session_id,
        resume_id=store.tip(document.session_id) if one.rotated_to else document.session_id,
        title=one.title,
        state=one.state,
        project_root=one.project_root,
        updated_at=one.updated_at,
        seq=document.seq,
        turn=document.turn,
        at=document.at,
        role=document.role,
        snippet=snippet_of(document.text, query) or Snippet("", "", ""),
    )
