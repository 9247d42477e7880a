"""One file of a session's log, opened: lines read in order, and a line found by its seq without reading the rest.

Lines stand in the order of their seq, so a line is found by guessing where it should be and looking: a few looks, even
in a file of many gigabytes. Looks believe only lines whose checksum is right.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from outlast.core.errors import DamagedSession
from outlast.core.event_row import StoredEvent
from outlast.store.files import disk
from outlast.store.files.line import EventLine, SegmentHead, decode, decode_head, event_in

BLOCK = 256 * 1024
PROBE = 8 * 1024
NEAR = 16


class SegmentPart(NamedTuple):
    """What stands between two newlines; `complete` unless the file ends before the second one."""

    start: int
    stop: int
    text: bytes
    complete: bool


class Anchor(NamedTuple):
    """The line of event `seq` begins at `offset`."""

    seq: int
    offset: int


def pieces(fd: int, at: int, end: int) -> Iterator[SegmentPart]:
    rest, start, size = b"", at, PROBE
    while at < end:
        block = os.pread(fd, min(size, end - at), at)
        if not block:
            break
        at += len(block)
        size = min(size * 4, BLOCK)
        texts = (rest + block).split(b"\n")
        rest = texts.pop()
        for text in texts:
            stop = start + len(text) + 1
            yield SegmentPart(start, stop, text, True)
            start = stop
    if rest:
        yield SegmentPart(start, start + len(rest), rest, False)


def first_line(fd: int, size: int) -> SegmentPart | None:
    piece = next(pieces(fd, 0, size), None)
    return piece if piece is not None and piece.complete else None


class Segment:
    """An open file. `last_seq` is the last event it holds, `size` how many of its bytes count."""

    def __init__(self, path: Path, fd: int, size: int, last_seq: int | None = None) -> None:
        self.path = path
        self.fd = fd
        self.size = size
        self.last_seq = last_seq
        self._first: SegmentPart | bool | None = False

    @property
    def first(self) -> SegmentPart | None:
        if isinstance(self._first, bool):
            self._first = first_line(self.fd, self.size)
        return self._first

    @property
    def body_at(self) -> int:
        """Where its events begin."""
        return self.first.stop if self.first else 0

    @property
    def head(self) -> SegmentHead | None:
        return decode_head(self.first.text) if self.first else None

    @classmethod
    def open(cls, path: Path) -> Segment | None:
        try:
            fd = os.open(path, disk.READ)
        except FileNotFoundError:
            return None
        try:
            return cls(path, fd, os.fstat(fd).st_size)
        except BaseException:
            os.close(fd)
            raise

    def close(self) -> None:
        os.close(self.fd)

    def begins_after(self) -> int | None:
        """The seq before its first event, from the first line or else from the first event that can be read."""
        head = self.head
        if head is not None:
            return head.base_seq
        for skipped, piece in enumerate(pieces(self.fd, self.body_at, self.size)):
            line = decode(piece.text)
            if line is not None:
                return line.seq - 1 - skipped
        return None

    def lines(self, session_id: str, after: int, upto: int) -> list[EventLine]:
        """Lines with `after < seq <= upto` that stand here; damage between them raises."""
        found: list[EventLine] = []
        base = self.begins_after()
        if base is None:
            raise DamagedSession(session_id, after + 1, f"{self.path.name} cannot be read")
        expected, start = self._near(base, max(after, base) + 1)
        unread = 0
        for piece in pieces(self.fd, start, self.size):
            line = decode(piece.text)
            if line is None or line.session != session_id or line.seq < expected:
                unread += line is None
                continue  # if an event is missing here, the next line tells
            if line.seq > expected:
                self._refuse(session_id, expected, line.seq, after, upto)
            if line.seq > upto:
                return found
            if line.seq > after:
                found.append(line)
            expected, unread = line.seq + 1, 0
            if expected > upto:
                return found
        ends = self.last_seq + 1 if self.last_seq is not None else expected + unread
        if unread and expected < ends:
            self._refuse(session_id, expected, ends, after, upto)
        return found

    def _refuse(self, session_id: str, first: int, end: int, after: int, upto: int) -> None:
        """Events `first <= seq < end` cannot be read here; raise if one of them is asked for."""
        missing = max(first, after + 1)
        if missing < end and missing <= upto:
            raise DamagedSession(session_id, missing, f"its line in {self.path.name} does not match its checksum")

    def _near(self, base: int, seq: int) -> Anchor:
        """A line at or shortly before event `seq`."""
        low, high = Anchor(base + 1, self.body_at), Anchor((self.last_seq or self._last(base)) + 1, self.size)
        for turn in range(48):
            span, count = high.offset - low.offset, high.seq - low.seq
            if seq - low.seq <= NEAR or span <= PROBE or count <= NEAR:
                break
            share = 0.5 if turn % 4 == 3 else (seq - low.seq - NEAR // 2) / count
            guess = min(max(low.offset + int(span * share), low.offset + 1), high.offset - 1)
            found = self._line_behind(guess, high.offset)
            if found is None:
                high = Anchor(high.seq, guess)
            elif low.seq < found.seq <= seq and found.offset > low.offset:
                low = found
            else:
                high = Anchor(max(found.seq, seq + 1), guess)
        return low

    def _line_behind(self, offset: int, end: int) -> Anchor | None:
        """The first intact line that begins after `offset` and before `end`."""
        inside = pieces(self.fd, offset, self.size)
        next(inside, None)
        for piece in inside:
            if piece.start >= end:
                return None
            line = decode(piece.text)
            if line is not None:
                return Anchor(line.seq, piece.start)
        return None

    def _last(self, base: int) -> int:
        """The seq of the last line that can be read."""
        for line in self.backwards():
            return line.seq
        return base

    def backwards(self) -> Iterator[StoredEvent]:
        """Rows from the end of the file, newest first, read in blocks; what cannot be read is left out."""
        end, rest = self.size, b""
        while end > self.body_at:
            start = max(self.body_at, end - PROBE)
            texts = (disk.pread(self.fd, end - start, start) + rest).split(b"\n")
            rest = texts.pop(0)
            end = start
            for text in reversed(texts):
                event = event_in(text) if text else None
                if event is not None:
                    yield event
        event = event_in(rest) if rest else None
        if event is not None:
            yield event
