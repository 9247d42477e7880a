"""Encodes events into rows, and decodes rows into events.

Sealing (encoding, digests, the header's delta) happens in the calling thread, before the store's lock is taken. Only
seq, epoch and chain hash are left to the commit.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from outlast.core import codec
from outlast.core.errors import InvalidInput
from outlast.core.event_row import StoredEvent, body_digest, chain, hashed_fields
from outlast.core.events import Event, Opaque
from outlast.core.header import Delta, delta_of
from outlast.store.engine.validate import check, storable
from outlast.store.port import Append, Create, NewEvent, Restore, Write
from outlast.store.process_identity import now_us

COMPRESS_FROM = 4096
NO_BLOBS: Mapping[str, bytes] = MappingProxyType({})
CLOSES_ATTEMPT = frozenset({"AssistantReplied", "ReplyInterrupted"})
PLAIN, ZSTD = "plain", "zstd"
OWN_KEY = "~"
"""Prefix of generated keys. The key is stored in its event row, where a rerun finds it; not every store indexes it."""


class EncodedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event row without seq, epoch and hash. `digest` is of the body as stored, `content` of the uncompressed
    body."""

    kind: str
    v: int
    at: int
    actor: str
    turn: str | None
    key: str | None
    enc: str
    body: bytes
    digest: bytes
    content: bytes
    fields: bytes
    delta: Delta
    closes_attempt: bool

    def row(self, session_id: str, seq: int, epoch: int | None, previous: bytes) -> StoredEvent:
        hashed = chain(previous, seq, epoch, self.fields, self.digest)
        return StoredEvent(
            session_id,
            seq,
            self.kind,
            self.v,
            self.at,
            self.actor,
            self.turn,
            self.key,
            epoch,
            self.enc,
            self.body,
            hashed,
        )


class EncodedWrite(msgspec.Struct, frozen=True):
    """A write with its events sealed. `key` is the caller's or a generated one (`own_key`), which is looked up only
    on a rerun."""

    write: Write
    events: tuple[EncodedEvent, ...] = ()
    blobs: Mapping[str, bytes] = NO_BLOBS
    key: str | None = None
    own_key: bool = False
    size: int = 0

    @property
    def digest(self) -> bytes:
        """Identifies the content independently of its stored encoding: equal only for a repeat of the same write."""
        content = [content_of(event.kind, event.v, event.content) for event in self.events]
        return digest_of(content, getattr(self.write, "scope", None))


class EncodedCommit:
    """The sealed writes of one call. `rerun` is set if an earlier attempt had an unknown outcome."""

    __slots__ = ("_writes", "rerun", "size")

    def __init__(self, writes: tuple[EncodedWrite, ...]) -> None:
        self._writes: tuple[EncodedWrite, ...] | None = writes
        self.size = writes[0].size if len(writes) == 1 else sum(write.size for write in writes)
        self.rerun = False

    @property
    def writes(self) -> tuple[EncodedWrite, ...]:
        assert self._writes is not None
        return self._writes

    @property
    def key(self) -> str | None:
        """The first key of the commit: retrying with it tells whether the commit was applied."""
        return next((write.key for write in self.writes if write.key is not None), None)


def seal(writes: tuple[Write, ...], *, compress: bool) -> EncodedCommit:
    if len(writes) == 1:
        return EncodedCommit((_sealed(writes[0], compress),))
    return EncodedCommit(tuple(_sealed(write, compress) for write in writes))


LARGE_TEXT = 256 * 1024


def is_large(writes: tuple[Write, ...]) -> bool:
    """Whether sealing takes long enough to delay an event loop: a message holds a large text or file."""
    events = (new.event for write in writes if isinstance(write, Append | Create) for new in write.events)
    parts = (part for event in events for part in getattr(event, "parts", None) or ())
    held = (getattr(part, name, None) for part in parts for name in ("text", "data"))
    return any(isinstance(value, str | bytes) and len(value) > LARGE_TEXT for value in held)


