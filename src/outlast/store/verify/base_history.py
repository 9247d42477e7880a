"""A session's full history: which sessions own its parts, its verified events, and message counts.

Forks inherit a message count at some event of their base. One base may have many forks, so `MessageCounts` caches the
count every thousand events.
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
    """Events of one owner, up to `upto` (None: all). `row` is the owner's header, None if it is unreadable."""

    owner: str
    row: HeaderRow | None
    upto: int | None


def readable_header(view: ReadView, session_id: str) -> HeaderRow | None:
    """The header; None if it is missing or unreadable."""
    try:
        return view.header(session_id)
    except OutlastError:
        return None


def history(view: ReadView, session_id: str) -> list[Stretch]:
    """The parts of a session's history, oldest first; the last part is its own."""
    found: list[Stretch] = []
    base: tuple[str, int | None] | None = (session_id, None)
    while base is not None and base[0] not in {stretch.owner for stretch in found}:  # damage may form a cycle
        owner, upto = base
        row = readable_header(view, owner)
        found.append(Stretch(owner, row, upto))
        base = base_of(view, owner, row)
        if base is not None and upto is not None:
            base = (base[0], min(upto, base[1]))
    return found[::-1]


def checked(view: ReadView, session_id: str, after: int, upto: int) -> Iterator[StoredEvent]:
    """Yield the events `after < seq <= upto` of a session, inherited ones included; raises `DamagedSession` at the
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
    """Message counts of all sessions, cached for one run."""

    def __init__(self) -> None:
        self._marks: dict[str, list[tuple[int, int]]] = {}

    def at(self, view: ReadView, session_id: str, seq: int) -> int:
        """The number of messages in events 1 to `seq`; `DamagedSession` if it cannot be determined."""
        marks = self._marks.setdefault(session_id, [(0, 0)])
        after, count = marks[bisect_right(marks, (seq, seq)) - 1]
        for event in checked(view, session_id, after, seq):
            count += event.kind in MESSAGES
            if event.seq % MARK_EVERY == 0 and event.seq > marks[-1][0]:
                marks.append((event.seq, count))
        return count
