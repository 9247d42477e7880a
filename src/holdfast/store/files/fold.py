"""What a log adds up to: the header, line by line, exactly as the commits left it.

Damage does not stop the sum: a line that cannot be read leaves a hole, which is remembered, and the next line that can
be read tells its own seq. The end of a file needs judgement, because a process may have died while it wrote: `Tail`.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core import codec
from holdfast.core.events import Opaque
from holdfast.core.header import NOTHING, REDACTED, Delta, apply, delta_of
from holdfast.store.files.keys import key_id
from holdfast.store.files.line import Line, decode
from holdfast.store.files.segment import Piece, pieces
from holdfast.store.sealing import PLAIN, ZSTD, plain_body
from holdfast.store.tx import Row

CLOSING = frozenset({"AssistantReplied", "ReplyInterrupted"})
NEVER_WRITTEN = b"\0" * 16  # a block that did not reach the disk before the power went
SECTOR = 512


class Tail(NamedTuple):
    """Bytes behind the last commit that is whole. `torn`: what a dying writer leaves; else they are damage."""

    start: int
    torn: bool


class Fold:
    """Mutable: `segment` goes on adding. `keys` are those met on the way, `lines` how many were added."""

    def __init__(self, row: Row, blob: codec.BlobReader, *, closed: int = 0, lease_n: int = 0) -> None:
        self.row = row
        self.closed = closed
        self.lease_n = lease_n
        self.hole: int | None = None
        self.keys: list[tuple[bytes, int]] = []
        self.lines = 0
        self.line_start = 0
        self._blob = blob

    def segment(self, fd: int, at: int, end: int, *, padded: bool = False) -> tuple[int, Tail | None]:
        """Add a file's lines from `at`; where the last whole commit ends, and what stands behind it. `padded`: newlines
        follow the end."""
        waiting: list[tuple[Piece, Line]] = []
        bad: list[Piece] = []
        for piece in pieces(fd, at, end):
            line = decode(piece.text) if piece.complete else None
            if line is None or line.session != self.row.session_id:
                bad.append(piece)
                continue
            if bad:
                # Something intact follows, so this was no dying writer: what was waiting did get written.
                self._add(waiting)
                self._miss()
                bad.clear()
            waiting.append((piece, line))
            if not line.more:
                self._add(waiting)
                at = piece.stop
        if not bad and not waiting:
            return at, None
        torn = _are_torn(bad, padded)
        if not torn:
            self._add(waiting)
            self._miss(len(bad))
        return at, Tail(at, torn)

    def _miss(self, count: int = 0) -> None:
        """Remember a hole; at the end of a log, `count` lines that were there belong to it."""
        self.hole = self.hole or self.row.last_seq + 1
        if count:
            self.row.last_seq += count
            self.row.head_hash = b""

    def _add(self, waiting: list[tuple[Piece, Line]]) -> None:
        for piece, line in waiting:
            if line.seq != self.row.last_seq + 1:
                self.hole = self.hole or self.row.last_seq + 1
            self.add(line)
            self.line_start = piece.start
        waiting.clear()

    def add(self, line: Line) -> None:
        row = self.row
        apply(row, self._delta(line), seq=line.seq, at=line.at, now=0, touch=False)
        row.updated_at = line.u
        row.head_hash = bytes.fromhex(line.hash)
        if line.masked:
            row.title = REDACTED if "title" in line.masked else row.title
            row.pending_text = REDACTED if "pending_text" in line.masked else row.pending_text
        if line.lease and line.lease.n > self.lease_n:
            self.lease_n = line.lease.n
            line.lease.give(row)
        if line.kind in CLOSING:
            self.closed = line.seq
        if line.digest and line.key is not None:
            self.keys.append((key_id(line.key, line.scope or None), line.seq))
        self.lines += 1

    def _delta(self, line: Line) -> Delta:
        if line.redacted is True:
            return line.delta or NOTHING
        if line.enc not in (PLAIN, ZSTD):
            return NOTHING
        body = bytes(line.body) if line.enc == PLAIN else plain_body(line.event())
        event = codec.decode(line.kind, line.v, body, self._blob)
        return NOTHING if isinstance(event, Opaque) else delta_of(event, line.turn)


def _are_torn(bad: list[Piece], padded: bool) -> bool:
    """Whether a writer that died may have left these: they break off, or blocks of them never reached the disk.

    Such a block still holds what was there before, newlines where the file was filled up; so text ends or begins where
    a sector does. A whole line in which something changed is damage, and so is one whose newline was changed.
    """
    for before, piece, after in zip([None, *bad], bad, [*bad[1:], None], strict=False):
        if not piece.text or NEVER_WRITTEN in piece.text:
            continue
        if not piece.complete:
            if decode(piece.text[:-1]) is not None:
                return False
            continue
        ends = (padded if after is None else not after.text) and (piece.stop - 1) % SECTOR == 0
        begins = before is not None and not before.text and piece.start % SECTOR == 0
        if not ends and not begins:
            return False
    return True
