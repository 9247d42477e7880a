"""What a log adds up to: the header, line by line, exactly as the commits left it.

Damage does not stop the sum: a line that cannot be read leaves a hole, which is remembered, and the next line that can
be read tells its own seq. The end of a file needs judgement, because a process may have died while it wrote: `Tail`.
"""

from __future__ import annotations

from typing import NamedTuple

from outlast.core import codec
from outlast.core.events import Opaque
from outlast.core.header import NOTHING, REDACTED, Delta, apply, completed, delta_of, imported
from outlast.store.engine.encode import PLAIN, ZSTD, plain_body
from outlast.store.engine.transaction import HeaderRow
from outlast.store.files.keys import key_id
from outlast.store.files.line import BEGINS, EventLine, decode
from outlast.store.files.segment import SegmentPart, pieces

CLOSING = frozenset({"AssistantReplied", "ReplyInterrupted"})
NEVER_WRITTEN = b"\0\0"  # of a block that did not reach the disk before the power went; no line holds a NUL


class UnfoldedTail(NamedTuple):
    """Bytes behind the last commit that is whole. `torn`: what a dying writer leaves; else they are damage."""

    start: int
    torn: bool


class HeaderFold:
    """Mutable: `segment` goes on adding. `keys` are those met on the way, `lines` how many were added."""

    def __init__(self, row: HeaderRow, blob: codec.BlobReader, *, closed: int = 0, lease_n: int = 0) -> None:
        self.row = row
        self.closed = closed
        self.lease_n = lease_n
        self.hole: int | None = None
        self.keys: list[tuple[bytes, int]] = []
        self.lines = 0
        self.line_start = 0
        self.last = row.last_seq
        """The last event that was seen, where `row` may count some that are lost."""
        self.unended = False
        """The last line is whole, but for its newline."""
        self._blob = blob

    def segment(self, fd: int, at: int, end: int) -> tuple[int, UnfoldedTail | None]:
        """Add a file's lines from `at`; where the last whole commit ends, and what stands behind it."""
        waiting: list[tuple[SegmentPart, EventLine]] = []
        bad: list[SegmentPart] = []
        self.unended = False
        for piece in pieces(fd, at, end):
            line = decode(piece.text)
            before = waiting[-1][1] if waiting else None
            if line is None or line.session != self.row.session_id or line.seq <= (before.seq if before else self.last):
                # The last line once more, whole, takes nothing away; anything else does not belong here.
                if line is None or bad or not self._repeats(line, before):
                    bad.append(piece)
                    continue
            else:
                if bad:
                    # Something intact follows, so this was no dying writer: what was waiting did get written.
                    self._add(waiting)
                    bad.clear()
                waiting.append((piece, line))
            self.unended = not piece.complete
            if not line.more:
                self._add(waiting)
                at = piece.stop
        if not bad and not waiting:
            return at, None
        torn = all(map(_is_torn, bad))
        if not torn:
            self._add(waiting)
            self._miss(sum(len(BEGINS.findall(piece.text)) for piece in bad) or 1)
        return at, UnfoldedTail(at, torn)

    def _repeats(self, line: EventLine, before: EventLine | None) -> bool:
        hashed = before.hash if before else self.row.head_hash.hex()
        return line.session == self.row.session_id and line.hash == hashed

    def _miss(self, count: int) -> None:
        """Remember a hole at the end of a log: so many lines that were there belong to it."""
        self.hole = self.hole or self.row.last_seq + 1
        self.row.last_seq += count
        self.row.head_hash = b""

    def _add(self, waiting: list[tuple[SegmentPart, EventLine]]) -> None:
        for piece, line in waiting:
            if line.seq != self.last + 1:
                self.hole = self.hole or self.last + 1
            self.add(line)
            self.last = line.seq
            self.line_start = piece.start
        waiting.clear()

    def add(self, line: EventLine) -> None:
        row = self.row
        delta = self._delta(line)
        apply(row, imported(delta) if line.imported is True else delta, seq=line.seq, at=line.at, now=0, touch=False)
        row.updated_at = line.u
        row.head_hash = bytes.fromhex(line.hash)
        if line.masked:
            row.title = REDACTED if "title" in line.masked else row.title
            row.pending_text = REDACTED if "pending_text" in line.masked else row.pending_text
        if line.lease and line.lease.n > self.lease_n:
            self.lease_n = line.lease.n
            line.lease.give(row)
        if line.imported is True:
            row.imported_seq = line.seq
        if line.kind in CLOSING:
            self.closed = line.seq
        if line.digest and line.key is not None:
            self.keys.append((key_id(line.key, line.scope or None), line.seq))
        self.lines += 1

    def _delta(self, line: EventLine) -> Delta:
        if line.redacted is True:
            return completed(line.kind, line.delta) if line.delta else NOTHING
        if line.enc not in (PLAIN, ZSTD):
            return NOTHING
        body = bytes(line.body) if line.enc == PLAIN else plain_body(line.event())
        event = codec.decode(line.kind, line.v, body, self._blob)
        return NOTHING if isinstance(event, Opaque) else delta_of(event, line.turn)


def _is_torn(piece: SegmentPart) -> bool:
    """Whether a writer that died may have left this: it breaks off, or blocks of it never reached the disk.

    A whole line in which something changed is damage, and so is one whose newline was changed.
    """
    if not piece.text or piece.text.startswith(b"\0") or NEVER_WRITTEN in piece.text:
        return True
    return not piece.complete and decode(piece.text[:-1]) is None
