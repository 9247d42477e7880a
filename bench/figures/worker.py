"""A process of a workload, started by `bench.figures.workers`, told what to do by one JSON line, answering in others.

It says `ready`, waits for a line, works, and tells how it went.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec

from bench.figures.bare.sqlite import BareSqlite
from bench.figures.messages import message
from outlast.core.errors import OutlastError
from outlast.session import ConversationSession
from outlast.store import open_store


class Task(msgspec.Struct, kw_only=True):
    """Append for `seconds`, as fast as it goes; or, with `paced`, once for each line that comes."""

    session_id: str
    url: str | None = None
    bare: str | None = None
    seconds: float = 1.0
    paced: bool = False


class Outcome(msgspec.Struct, kw_only=True):
    """`longest_ms` is the slowest append, `seqs` what the store said it gave out."""

    appended: int = 0
    errors: int = 0
    first_error: str = ""
    longest_ms: float = 0.0
    seqs: list[int] = []


def main() -> None:
    task = msgspec.json.decode(sys.stdin.readline(), type=Task)
    if task.bare is not None:
        limit = BareSqlite(Path(task.bare))
        _work(task, lambda: limit.append(task.session_id))
        limit.close()
        return
    assert task.url is not None
    with open_store(task.url) as store:
        session = ConversationSession.load(session_id=task.session_id, store=store)
        assert session is not None
        (_paced if task.paced else _work)(task, lambda: session.append(message()))


def _work(task: Task, append: Callable[[], int | None]) -> None:
    outcome = Outcome()
    _say("ready")
    sys.stdin.readline()
    end = time.monotonic() + task.seconds
    before = time.monotonic()
    while before < end:
        try:
            outcome.seqs.append(append() or 0)
            outcome.appended += 1
        except (OutlastError, apsw.Error) as error:
            outcome.errors += 1
            outcome.first_error = outcome.first_error or f"{type(error).__name__}: {error}"
        after = time.monotonic()
        outcome.longest_ms = max(outcome.longest_ms, (after - before) * 1e3)
        before = after
    _say(msgspec.json.encode(outcome).decode())


def _paced(task: Task, append: Callable[[], int | None]) -> None:
    """Answers each line with the moment at which the append was durable, on the clock that all processes share."""
    _say("ready")
    while sys.stdin.readline():
        append()
        _say(str(time.monotonic_ns()))


def _say(line: str) -> None:
    os.write(1, line.encode() + b"\n")
