"""The turns that this process drives now: a death of the process hits all of them.

A turn's log says whether its driver had other turns beside it (`SHARED`), so that a successor can tell a reply that
kills its reader from a death that has nothing to do with the turn. The value is written in commits that are made
anyway, and only when it changes.
"""

from __future__ import annotations

from types import TracebackType

from outlast.core.events import Event, RuntimeStateChanged
from outlast.core.state import SessionState
from outlast.store.process_identity import holder

SHARED = "process_drives_others"
"""Runtime key: whether the process that drives the turn drives another one, too."""

_driven: set[DrivenTurn] = set()


class DrivenTurn:
    """One session that this process drives, as a context manager. `parent` is the turn whose sub-agent it is: the two
    are one piece of work."""

    def __init__(self, parent: DrivenTurn | None = None) -> None:
        self.parent = parent
        self._process = holder()

    def __enter__(self) -> DrivenTurn:
        _driven.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _driven.discard(self)

    @property
    def has_others(self) -> bool:
        """Whether the process drives a turn that is neither an ancestor nor a sub-agent of this one."""
        return any(self._is_other(turn) for turn in _driven)

    def _is_other(self, turn: DrivenTurn) -> bool:
        return turn._process == self._process and not turn._belongs_to(self) and not self._belongs_to(turn)

    def _belongs_to(self, turn: DrivenTurn) -> bool:
        above: DrivenTurn | None = self
        while above is not None:
            if above is turn:
                return True
            above = above.parent
        return False

    def news(self, state: SessionState) -> tuple[Event, ...]:
        """Return the event that records whether the process drives other turns; nothing if the log says so already."""
        if bool(state.runtime.get(SHARED)) == self.has_others:
            return ()
        return (RuntimeStateChanged(changes={SHARED: self.has_others}),)
