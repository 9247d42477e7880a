"""Checks that a session's stored keys agree with the keys in its events."""

from __future__ import annotations

from collections.abc import Iterator

from outlast.core.event_row import StoredEvent, body_digest
from outlast.store.engine.encode import OWN_KEY, PLAIN, ZSTD, content_of, digest_of, plain_body
from outlast.store.read.inspection import StoredKey


class KeyCheck:
    """Compares a session's genuine events, passed in order to `note`, with its stored keys. `stored` is None if the
    keys cannot be read, which is reported elsewhere. `root_id` is the scope of keys without an explicit scope, None if
    the header cannot be read."""

    def __init__(self, stored: list[StoredKey] | None) -> None:
        keys = stored or []
        self.root_id: str | None = None
        self.seen = len(keys)
        self._known = stored is not None
        self._wrong: list[tuple[int, str]] = []
        self._waiting = {key.row.seq - key.row.events + 1: key for key in keys if _sound(key)}
        self._wrong += [(0, f"the key {key.key!r} has an unreadable receipt") for key in keys if not _sound(key)]
        self._open: tuple[StoredKey, list[bytes]] | None = None
        self._last = 0

    def note(self, event: StoredEvent) -> None:
        stored = self._waiting.pop(event.seq, None)
        if stored is not None:
            if stored.key != event.key:
                self._wrong.append((event.seq, f"its key is {event.key!r}, but {stored.key!r} is stored for it"))
            self._open = (stored, [])
        elif self._known and event.key is not None and not event.key.startswith(OWN_KEY):
            self._wrong.append((event.seq, f"its key {event.key!r} is not stored: a repeat would be written twice"))
        if self._open is not None:
            self._add(event, *self._open)
        self._last = event.seq

    def _add(self, event: StoredEvent, stored: StoredKey, content: list[bytes]) -> None:
        if event.enc not in (PLAIN, ZSTD) or (event.redacted and event.enc != PLAIN):
            self._open = None  # the content of the write can no longer be recomputed
            return
        digest = event.body if event.redacted else body_digest(plain_body(event))
        content.append(content_of(event.kind, event.v, digest))
        if event.seq >= stored.row.seq:
            self._open = None
            wrong = self._about(stored, content) if stored.row.digest else None
            if wrong is not None:
                self._wrong.append((event.seq, wrong))

    def _about(self, stored: StoredKey, content: list[bytes]) -> str | None:
        """What is wrong with a stored key, if anything. The digest shows whether the caller gave a scope, and proves
        it."""
        if stored.row.digest == digest_of(content, None):
            if self.root_id is None or stored.scope == self.root_id:
                return None
            return f"the scope of key {stored.key!r} is damaged: a repeat would be written twice"
        if stored.row.digest == digest_of(content, stored.scope):
            return None
        if stored.scope == self.root_id:
            return f"the stored digest of key {stored.key!r} is not that of its events"
        return f"the stored digest or scope of key {stored.key!r} is damaged: a repeat would be stored again or refused"

    def differences(self) -> Iterator[tuple[int, str]]:
        """The findings as (seq, text). Call it after the last event."""
        yield from self._wrong
        for seq, stored in sorted(self._waiting.items()):
            if 0 < seq <= self._last:
                continue  # the event is damaged or inherited; damage was reported with the event
            yield seq, f"the key {stored.key!r} leads to an event that does not exist"


def _sound(key: StoredKey) -> bool:
    try:
        return 0 < key.row.events <= key.row.seq
    except TypeError:
        return False  # a damaged row may hold a value of any type
