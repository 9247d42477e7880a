"""Validates the fields of a write in the calling thread, before it can fail the other commits of its batch.

Names (actors, routes, scopes, owners, titles in headers) go into text columns, which hold neither NUL nor invalid
Unicode; numbers must fit in 64 bits. Event bodies are not checked here: their codec handles them.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from outlast.core.codec import INT_MAX, INT_MIN
from outlast.core.errors import InvalidInput, SessionNotFound
from outlast.core.header import Header
from outlast.core.ids import is_id
from outlast.store.port import Append, DropBlobs, Forget, NewEvent, PutBlob, PutNote, Restore, Write

_LENGTHS = {
    "owner_id": 128,
    "project_key": 128,
    "project_fingerprint": 128,
    "project_root": 1024,
    "place": 300,
    "parent_session_id": 128,
    "turn": 128,
    "token": 128,
    "holder": 256,
    "actor": 256,
    "route": 512,
    "scope": 512,
}
"""Maximum lengths in characters. Every list reads headers and every append writes one, so they must stay small."""
ROW_TEXT = 512
_SESSIONS = frozenset({"session_id", "continues", "from_session_id", "to_session_id"})


def storable(text: str) -> bool:
    """Whether every store can hold this text as a name."""
    if text.isascii():
        return "\0" not in text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def check(write: Write) -> None:
    """Raise unless every store can hold the names and numbers of this write."""
    if type(write) is Append and write.lease is None and write.scope is None and write.expect is None:
        # Same checks as `_check_fields`, unrolled for the hot path.
        if not is_id(write.session_id):
            _check_text(write.session_id, "session_id", "Append", is_header=False)
        for event in write.events:
            _check_event(event, "Append")
        return
    if isinstance(write, Forget | DropBlobs | PutNote):
        return  # written by the store itself
    if isinstance(write, Restore):
        _check_rows(write)
        return
    _check_fields(write, type(write).__name__)
    if isinstance(write, PutBlob) and hashlib.sha256(write.data).hexdigest() != write.sha256:
        raise InvalidInput("a blob's name must be the SHA-256 of its bytes, in lower-case hex")


def _check_rows(write: Restore) -> None:
    _check_fields(write.header, "Restore.header")
    if not write.events or not is_id(write.header.session_id):
        raise InvalidInput("a session is restored from its id and at least one event")
    for event in write.events:
        texts = (event.session_id, event.kind, event.actor, event.turn or "", event.key or "", event.enc)
        if not all(storable(text) and len(text) <= ROW_TEXT for text in texts):
            raise InvalidInput(f"event {event.seq}: its names must be valid, short Unicode text without NUL")
        for number in (event.seq, event.v, event.at, event.epoch or 0):
            _check_number(number, f"event {event.seq}")
    for name, data in write.blobs:
        if hashlib.sha256(data).hexdigest() != name:
            raise InvalidInput(f"blob {name[:80]} does not match its name")


def _check_fields(value: Any, path: str) -> None:
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if field is None or isinstance(field, bytes | bool):
            continue
        if isinstance(field, str):
            _check_text(field, name, path, is_header=isinstance(value, Header))
        elif isinstance(field, int):
            _check_number(field, f"{path}.{name}")
        elif isinstance(field, tuple):
            for event in field:  # pyright: ignore[reportUnknownVariableType]
                _check_event(event, path)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(field, msgspec.Struct):
            _check_fields(field, f"{path}.{name}")


def _check_event(new: NewEvent, path: str) -> None:
    if not storable(new.actor) or (new.turn is not None and not storable(new.turn)):
        raise InvalidInput(f"{path}: actor and turn must be valid Unicode text without NUL")
    if new.turn is not None and len(new.turn) > _LENGTHS["turn"]:
        raise _too_long(new.turn, f"{path}.events.turn", _LENGTHS["turn"])
    if new.at is not None:
        _check_number(new.at, f"{path}.events.at")


def _check_text(text: str, name: str, path: str, *, is_header: bool) -> None:
    if name in _SESSIONS and not is_header:
        if not is_id(text):
            shown = text.encode("utf-8", "backslashreplace").decode("utf-8")[:80]
            raise SessionNotFound(f"no session '{shown}'; `outlast sessions list` shows the existing ones")
    elif not storable(text):
        raise InvalidInput(f"{path}.{name} must be valid Unicode text without NUL")
    elif len(text) > _LENGTHS.get(name, len(text)):
        raise _too_long(text, f"{path}.{name}", _LENGTHS[name])


def _too_long(text: str, path: str, most: int) -> InvalidInput:
    return InvalidInput(f"{path} has {len(text):,} characters, but may have {most:,}; give a shorter one")


def _check_number(number: int, path: str) -> None:
    if not INT_MIN <= number <= INT_MAX:
        raise InvalidInput(f"{path} is a number beyond 64 bits")
