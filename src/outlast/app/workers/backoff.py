"""Back-off: sessions whose turns could not run, why, and when a worker tries them again."""

from __future__ import annotations

import time

import msgspec

from outlast.core.errors import OutcomeUnknown, OutlastError, StoreUnavailable

WAITS = (1.0, 5.0, 30.0, 60.0)
"""Seconds until the next try, by number of tries. Errors that are not transient use the longest wait."""


class SessionTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why a session's input is not answered, and when a worker tries it again."""

    text: str
    seq: int
    tries: int = 1
    until: float = 0.0


class Backoff:
    """The sessions of one pool whose turns failed. A new event in a session outdates the recorded seq, so the session
    is tried again at once."""

    def __init__(self) -> None:
        self._troubles: dict[str, SessionTrouble] = {}

    def note(self, session_id: str, error: Exception, seq: int) -> SessionTrouble:
        """Record that a turn of this session failed with `error` while the session was at `seq`."""
        passes = isinstance(error, StoreUnavailable | OutcomeUnknown)
        last = self._troubles.get(session_id)
        tries = last.tries + 1 if last is not None else 1
        wait = WAITS[min(tries, len(WAITS)) - 1] if passes else WAITS[-1]
        known = isinstance(error, OutlastError)
        text = str(error) if known else "a turn failed with an unexpected error; the server's log has the details"
        trouble = SessionTrouble(text=text, seq=seq, tries=tries, until=time.monotonic() + wait)
        self._troubles[session_id] = trouble
        return trouble

    def forget(self, session_id: str) -> None:
        """Clear the record: a turn of this session ran, or a door asked for a retry now."""
        self._troubles.pop(session_id, None)

    def reason(self, session_id: str) -> str | None:
        """Why the session is not answered, as a sentence; None if no failure is recorded."""
        found = self._troubles.get(session_id)
        return found.text if found is not None else None

    def resting(self) -> dict[str, int]:
        """The sessions whose wait is not over, each with the seq at which it failed."""
        now = time.monotonic()
        return {name: one.seq for name, one in self._troubles.items() if now < one.until}
