"""Sessions and messages, in one line each."""

from __future__ import annotations

import os
from typing import Any

from outlast.core.events import MessageAppended, SessionCreated
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import Role, TextPart
from outlast.store import open_store
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Create, NewEvent
from outlast.store.postgres import PostgresStore
from outlast.store.postgres.connection import PostgresConnection


def opened(url: str) -> PostgresStore:
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    return store


def new_id() -> str:
    return id_from(os.urandom(16))


def started(store: LogStore, **header: Any) -> str:
    """A new session; its id."""
    session_id = new_id()
    event = NewEvent(event=SessionCreated())
    store.commit(Create(header=Header(session_id=session_id, **header), events=(event,)))
    return session_id


def said(text: str, role: Role = Role.USER) -> NewEvent:
    return NewEvent(event=MessageAppended(role=role, parts=(TextPart(text),)), actor="user")


def message(session_id: str, text: str, **more: Any) -> Append:
    return Append(session_id=session_id, events=(said(text),), **more)


def writing_link(store: PostgresStore) -> PostgresConnection:
    """The connection that the store writes on."""
    link = store._writer._link
    assert link is not None
    return link
