"""A claim costs what there is to do, however many sessions are idle."""

from __future__ import annotations

from typing import Any

import psycopg

from outlast.store import open_store
from outlast.store.postgres.claim import CLAIM, HOLDERS_HERE
from tests.integration.test_work_index import IDLE, filled, scans
from tests.support.pg import PgServer

CLONES = (
    "INSERT INTO outlast.sessions SELECT (jsonb_populate_record(s, jsonb_build_object('session_id', "
    "lpad(translate(n::text, '0123456789', 'abcdefghij'), 26, 'z'), 'work_since', null))).* "
    "FROM outlast.sessions s, generate_series(1, %s) n WHERE s.session_id = %s"
)
ASKED: dict[str, Any] = {
    "owner": "local",
    "only": None,
    "places": ["@here", "shop"],
    "token": "t",
    "holder": "h",
    "clock": "postgres",
    "gone": [],
    "besides": ["x"],
    "known": [],
    "seqs": [7],
    "woken": [],
    "grace": 3_000_000,
    "served": ["http"],
    "most": 8,
    "ttl": 10_000,
}


def test_postgres_claims_by_the_index_of_what_there_is_to_do(pg_server: PgServer) -> None:
    url = pg_server.create_database()
    with open_store(url) as store:
        waiting = filled(store, 0)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(CLONES, (IDLE, waiting[0]))
        for statistics in (False, True):
            if statistics:
                connection.execute("ANALYZE outlast.sessions")
            for statement, values in ((CLAIM, ASKED), (HOLDERS_HERE, ("local", "here "))):
                explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}".encode()
                [(told,)] = connection.execute(explained, values).fetchall()
                read = list(scans(told[0]["Plan"]))
                assert "sessions_with_work" in {node.get("Index Name") for node in read}, read
                assert not [node for node in read if node["Node Type"] == "Seq Scan"], read
                for node in read:
                    looked = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
                    assert looked <= len(waiting), node
                connection.execute("UPDATE outlast.sessions SET lease_token = NULL WHERE work_since IS NOT NULL")
    pg_server.drop_database(url)
