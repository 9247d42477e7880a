"""Detects that a session's files were removed, replaced or put back to an older state under this process.

A files store is a folder that other programs reach: a checkout, a sync conflict, a cleaning job. If this process went
on from the older state, it would give the numbers of acknowledged events to other events. So it remembers the last
event of each session that it has acknowledged or shown, and looks for it whenever a session's file is not the one that
it knows. The cost is a dictionary entry per append.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from outlast.core.errors import DamagedSession

REMEMBERED = 4096


class KnownHeads:
    """The newest event (seq, hash) that this process knows of each recently used session. Thread-safe."""

    def __init__(self) -> None:
        self._heads: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._mutex = threading.Lock()

    def keep(self, session_id: str, seq: int, hashed: bytes) -> None:
        """Remember that event `seq`, which is durable, was acknowledged or shown."""
        heads = self._heads
        with self._mutex:
            heads[session_id] = (seq, hashed)
            heads.move_to_end(session_id)
            if len(heads) > REMEMBERED:
                heads.popitem(last=False)

    def drop(self, session_id: str) -> None:
        """The session was deleted."""
        with self._mutex:
            self._heads.pop(session_id, None)

    def sessions(self) -> list[str]:
        with self._mutex:
            return list(self._heads)

    def knows(self, session_id: str) -> bool:
        return session_id in self._heads

    def missing(self, session_id: str, last_seq: int, hash_at: Callable[[int], bytes | None]) -> int | None:
        """The event that this process knows and that the log, which ends with `last_seq`, does not hold; else None."""
        known = self._heads.get(session_id)
        if known is None or (last_seq >= known[0] and hash_at(known[0]) == known[1]):
            return None
        return known[0]


def rolled_back(session_id: str, seq: int) -> DamagedSession:
    return DamagedSession(
        session_id,
        seq,
        "this process had acknowledged this event and the session's file does not have it any more, as after a "
        "checkout, a sync or a restored copy; this process writes no more to the session: put the newer file back, "
        "or restart to go on from what is there",
    )


def file_gone(session_id: str) -> DamagedSession:
    return DamagedSession(
        session_id,
        None,
        "the session's file is gone, though the session was not deleted; put it back from a backup, or, if it was "
        "removed on purpose, end the processes that use the store and remove its folder index",
    )
