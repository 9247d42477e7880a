"""What the running turn has recorded so far, counted from its own events: nothing of it is lost with a process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from outlast.core.events import AssistantReplied, CompletionDecided, ToolCallFinished, ToolCallStarted, TurnStarted
from outlast.core.fold import Row
from outlast.core.messages import ToolCall, text_of
from outlast.runtime.permissions.decide import call_digest

RAN = frozenset({"executed", "failed", "recovered"})


class TurnRecord:
    """`answers` are the texts of its replies without calls, oldest first; `repeated_calls` how often the very same call
    was made in a row, whatever it was told."""

    def __init__(self, rows: Iterable[Row], turn_seq: int) -> None:
        self.answers: tuple[str, ...] = ()
        self.performed = 0
        self.declined = False
        self.repeated_calls = 0
        self._codes: Counter[str] = Counter()
        last = ""
        for stored, event in rows:
            if stored.seq < turn_seq:
                continue
            match event:
                case TurnStarted():
                    self.answers, self.performed = (), 0
                case AssistantReplied(parts=parts):
                    calls = [part for part in parts if isinstance(part, ToolCall)]
                    if not calls:
                        self.answers = (*self.answers, text_of(parts))
                    for call in calls:
                        digest = call_digest(call.name, call.arguments)
                        self.repeated_calls = self.repeated_calls + 1 if digest == last else 1
                        last = digest
                case ToolCallFinished(status=status):
                    self.performed += status in RAN
                    self.declined = self.declined or status == "declined"
                case CompletionDecided(code=code):
                    self._codes[code] += 1
                case ToolCallStarted() | _:
                    pass

    @property
    def last_answer(self) -> str:
        return self.answers[-1] if self.answers else ""

    def count(self, *codes: str) -> int:
        return sum(self._codes[code] for code in codes)
