"""What the tests of the files store are made of."""

from __future__ import annotations

import os
from pathlib import Path

from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import Role, TextPart
from outlast.store.engine.encode import event_of
from outlast.store.files import FilesStore
from outlast.store.port import Append, Create, NewEvent


def new_id() -> str:
    return id_from(os.urandom(16))


def said(text: str) -> NewEvent:
    return NewEvent(event=e.MessageAppended(role=Role.USER, parts=(TextPart(text),)), actor="user")


def begin(store: FilesStore, *texts: str, session_id: str | None = None) -> str:
    """A session of one event, and one more for each text."""
    session_id = session_id or new_id()
    store.commit(Create(header=Header(session_id=session_id), events=(NewEvent(event=e.SessionCreated()),)))
    for text in texts:
        append(store, session_id, text)
    return session_id


def append(store: FilesStore, session_id: str, *texts: str, key: str | None = None) -> int:
    return store.commit(Append(session_id=session_id, events=tuple(map(said, texts)), key=key))[0].seq


def text_in(stored: StoredEvent) -> str | None:
    event = event_of(stored)
    if isinstance(event, e.MessageAppended):
        [part] = event.parts
        return part.text if isinstance(part, TextPart) else None
    return None


def texts(store: FilesStore, session_id: str) -> list[str]:
    return [text for stored in store.read(session_id) if (text := text_in(stored)) is not None]


def live(folder: Path, session_id: str) -> Path:
    return folder / f"{session_id}.jsonl"


def without_cache(folder: Path) -> None:
    """Throw away what is only remembered."""
    for path in (folder / "index").iterdir():
        path.unlink()
