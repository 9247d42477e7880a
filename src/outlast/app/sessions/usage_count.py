"""Counts the usage of many sessions in a background thread, so that a server answers before all of them are read.

The thread ends when every session is counted; the results are in the cache of the statistics then. A run that is
stopped, because the store is closed, loses at most the last seconds of its work.
"""

from __future__ import annotations

import copy
import threading
import time
import weakref
from pathlib import Path

from outlast.app.sessions.statistics import (
    CountedSessions,
    UsageStatistics,
    UsageTally,
    list_headers,
    read_cache,
    sum_up,
    tally_of,
    write_cache,
)
from outlast.core.errors import DamagedSession, OutlastError, SessionNotFound
from outlast.core.header import Header
from outlast.store.log_store import LogStore

WAIT_SECONDS = 0.6
WORK_SECONDS, PAUSE_SECONDS = 0.02, 0.01
SAVE_SECONDS = 5.0


class UsageCount:
    """The runs over one store; for any number of threads."""

    def __init__(self, store: LogStore, place: Path) -> None:
        self._store = weakref.ref(store)
        self._place = place
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._tallies: dict[str, UsageTally] = {}
        self._stopped = False
        self.damaged: set[str] = set()
        store.before_close(self.stop)

    def tallies(self, headers: list[Header], seconds: float) -> dict[str, UsageTally]:
        """What is counted of these sessions, after waiting at most so long for those that are not."""
        with self._changed:
            known = dict(self._tallies) if self._thread is not None else read_cache(self._place)
            behind = [header for header in headers if not _is_counted(known.get(header.session_id), header)]
            if not behind:
                return known
            if self._thread is None and not self._stopped:
                self._tallies = known
                self._thread = threading.Thread(target=self._run, args=(behind,), name="usage-count", daemon=True)
                self._thread.start()
            self._changed.wait_for(lambda: self._thread is None, seconds)
            return dict(self._tallies)

    def stop(self) -> None:
        """End the thread after the session that it reads."""
        with self._changed:
            self._stopped = True
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self, headers: list[Header]) -> None:
        try:
            self._count(headers)
        except OutlastError:
            return  # the store is closed or cannot be read now; the next request tries again
        finally:
            write_cache(self._place, dict(self._tallies))
            with self._changed:
                self._thread = None
                self._changed.notify_all()

    def _count(self, headers: list[Header]) -> None:
        store = self._store()
        resumed = saved = time.monotonic()
        for header in headers:
            if self._stopped or store is None:
                return
            name = header.session_id
            try:
                self._tallies[name] = tally_of(store, header, copy.deepcopy(self._tallies.get(name)))
                self.damaged.discard(name)
            except SessionNotFound:
                self._tallies.pop(name, None)
            except DamagedSession:
                self.damaged.add(name)
            if time.monotonic() - resumed > WORK_SECONDS:
                time.sleep(PAUSE_SECONDS)
                resumed = time.monotonic()
            if time.monotonic() - saved > SAVE_SECONDS:
                write_cache(self._place, dict(self._tallies))
                saved = time.monotonic()


def _is_counted(tally: UsageTally | None, header: Header) -> bool:
    return tally is not None and (tally.last_seq, tally.hash) == (header.last_seq, header.head_hash)


_counts: weakref.WeakKeyDictionary[LogStore, UsageCount] = weakref.WeakKeyDictionary()
_counts_lock = threading.Lock()


def stats_soon(
    store: LogStore,
    place: Path,
    *,
    project: Path | None = None,
    owner_id: str = "local",
    seconds: float = WAIT_SECONDS,
) -> UsageStatistics:
    """Statistics of the sessions that are counted after at most so many seconds; `counted` tells how many those are."""
    began = time.monotonic()
    headers = list_headers(store, owner_id, project)
    with _counts_lock:
        count = _counts.get(store)
        if count is None:
            count = _counts[store] = UsageCount(store, place)
    tallies = count.tallies(headers, max(0.0, began + seconds - time.monotonic()))
    found = sum_up([(header, tallies[header.session_id]) for header in headers if header.session_id in tallies])
    found.damaged = sorted(count.damaged & {header.session_id for header in headers})
    found.counted = CountedSessions(found.total.sessions, len(headers))
    return found
