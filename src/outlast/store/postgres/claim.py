"""Claims the oldest sessions that have work and no driver, in one statement, for any number of concurrent workers.

Rows that another worker is claiming are skipped (`SKIP LOCKED`), so workers neither wait nor claim the same session.
The statement's condition matches what `outlast.store.claim` decides row by row for the other stores.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from outlast.store.port import Claimed, ClaimRequest, Lease, WorkQueueStats
from outlast.store.postgres.connection import PostgresConnection
from outlast.store.postgres.rows import CLOCK_OF
from outlast.store.postgres.writer import PostgresWriter, UnsettledCommit
from outlast.store.process_identity import boot_id, holder_is_gone, hostname

# A lease with our own token comes from an earlier attempt whose answer was lost. The last writer is a subquery per row:
# the planner would answer an EXISTS by reading all events.
CLAIM = (
    "WITH free AS MATERIALIZED ("
    "SELECT s.session_id, s.lease_token FROM outlast.sessions s, (SELECT outlast.clock() AS now) clock "
    "WHERE s.work_since IS NOT NULL AND s.owner_id = %(owner)s "
    "AND (%(only)s::text[] IS NULL OR s.session_id = ANY(%(only)s::text[])) "
    "AND s.session_id <> ALL(%(known)s::text[]) "
    "AND (s.imported_seq < s.last_seq OR s.session_id = ANY(%(woken)s::text[])) "
    "AND (s.place IS NULL OR s.place = ANY(%(places)s::text[])) "
    "AND (s.lease_token IS NULL OR s.lease_token = %(token)s OR s.lease_boot IS DISTINCT FROM %(clock)s "
    "OR s.lease_expires <= clock.now / 1000 OR s.lease_holder = ANY(%(gone)s::text[])) "
    "AND NOT EXISTS (SELECT FROM unnest(%(besides)s::text[], %(seqs)s::bigint[]) AS b (session_id, seq) "
    "WHERE b.session_id = s.session_id AND b.seq = s.last_seq) "
    "AND (s.session_id = ANY(%(woken)s::text[]) "
    "OR (s.depth = 0 AND (s.turn IS NOT NULL OR clock.now - s.updated_at NOT BETWEEN 0 AND %(grace)s::bigint - 1)) "
    "OR split_part((SELECT e.actor FROM outlast.events e WHERE e.session_id = s.session_id AND e.seq = s.last_seq), "
    "'/', 2) = ANY(%(served)s::text[])) "
    "ORDER BY s.work_since, s.session_id LIMIT %(most)s FOR UPDATE OF s SKIP LOCKED) "
    "UPDATE outlast.sessions s SET epoch = s.epoch + (free.lease_token IS DISTINCT FROM %(token)s)::int, "
    "lease_token = %(token)s, lease_holder = %(holder)s, lease_since = outlast.clock(), "
    "lease_expires = outlast.clock() / 1000 + %(ttl)s, lease_boot = %(clock)s "
    "FROM free WHERE s.session_id = free.session_id "
    "RETURNING s.work_since, s.session_id, s.epoch, free.lease_token <> %(token)s"
)
HOLDERS_HERE = (
    "SELECT DISTINCT lease_holder FROM outlast.sessions "
    "WHERE work_since IS NOT NULL AND owner_id = %s AND starts_with(lease_holder, %s)"
)
QUEUE = (
    "SELECT count(*) FILTER (WHERE free), count(*) FILTER (WHERE NOT free), min(work_since) FILTER (WHERE free), "
    "outlast.clock() FROM (SELECT work_since, lease_token IS NULL OR lease_boot IS DISTINCT FROM %s "
    "OR lease_expires <= outlast.clock() / 1000 AS free FROM outlast.sessions "
    "WHERE work_since IS NOT NULL AND owner_id = %s AND imported_seq < last_seq) work"
)


class PostgresClaims:
    """Claims over a connection of their own, so that they do not queue behind writes."""

    def __init__(self, writer: PostgresWriter) -> None:
        self._writer = writer
        self._mutex = threading.Lock()

    def claim(self, wanted: ClaimRequest) -> list[Claimed]:
        if wanted.most < 1:
            return []
        with self._mutex:
            try:
                return self._writer.settle(lambda link, _: _claimed(link, wanted))
            except UnsettledCommit as unsettled:  # leases that may have been taken expire
                raise unsettled.cause from unsettled

    def close(self) -> None:
        with self._mutex:
            self._writer.hang_up()


def _claimed(link: PostgresConnection, wanted: ClaimRequest) -> list[Claimed]:
    found = _taken(link, wanted, wanted.most)
    if len(found) < wanted.most and (gone := _gone(link, wanted)):
        known = [one.lease.session_id for one in found]  # they carry our token now: do not claim them twice
        found += _taken(link, wanted, wanted.most - len(found), gone, known)
    return found


def _taken(
    link: PostgresConnection, wanted: ClaimRequest, most: int, gone: Sequence[str] = (), known: Sequence[str] = ()
) -> list[Claimed]:
    values: dict[str, Any] = {
        "owner": wanted.owner_id,
        "only": None if wanted.only is None else list(wanted.only),
        "places": list(wanted.places),
        "token": wanted.token,
        "holder": wanted.holder,
        "clock": CLOCK_OF,
        "gone": list(gone),
        "known": list(known),
        "besides": list(wanted.besides),
        "seqs": list(wanted.besides.values()),
        "woken": list(wanted.woken),
        "grace": wanted.grace_ms * 1000,
        "served": list(wanted.served),
        "most": most,
        "ttl": wanted.ttl_ms,
    }
    rows = sorted(link.execute(CLAIM, values).fetchall())
    return [Claimed(Lease(name, epoch, wanted.token), bool(over)) for _, name, epoch, over in rows]


def _gone(link: PostgresConnection, wanted: ClaimRequest) -> list[str]:
    """Return lease holders of this host and boot whose process has ended, which only this host can see."""
    here = f"{hostname()} {boot_id()} "
    return [name for (name,) in link.execute(HOLDERS_HERE, (wanted.owner_id, here)).fetchall() if holder_is_gone(name)]


def queue_of(link: PostgresConnection, owner_id: str) -> WorkQueueStats:
    [(waiting, driven, oldest, now)] = link.execute(QUEUE, (CLOCK_OF, owner_id)).fetchall()
    return WorkQueueStats(waiting=waiting, driven=driven, oldest=oldest, now=now)
