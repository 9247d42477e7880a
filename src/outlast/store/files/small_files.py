"""The small files beside the logs: a session's lease, tombstone, lineage, draft and snapshots, and the store's routes.

Each but the draft holds one line with a checksum and is replaced as a whole; damage in it raises and never looks like
a missing file. Snapshots are only a cache: they are not synced, and one that cannot be read counts as missing.

A chunk of a draft remembers the last event there was when it came. The event that closes an attempt thereby voids every
chunk before it, in the same write; the file itself is removed afterwards, and nothing is wrong if it stays.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec
from msgspec import Struct

from outlast.core.errors import DamagedSession, InvalidInput, StoreUnavailable
from outlast.store.engine.transaction import HeaderRow
from outlast.store.files import disk
from outlast.store.files.line import LeaseState, encode, intact, whole
from outlast.store.files.paths import SessionPaths
from outlast.store.files.redo_record import RedoLog
from outlast.store.port import Chunk, Snapshot

ROUTES = "routes.json"
KEPT = 8
"""How many snapshots of a session stay."""


class LeaseFile(Struct):
    """`generation` counts how often lines of the log were rewritten (redaction); what other processes remember of an
    earlier one is void."""

    lease: LeaseState
    generation: int


class TombstoneFile(Struct):
    row: HeaderRow


class LineageFile(Struct):
    members: list[str]


class RoutesFile(Struct):
    routes: dict[str, str]


class SnapshotFile(Struct):
    session: str
    seq: int
    fold_version: int
    state: bytes


class ChunkLine(Struct):
    attempt: int
    n: int
    after: int
    part: str
    data: bytes


_lease = msgspec.json.Decoder(LeaseFile)
_gone = msgspec.json.Decoder(TombstoneFile)
_lineage = msgspec.json.Decoder(LineageFile)
_routes = msgspec.json.Decoder(RoutesFile)
_snapshot = msgspec.json.Decoder(SnapshotFile)
_chunk = msgspec.json.Decoder(ChunkLine)


# --- lease, tombstone, lineage


def lease_file(row: HeaderRow, n: int, generation: int) -> bytes:
    return encode(LeaseFile(LeaseState.of(row, n), generation))


def gone_file(row: HeaderRow) -> bytes:
    return encode(TombstoneFile(row))


def lineage_file(members: list[str]) -> bytes:
    return encode(LineageFile(members))


def read_lease(place: SessionPaths) -> LeaseFile | None:
    data = _read(place, place.lease)
    return None if data is None else _lease.decode(data)


def read_gone(place: SessionPaths) -> HeaderRow | None:
    """The tombstone, if there is one."""
    data = _read(place, place.gone)
    return None if data is None else _gone.decode(data).row


def read_lineage(place: SessionPaths) -> list[str] | None:
    data = _read(place, place.lineage)
    return None if data is None else _lineage.decode(data).members


def _read(place: SessionPaths, path: Path) -> bytes | None:
    data = disk.read(path)
    if data is not None and not whole(data):
        raise DamagedSession(place.session_id, None, f"{path.name} does not match its checksum")
    return data


# --- drafts


def chunk_line(chunk: Chunk, after: int) -> bytes:
    return encode(ChunkLine(chunk.attempt_seq, chunk.n, after, chunk.part, chunk.data))


class DraftFile:
    """The chunks that count, and how long the file is as far as it is good."""

    def __init__(self, chunks: list[Chunk], size: int) -> None:
        self.chunks = chunks
        self.size = size

    @classmethod
    def load(cls, place: SessionPaths, closed: int) -> DraftFile:
        chunks: list[Chunk] = []
        size = 0
        for text in (disk.read(place.draft) or b"").split(b"\n")[:-1]:
            line = _decoded(text)
            if line is None:
                break
            size += len(text) + 1
            if line.after >= closed:
                cls._put(chunks, Chunk(attempt_seq=line.attempt, n=line.n, part=line.part, data=line.data))
        return cls(chunks, size)

    def with_chunks(self, more: list[Chunk], size: int) -> DraftFile:
        chunks = list(self.chunks)
        for chunk in more:
            self._put(chunks, chunk)
        return DraftFile(chunks, size)

    @staticmethod
    def _put(chunks: list[Chunk], chunk: Chunk) -> None:
        if chunk.n == 1:
            chunks.clear()
        chunks.append(chunk)


def _decoded(text: bytes) -> ChunkLine | None:
    if not intact(text):
        return None
    try:
        return _chunk.decode(text)
    except msgspec.DecodeError:
        return None


# --- routes


class RouteTable:
    """Never changed; `put` and `move` give new ones. `changed` tells that these are not what lies on the disk."""

    def __init__(self, leads: dict[str, str], *, changed: bool = False) -> None:
        self.leads = leads
        self.changed = changed

    @classmethod
    def load(cls, folder: Path) -> RouteTable:
        data = disk.read(folder / ROUTES)
        if data is None:
            return cls({})
        if not whole(data):
            raise StoreUnavailable(
                f"{folder / ROUTES} does not match its checksum; restore it from a backup or remove it"
            )
        return cls(_routes.decode(data).routes)

    def put(self, route: str, session_id: str | None) -> RouteTable:
        try:
            route.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidInput("a route must be valid Unicode text") from None
        leads = {name: to for name, to in self.leads.items() if name != route}
        if session_id is not None:
            leads[route] = session_id
        return RouteTable(leads, changed=True)

    def move(self, from_session_id: str, to_session_id: str | None) -> RouteTable:
        if from_session_id not in self.leads.values():
            return self
        leads = {name: to_session_id if to == from_session_id else to for name, to in self.leads.items()}
        return RouteTable({name: to for name, to in leads.items() if to is not None}, changed=True)

    def data(self) -> bytes:
        return encode(RoutesFile(self.leads))


# --- snapshots


def put_snapshots(place: SessionPaths, snapshots: list[Snapshot]) -> None:
    """A disk that cannot take them loses nothing."""
    if not snapshots:
        return
    folder = place.snapshots()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for one in snapshots:
            partial = folder / f".{secrets.token_hex(8)}"
            fd = os.open(partial, disk.NEW, disk.MODE)
            try:
                disk.write(fd, encode(SnapshotFile(place.session_id, one.seq, one.fold_version, one.state)))
            finally:
                os.close(fd)
            os.replace(partial, folder / f"{one.seq}.json")
        for seq in _seqs(place)[:-KEPT]:
            disk.unlink(folder / f"{seq}.json")
    except OSError:
        return


def find_snapshot(place: SessionPaths, at_most: int) -> Snapshot | None:
    """The newest one that is not past `at_most`; one that cannot be read is as good as none."""
    for seq in reversed(_seqs(place)):
        if seq > at_most:
            continue
        data = disk.read(place.snapshots() / f"{seq}.json")
        if data is None or not whole(data):
            continue
        found = _snapshot.decode(data)
        if (found.session, found.seq) == (place.session_id, seq):
            return Snapshot(seq=seq, fold_version=found.fold_version, state=found.state)
    return None


def drop_snapshots(work: RedoLog, place: SessionPaths) -> None:
    for seq in _seqs(place):
        work.remove(place.snapshots() / f"{seq}.json")


def _seqs(place: SessionPaths) -> list[int]:
    try:
        names = os.listdir(place.snapshots())
    except FileNotFoundError:
        return []
    return sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())
