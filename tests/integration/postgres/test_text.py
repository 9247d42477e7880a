"""Any text, the same in PostgreSQL as in SQLite, byte for byte and hash for hash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.core.events import InputAdmitted, MessageAppended, ModelRequested, SessionCreated, SessionRenamed
from outlast.core.header import Header
from outlast.core.messages import Role, TextPart
from outlast.store import open_store
from outlast.store.engine.validate import storable
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Claim, Create, NewEvent, PutChunk, PutRoute, Query
from tests.integration.postgres.builders import new_id
from tests.support import strategies
from tests.support.pg import PgServer

NAMES = strategies.any_text().filter(storable).map(lambda text: text[:120])


@pytest.fixture(scope="module")
def stores(pg_server: PgServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LogStore, LogStore]]:
    url = pg_server.create_database()
    with open_store(url) as one, open_store(f"sqlite:///{tmp_path_factory.mktemp('text')}/store.db") as two:
        yield one, two
    pg_server.drop_database(url)


@settings(max_examples=60)
@given(
    texts=st.lists(strategies.any_text(), min_size=1, max_size=4), name=NAMES, key=NAMES.filter(lambda text: text != "")
)
def test_any_text_is_stored_alike(stores: tuple[LogStore, LogStore], texts: list[str], name: str, key: str) -> None:
    session_id = new_id()
    header = Header(session_id=session_id, project_key=name, project_root=name, owner_id=name, persona=name)
    events = [NewEvent(event=MessageAppended(role=Role.USER, parts=(TextPart(text),)), at=1) for text in texts]
    events += [NewEvent(event=InputAdmitted(parts=(TextPart(text),)), at=2, actor=name, turn=name) for text in texts]
    events += [NewEvent(event=SessionRenamed(title=text), at=3) for text in texts]
    found: list[Any] = []
    for store in stores:
        store.commit(Create(header=header, events=(NewEvent(event=SessionCreated(), at=0),), key="made"))
        for number, event in enumerate(events):
            store.commit(Append(session_id=session_id, events=(event,), key=f"{number}{key}"))
        lease = store.commit(Claim(session_id=session_id, token=name + "t", holder=name))[0].lease
        assert lease is not None
        store.commit(
            Append(session_id=session_id, events=(NewEvent(event=ModelRequested(model=name), at=4),), key="asked")
        )
        attempt = store.head(session_id).last_seq
        store.commit(PutChunk(lease=lease, attempt_seq=attempt, n=1, part=name, data=name.encode()))
        store.commit(PutRoute(route=name, session_id=session_id))
        assert store.route(name) == session_id
        assert store.find(Query(owner_id=name, project_key=name)).headers[0].session_id == session_id
        [*_, last] = store.follow(session_id, timeout=0)
        header_found = store.head(session_id)
        header_found.updated_at = header_found.created_at = 0
        found.append((store.read(session_id), last.chunks, header_found))
    assert found[0] == found[1]
