"""The inbox: inputs that were admitted and not answered yet.

No admitted input is dropped, however many are pending. The oldest `DETAILED` inputs are kept with the details a driver
needs; of later ones only the seqs are kept, as runs, so that ten thousand unanswered messages stay small.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from outlast.core.events import Delivery

DETAILED = 64


class PendingInput(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A pending input. `promoted`: the running turn has read it."""

    seq: int
    excerpt: str = ""
    delivery: Delivery = Delivery.QUEUE
    promoted: bool = False


class Inbox(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`inputs` are the oldest; `backlog` holds the others as runs of (first, last) seq, to be read from the log."""

    inputs: list[PendingInput] = []
    backlog: list[tuple[int, int]] = []

    def seqs(self) -> list[int]:
        """Return the seqs of all pending inputs, oldest first."""
        later = (seq for first, last in self.backlog for seq in range(first, last + 1))
        return [*(item.seq for item in self.inputs), *later]

    def oldest(self) -> int:
        """Return the seq of the oldest pending input, 0 if there is none."""
        if self.inputs:
            return min(item.seq for item in self.inputs)
        return self.backlog[0][0] if self.backlog else 0

    def admit(self, item: PendingInput) -> None:
        if not self.backlog and len(self.inputs) < DETAILED:
            self.inputs.append(item)
        elif self.backlog and self.backlog[-1][1] == item.seq - 1:
            self.backlog[-1] = (self.backlog[-1][0], item.seq)
        else:
            self.backlog.append((item.seq, item.seq))

    def promote(self, seqs: Iterable[int]) -> None:
        promoted = set(seqs)
        for item in self.inputs:
            item.promoted = item.promoted or item.seq in promoted

    def demote_all(self) -> None:
        """Mark all inputs as unread: their turn ended without answering them."""
        for item in self.inputs:
            item.promoted = False

    def answer(self, seqs: Iterable[int]) -> None:
        answered = set(seqs)
        self.inputs = [item for item in self.inputs if item.seq not in answered]
        if self.backlog:
            self.backlog = [run for old in self.backlog for run in _split(old, answered)]

    def keep(self, seqs: Iterable[int]) -> None:
        """Keep only these inputs pending. Adds seqs it does not know: a fork may carry them from further back."""
        known = {item.seq: item for item in self.inputs}
        self.inputs, self.backlog = [], []
        for seq in sorted(set(seqs)):
            self.admit(known.get(seq) or PendingInput(seq=seq))
        self.demote_all()


def _split(run: tuple[int, int], without: set[int]) -> list[tuple[int, int]]:
    """Remove seqs from a run; return the runs that remain."""
    first, last = run
    left: list[tuple[int, int]] = []
    for seq in sorted(seq for seq in without if first <= seq <= last):
        if first < seq:
            left.append((first, seq - 1))
        first = seq + 1
    return [*left, (first, last)] if first <= last else left
