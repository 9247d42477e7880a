"""`StoredEvent`: one event as stored in a log, and the hash chain that links it to its predecessor.

    hash(n) = SHA-256( hash(n-1) | seq | epoch | length-prefixed fields | SHA-256(stored body) )

The hash covers only the digest of the body, so the chain still verifies after a body is redacted. The chain detects
damage; it does not protect against an attacker who can rewrite the whole store.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from struct import Struct as Packer
from struct import error as PackError
from typing import NamedTuple

import msgspec

from outlast.core.errors import DamagedSession, InvalidInput

GENESIS = bytes(32)
NO_EPOCH = -1
_two_numbers = Packer(">qq").pack


class Actor(msgspec.Struct, frozen=True, omit_defaults=True):
    """The author of an event: user, model, tool or system (`who`), with the door, the principal and the client."""

    who: str = "system"
    door: str = ""
    principal: str = ""
    client: str = ""

    def text(self) -> str:
        fields = (self.who, self.door, self.principal, self.client)
        if any("/" in field for field in fields):
            raise InvalidInput("an actor's fields must not contain '/'")
        return "/".join(fields).rstrip("/")

    @classmethod
    def parse(cls, text: str) -> Actor:
        return cls(*text.split("/")[:4])


class StoredEvent(NamedTuple):
    """One row. `session_id` is the session that owns the row, even if it was read through a fork."""

    session_id: str
    seq: int
    kind: str
    v: int
    at: int
    actor: str
    turn: str | None
    key: str | None
    epoch: int | None
    enc: str
    body: bytes
    hash: bytes
    redacted: bool = False


def body_digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def hashed_fields(
    session_id: str, kind: str, v: int, at: int, actor: str, turn: str | None, key: str | None, enc: str
) -> bytes:
    """Encode the fields known before the commit, length-prefixed. Lengths are in characters; `-` stands for None."""
    texts = _texts(session_id, kind, actor, enc)
    turns = "-" if turn is None else f"{len(turn)}:{turn}"
    keys = "-" if key is None else f"{len(key)}:{key}"
    return f"{texts}{turns}{keys}{v};{at};".encode("utf-8", "surrogatepass")


@lru_cache(maxsize=256)
def _texts(session_id: str, kind: str, actor: str, enc: str) -> str:
    """The fields that are equal in most rows of a log, hence cached."""
    return f"{len(session_id)}:{session_id}{len(kind)}:{kind}{len(actor)}:{actor}{len(enc)}:{enc}"


def chain(previous: bytes, seq: int, epoch: int | None, fields: bytes, digest: bytes) -> bytes:
    numbers = _two_numbers(seq, NO_EPOCH if epoch is None else epoch)
    return hashlib.sha256(previous + numbers + fields + digest).digest()


def hash_of(previous: bytes, event: StoredEvent) -> bytes:
    """Return the hash this row must have after a row with hash `previous`."""
    session_id, seq, kind, v, at, actor, turn, key, epoch, enc, body, _, redacted = event
    fields = hashed_fields(session_id, kind, v, at, actor, turn, key, enc)
    return chain(previous, seq, epoch, fields, body if redacted else hashlib.sha256(body).digest())


def verifies(previous: bytes, event: StoredEvent) -> bool:
    """Whether this row is unchanged and follows a row with hash `previous`."""
    try:
        return hash_of(previous, event) == event.hash
    except (TypeError, AttributeError, PackError):
        return False  # a damaged store may return values of any type


def check_chain(previous: bytes, after: int, events: list[StoredEvent]) -> bytes:
    """Raise `DamagedSession` unless `events` follow row `after` (hash `previous`) unchanged and without gaps."""
    # The steps of `hash_of`, without a call for each: every read of every event passes here.
    sha256, expected = hashlib.sha256, after
    for row in events:
        expected += 1
        session_id, seq, kind, v, at, actor, turn, key, epoch, enc, body, hashed, redacted = row
        if seq != expected:
            raise DamagedSession(session_id, expected, f"event is missing, found {seq} instead")
        try:
            turns = "-" if turn is None else f"{len(turn)}:{turn}"
            keys = "-" if key is None else f"{len(key)}:{key}"
            fields = f"{_texts(session_id, kind, actor, enc)}{turns}{keys}{v};{at};".encode("utf-8", "surrogatepass")
            numbers = _two_numbers(seq, NO_EPOCH if epoch is None else epoch)
            digest = body if redacted else sha256(body).digest()
            intact = sha256(previous + numbers + fields + digest).digest() == hashed
        except (TypeError, AttributeError, PackError):
            intact = False  # a damaged store may return values of any type
        if not intact:
            raise DamagedSession(session_id, seq, "stored bytes do not match their hash")
        previous = hashed
    return previous
