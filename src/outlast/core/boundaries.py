"""Boundaries: where the window starts, and which events are cleared or rewound.

Compacting, clearing and rewinding never remove an event; they change a view of the log, and undoing them restores it.
A rewind also reverts the boundaries after its target: a rewind to before a compaction restores what the model saw then.
The state therefore keeps a short journal of boundaries and computes the view from it. The journal is bounded: its
oldest entries are merged into the start view, and only then can no longer be undone.
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
    """One boundary event. `target` is the first kept seq, the seq rewound to, or the seq of the boundary it undoes.

    `needs` is the oldest earlier input that the window still needs (0: none), `carried` the inputs of the turn that was
    running. Both lie before the boundary and still appear after it. The last three are those of `Compacted`.
    """

    seq: int
    what: BoundaryKind
    target: int = 0
    needs: int = 0
    carried: tuple[int, ...] = ()
    pruned_upto: int = 0
    pruned_over: int = 0
    summarised: bool = True


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Events from `first` to `last`, both inclusive."""

    first: int
    last: int

    def holds(self, seq: int) -> bool:
        return self.first <= seq <= self.last


class BoundaryView(msgspec.Struct, frozen=True, omit_defaults=True):
    """The combined effect of all boundaries of a log. `compacted_at` is the newest compaction in force. `summary_at` is
    the one whose summary the window shows: a compaction that only prunes outputs leaves an earlier summary in place."""

    cleared_at: int = 0
    compacted_at: int = 0
    summary_at: int = 0
    first_kept: int = 0
    needs: int = 0
    carried: tuple[int, ...] = ()
    pruned_upto: int = 0
    pruned_over: int = 0
    hidden: tuple[Span, ...] = ()

    @property
    def window_from(self) -> int:
        """The first event that the model sees in its original form."""
        return max(self.cleared_at + 1, self.first_kept)

    @property
    def read_from(self) -> int:
        """The first event needed to build the window: a pending input may be older than its turn."""
        return min(self.window_from, self.needs or self.window_from, *self.carried)

    def archives(self, seq: int) -> bool:
        """Whether this event is hidden by a clear or a rewind."""
        return seq < self.cleared_at or self.hides(seq)

    def hides(self, seq: int) -> bool:
        return any(span.holds(seq) for span in self.hidden)


class _InForce(NamedTuple):
    """A boundary in force; for a rewind, `before` holds the boundaries that were in force when it was made."""

    boundary: Boundary
    before: tuple[_InForce, ...] = ()


def journal_with(
    start: BoundaryView, journal: list[Boundary], boundary: Boundary
) -> tuple[BoundaryView, list[Boundary]]:
    """Append a boundary; return the start view and the journal, with the oldest entries merged into the start view."""
    grown = [*journal, boundary]
    while len(grown) > JOURNAL_LENGTH:
        start, grown = view_of(start, grown[:1]), grown[1:]
    return start, grown


def view_of(start: BoundaryView, journal: Sequence[Boundary]) -> BoundaryView:
    """Apply these boundaries, in order, to the start view."""
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
        case BoundaryKind.UNCOMPACTED | BoundaryKind.UNREWOUND:  # pragma: no branch
            return _without(in_force, boundary)


def _without(in_force: tuple[_InForce, ...], undoing: Boundary) -> tuple[_InForce, ...]:
    undone = BoundaryKind.COMPACTED if undoing.what is BoundaryKind.UNCOMPACTED else BoundaryKind.REWOUND
    for n, (boundary, before) in enumerate(in_force):
        if boundary.seq == undoing.target and boundary.what is undone:
            kept = before if undone is BoundaryKind.REWOUND else in_force[:n]
            return (*kept, *in_force[n + 1 :])
    return (*in_force, _InForce(undoing))  # its target may be merged into the start view already


def _drawn(view: BoundaryView, entry: _InForce) -> BoundaryView:
    it = entry.boundary
    match it.what:
        case BoundaryKind.CLEARED:
            return BoundaryView(cleared_at=it.seq, needs=it.needs, carried=it.carried)
        case BoundaryKind.COMPACTED:
            pruned = msgspec.structs.replace(
                view, compacted_at=it.seq, pruned_upto=it.pruned_upto, pruned_over=it.pruned_over
            )
            if not it.summarised:
                return pruned
            return msgspec.structs.replace(
                pruned, summary_at=it.seq, first_kept=min(it.target, it.seq), needs=it.needs, carried=it.carried
            )
        case BoundaryKind.REWOUND:
            return msgspec.structs.replace(_seen_at(view, it.target), hidden=_hidden_with(view.hidden, it))
        case BoundaryKind.UNCOMPACTED:
            return _not_compacted(view) if view.compacted_at == it.target else view
        case BoundaryKind.UNREWOUND:  # pragma: no branch
            return msgspec.structs.replace(view, hidden=tuple(s for s in view.hidden if s.last != it.target))


def _seen_at(view: BoundaryView, seq: int) -> BoundaryView:
    """Remove boundaries after `seq` from the view; only those no longer in the journal can still be in it."""
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
