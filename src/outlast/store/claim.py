"""Selects the sessions a worker may claim: those with work and without a driver, longest waiting first.

For stores with a single writer. PostgreSQL makes the same selection in one statement (`outlast.store.postgres.claim`).
"""

from __future__ import annotations

from collections.abc import Iterator

from outlast.core.errors import DamagedSession
from outlast.core.event_row import Actor
from outlast.core.header import Header
from outlast.store.engine.commit import expired
from outlast.store.engine.transaction import HeaderRow
from outlast.store.port import ClaimRequest, Query, WorkQueueStats
from outlast.store.process_identity import now_us
from outlast.store.read.read_view import FIRST_OF_OLDEST, ReadView

PAGE = 64


def candidates(view: ReadView, wanted: ClaimRequest) -> Iterator[tuple[str, bool]]:
    """At most `wanted.most` sessions to claim, longest waiting first, each with whether an old lease is taken over."""
    left = wanted.most
    clock = view.lease_clock()
    for header in with_work(view, wanted.owner_id) if left > 0 else ():
        if not _is_wanted(header, wanted):
            continue
        row = _row(view, header.session_id)
        if row is None or not is_free(row, *clock) or not _may_be_taken(view, row, wanted):
            continue
        yield row.session_id, row.lease_token is not None
        left -= 1
        if not left:
            return


def queue_in(view: ReadView, owner_id: str) -> WorkQueueStats:
    clock = view.lease_clock()
    waiting, driven, oldest = 0, 0, None
    for header in with_work(view, owner_id):
        if header.is_as_imported:
            continue
        row = _row(view, header.session_id)
        if row is not None and not is_free(row, *clock):
            driven += 1
            continue
        waiting += 1
        oldest = oldest if oldest is not None else header.work_since
    return WorkQueueStats(waiting=waiting, driven=driven, oldest=oldest, now=now_us())


def with_work(view: ReadView, owner_id: str) -> Iterator[Header]:
    """Sessions with work, longest waiting first. Skips unreadable headers: no worker can drive those sessions."""
    query = Query(owner_id=owner_id, pending=True, oldest_first=True)
    position = FIRST_OF_OLDEST
    while True:
        page = view.listed(query, position, PAGE)
        for listed in page:
            position = (listed.at, listed.session_id)
            if listed.row is not None and listed.row.has_work:
                yield listed.row
        if len(page) < PAGE:
            return


def is_free(row: HeaderRow, now: int, boot: str) -> bool:
    return row.lease_token is None or expired(row, now, boot)


def _is_wanted(header: Header, wanted: ClaimRequest) -> bool:
    session_id = header.session_id
    if wanted.only is not None and session_id not in wanted.only:
        return False
    if header.place is not None and header.place not in wanted.places:
        return False
    if header.is_as_imported and session_id not in wanted.woken:
        return False
    return wanted.besides.get(session_id) != header.last_seq


def _may_be_taken(view: ReadView, row: HeaderRow, wanted: ClaimRequest) -> bool:
    """Whether no door and no parent session is expected to drive this session itself."""
    if row.session_id in wanted.woken:
        return True
    if row.depth == 0:
        since = now_us() - row.updated_at
        # A negative age means that the clock was set back; the grace period does not apply then.
        if row.turn is not None or not 0 <= since < wanted.grace_ms * 1000:
            return True
    newest = view.rows(row.session_id, row.last_seq - 1, row.last_seq)
    return bool(newest) and Actor.parse(newest[-1].actor).door in wanted.served


def _row(view: ReadView, session_id: str) -> HeaderRow | None:
    try:
        return view.header(session_id)
    except DamagedSession:
        return None
