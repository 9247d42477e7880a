"""Search over all sessions of a store. Results are always up to date, for every kind of store and index state.

A damaged index is dropped and rebuilt. Where no index is possible (a files store, a read-only store, a PostgreSQL role
that may not create tables) every session is scanned instead. There is one hit per lineage: the newest match, with the
date and title of the session that contains it, and the session to resume.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from outlast.core.errors import InvalidInput, StoreUnavailable
from outlast.runtime.prompt.project_identity import project_fingerprint, project_key
from outlast.store import place_of
from outlast.store.log_store import LogStore
from outlast.store.search.documents import Snippet, folded, snippet_of
from outlast.store.search.full_scan import scan
from outlast.store.search.index import IndexMatch, SearchIndex, SearchProvider

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


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    query: str
    hits: list[SearchHit]
    more: bool = False
    damaged: list[str] = []


class Searcher:
    """Searches one store; keeps its index open until it is closed. For one thread."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._search_provider = _search_provider(store)
        self._search_index: SearchIndex | None = None

    def search(
        self,
        query: str,
        *,
        owner_id: str = "local",
        limit: int = 20,
        project: Path | None = None,
        progress: Progress | None = None,
    ) -> SearchPage:
        """The newest matches of a text, in any script, ignoring case. Raises `InvalidInput` if it is empty."""
        wanted = folded(query)
        if not wanted:
            raise InvalidInput("the search text is empty; give a word, or a part of one")
        damaged: list[str] = []
        hits: dict[str, SearchHit] = {}
        more = False
        with closing(self._found(wanted, owner_id, damaged, progress)) as found:
            for one in _of_project(found, project):
                if one.root_id in hits:
                    continue
                if len(hits) == limit:
                    more = True
                    break
                hits[one.root_id] = _hit(self._store, one, wanted)
        newest_first = sorted(hits.values(), key=lambda hit: -hit.at)
        return SearchPage(query=query, hits=newest_first, more=more, damaged=sorted(set(damaged)))

    def matches(self, query: str, *, owner_id: str = "local") -> Iterator[tuple[str, int]]:
        """Every match as (session, seq), unordered."""
        with closing(self._found(folded(query), owner_id, [], None)) as found:
            for one in found:
                yield one.document.session_id, one.document.seq

    def close(self) -> None:
        search_index, self._search_index = self._search_index, None
        if search_index is not None:
            search_index.close()

    def _found(self, query: str, owner_id: str, damaged: list[str], progress: Progress | None) -> Generator[IndexMatch]:
        """Matches from the index, which is rebuilt once if damaged; without an index, from a scan of the sessions."""
        search_provider = self._search_provider
        told: set[tuple[str, int]] = set()
        for again in (False, True):
            if search_provider is None:
                break
            try:
                if again:
                    self.close()
                    search_provider.remove()
                self._search_index = search_index = self._search_index or search_provider.open()
                damaged += search_provider.catch_up(self._store, search_index, progress)
                yield from _not_told(search_index.found(query, owner_id), told)
                return
            except search_provider.trouble as error:
                if not search_provider.is_broken(error):
                    break
        yield from _not_told(scan(self._store, query, owner_id, damaged, progress), told)


def search(
    store: LogStore,
    query: str,
    *,
    owner_id: str = "local",
    limit: int = 20,
    project: Path | None = None,
    progress: Progress | None = None,
) -> SearchPage:
    """One search with its own index connection; see `Searcher.search`."""
    with closing(Searcher(store)) as searcher:
        return searcher.search(query, owner_id=owner_id, limit=limit, project=project, progress=progress)


def rebuild(store: LogStore, progress: Progress | None = None) -> None:
    """Drop the index and build it again; does nothing for a store without an index."""
    search_provider = _search_provider(store)
    if search_provider is None:
        return
    try:
        search_provider.remove()
        with closing(search_provider.open()) as search_index:
            search_provider.catch_up(store, search_index, progress)
    except search_provider.trouble as error:
        raise StoreUnavailable(
            f"the search index cannot be created ({error}); search reads every session instead"
        ) from error


def forget(store: LogStore) -> None:
    """Remove deleted and redacted content from the index, if there is one."""
    search_provider = _search_provider(store)
    if search_provider is None:
        return
    try:
        if search_provider.exists():
            with closing(search_provider.open()) as search_index:
                search_provider.catch_up(store, search_index)
    except search_provider.trouble as error:
        told = f"the session is deleted, but the search index could not be cleaned ({error})"
        try:
            search_provider.remove()
        except search_provider.trouble:
            raise StoreUnavailable(f"{told}; run `outlast sessions search --rebuild`") from error


# --- with or without an index ----------------------------------------------------------------------------------------


def _search_provider(store: LogStore) -> SearchProvider | None:
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
