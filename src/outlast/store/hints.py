"""What is told about a batch of commits, to followers and workers, here and in other processes. Hints, not facts."""

from __future__ import annotations

from collections.abc import Iterable

from outlast.core.errors import OutcomeUnknown
from outlast.store.group import Entry
from outlast.store.plain import PlainAppend
from outlast.store.port import Append, Create, Delete, Release, Restore
from outlast.store.sealing import Commit


def touched(batch: Iterable[Entry]) -> set[str] | None:
    """The sessions that something was written to; None when that cannot be told."""
    found: set[str] = set()
    for entry in batch:
        if entry.receipts is None:
            if isinstance(entry.error, OutcomeUnknown):
                return None
            continue  # refused: nothing was written
        if not isinstance(entry.commit, PlainAppend) and _spreads(entry.commit):
            return None
        found.update(receipt.session_id for receipt in entry.receipts if receipt.session_id)
    return found


def _spreads(commit: Commit) -> bool:
    """Whether it may have changed sessions that it does not name."""
    return any(isinstance(sealed.write, Delete) for sealed in commit.writes)


def brings_work(commit: Commit) -> bool:
    """Whether there may be something to drive after it: a door wrote, or a driver let go of what it has not ended."""
    if isinstance(commit, PlainAppend):
        return False
    ended = any(event.kind == "TurnEnded" for sealed in commit.writes for event in sealed.events)
    return any(
        isinstance(sealed.write, Create | Restore)
        or (isinstance(sealed.write, Append) and sealed.write.lease is None)
        or (isinstance(sealed.write, Release) and not ended)
        for sealed in commit.writes
    )
