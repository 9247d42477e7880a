"""Imports a session from a file written by `outlast sessions export`: the same rows, the same hashes.

Promises: nothing is written unless the whole file verifies; existing data is not changed; importing twice has the
effect of importing once. An imported session that was not written to since is continued by a newer export of it. The
history a fork is based on is imported with it. Nothing in the file grants rights here
(`outlast.runtime.imported_trust`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from outlast.app.settings import load_settings
from outlast.app.transfer.export_lines import BlobLine, rows_in
from outlast.core import events as e
from outlast.core.errors import ConflictError, InvalidInput, SessionDeleted, SessionNotFound
from outlast.core.event_row import GENESIS, StoredEvent, verifies
from outlast.core.header import Header, apply, delta_of, delta_of_redacted
from outlast.core.ids import is_id
from outlast.store import open_store
from outlast.store.engine.encode import event_of
from outlast.store.engine.remove import mentioned
from outlast.store.lineage import inherited, parent_after_rotation
from outlast.store.log_store import LogStore
from outlast.store.port import Base, Restore

Progress = Callable[[int, int], None]

PIECE_EVENTS, PIECE_BYTES = 5_000, 8 * 1024 * 1024
BLOBS_AT_HAND = 16


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one session of the file: `new`, `continued` or `here` (it already existed)."""

    session_id: str
    events: int
    last_seq: int
    what: str


class ImportPart(msgspec.Struct, kw_only=True):
    """The rows of one session in the file, and what is known of the session before they are written."""

    header: Header
    first: int
    last: int
    base: Base | None = None
    continues: str | None = None
    end: bytes = b""
    """The hash of the last row."""
    stored: int = 0
    """The last event of it that is already in this store."""


