"""All files of one session's log, sealed ones and the live one, read as one."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator

from outlast.core.errors import DamagedSession, OutlastError, SessionDeleted
from outlast.core.event_row import StoredEvent
from outlast.store.files.line import EventLine
from outlast.store.files.paths import SessionPaths
from outlast.store.files.segment import Segment

MAX_OPEN = 4


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
