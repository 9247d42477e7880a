"""Brings the search index of a store up to date in a background thread, which ends when nothing is left to do.

A search asks for a run and waits for it only a short time; the run goes on behind it, with pauses, so that it does not
slow down what else the process does. There is one indexer for each open store. It stops when the store is closed; the
next run, of any process, goes on where it stopped.
"""

from __future__ import annotations

import threading
import time
import weakref
from contextlib import closing

from outlast.core.errors import OutlastError, StoreUnavailable
from outlast.store.log_store import LogStore
from outlast.store.search.catch_up import CatchUp, IndexProgress, Progress, drop_deleted
from outlast.store.search.index import SearchProvider, read_marks

TICK_SECONDS = 0.1
LONGEST_PAUSE = 0.2
NOTHING = IndexProgress(0, 0, False)


class SearchIndexer:
    """For any number of threads."""

    def __init__(self, store: LogStore, provider: SearchProvider) -> None:
        self._store = weakref.ref(store)
        self.provider = provider
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._asked = self._done = self._waiting = 0
        self._rebuilds = self._stopped = False
        self._state = NOTHING
        self.removals = 0
        """How often the index was removed: one that was opened before is not the index any more."""
        self._resumed = time.monotonic()
        self._error: Exception | None = None
        store.before_close(self.stop)

    def catch_up(self, seconds: float | None, progress: Progress | None = None) -> IndexProgress:
        """Have the index brought up to date with all that is committed now, and wait for that: at most so many
        seconds, or until it is done. Raises what the run raised; `provider.trouble` means that there is no index."""
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            self._asked += 1
            wanted = self._asked
            self._error = None
            self._start()
            self._waiting += 1
            try:
                while self._done < wanted and self._thread is not None:
                    left = TICK_SECONDS if deadline is None else min(TICK_SECONDS, deadline - time.monotonic())
                    if left <= 0:
                        break
                    self._changed.wait(left)
                    if progress is not None and self._state.of:
                        progress(self._state.events, self._state.of)
            finally:
                self._waiting -= 1
            if self._done >= wanted:
                return self._state
            if self._thread is None:
                raise self._error or StoreUnavailable("the store is closed; open it again")
            return self._state._replace(complete=False)

    def rebuild_next(self) -> None:
        """Let the next run remove the index first."""
        with self._changed:
            self._rebuilds = True

    def rebuild(self, progress: Progress | None = None) -> IndexProgress:
        """Remove the index and make it again."""
        self.rebuild_next()
        return self.catch_up(None, progress)

    def forget_deleted(self) -> None:
        """Remove deleted sessions from the index, if there is one."""
        store = self._store()
        if store is None or not self.provider.exists():
            return
        with closing(self.provider.open()) as search_index:
            drop_deleted(search_index, search_index.known(), read_marks(store))

    def stop(self) -> None:
        """End the thread after the transaction that it is in."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    # --- in the thread

    def _start(self) -> None:
        if self._thread is None and not self._stopped:
            self._thread = threading.Thread(target=self._run, name="search-index", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        error: Exception | None = None
        try:
            while self._has_next():
                self._round()
        except (OutlastError, *self.provider.trouble) as raised:
            error = raised
        finally:
            with self._changed:
                if self._thread is threading.current_thread():
                    self._error, self._thread = error, None
                self._changed.notify_all()

    def _has_next(self) -> bool:
        with self._changed:
            if self._stopped or self._done >= self._asked:
                self._thread = None  # in the same step: a caller after this starts another thread
                return False
            return True

    def _round(self) -> None:
        with self._changed:
            wanted, rebuilds = self._asked, self._rebuilds
            self._rebuilds = False
        try:
            if rebuilds:
                self._remove()
            state = self._caught_up()
        except self.provider.trouble as error:
            if not self.provider.is_broken(error):
                raise
            self._remove()
            state = self._caught_up()
        with self._changed:
            self._state = state
            if state.complete:
                self._done = wanted
            self._changed.notify_all()

    def _remove(self) -> None:
        self.provider.remove()
        self.removals += 1

    def _caught_up(self) -> IndexProgress:
        store = self._store()
        if store is None:
            raise StoreUnavailable("the store is closed; open it again")
        fingerprint = self.provider.fingerprint()
        with closing(self.provider.open()) as search_index:
            events = None if fingerprint is None else search_index.current(fingerprint)
            if events is not None:
                return IndexProgress(events, events, True)
            state = CatchUp(store, search_index, self._rest).run()
            if fingerprint is not None and state.complete and not state.damaged:
                search_index.remember(fingerprint, state.events)
            return state

    def _rest(self, events: int, of: int) -> bool:
        """Note the progress; pause as long as the transaction took if no caller waits for it."""
        with self._changed:
            self._state = IndexProgress(events, of, False)
            self._changed.notify_all()
            if self._waiting == 0 and not self._stopped:
                self._changed.wait(min(time.monotonic() - self._resumed, LONGEST_PAUSE))
            self._resumed = time.monotonic()
            return not self._stopped


_indexers: weakref.WeakKeyDictionary[LogStore, SearchIndexer] = weakref.WeakKeyDictionary()
_indexers_lock = threading.Lock()


def indexer_of(store: LogStore, provider: SearchProvider) -> SearchIndexer:
    """The indexer of an open store."""
    with _indexers_lock:
        indexer = _indexers.get(store)
        if indexer is None:
            indexer = _indexers[store] = SearchIndexer(store, provider)
        return indexer
