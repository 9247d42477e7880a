"""Counters of a process in the Prometheus text format, written without a client library.

Turns are counted from the events their drivers wrote, so these numbers match the session logs. No metric names a
session or contains its content.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from outlast._version import __version__
from outlast.core.event_row import StoredEvent
from outlast.core.events import (
    AssistantReplied,
    Event,
    ModelRequested,
    ReplyInterrupted,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
    UsageRecorded,
)
from outlast.core.messages import Usage
from outlast.store.port import WorkQueueStats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

COUNTERS: Mapping[str, str] = {
    "outlast_turns_started_total": "Turns that were started here.",
    "outlast_turns_ended_total": "Turns that ended here, by outcome.",
    "outlast_turns_handed_over_total": "Turns that this process left to another one.",
    "outlast_model_attempts_total": "Requests to a model.",
    "outlast_tool_calls_total": "Tool calls that were started.",
    "outlast_tokens_total": "Tokens that providers reported, by direction.",
    "outlast_claims_total": "Sessions that were claimed.",
    "outlast_lease_takeovers_total": "Leases that were taken over because their holder had not renewed them.",
    "outlast_fenced_total": "Turns that were stopped because another process took over their lease.",
    "outlast_troubles_total": "Sessions that could not be driven, by error.",
}

LABELLED = frozenset({"outlast_turns_ended_total", "outlast_tokens_total", "outlast_troubles_total"})


class WorkerLoad(NamedTuple):
    """Current load of a pool: running turns, turns waiting for a person, and how many may run at once."""

    running: int
    waiting: int
    most: int


class Metrics:
    """Counters of one process. Every pool in the process adds its load to `loads`. Thread-safe."""

    def __init__(self) -> None:
        self.loads: list[Callable[[], WorkerLoad]] = []
        self._mutex = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._commits = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0
        self._began = time.time()

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        assert name in COUNTERS
        with self._mutex:
            self._counts[name, _labels(labels)] += amount

    def value(self, name: str, **labels: str) -> int:
        with self._mutex:
            return self._counts[name, _labels(labels)]

    def committed(self, seconds: float, commits: int) -> None:
        """Record that a group of `commits` commits became durable after `seconds`."""
        with self._mutex:
            self._commits[bisect_left(BOUNDS, seconds)] += commits
            self._seconds += seconds * commits

    def wrote(self, stored: StoredEvent, event: Event) -> None:
        """Count an event that a driver of this process wrote."""
        match event:
            case TurnStarted():
                self.count("outlast_turns_started_total")
            case TurnEnded(outcome=outcome):
                self.count("outlast_turns_ended_total", outcome=outcome)
            case ModelRequested():
                self.count("outlast_model_attempts_total")
            case ToolCallStarted():
                self.count("outlast_tool_calls_total")
            case AssistantReplied(usage=usage) | ReplyInterrupted(usage=usage) | UsageRecorded(usage=usage):
                self._spent(usage)
            case _:
                pass

    def _spent(self, usage: Usage) -> None:
        for direction, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if tokens:
                self.count("outlast_tokens_total", tokens, direction=direction)

    def load(self) -> WorkerLoad:
        """The sum of the loads of all pools."""
        return (
            WorkerLoad(*map(sum, zip(*(load() for load in self.loads), strict=True)))
            if self.loads
            else WorkerLoad(0, 0, 0)
        )

    def lines(self) -> list[str]:
        """All samples with their HELP and TYPE lines."""
        with self._mutex:
            counts, commits, seconds = dict(self._counts), list(self._commits), self._seconds
        found = gauge("outlast_info", "The version that runs.", {_labels({"version": __version__}): 1})
        found += gauge("outlast_start_time_seconds", "When this process began.", {"": round(self._began, 3)})
        for name, about in COUNTERS.items():
            samples = {labels: value for (known, labels), value in sorted(counts.items()) if known == name}
            found += family(name, "counter", about, samples or ({} if name in LABELLED else {"": 0}))
        return found + _histogram(commits, seconds)


def _histogram(commits: list[int], seconds: float) -> list[str]:
    name, total = "outlast_commit_seconds", 0
    lines = [f"# HELP {name} Seconds until a commit was durable.", f"# TYPE {name} histogram"]
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), commits, strict=True):
        total += count
        lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
    return [*lines, f"{name}_sum {seconds:.6f}", f"{name}_count {total}"]


def gauge(name: str, about: str, values: Mapping[str, float]) -> list[str]:
    return family(name, "gauge", about, values)


def family(name: str, kind: str, about: str, values: Mapping[str, float]) -> list[str]:
    samples = [f"{name}{{{labels}}} {value}" if labels else f"{name} {value}" for labels, value in values.items()]
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}", *samples]


def queue_lines(ask: Callable[[], WorkQueueStats]) -> list[str]:
    """Gauges of the store's work queue; every process of the store reports the same values."""
    found = ask()
    age = max(0.0, (found.now - found.oldest) / 1e6) if found.oldest is not None else 0.0
    return [
        *gauge("outlast_queue_length", "Sessions with work that no process drives.", {"": found.waiting}),
        *gauge("outlast_queue_oldest_seconds", "How long the oldest of them has waited.", {"": round(age, 3)}),
        *gauge("outlast_sessions_driven", "Sessions with work that a process drives.", {"": found.driven}),
    ]


def text_of(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
