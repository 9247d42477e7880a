"""The history that a session stands on: which sessions own it, and its events as readers see them.

How many messages a session has at some event, its inherited history included.

Forks inherit that number, so it is asked for many times in one log; a mark is kept every thousand events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from outlast.core.errors import DamagedSession, OutlastError
from outlast.core.event_row import GENESIS, StoredEvent, check_chain
from outlast.store.engine.transaction import HeaderRow
from outlast.store.maintenance.header_rebuild import MESSAGES
from outlast.store.read.read_view import ReadView
from outlast.store.verify.chain import base_of

PAGE = 512


class Stretch(NamedTuple):
    """Events of one owner, up to `upto` (None: all there are). `row` is its header, None where that is unreadable."""

    owner: str
    row: HeaderRow | None
    upto: int | None


def readable_header(view: ReadView, session_id: str) -> HeaderRow | None:
    """The header, None where it cannot be found or read."""
    try:
        return view.header(session_id)
    except OutlastError:
        return None


def history(view: ReadView, session_id: str) -> list[Stretch]:
    """Where a session's events lie, oldest first; the last stretch is its own."""
    found: list[Stretch] = []
    base: tuple[str, int | None] | None = (session_id, None)
    while base is not None and base[0] not in {stretch.owner for stretch in found}:  # damage may lead in a circle
        owner, upto = base
        row = readable_header(view, owner)
        found.append(Stretch(owner, row, upto))
        base = base_of(view, owner, row)
        if base is not None and upto is not None:
            base = (base[0], min(upto, base[1]))
    return found[::-1]


def checked(view: ReadView, session_id: str, after: int, upto: int) -> Iterator[StoredEvent]:
    """Events `after < seq <= upto` of a session, inherited ones too, as a reader gets them: `DamagedSession` at the
    first one that is missing or changed."""
    previous = GENESIS
    for owner, row, last in history(view, session_id):
        if row is None:
            raise DamagedSession(owner, None, "its header cannot be read")
        at, end = row.base_seq, upto if last is None else min(upto, last)
        if end <= after:
            previous = view.hash_at(owner, end) or b""
            continue
        if at < after:
            at, previous = after, view.hash_at(owner, after) or b""
        while at < end:
            page = view.rows(owner, at, min(at + PAGE, end))
            if len(page) != min(at + PAGE, end) - at:
                raise DamagedSession(owner, at + 1, "event is missing")
            previous = check_chain(previous, at, page)
            at = page[-1].seq
            yield from page


MARK_EVERY = 1_000


class MessageCounts:
    """Remembers what it counted, for all sessions of one run."""

    def __init__(self) -> None:
        self._marks: dict[str, list[tuple[int, int]]] = {}

    def at(self, view: ReadView, session_id: str, seq: int) -> int:
        """Messages among events 1 to `seq`; `DamagedSession` where that cannot be told."""
        marks = self._marks.setdefault(session_id, [(0, 0)])
        after, count = marks[bisect_right(marks, (seq, seq)) - 1]
        for event in checked(view, session_id, after, seq):
            count += event.kind in MESSAGES
            if event.seq % MARK_EVERY == 0 and event.seq > marks[-1][0]:
                marks.append((event.seq, count))
        return count
