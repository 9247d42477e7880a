"""Detects acknowledged events that the server has lost in a failover.

After a failover to a replica that lacks the last commits, a session would continue from an older event and its history
would silently fork. So this process remembers the key of the last append of each session, which is stored in the event
row, and looks for it after every reconnect, which a failover always causes. The cost is a dictionary entry per append.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from outlast.core.errors import DamagedSession
from outlast.store.engine.commit import sessions_of
from outlast.store.engine.encode import EncodedCommit
from outlast.store.postgres.connection import PostgresConnection

REMEMBERED = 4096
FORGOTTEN = (
    "SELECT told.session_id, told.seq FROM unnest(%s::text[], %s::bigint[], %s::text[]) AS told (session_id, seq, key) "
    "LEFT JOIN outlast.sessions s ON s.session_id = told.session_id "
    "LEFT JOIN outlast.events e ON e.session_id = told.session_id AND e.seq = told.seq "
    "WHERE s.deleted_at IS NULL AND e.key IS DISTINCT FROM told.key"
)


class AcknowledgedAppends:
    """Newest acknowledged append of each recently written session. Used only by the writing thread."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._lost: dict[str, int] = {}

    def keep(self, session_id: str, seq: int, key: str) -> None:
        """Remember that the server acknowledged event `seq`, which carries this key."""
        told = self._told
        known = told.get(session_id)
        if known is not None and seq <= known[0]:
            self._lost[session_id] = known[0]  # behind a pooler the server can change without a reconnect
        told[session_id] = (seq, key)
        told.move_to_end(session_id)
        if len(told) > REMEMBERED:
            told.popitem(last=False)

    def compare(self, link: PostgresConnection) -> None:
        """Check on a new connection whether the remembered appends still exist."""
        if self._told:
            names = list(self._told)
            seqs, keys = zip(*self._told.values(), strict=True)
            found = link.execute(FORGOTTEN, (names, list(seqs), list(keys))).fetchall()
            self._lost.update((session_id, seq) for session_id, seq in found)

    def check(self, commits: Iterable[EncodedCommit]) -> None:
        """Raise DamagedSession for a commit to a session whose last events are gone."""
        if not self._lost:
            return
        for commit in commits:
            for sealed in commit.writes:
                for session_id in sessions_of(sealed.write):
                    if session_id in self._lost:
                        raise forgotten(session_id, self._lost[session_id])


def forgotten(session_id: str, seq: int) -> DamagedSession:
    return DamagedSession(
        session_id,
        seq,
        "the server acknowledged this event and no longer has it, as after a failover to a replica that lacks the "
        "last commits; this process writes no more to the session: bring back the server that has the event, or "
        "restart to continue from what is stored",
    )
