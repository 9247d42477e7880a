"""Snapshots: a cache, one small file each in `snapshots/<session>/<seq>.json`. Not synced; the oldest go."""

from __future__ import annotations

import os
import secrets

import msgspec
from msgspec import Struct

from outlast.store.files import disk
from outlast.store.files.line import encode, whole
from outlast.store.files.paths import SessionPaths
from outlast.store.files.redo_record import RedoLog
from outlast.store.port import Snapshot

KEPT = 8


class SnapshotFile(Struct):
    session: str
    seq: int
    fold_version: int
    state: bytes


_file = msgspec.json.Decoder(SnapshotFile)


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
        found = _file.decode(data)
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
