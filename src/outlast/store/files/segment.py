"""A session's log: its files, sealed ones and the live one, and a line found by its seq without reading the rest.

Lines stand in the order of their seq, so a line is found by guessing where it should be and looking: a few looks, even
in a file of many gigabytes. Looks believe only lines whose checksum is right.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from outlast.core.errors import DamagedSession, OutlastError, SessionDeleted
from outlast.core.event_row import StoredEvent
from outlast.store.files import disk
from outlast.store.files.line import EventLine, SegmentHead, decode, decode_head, event_in
from outlast.store.files.paths import SessionPaths

BLOCK = 256 * 1024
PROBE = 8 * 1024
NEAR = 16
MAX_OPEN = 4


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


def count_sealed(place: SessionPaths) -> int:
    """How many sealed segments there are: they are numbered without gaps, so a few looks tell."""
    if not os.path.lexists(place.sealed(1)):
        return 0
    low, high = 1, 2
    while os.path.lexists(place.sealed(high)):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if os.path.lexists(place.sealed(middle)):
            low = middle
        else:
            high = middle
    return low


class SegmentSet:
    """Opened as they are needed, a few at a time, closed together. The live one is given, as far as it counts."""

    def __init__(self, place: SessionPaths, sealed: int, live: Segment | None) -> None:
        self._place = place
        self._sealed = sealed
        self._live = live
        self._open: OrderedDict[int, Segment] = OrderedDict()
        self._bases: dict[int, int] = {}

    def close(self) -> None:
        for segment in self._open.values():
            segment.close()
        self._open.clear()
        if self._live is not None:
            self._live.close()
            self._live = None

    def sync(self) -> None:
        """Make the live one durable as it is; sealed ones are."""
        if self._live is not None:
            disk.sync(self._live.fd)

    def __len__(self) -> int:
        return self._sealed + (self._live is not None)

    def get(self, number: int) -> Segment:
        """Segment `number`, counted from 1."""
        if number > self._sealed and self._live is not None:
            return self._live
        segment = self._open.get(number)
        if segment is None:
            segment = Segment.open(self._place.sealed(number))
            if segment is None:
                raise self._missing(number)
            self._open[number] = segment
            if len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(number)
        return segment

    def _missing(self, number: int) -> OutlastError:
        """It may have been deleted while it was read."""
        if os.path.lexists(self._place.gone):
            return SessionDeleted(f"session {self._place.session_id} was deleted")
        return DamagedSession(self._place.session_id, None, f"{self._place.sealed(number).name} is missing")

    def holding(self, seq: int) -> int:
        """The number of the segment in which event `seq` must stand, if anywhere."""
        low, high = 1, len(self) + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._base(middle) < seq:
                low = middle
            else:
                high = middle
        return low

    def rows(self, after: int, upto: int) -> list[StoredEvent]:
        """Rows with `after < seq <= upto`, ascending. `DamagedSession` where a line cannot be read."""
        return [line.event() for line in self.lines(after, upto)]

    def lines(self, after: int, upto: int) -> list[EventLine]:
        found: list[EventLine] = []
        if not len(self) or after >= upto:
            return found
        for number in range(self.holding(after + 1), len(self) + 1):
            if self._base(number) >= upto:
                break
            segment = self.get(number)
            if segment.last_seq is None and number < len(self):
                segment.last_seq = self._base(number + 1)
            found += segment.lines(self._place.session_id, after, upto)
        return found

    def hash_at(self, seq: int) -> bytes | None:
        found = self.rows(seq - 1, seq)
        return found[0].hash if found else None

    def backwards(self) -> Iterator[StoredEvent]:
        """Newest first, as far as lines can be read."""
        for number in range(len(self), 0, -1):
            yield from self.get(number).backwards()

    def _base(self, number: int) -> int:
        base = self._bases.get(number)
        if base is None:
            segment = self.get(number)
            base = segment.begins_after()
            if base is None:
                raise DamagedSession(self._place.session_id, None, f"nothing in {segment.path.name} can be read")
            self._bases[number] = base
        return base
