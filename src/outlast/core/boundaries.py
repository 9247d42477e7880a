"""Boundaries: where the window begins, what is archived, what is set aside.

Compacting, clearing and rewinding never remove an event; they move a view of the log, and their undoing moves it back.
A rewind also takes back the boundaries it goes behind: rewinding to before a compaction is rewinding to what the model
saw then. So a state keeps a short journal of boundaries, and the view is what that journal comes to. The journal is
bounded: the oldest entries become the view they lead to, and only then can they no longer be undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import reduce
from typing import NamedTuple

import msgspec

JOURNAL_LENGTH = 128
HIDDEN_LENGTH = 512


class BoundaryKind(StrEnum):
    COMPACTED = "compacted"
    UNCOMPACTED = "uncompacted"
    CLEARED = "cleared"
    REWOUND = "rewound"
    UNREWOUND = "unrewound"


class Boundary(msgspec.Struct, frozen=True, array_like=True):
    """One boundary event. `target` is the first kept seq, the seq rewound to, or the boundary that is undone.

    `needs` is the oldest input that still waited when the boundary was drawn (0: none), `carried` the inputs of a turn
    that was running: both lie before the boundary and are still said after it.
    """

    seq: int
    what: BoundaryKind
    target: int = 0
    needs: int = 0
    carried: tuple[int, ...] = ()


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Events from `first` to `last`, both included."""

    first: int
    last: int

    def holds(self, seq: int) -> bool:
        return self.first <= seq <= self.last


class BoundaryView(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the boundaries of a log come to."""

    cleared_at: int = 0
    compacted_at: int = 0
    first_kept: int = 0
    needs: int = 0
    carried: tuple[int, ...] = ()
    hidden: tuple[Span, ...] = ()

    @property
    def window_from(self) -> int:
        """The first event that the model sees as it was said."""
        return max(self.cleared_at + 1, self.first_kept)

    @property
    def read_from(self) -> int:
        """The first event that has to be read to build the window: a waiting input may be older than its turn."""
        return min(self.window_from, self.needs or self.window_from, *self.carried)

    def archives(self, seq: int) -> bool:
        """Whether this event is out of sight: cleared away or set aside by a rewind."""
        return seq < self.cleared_at or self.hides(seq)

    def hides(self, seq: int) -> bool:
        return any(span.holds(seq) for span in self.hidden)


class _InForce(NamedTuple):
    """A boundary that counts; `before` is what was in force when a rewind was made."""

    boundary: Boundary
    before: tuple[_InForce, ...] = ()


def journal_with(
    start: BoundaryView, journal: list[Boundary], boundary: Boundary
) -> tuple[BoundaryView, list[Boundary]]:
    """The journal after one more boundary, and the view it starts from."""
    grown = [*journal, boundary]
    while len(grown) > JOURNAL_LENGTH:
        start, grown = view_of(start, grown[:1]), grown[1:]
    return start, grown


def view_of(start: BoundaryView, journal: Sequence[Boundary]) -> BoundaryView:
    """What these boundaries, in their order, come to."""
    in_force: tuple[_InForce, ...] = ()
    history: list[tuple[int, tuple[_InForce, ...]]] = []
    for boundary in journal:
        in_force = _after(in_force, boundary, history)
        history.append((boundary.seq, in_force))
    return reduce(_drawn, in_force, start)


def _after(
    in_force: tuple[_InForce, ...], boundary: Boundary, history: list[tuple[int, tuple[_InForce, ...]]]
) -> tuple[_InForce, ...]:
    match boundary.what:
        case BoundaryKind.COMPACTED | BoundaryKind.CLEARED:
            return (*in_force, _InForce(boundary))
        case BoundaryKind.REWOUND:
            then = next((old for seq, old in reversed(history) if seq <= boundary.target), ())
            return (*then, _InForce(boundary, in_force))
        case BoundaryKind.UNCOMPACTED | BoundaryKind.UNREWOUND:
            return _without(in_force, boundary)


def _without(in_force: tuple[_InForce, ...], undoing: Boundary) -> tuple[_InForce, ...]:
    undone = BoundaryKind.COMPACTED if undoing.what is BoundaryKind.UNCOMPACTED else BoundaryKind.REWOUND
    for n, (boundary, before) in enumerate(in_force):
        if boundary.seq == undoing.target and boundary.what is undone:
            kept = before if undone is BoundaryKind.REWOUND else in_force[:n]
            return (*kept, *in_force[n + 1 :])
    return (*in_force, _InForce(undoing))  # what it undoes may be part of the view we start from


def _drawn(view: BoundaryView, entry: _InForce) -> BoundaryView:
    it = entry.boundary
    match it.what:
        case BoundaryKind.CLEARED:
            return BoundaryView(cleared_at=it.seq, needs=it.needs, carried=it.carried)
        case BoundaryKind.COMPACTED:
            return msgspec.structs.replace(
                view, compacted_at=it.seq, first_kept=min(it.target, it.seq), needs=it.needs, carried=it.carried
            )
        case BoundaryKind.REWOUND:
            return msgspec.structs.replace(_seen_at(view, it.target), hidden=_hidden_with(view.hidden, it))
        case BoundaryKind.UNCOMPACTED:
            return _not_compacted(view) if view.compacted_at == it.target else view
        case BoundaryKind.UNREWOUND:
            return msgspec.structs.replace(view, hidden=tuple(s for s in view.hidden if s.last != it.target))


def _seen_at(view: BoundaryView, seq: int) -> BoundaryView:
    """The view without boundaries after `seq`: only one that has left the journal can still be in it."""
    if view.cleared_at > seq:
        return BoundaryView(hidden=view.hidden)
    return _not_compacted(view) if view.compacted_at > seq else view


def _not_compacted(view: BoundaryView) -> BoundaryView:
    return BoundaryView(cleared_at=view.cleared_at, hidden=view.hidden)


def _hidden_with(hidden: tuple[Span, ...], rewound: Boundary) -> tuple[Span, ...]:
    first = max(1, rewound.target + 1)
    if first > rewound.seq:
        return hidden
    apart = [span for span in hidden if span.last < first]
    touched = [span.first for span in hidden if span.last >= first]
    return (*apart, Span(min([first, *touched]), rewound.seq))[-HIDDEN_LENGTH:]
