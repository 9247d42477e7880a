"""The diary of a run: what happened when, as the laboratory saw it. One JSON line each, kept in memory too."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """`at` is seconds since the run began, `wall` microseconds UTC, as the log has it."""

    at: float
    wall: int
    what: str
    who: str
    facts: dict[str, Any]


class Diary:
    def __init__(self, path: Path) -> None:
        self.entries: list[Entry] = []
        self._began = time.monotonic()
        self._file = path.open("w", encoding="utf-8")

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    def note(self, what: str, who: str, **facts: Any) -> None:
        entry = Entry(round(self.now, 3), time.time_ns() // 1000, what, who, facts)
        self.entries.append(entry)
        self._file.write(json.dumps({"at": entry.at, "what": what, "who": who, **facts}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
