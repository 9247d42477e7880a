"""Lines of an exported session: one per event with all fields of its row; blobs come before the event naming them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from outlast.core.errors import InvalidInput, OutlastError
from outlast.core.event_row import StoredEvent

LINE_LIMIT = 96 * 1024 * 1024
"""Bytes of a line at most: the longest body that is stored, in base64, and the fields around it."""


class BlobLine(NamedTuple):
    session_id: str
    sha256: str
    data: bytes


def rows_in(path: Path) -> Iterator[tuple[int, StoredEvent | BlobLine]]:
    """Every line, with the byte offset of its end in the file."""
    place = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(LINE_LIMIT + 1), b""), 1):
                if len(line) > LINE_LIMIT:
                    raise InvalidInput(
                        f"{path} line {number} is longer than {LINE_LIMIT >> 20} MiB, the limit of an export; "
                        "export the session again"
                    )
                place += len(line)
                if line.strip():
                    yield place, _row(line, f"{path} line {number}")
    except OSError as error:
        raise OutlastError(f"cannot read {path}: {error.strerror}; give a file made by `sessions export`") from error


def _row(line: bytes, where: str) -> StoredEvent | BlobLine:
    try:
        fields: Any = msgspec.json.decode(line)
        if "blob" in fields:
            return BlobLine(fields["session_id"], fields["blob"], base64.b64decode(fields["base64"], validate=True))
        row = msgspec.json.decode(line, type=_ExportLine)
        body = bytes(row.body) if row.body else base64.b64decode(row.body_base64, validate=True)
        hashed = bytes.fromhex(row.hash)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, binascii.Error, TypeError, KeyError) as error:
        raise InvalidInput(
            f"{where} is not a line of an export ({error}); import takes what `sessions export --format jsonl` writes"
        ) from error
    except ValueError as error:
        raise InvalidInput(
            f"{where} contains an invalid hash; the file is damaged, export the session again"
        ) from error
    return StoredEvent(
        row.session_id,
        row.seq,
        row.kind,
        row.v,
        row.at,
        row.actor,
        row.turn,
        row.key,
        row.epoch,
        row.enc,
        body,
        hashed,
        row.redacted,
    )


class _ExportLine(msgspec.Struct, kw_only=True):
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
    hash: str
    redacted: bool = False
    body: msgspec.Raw = msgspec.Raw(b"")
    body_base64: str = ""
