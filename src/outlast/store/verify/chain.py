"""Checks a session's own rows one by one against the hash chain.

The check continues behind damage: a row is genuine if its hash follows from the stored hash of the row before it, so
one changed byte invalidates one row. Two cases are special. If only a row's *hash* was changed, the next row still
follows from the correct hash, and so proves the content. If a row is missing, the next row cannot be checked: it is
returned and reported as not proven.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from struct import error as PackError
from typing import NamedTuple

import msgspec

from outlast.core.errors import OutlastError
from outlast.core.event_row import GENESIS, StoredEvent, hash_of, verifies
from outlast.core.events import SessionForked
from outlast.store.engine.encode import event_of
from outlast.store.engine.transaction import HeaderRow
from outlast.store.read.read_view import ReadView
from outlast.store.verify.report import DamageKind, Finding

PAGE = 512


class ChainVerdict(NamedTuple):
    """A usable row, or None if there is none; and what is wrong with it, if anything."""

    event: StoredEvent | None
    finding: Finding | None = None


def judged(view: ReadView, session_id: str, row: HeaderRow | None, least: int = 0) -> Iterator[ChainVerdict]:
    """Check every event that the session itself should own. `row` is its header, None if unreadable. A deleted session
    must still have the events up to `least`, because forks share them."""
    if row is None:
        yield from _ChainSearch(view, session_id).without_header()
        return
    base = _base(view, row)
    if base != (row.base_id, row.base_seq):
        told = f"it is based on {row.base_id or 'nothing'} at event {row.base_seq}"
        text = f"{told}, its first event says {base[0] or 'nothing'} at event {base[1]}"
        yield ChainVerdict(None, Finding(what=DamageKind.HEADER, session_id=session_id, text=text))
    before = _hash_before(view, *base)
    if not before and row.deleted_at is None:
        yield ChainVerdict(
            None, _damaged(session_id, base[1], f"the event in {base[0]} that it is based on is missing")
        )
    after, last = base[1], _last(view, row, least)
    while after < last:
        upto = min(after + PAGE, last)
        page = _page(view, session_id, after, upto)
        if len(page) != upto - after or not before:
            break
        for event in page:
            if event.seq != after + 1 or not verifies(before[0], event):
                break
            yield ChainVerdict(event)
            before, after = [event.hash], event.seq
        else:
            continue
        break
    if after < last or before != [row.head_hash] or _page(view, session_id, last, last + PAGE):
        yield from _behind(view, row, after, last, before)


def base_of(view: ReadView, session_id: str, row: HeaderRow | None) -> tuple[str, int] | None:
    """The base session and event of a session; taken from its rows if its header cannot be read."""
    if row is None:
        return _ChainSearch(view, session_id).base()
    owner, seq = _base(view, row)
    return None if owner is None else (owner, seq)


def _base(view: ReadView, row: HeaderRow) -> tuple[str | None, int]:
    """The session's base: the one in its header, unless the hash chain proves only the one in its first event."""
    told = (row.base_id, row.base_seq)
    if row.deleted_at is not None or _begins(_page(view, row.session_id, told[1], told[1] + 1), view, told):
        return told
    search = _ChainSearch(view, row.session_id)
    for said in (search.base() or told, (None, 0)):
        if _begins(search.rows.get(said[1] + 1, []), view, said):
            return said
    return told


def _begins(rows: list[StoredEvent], view: ReadView, base: tuple[str | None, int]) -> bool:
    return any(verifies(hashed, event) for event in rows for hashed in _hash_before(view, *base))