def import_file(
    url: str | None, path: Path, *, owner_id: str = "local", progress: Progress | None = None
) -> list[ImportedSession]:
    """Import a file; one result per session in it, the oldest of the lineage first."""
    with closing(open_store(load_settings(store=url).store)) as store:
        plan = ImportPlan(store, owner_id)
        size = max(1, os.path.getsize(path)) if path.exists() else 1
        for place, found in rows_in(path):
            plan.look(found)
            if progress is not None:
                progress(place // 2, size)
        plan.check()
        for place, found in rows_in(path):
            plan.put(found)
            if progress is not None:
                progress(size // 2 + place // 2, size)
        plan.flush()
        return plan.done()


class ImportPlan:
    """Two passes: `look` at every line, `check`, then `put` every line. Nothing is written before `check`."""

    def __init__(self, store: LogStore, owner_id: str) -> None:
        self._store, self._owner_id = store, owner_id
        self._parts: list[ImportPart] = []
        self._previous, self._seq = GENESIS, 0
        self._told = Header(session_id="")
        self._here: Header | None = None
        self._counted: dict[int, dict[str, int]] = {}
        self._blobs: dict[str, bytes] = {}
        self._piece: list[StoredEvent] = []
        self._blobs_of_piece: dict[str, bytes] = {}
        self._bytes = 0

    def look(self, found: StoredEvent | BlobLine) -> None:
        if isinstance(found, BlobLine):
            self._blobs[found.sha256] = found.data
            while len(self._blobs) > BLOBS_AT_HAND:
                self._blobs.pop(next(iter(self._blobs)))
            return
        if found.seq != self._seq + 1 or not verifies(self._previous, found) or not is_id(found.session_id):
            raise InvalidInput(
                f"the file is damaged or incomplete at event {found.seq}: it does not follow event {self._seq}; "
                "export the session again"
            )
        event = event_of(found, lambda name: self._blobs.get(name, b"?"))
        if not self._parts or self._parts[-1].header.session_id != found.session_id:
            self._begin(found, event)
        self._add(found, event)

    def _begin(self, found: StoredEvent, event: e.Event | e.Opaque) -> None:
        """Start the rows of the next session: the first of its lineage, or a fork of the previous one."""
        session_id = found.session_id
        if any(part.header.session_id == session_id for part in self._parts):
            raise InvalidInput(f"the rows of session {session_id} are not contiguous; export it again")
        part = ImportPart(header=Header(session_id=session_id), first=found.seq, last=found.seq)
        if self._parts:
            part.base = Base(self._parts[-1].header.session_id, self._seq)
            part.header = inherited(self._told, session_id, self._seq, self._told.message_count)
            part.header.parent_session_id = part.base.session_id
        if isinstance(event, e.SessionCreated):
            for name in ("parent_session_id", "depth", "project_key", "project_root", "project_fingerprint"):
                setattr(part.header, name, getattr(event, name))
        if isinstance(event, e.SessionForked):
            if event.reason == "rotate":
                part.continues = event.base_session_id
                part.header.parent_session_id = parent_after_rotation(self._told)
            if event.carried_inputs:
                part.header.pending_text, part.header.pending_at = self._told.pending_text, self._told.pending_at
        part.header.owner_id, part.header.created_at = self._owner_id, found.at
        self._told = msgspec.structs.replace(part.header)
        self._here = self._head(session_id)
        self._parts.append(part)

    def _head(self, session_id: str) -> Header | None:
        try:
            return self._store.head(session_id)
        except SessionDeleted as error:
            raise ConflictError(
                f"session {session_id} was deleted from this store and stays deleted; import it into another store"
            ) from error
        except SessionNotFound:
            return None

    def _add(self, found: StoredEvent, event: e.Event | e.Opaque) -> None:
        part, here = self._parts[-1], self._here
        delta = delta_of_redacted(found.kind, found.turn, {}) if found.redacted else delta_of(event, found.turn)
        if isinstance(event, e.EventRedacted):
            self._counted[event.seq] = event.counted
        apply(self._told, delta, seq=found.seq, at=found.at, now=0, touch=False)
        part.header.epoch = max(part.header.epoch, found.epoch or 0)
        part.last, part.end = found.seq, found.hash
        self._seq, self._previous = found.seq, found.hash
        if here is not None and found.seq == here.last_seq:
            if found.hash != here.head_hash:
                raise _differs(part.header.session_id)
            part.stored = here.last_seq

    def check(self) -> None:
        """Raise for a file that cannot be imported, before anything is written."""
        if not self._parts:
            raise InvalidInput(
                "the file contains no session; import takes what `sessions export --format jsonl` writes"
            )
        for part in self._parts:
            here = self._head(part.header.session_id)
            if here is None:
                continue
            if here.last_seq > part.last:
                [row] = self._store.read(part.header.session_id, after=part.last - 1, before=part.last + 1)
                if row.hash != part.end:
                    raise _differs(part.header.session_id)
                part.stored = part.last
            elif part.stored < part.last and (not part.stored or here.imported_seq != here.last_seq):
                raise _differs(part.header.session_id)

    def put(self, found: StoredEvent | BlobLine) -> None:
        if isinstance(found, BlobLine):
            self._blobs_of_piece[found.sha256] = found.data
            self._bytes += len(found.data)
            return
        full = len(self._piece) >= PIECE_EVENTS or self._bytes >= PIECE_BYTES
        another = bool(self._piece) and self._piece[0].session_id != found.session_id
        if another or (full and found.key is not None):  # keep a write in one piece, so that its key can be recognised
            blobs = self._blobs_of_piece
            named = (mentioned(found) or set()) & blobs.keys()
            self._blobs_of_piece = {name: data for name, data in blobs.items() if name not in named}
            self.flush()
            self._blobs_of_piece = {name: blobs[name] for name in named}
        if found.seq > self._part(found.session_id).stored:
            self._piece.append(found)
            self._bytes += len(found.body)

    def flush(self) -> None:
        """Write the rows put so far."""
        if self._piece:
            part = self._part(self._piece[0].session_id)
            write = Restore(
                header=part.header,
                events=tuple(self._piece),
                blobs=tuple(self._blobs_of_piece.items()),
                base=part.base,
                continues=part.continues,
                counted=self._counted,
            )
            self._store.commit(write)
        self._piece, self._blobs_of_piece, self._bytes = [], {}, 0

    def _part(self, session_id: str) -> ImportPart:
        return next(part for part in self._parts if part.header.session_id == session_id)

    def done(self) -> list[ImportedSession]:
        return [
            ImportedSession(
                session_id=part.header.session_id,
                events=part.last - max(part.stored, part.first - 1),
                last_seq=part.last,
                what="here" if part.stored >= part.last else "continued" if part.stored else "new",
            )
            for part in self._parts
        ]


def _differs(session_id: str) -> ConflictError:
    return ConflictError(
        f"session {session_id} already exists here with different events, so nothing was imported; "
        "import the file into another store"
    )
