"""A server that went back: it lacks what it had acknowledged, as a promoted replica may. Told, and not built upon."""

from __future__ import annotations

import asyncio

import pytest

from outlast.core.errors import DamagedSession
from outlast.store.port import Append, Claim, Delete, Redact
from outlast.store.postgres import PostgresStore
from tests.integration.postgres.builders import message, opened, said, started
from tests.support.pg import PgServer

BACK = """
    WITH was AS (SELECT hash FROM outlast.events WHERE session_id = %s AND seq = %s)
    UPDATE outlast.sessions SET last_seq = %s, head_hash = was.hash FROM was WHERE session_id = %s
"""


def database(url: str) -> str:
    return url.split("/")[3].split("?")[0]


def goes_back(server: PgServer, url: str, session_id: str, seq: int, *, ends: bool = True) -> None:
    """Make the server what a copy would be that was taken after event `seq`."""
    server.sql(BACK, session_id, seq, seq, session_id, database=database(url))
    for table in ("events", "keys"):
        statement = f"DELETE FROM outlast.{table} WHERE session_id = %s AND seq > %s"  # noqa: S608 - two tables
        server.sql(statement, session_id, seq, database=database(url))
    if ends:
        end_connections(server, url)


def end_connections(server: PgServer, url: str) -> None:
    server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", database(url))


def texts(store: PostgresStore, session_id: str) -> int:
    return len(store.read(session_id, after=1))


def test_a_session_that_lost_acknowledged_events_is_not_written_to(pg_server: PgServer, pg_url: str) -> None:
    with opened(pg_url) as store:
        session_id, healthy = started(store), started(store)
        for n in range(4):
            store.commit(message(session_id, f"{n}"))
        goes_back(pg_server, pg_url, session_id, 3)
        for write in (message(session_id, "on top"), Claim(session_id=session_id, token="t", holder="h")):
            for _ in range(2):
                with pytest.raises(DamagedSession, match="no longer has it") as told:
                    store.commit(write)
                assert told.value.seq == 5
                assert "\n" not in str(told.value)
        assert texts(store, session_id) == 2  # what is there can be read and exported
        assert store.commit(message(healthy, "goes on"))[0].seq == 2
        with pytest.raises(DamagedSession):
            store.commit(message(healthy, "both"), message(session_id, "or none"))
        assert store.head(healthy).last_seq == 2
    with opened(pg_url) as again:
        assert again.commit(message(session_id, "restarted"))[0].seq == 4


def test_others_having_written_since_does_not_hide_the_loss(pg_server: PgServer, pg_url: str) -> None:
    with opened(pg_url) as store, opened(pg_url) as other:
        session_id = started(store)
        store.commit(message(session_id, "lost"))
        goes_back(pg_server, pg_url, session_id, 1)
        for n in range(3):
            other.commit(message(session_id, f"another history {n}"))
        with pytest.raises(DamagedSession):
            store.commit(message(session_id, "on top"))
        assert other.commit(message(session_id, "mine"))[0].seq == 5


def test_neighbours_in_the_batch_of_a_lost_session_are_written_once(pg_server: PgServer, pg_url: str) -> None:
    with opened(pg_url) as store:
        lost, *others = (started(store) for _ in range(6))
        store.commit(message(lost, "lost"))
        goes_back(pg_server, pg_url, lost, 1)

        async def together() -> list[object]:
            writes = [message(session_id, "x") for session_id in (*others, lost)]
            return list(await asyncio.gather(*map(store.commit_async, writes), return_exceptions=True))

        outcomes = asyncio.run(together())
        assert [type(outcome).__name__ for outcome in outcomes] == ["list"] * 5 + ["DamagedSession"]
        assert [store.head(session_id).last_seq for session_id in others] == [2] * 5


def test_a_server_that_changes_behind_a_pooler_is_noticed_with_the_next_receipt(
    pg_server: PgServer, pg_url: str
) -> None:
    with opened(pg_url) as store:
        session_id = started(store)
        for n in range(3):
            store.commit(message(session_id, f"{n}"))
        goes_back(pg_server, pg_url, session_id, 2, ends=False)
        store.commit(message(session_id, "there was no new connection to look on"))
        with pytest.raises(DamagedSession):
            store.commit(message(session_id, "on top"))


def test_deleting_and_redacting_are_no_loss(pg_server: PgServer, pg_url: str) -> None:
    with opened(pg_url) as store, opened(pg_url) as other:
        gone, kept = started(store), started(store)
        for session_id in (gone, kept):
            store.commit(Append(session_id=session_id, events=(said("a"), said("b"))))
        other.commit(Delete(session_id=gone, actor="user"))
        other.commit(Redact(session_id=kept, seq=2, actor="user"))
        end_connections(pg_server, pg_url)
        assert store.commit(message(kept, "goes on"))[0].seq == 5
