"""Reads a session's events in pages and verifies each row against its predecessor.

Damage raises `DamagedSession`; `outlast.store.verify` is the reader that continues behind damage.
"""

from __future__ import annotations

from collections.abc import Iterator

from outlast.core.errors import DamagedSession
from outlast.core.event_row import GENESIS, StoredEvent, check_chain
from outlast.store.engine.transaction import HeaderRow
from outlast.store.read.read_view import ReadView

PAGE = 512


class VerifiedLog:
    """One session's events, its own and the inherited ones, read in verified pages."""

    def __init__(self, view: ReadView, row: HeaderRow) -> None:
        self.row = row
        self._view = view
        self._segments = self._walk(view, row)

    @staticmethod
    def _walk(view: ReadView, row: HeaderRow) -> list[tuple[str, int, int]]:
        """The segments of the history as (owner, after, upto), newest first."""
        segments = [(row.session_id, row.base_seq, row.last_seq)]
        while row.base_id is not None:
            upto = row.base_seq
            base = view.header(row.base_id)
            if base is None:
                raise DamagedSession(row.session_id, upto, f"the session {row.base_id} that it is based on is missing")
            segments.append((base.session_id, base.base_seq, upto))
            row = base
        return segments

    def forwards(self, after: int, upto: int, limit: int | None) -> Iterator[list[StoredEvent]]:
        step = _page_size(limit)
        while after < upto:
            page = self._page(after, min(upto, after + step))
            yield page
            after += len(page)
            step = min(2 * step, PAGE)

    def backwards(self, after: int, upto: int, limit: int | None) -> Iterator[list[StoredEvent]]:
        step = _page_size(limit)
        while after < upto:
            page = self._page(max(after, upto - step), upto)
            upto -= len(page)
            page.reverse()
            yield page
            step = min(2 * step, PAGE)

    def _page(self, after: int, upto: int) -> list[StoredEvent]:
        """All rows with `after < seq <= upto`, each checked against its predecessor."""
        rows: list[StoredEvent] = []
        for owner, low, high in reversed(self._segments):
            if low < upto and after < high:
                rows += self._view.rows(owner, max(after, low), min(upto, high))
        if len(rows) != upto - after:
            there = {row.seq for row in rows}
            missing = next((seq for seq in range(after + 1, upto + 1) if seq not in there), None)
            what = "event is missing" if missing else f"{len(rows)} events from {after + 1} to {upto}"
            raise DamagedSession(self.row.session_id, missing, what)
        last = check_chain(self._hash_before(after), after, rows)
        if upto == self.row.last_seq and last != self.row.head_hash:
            raise DamagedSession(self.row.session_id, upto, "the last event is not the one the header names")
        return rows

    def _hash_before(self, seq: int) -> bytes:
        if seq == 0:
            return GENESIS
        for owner, low, high in self._segments:
            if low < seq <= high:
                hashed = self._view.hash_at(owner, seq)
                if hashed is None:
                    raise DamagedSession(self.row.session_id, seq, "event is missing")
                return hashed
        raise DamagedSession(self.row.session_id, seq, "event is missing")


def _page_size(limit: int | None) -> int:
    """The first page's size. Later pages grow, for callers that filter for rare events."""
    return PAGE if limit is None else max(1, min(limit, PAGE))
