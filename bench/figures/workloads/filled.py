"""Stores that already hold something, filled through the public API in large commits."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager

from bench.figures.lab import Lab
from bench.figures.messages import message
from outlast.core.events import SessionCreated
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.log_store import LogStore
from outlast.store.port import Create, NewEvent

TOGETHER = 500


def fill(session: ConversationSession, messages: int) -> None:
    left = messages
    while left:
        now = min(left, TOGETHER)
        session.extend([message() for _ in range(now)])
        left -= now


def session_of(lab: Lab, kind: str, messages: int) -> tuple[str, str]:
    """The URL of a store that holds one session of so many messages, and the session's id."""

    def filling(url: str) -> str:
        with open_store(url) as store:
            session = ConversationSession(store=store)
            fill(session, messages)
            return session.session_id

    return lab.filled(kind, messages, filling)


def create_sessions(store: LogStore, count: int) -> list[str]:
    """Sessions without messages, as a list shows them; their ids, oldest first."""
    ids = [id_from(secrets.token_bytes(16)) for _ in range(count)]
    for at in range(0, count, TOGETHER):
        store.commit(*(_create(name) for name in ids[at : at + TOGETHER]))
    return ids


def _create(name: str) -> Create:
    first = NewEvent(event=SessionCreated(title="Title of a session", model="a:b"), actor="user/bench")
    return Create(header=Header(session_id=name), events=(first,))


@contextmanager
def opened(lab: Lab, kind: str, messages: int) -> Generator[ConversationSession]:
    """A session of so many messages in a store of its own."""
    url, session_id = session_of(lab, kind, messages)
    with open_store(url) as store:
        session = ConversationSession.load(session_id=session_id, store=store)
        assert session is not None
        yield session