def _sealed(write: Write, compress: bool) -> EncodedWrite:
    check(write)
    if isinstance(write, Append):
        session_id = write.session_id
    elif isinstance(write, Create):
        session_id = write.header.session_id
    else:
        return EncodedWrite(write, size=_size(write))
    if not write.events:
        raise InvalidInput("a write to the log needs at least one event")
    key = own_key() if write.key is None else _checked_key(write.key)
    blobs: dict[str, bytes] = {}
    events: list[EncodedEvent] = []
    size = 0
    for new in write.events:
        encoded = codec.encode(new.event)
        sealed = _sealed_event(session_id, new, encoded, None if events else key, compress)
        events.append(sealed)
        size += len(sealed.body)
        if encoded.blobs:
            blobs.update(encoded.blobs)
            size += sum(map(len, encoded.blobs.values()))
    return EncodedWrite(write, tuple(events), blobs, key, write.key is None, size)


def _size(write: Write) -> int:
    if isinstance(write, Restore):
        return sum(len(event.body) for event in write.events) + sum(len(data) for _, data in write.blobs)
    return len(getattr(write, "data", b""))


_made = itertools.count()


class _Process:
    """The random prefix that keeps keys generated by different processes distinct."""

    mark = secrets.token_hex(8)

    def renew(self) -> None:
        self.mark = secrets.token_hex(8)


_process = _Process()
os.register_at_fork(after_in_child=_process.renew)


def own_key() -> str:
    """Generate a unique key for a write without a caller's key."""
    return f"{OWN_KEY}{_process.mark}{next(_made):x}"


def digest_of(content: list[bytes], scope: str | None) -> bytes:
    """The digest of a write, from the `content_of` of its events. It includes a scope given by the caller, because no
    event contains it; the default scope, the lineage, is in the header."""
    told = content if scope is None else [*content, b"scope ", scope.encode("utf-8", "surrogatepass")]
    return body_digest(b"".join(told))


def content_of(kind: str, v: int, digest: bytes) -> bytes:
    """What one event adds to the digest of its write, which is stored with the key: kind, version, body digest."""
    return f"{kind} {v} ".encode() + digest


def _checked_key(key: str) -> str:
    if type(key) is not str or not 0 < len(key) <= 512:
        raise InvalidInput("a key is a text of 1 to 512 characters")
    if not storable(key):
        raise InvalidInput("a key must be valid Unicode text without NUL")
    return key


def _sealed_event(
    session_id: str, new: NewEvent, encoded: codec.Encoded, key: str | None, compress: bool
) -> EncodedEvent:
    at = now_us() if new.at is None else new.at
    enc, body = PLAIN, encoded.body
    content = digest = body_digest(body)
    if compress and len(body) >= COMPRESS_FROM:
        packed = _zstd(body)
        if len(packed) < len(body):
            enc, body, digest = ZSTD, packed, body_digest(packed)
    event = new.event
    return EncodedEvent(
        encoded.kind,
        encoded.v,
        at,
        new.actor,
        new.turn,
        key,
        enc,
        body,
        digest,
        content,
        hashed_fields(session_id, encoded.kind, encoded.v, at, new.actor, new.turn, key, enc),
        delta_of(event, new.turn),
        encoded.kind in CLOSES_ATTEMPT,
    )


def _zstd(body: bytes) -> bytes:
    import zstandard  # loaded only when a body is worth compressing

    return zstandard.ZstdCompressor(level=3).compress(body)


def plain_body(stored: StoredEvent) -> bytes:
    """The JSON bytes of a row's body."""
    if stored.enc == ZSTD:
        import zstandard

        try:
            return zstandard.ZstdDecompressor().decompress(stored.body, max_output_size=codec.MAX_BODY)
        except zstandard.ZstdError as error:
            raise ValueError(f"its body does not unpack: {error}") from error
    return stored.body


def plain_event(stored: StoredEvent) -> Event | None:
    """Fast path for the most common kind of row; None means that the caller needs `event_of`."""
    _, _, kind, v, _, _, _, _, _, enc, body, _, redacted = stored
    return codec.decode_plain(kind, v, body) if enc == PLAIN and not redacted else None


def event_of(stored: StoredEvent, blob: codec.BlobReader | None = None) -> Event | Opaque:
    """The event of a row; `Opaque` if the body is redacted, does not unpack or has an unknown encoding."""
    if stored.redacted:
        return Opaque(stored.kind, stored.v, "redacted")
    if stored.enc == PLAIN:
        return codec.decode(stored.kind, stored.v, stored.body, blob)
    if stored.enc != ZSTD:
        return Opaque(stored.kind, stored.v, f"encoding {stored.enc}")
    try:
        return codec.decode(stored.kind, stored.v, plain_body(stored), blob)
    except ValueError as error:
        return Opaque(stored.kind, stored.v, str(error))
