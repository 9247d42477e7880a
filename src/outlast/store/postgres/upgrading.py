"""What a migration of a PostgreSQL store does besides its SQL, inside the same transaction.

It sees the tables as that migration leaves them, so it names the columns that it reads: later ones are not there yet,
and until migration 6 the schema has its former name (`former_name`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from outlast.core.log import StoredEvent
from outlast.store.migrations import Progress
from outlast.store.postgres.link import Link
from outlast.store.refolding import refold
from outlast.store.tx import Row

PAGE = 256
SESSIONS = "SELECT count(*) FROM holdfast.sessions WHERE deleted_at IS NULL"
NAMES = (
    "SELECT session_id FROM holdfast.sessions WHERE deleted_at IS NULL AND session_id > %s ORDER BY session_id LIMIT %s"
)
EVENTS_OF_KINDS = (
    "SELECT seq, kind, v, at, actor, turn, key, epoch, enc, body, hash, redacted FROM holdfast.events "
    "WHERE session_id = %s AND seq > %s AND seq <= %s AND kind = ANY(%s) ORDER BY seq LIMIT %s"
)
HEADER = (
    "SELECT base_id, base_seq, last_seq, imported_seq, estimated_tokens, plan_mode, requests, work_since "
    "FROM holdfast.sessions WHERE session_id = %s"
)
BLOB = "SELECT data FROM holdfast.blobs WHERE session_id = %s AND sha256 = %s ORDER BY chunk"
FILL = (
    "UPDATE holdfast.sessions SET estimated_tokens = %s, plan_mode = %s, requests = %s, work_since = %s "
    "WHERE session_id = %s"
)


def fill_headers(link: Link, progress: Progress | None) -> None:
    """The fields of migration 4."""
    [(total,)] = link.execute(SESSIONS).fetchall()
    past, done, after = _Past(link), 0, ""
    while names := [name for (name,) in link.execute(NAMES, (after, PAGE)).fetchall()]:
        after = names[-1]
        for name in names:
            row = past.row(name)
            if row is not None and refold(row, past):
                values = (row.estimated_tokens, row.plan_mode, row.requests, row.work_since, row.session_id)
                link.execute(FILL, values)
        done += len(names)
        if progress is not None:
            progress(done, total)


class _Past:
    """What is there, as `refold` reads it."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def row(self, session_id: str) -> Row | None:
        found = self._link.execute(HEADER, (session_id,)).fetchone()
        if found is None:
            return None
        base_id, base_seq, last_seq, imported_seq, *filled = found
        row = Row(
            session_id=session_id, base_id=base_id, base_seq=base_seq, last_seq=last_seq, imported_seq=imported_seq
        )
        row.estimated_tokens, row.plan_mode, row.requests, row.work_since = filled
        return row

    def events(self, row: Row, kinds: tuple[str, ...], upto: int) -> Iterator[StoredEvent]:
        after = row.base_seq
        while True:
            values = (row.session_id, after, upto, list(kinds), PAGE)
            found = self._link.execute(EVENTS_OF_KINDS, values, binary=True).fetchall()
            yield from (StoredEvent(row.session_id, *event) for event in found)
            if len(found) < PAGE:
                return
            after = found[-1][0]

    def blob(self, row: Row, sha256: str) -> bytes:
        found = self._link.execute(BLOB, (row.session_id, sha256), binary=True).fetchall()
        return b"".join(data for (data,) in found)


AFTER: dict[int, Callable[[Link, Progress | None], None]] = {4: fill_headers}
"""By the number of the migration that it belongs to."""
