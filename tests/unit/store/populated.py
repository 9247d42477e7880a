"""A small store that has one of everything, and ways to damage it behind its back."""

from __future__ import annotations

import hashlib
import secrets
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec

from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import Role, TextPart, Usage
from outlast.core.state import FOLD_VERSION, state_to_bytes
from outlast.store import open_store
from outlast.store.engine.transaction import HeaderRow
from outlast.store.lineage import fork, rotate
from outlast.store.log_store import LogStore
from outlast.store.port import (
    Append,
    Claim,
    Create,
    Delete,
    NewEvent,
    PutChunk,
    PutRoute,
    PutSnapshot,
    Redact,
    Release,
)
from outlast.store.read.decode import load_state


def said(text: str, role: Role = Role.USER) -> NewEvent:
    return NewEvent(event=e.MessageAppended(role=role, parts=(TextPart(text),)), actor="user/test")


def new_id() -> str:
    return id_from(secrets.token_bytes(16))


def talk(store: LogStore, messages: int = 6, *, key: bool = True, text: str = "hello ü ") -> str:
    """A session with some messages, every other one keyed."""
    name = new_id()
    store.commit(Create(header=Header(session_id=name), events=(NewEvent(event=e.SessionCreated(model="m")),)))
    for number in range(messages):
        given = f"key-{number}" if key and number % 2 else None
        store.commit(Append(session_id=name, events=(said(f"{text}{number} " * 5),), key=given))
    return name


def turn(store: LogStore, name: str) -> None:
    """A turn with a reply, and another that is left open with a draft."""
    lease = store.commit(Claim(session_id=name, token="t", holder="h 1"))[0].lease
    assert lease is not None
    events: list[e.Event] = [e.InputAdmitted(parts=(TextPart("do it"),))]
    asked = store.commit(Append(session_id=name, events=tuple(NewEvent(event=event) for event in events)))[0].seq
    opened = (e.TurnStarted(inputs=[asked]), e.ModelRequested(model="m"))
    at = store.commit(Append(session_id=name, lease=lease, events=_turn(*opened)))[0].seq
    replied = e.AssistantReplied(
        attempt_seq=at, parts=(TextPart("done"),), usage=Usage(input_tokens=9, output_tokens=4)
    )
    closed = (replied, e.TurnEnded(outcome="done", answered=[asked]), e.TurnStarted(), e.ModelRequested(model="m"))
    at = store.commit(Append(session_id=name, lease=lease, events=_turn(*closed)))[0].seq
    store.commit(PutChunk(lease=lease, attempt_seq=at, n=1, part="text", data=b"half a rep"))
    store.commit(Release(lease=lease))


def _turn(*events: e.Event) -> tuple[NewEvent, ...]:
    return tuple(NewEvent(event=event, turn="turn-1", actor="model") for event in events)


def populate(store: LogStore) -> dict[str, str]:
    """One of everything; the sessions by what they are."""
    names = {"talk": talk(store), "other": talk(store, 4), "turn": talk(store, 2, key=False)}
    turn(store, names["turn"])
    names["long"] = talk(store, 1)
    store.commit(Append(session_id=names["long"], events=(said("x" * 70_000), said("y" * 9_000)), key="both"))
    names["fork"] = new_id()
    store.commit(
        fork(store.head(names["talk"]), names["fork"]), Append(session_id=names["fork"], events=(said("and"),))
    )
    names["redacted"] = talk(store, 3)
    store.commit(Redact(session_id=names["redacted"], seq=2, actor="user/test"))
    store.commit(Append(session_id=names["redacted"], events=(said("after"),)))
    names["parent"], names["tip"] = talk(store, 2), new_id()
    store.commit(*rotate(store.head(names["parent"]), names["tip"], token="t", holder="h 1"))
    names["deleted"] = talk(store, 3)
    names["orphan"] = new_id()
    store.commit(fork(store.head(names["deleted"]), names["orphan"]))
    store.commit(Delete(session_id=names["deleted"], actor="user/test"))
    store.commit(PutRoute(route="chat:1", session_id=names["talk"]))
    state = load_state(store, names["fork"])
    data = state_to_bytes(state)
    write = PutSnapshot(session_id=names["fork"], seq=state.last_seq, fold_version=FOLD_VERSION, state=data)
    store.commit(write)
    return names


class Populated:
    """The closed store, its sessions, what every one of them reads as, and a knife."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_store(self.url) as store:
            self.names = populate(store)
            self.truth: dict[str, list[StoredEvent]] = {
                name: store.read(name) for what, name in self.names.items() if what != "deleted"
            }
        self.sql("PRAGMA wal_checkpoint(TRUNCATE)")
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Change or read the database as another program would."""
        connection = apsw.Connection(str(self.path))
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    def row_id(self, what: str, seq: int) -> int:
        [(sid,)] = self.sql("SELECT sid FROM sessions WHERE session_id = ?", self.names[what])
        return sid << 32 | seq

    def change_header(self, what: str, change: Callable[[HeaderRow], None]) -> None:
        """A header that is wrong, with a checksum that is right."""
        [(header,)] = self.sql("SELECT header FROM sessions WHERE session_id = ?", self.names[what])
        row = msgspec.json.decode(header, type=HeaderRow)
        change(row)
        data = msgspec.json.encode(row)
        values = (data, zlib.crc32(data), row.owner_id, row.updated_at, row.state, self.names[what])
        set_all = "UPDATE sessions SET header = ?, crc = ?, owner_id = ?, listed_at = ?, state = ? WHERE session_id = ?"
        self.sql(set_all, *values)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
