"""Bytes written to the write-ahead log per append, with a caller's key and with the list that stays right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.figures.bare.sqlite import BareSqlite
from bench.figures.figure import Figure, Round, ratio
from bench.figures.lab import Lab
from bench.figures.messages import message
from bench.figures.workloads.filled import create_sessions
from outlast.session import ConversationSession
from outlast.store import open_store

OTHERS = 200
APPENDS = 150  # fewer pages than either side's checkpoint waits for, so the log's size is what was written


def wal_bytes(lab: Lab, kind: str) -> Iterator[Figure]:
    url = lab.url(kind)
    with open_store(url) as store:
        names = create_sessions(store, OTHERS)
        _keyed(ConversationSession.load(session_id=names[0], store=store), "before", 2 * APPENDS)
    bare_path = lab.folder() / "bare.db"
    with closing(BareSqlite(bare_path)) as limit:
        for name in names:
            limit.append(name)
        for _ in range(2 * APPENDS):
            limit.append(names[0])
    rounds = [Round(_bare(bare_path, names[0]), _ours(url, names[0], number)) for number in range(lab.rounds)]
    title = "write-ahead log per append, key and list included"
    yield ratio("wal-bytes", title, "bare INSERT", rounds, measured_in="bytes", goal=1.8)


def _bare(path: Path, session: str) -> float:
    with closing(BareSqlite(path)) as limit:
        limit.resume(session)
        for _ in range(APPENDS):
            limit.append(session)
        return limit.wal_bytes() / APPENDS


def _ours(url: str, session: str, number: int) -> float:
    """The log goes with the last connection, so each time it starts from nothing."""
    with open_store(url) as store:
        _keyed(ConversationSession.load(session_id=session, store=store), f"round {number}", APPENDS)
        path = store.storage_path(session)
        assert path is not None
        return path.with_name(path.name + "-wal").stat().st_size / APPENDS


def _keyed(session: ConversationSession | None, what: str, count: int) -> None:
    assert session is not None
    for number in range(count):
        session.append(message(), key=f"{what} {number}")
