"""What the server has acknowledged to this process, in case it forgets.

After a failover to a copy that lacks the last commits, a session would go on from an older event and its history would
fork without anybody noticing. So the last append of each session is remembered by its key, which stands in its row, and
looked for after every new connection, which a failover always brings. An append pays with a dictionary entry.
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
    """The newest acknowledged append of each of the sessions written to last. Used by the writing thread only."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._lost: dict[str, int] = {}

    def keep(self, session_id: str, seq: int, key: str) -> None:
        """Event `seq` was acknowledged; it carries this key."""
        told = self._told
        known = told.get(session_id)
        if known is not None and seq <= known[0]:
            self._lost[session_id] = known[0]  # behind a pooler the server may change under one connection
        told[session_id] = (seq, key)
        told.move_to_end(session_id)
        if len(told) > REMEMBERED:
            told.popitem(last=False)

    def compare(self, link: PostgresConnection) -> None:
        """See on a new connection whether everything is still there."""
        if self._told:
            names = list(self._told)
            seqs, keys = zip(*self._told.values(), strict=True)
            found = link.execute(FORGOTTEN, (names, list(seqs), list(keys))).fetchall()
            self._lost.update((session_id, seq) for session_id, seq in found)

    def check(self, commits: Iterable[EncodedCommit]) -> None:
        """Refuse to write to a session whose last events are gone."""
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
        "the server had acknowledged this event and does not have it any more, as after a failover to a copy that "
        "lacks the last commits; this process writes no more to the session: bring back the server that has the event, "
        "or restart to go on from what is there",
    )
