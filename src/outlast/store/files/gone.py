"""What is left of a deleted session beside its tombstone: the keys that were used in it, for 30 days."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from outlast.core.errors import DamagedSession
from outlast.store.files import disk
from outlast.store.files.line import Line, encode, whole
from outlast.store.files.place import Place
from outlast.store.host import now_us
from outlast.store.tx import KeyRow

KEPT_US = 30 * 24 * 3600 * 1_000_000


class GoneKey(Struct):
    key: str
    scope: str | None
    seq: int
    count: int
    digest: str


class GoneKeys(Struct):
    session: str
    keys: list[GoneKey]


_keys = msgspec.json.Decoder(GoneKeys)


def keys_file(session_id: str, lines: list[Line]) -> bytes:
    return encode(GoneKeys(session_id, [_gone_key(line) for line in lines]))


def _gone_key(line: Line) -> GoneKey:
    count = line.count or 1
    return GoneKey(line.key or "", line.scope or None, line.seq + count - 1, count, line.digest or "")


def read_keys(place: Place) -> list[GoneKey]:
    data = disk.read(place.gone_keys)
    if data is None:
        return []
    if not whole(data):
        raise DamagedSession(place.session_id, None, f"{place.gone_keys.name} does not match its checksum")
    return _keys.decode(data).keys


def find_key(place: Place, deleted_at: int, key: str, scope: str | None) -> KeyRow | None:
    if now_us() - deleted_at > KEPT_US:
        return None
    for found in read_keys(place):
        if found.key == key and found.scope == scope:
            return KeyRow(place.session_id, found.seq, found.count, bytes.fromhex(found.digest))
    return None
