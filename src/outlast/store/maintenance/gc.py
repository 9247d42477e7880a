"""Garbage collection: removes keys of sessions deleted 30 days ago and blobs that no event names.

One step scans a bounded number of rows; the next step continues there. The progress is a note in the store, so that
many short-lived processes share the work and a pass runs once an hour. The commit that removes something checks its
conditions again (`outlast.store.engine.remove`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

from outlast.core.errors import DamagedSession, OutlastError
from outlast.store.engine.remove import mentioned
from outlast.store.engine.transaction import HeaderRow
from outlast.store.port import DropBlobs, Forget, PutNote, Receipt, Swept, Write
from outlast.store.process_identity import now_us
from outlast.store.read.read_view import ReadView

SECOND = 1_000_000
KEYS_KEPT = 30 * 24 * 3600 * SECOND
BLOBS_KEPT = 24 * 3600 * SECOND
EVERY_SECONDS = 3600.0
SOON_SECONDS = 60.0
"""Delay before the first step of an open store, and between steps until a pass is complete."""
ROWS = 1000
SLICES = 20
EVENTS = 512
MOST_EVENTS = 100_000
"""How many events one step reads at most; the last slice of blobs may exceed it."""


class GcProgress(msgspec.Struct, omit_defaults=True):
    """How far garbage collection has come. Blobs put before `settled` have been checked; those put between `settled`
    and `until` are being checked."""

    at: int = 0
    keys: str = ""
    blobs: str = ""
    settled: int = 0
    until: int = 0
    done: bool = True


_read = msgspec.json.Decoder(GcProgress).decode
_write = msgspec.json.Encoder().encode


class GarbageCollector:
    """Runs steps on request (`step`) or in its own thread (`start`). `due` is the next start on the monotonic clock."""

    def __init__(
        self, commit: Callable[[Write], list[Receipt]], reading: Callable[[], AbstractContextManager[ReadView]]
    ) -> None:
        self._commit = commit
        self._reading = reading
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.due = time.monotonic() + SOON_SECONDS

    def start(self) -> None:
        """Run a step in a separate thread if one is due in this store. Does not wait for it."""
        self.due = time.monotonic() + EVERY_SECONDS
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._by_itself, name="outlast-housekeeping", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Start no more steps, and wait for the running one to end."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _by_itself(self) -> None:
        try:
            last, now = self._progress(), now_us()
            pause = EVERY_SECONDS if last.done else SOON_SECONDS
            if not last.at <= now < last.at + pause * SECOND and not self.step(now).done:
                self.due = time.monotonic() + SOON_SECONDS
        except OutlastError:
            return  # other calls report the store's problem; trying again in an hour is soon enough

    def step(self, now: int) -> Swept:
        progress = self._progress()
        keys = self._sweep_keys(progress, now - KEYS_KEPT)
        blobs = self._sweep_blobs(progress, now - BLOBS_KEPT)
        progress.at, progress.done = now, not progress.keys and not progress.blobs
        if not self._over.is_set():
            self._commit(PutNote(text=_write(progress).decode()))
        return Swept(keys=keys, blobs=blobs, done=progress.done)

    def _progress(self) -> GcProgress:
        with self._reading() as view:
            text = view.note()
        try:
            return GcProgress() if text is None else _read(text)
        except msgspec.DecodeError:
            return GcProgress()  # start over

    # --- keys

    def _sweep_keys(self, progress: GcProgress, before: int) -> int:
        count = 0
        for _ in range(SLICES):
            if self._over.is_set():
                break
            with self._reading() as view:
                found, progress.keys = view.old_keys(progress.keys, before, ROWS)
            for session_id, keys in found.items():
                self._commit(Forget(session_id=session_id, keys=tuple(keys), deleted_before=before))
                count += len(keys)
            if not progress.keys:
                break
        return count

    # --- blobs

    def _sweep_blobs(self, progress: GcProgress, before: int) -> int:
        if not progress.blobs:
            # If the clock was set back, check all blobs again rather than skip some.
            progress.settled, progress.until = (progress.settled if progress.settled <= before else 0), before
        dropped = events = 0
        for _ in range(SLICES):
            if self._over.is_set() or events >= MOST_EVENTS:
                break
            with self._reading() as view:
                found, progress.blobs = view.old_blobs(progress.blobs, progress.settled, progress.until, ROWS)
            for session_id, names in found.items():
                gone, read = self._drop_unnamed(session_id, {name for name, _ in names}, progress.until)
                dropped, events = dropped + gone, events + read
            if not progress.blobs:
                progress.settled = progress.until
                break
        return dropped

    def _drop_unnamed(self, session_id: str, names: set[str], before: int) -> tuple[int, int]:
        """Drop the blobs that no event names; return how many were dropped and how many events were read."""
        try:
            with self._reading() as view:
                row = view.header(session_id)
                left, read = (names, 0) if row is None else _unnamed(view, row, names)
        except DamagedSession:
            return 0, 0  # the damaged part may name the blobs
        if row is None or not left:
            return 0, read
        self._commit(DropBlobs(session_id=session_id, names=tuple(left), put_before=before, looked_upto=row.last_seq))
        with self._reading() as view:
            return len(left.difference(view.blobs_of(session_id))), read


def _unnamed(view: ReadView, row: HeaderRow, names: set[str]) -> tuple[set[str], int]:
    """The blobs that no event of the session names, and how many events were read. Reads the newest events first."""
    left, at = set(names), row.last_seq
    while left and at > row.base_seq:
        after = max(row.base_seq, at - EVENTS)
        rows = view.rows(row.session_id, after, at)
        found = [mentioned(stored) for stored in rows]
        if len(rows) != at - after or None in found:
            return set(), row.last_seq - after  # damaged, or in an encoding that cannot be read here
        left = left.difference(*(named for named in found if named))
        at = after
    return left, row.last_seq - at