def _behind(view: ReadView, row: HeaderRow, after: int, last: int, before: list[bytes]) -> Iterator[ChainVerdict]:
    """Check what follows the last verified row."""
    if row.deleted_at is None and (rest := _up_to_head(view, row, min(after, last), before)) is not None:
        # The chain reaches the head's hash, so no event is missing: the header's last_seq is wrong.
        text = f"last_seq is {row.last_seq}, its log ends at {rest[-1].seq if rest else after}, as the head's hash says"
        yield ChainVerdict(None, Finding(what=DamageKind.HEADER, session_id=row.session_id, text=text))
        yield from map(ChainVerdict, rest)
        return
    if after < last:
        end = None if row.deleted_at is not None else row.head_hash
        yield from _ChainSearch(view, row.session_id).between(after, last, before, end)
    elif before != [row.head_hash] and row.deleted_at is None:
        text = "the last event is not the one that the header names"
        yield ChainVerdict(None, Finding(what=DamageKind.HEADER, session_id=row.session_id, text=text))
    if row.deleted_at is None:
        for event in _page(view, row.session_id, row.last_seq, row.last_seq + PAGE):
            text = "lies after the end that the header names"
            yield ChainVerdict(None, _damaged(row.session_id, event.seq, text))


def _up_to_head(view: ReadView, row: HeaderRow, after: int, before: list[bytes]) -> list[StoredEvent] | None:
    """The events after `after` if they lead to the head's hash but not to its seq; otherwise None."""
    found: list[StoredEvent] = []
    if before == [row.head_hash]:
        return found if after < row.last_seq and not _page(view, row.session_id, after, after + 1) else None
    for event in _page(view, row.session_id, after, after + PAGE) if len(before) == 1 else ():
        if event.seq != after + 1 or not verifies(before[0], event):
            return None
        found.append(event)
        before, after = [event.hash], event.seq
        if event.hash == row.head_hash:
            return found if event.seq != row.last_seq else None
    return None


def _damaged(session_id: str, seq: int, text: str, upto: int | None = None) -> Finding:
    return Finding(what=DamageKind.EVENT, session_id=session_id, seq=seq, upto=upto, text=text)


def _page(view: ReadView, session_id: str, after: int, upto: int) -> list[StoredEvent]:
    """The rows that a reader would find; none if they cannot be read."""
    try:
        return view.rows(session_id, after, upto)
    except OutlastError:
        return []


def _last(view: ReadView, row: HeaderRow, least: int) -> int:
    """The seq of the last row that must exist. A deleted session keeps only the events that forks share."""
    if row.deleted_at is None:
        return row.last_seq
    last = max(row.base_seq, least)
    while (page := _page(view, row.session_id, last, last + PAGE)) and page[-1].seq > last:  # keys may be damaged
        last = page[-1].seq
    return last


def _hash_before(view: ReadView, base_id: str | None, base_seq: int) -> list[bytes]:
    """The hash before the session's first own event; empty if unknown."""
    if base_seq == 0:
        return [GENESIS]
    return hash_of_event(view, base_id, base_seq)


def hash_of_event(view: ReadView, session_id: str | None, seq: int) -> list[bytes]:
    """The stored hashes that an own or inherited event of a session may have; empty if it is missing."""
    try:
        while session_id is not None:
            row = view.header(session_id)
            if row is None:
                break
            if seq > row.base_seq:
                found = view.hash_at(session_id, seq)
                return [] if found is None else [found]
            session_id = row.base_id
    except OutlastError:
        return [event.hash for event in view.scan(session_id or "") if event.seq == seq]
    return []


