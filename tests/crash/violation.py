"""What the checker finds: a promise that was broken, where, and between which events."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """`kind` is one of a few words (lost, answered twice, run twice, damaged ...), `first` and `last` are the events
    of the session that concern it, `job` is the message."""

    kind: str
    session_id: str
    text: str
    first: int = 0
    last: int = 0
    job: str = ""

    def __str__(self) -> str:
        place = f" in session {self.session_id}" if self.session_id else ""
        return f"{self.kind.upper()}{place}: {self.text}"
