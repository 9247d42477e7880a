"""How many messages a session has at some event, its inherited history included.

Forks inherit that number, so it is asked for many times in one log; a mark is kept every thousand events.
"""

from __future__ import annotations

from bisect import bisect_right

from outlast.store.recount import MESSAGES
from outlast.store.verify.history import checked
from outlast.store.view import View

MARK_EVERY = 1_000


class MessageCounts:
    """Remembers what it counted, for all sessions of one run."""

    def __init__(self) -> None:
        self._marks: dict[str, list[tuple[int, int]]] = {}

    def at(self, view: View, session_id: str, seq: int) -> int:
        """Messages among events 1 to `seq`; `DamagedSession` where that cannot be told."""
        marks = self._marks.setdefault(session_id, [(0, 0)])
        after, count = marks[bisect_right(marks, (seq, seq)) - 1]
        for event in checked(view, session_id, after, seq):
            count += event.kind in MESSAGES
            if event.seq % MARK_EVERY == 0 and event.seq > marks[-1][0]:
                marks.append((event.seq, count))
        return count