class _ChainSearch:
    """Checks a damaged session with every row that a full scan finds."""

    def __init__(self, view: ReadView, session_id: str) -> None:
        self.view = view
        self.session_id = session_id
        self.rows: dict[int, list[StoredEvent]] = {}
        for event in view.scan(session_id):
            if event.seq < 1 or not isinstance(event.hash, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
                continue  # a damaged row may hold a value of any type
            same = self.rows.setdefault(event.seq, [])
            if event not in same:
                same.append(event)
        self.seqs = sorted(self.rows)
        self.readable = True

    def without_header(self) -> Iterator[ChainVerdict]:
        """Check a session without a readable header: its rows determine where it begins and ends."""
        if not self.rows:
            return
        self.readable = False
        first = self.seqs[0]
        base = self.base()
        before = [GENESIS] if first == 1 else hash_of_event(self.view, *base) if base else []
        if not before:
            text = "missing, or they belong to a session that can no longer be identified"
            yield ChainVerdict(None, _damaged(self.session_id, 1, text, first - 1))
        yield from self.between(first - 1, self._plausible_end(first, before), before, None)

    def base(self) -> tuple[str, int] | None:
        """The base session and event according to the first row."""
        for event in self.rows[self.seqs[0]] if self.rows else ():
            forked = _fork(event)
            if forked is not None and forked.base_seq == event.seq - 1:
                return forked.base_session_id, forked.base_seq
        return None

    def _plausible_end(self, first: int, before: list[bytes]) -> int:
        """The last row that follows from its predecessor; higher seqs may come from damaged row keys."""
        ends = [
            seq
            for seq, events in self.rows.items()
            for event in events
            if any(verifies(previous.hash, event) for previous in self.rows.get(seq - 1, []))
            or any(verifies(previous, event) for previous in before if seq == first)
        ]
        return max(ends, default=first)

    def between(self, after: int, last: int, before: list[bytes], end: bytes | None) -> Iterator[ChainVerdict]:
        """Check `after < seq <= last`; `before` is the possible hashes of row `after`, `end` the last row's hash."""
        seq = after + 1
        while seq <= last:
            events = self.rows.get(seq, [])
            if not events:
                upto = min([last + 1, *self.seqs[bisect_right(self.seqs, seq) :][:1]]) - 1
                yield ChainVerdict(None, _damaged(self.session_id, seq, "missing or unreadable", upto))
                before, seq = [], upto + 1
                continue
            genuine = next((event for event in events if any(verifies(hashed, event) for hashed in before)), None)
            if genuine is not None:
                yield ChainVerdict(genuine, self._lost(genuine))
                before = [genuine.hash]
            elif not before and (whole := [event for event in events if _is_row(event)]):
                event = next((event for event in whole if self._is_built_on(event.hash, seq, end)), whole[0])
                text = "cannot be proven, because the event before it is missing"
                yield ChainVerdict(event, _damaged(self.session_id, seq, text))
                before = [event.hash]
            else:
                yield self._changed(events, before, end)
                before = [event.hash for event in events] + _computed(events, before)
            seq += 1

    def _changed(self, events: list[StoredEvent], before: list[bytes], end: bytes | None) -> ChainVerdict:
        """Judge a row whose hash does not follow. If the next row follows from the correct hash, only the stored hash
        was changed."""
        seq = events[0].seq
        for event in events:
            for hashed in _computed([event], before):
                if self._is_built_on(hashed, seq, end):
                    text = "its stored hash is damaged; its content is proven by what follows"
                    return ChainVerdict(event._replace(hash=hashed), _damaged(self.session_id, seq, text))
        return ChainVerdict(None, _damaged(self.session_id, seq, "stored bytes do not match their hash"))

    def _is_built_on(self, hashed: bytes, seq: int, end: bytes | None) -> bool:
        following = self.rows.get(seq + 1, [])
        return hashed == end if not following else any(verifies(hashed, event) for event in following)

    def _lost(self, event: StoredEvent) -> Finding | None:
        """A finding if ordinary reads cannot find this row."""
        if not self.readable or event in _page(self.view, self.session_id, event.seq - 1, event.seq):
            return None
        return _damaged(self.session_id, event.seq, "intact, but readers cannot find it: the index over it is damaged")


def _is_row(event: StoredEvent) -> bool:
    """Whether every value has the type of its column."""
    try:
        msgspec.convert(tuple(event), type=_ROW)
    except msgspec.ValidationError:
        return False
    return True


_ROW = tuple[str, int, str, int, int, str, str | None, str | None, int | None, str, bytes, bytes, bool]


def _fork(event: StoredEvent) -> SessionForked | None:
    """The fork event in this row, if it is one; not proven yet."""
    try:
        found = event_of(event)
    except (TypeError, AttributeError):
        return None  # a value of a type that no row has
    return found if isinstance(found, SessionForked) else None


def _computed(events: list[StoredEvent], before: list[bytes]) -> list[bytes]:
    """The hashes that these rows should have."""
    found: list[bytes] = []
    for event in events:
        for hashed in before:
            try:
                found.append(hash_of(hashed, event))
            except (TypeError, AttributeError, PackError):
                continue  # a value of a type that no row has
    return found
