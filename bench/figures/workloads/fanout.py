"""One event to many followers of a real server: how late the last of them is, with 200 against 20."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from bench.figures.figure import Figure, Round, ratio
from bench.figures.lab import Lab
from bench.figures.messages import message
from bench.figures.serving import Follower, Serving
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.log_store import LogStore

FEW, MANY, EVENTS = 20, 200, 150
STALLED, STALL_SECONDS, A_SECOND = 100, 60.0, 1_000


def fan_out(lab: Lab, kind: str) -> Iterator[Figure]:
    url = lab.url(kind)
    with open_store(url) as store, Serving(url, lab.folder()) as server:
        count = lab.count(EVENTS, 10)
        rounds = [asyncio.run(_round(server, store, count)) for _ in range(lab.rounds)]
    title = f"an event at the last of {MANY} followers over HTTP, p99"
    yield ratio("fan-out", title, f"{FEW} followers", rounds, measured_in="ms", goal=10.0)


async def _round(server: Serving, store: LogStore, count: int) -> Round:
    return Round(bare=await _p99(server, store, FEW, count), ours=await _p99(server, store, MANY, count))


async def _p99(server: Serving, store: LogStore, followers: int, count: int) -> float:
    """Milliseconds from durable to in hand."""
    session = ConversationSession(store=store)
    session.persist()
    crowd = [Follower(server, session.session_id, session.header.last_seq) for _ in range(followers)]
    await asyncio.gather(*(follower.connect() for follower in crowd))
    delays: list[float] = []
    for _ in range(count):
        seq = await asyncio.to_thread(session.append, message())
        durable = time.monotonic()
        async with asyncio.timeout(30):
            await asyncio.gather(*(follower.until(seq) for follower in crowd))
        delays += [max(0.0, follower.arrived[seq] - durable) * 1e3 for follower in crowd]
    for follower in crowd:
        await follower.close()
    return sorted(delays)[int(len(delays) * 0.99)]


def stalled_readers(lab: Lab, kind: str) -> Iterator[Figure]:
    """What 100 readers that never read cost a server at 1,000 events a second."""
    url = lab.url(kind)
    seconds = STALL_SECONDS * min(1.0, lab.options.scale)
    with open_store(url) as store, Serving(url, lab.folder()) as server, ExitStack() as sockets:
        session = ConversationSession(store=store)
        session.persist()
        watcher = Follower(server, session.session_id, session.header.last_seq)
        grown, late = asyncio.run(_stall(server, session, watcher, sockets, seconds))
    yield Figure(
        name="stalled",
        title=f"memory for {STALLED} readers that stand still, {seconds:g} s at {A_SECOND:,} events/s",
        against="-",
        value=grown / 1e6,
        goal=50.0,
        unit="MB",
        note=f"a reader that reads was at most {late * 1e3:.0f} ms behind",
    )


async def _stall(
    server: Serving, session: ConversationSession, watcher: Follower, sockets: ExitStack, seconds: float
) -> tuple[int, float]:
    await watcher.connect()
    await _burst(session, watcher)  # what everybody needs once is there before it is counted
    before = server.memory
    for _ in range(STALLED):
        _stalled_socket(server, session.session_id, sockets)
    late = 0.0
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        late = max(late, await _burst(session, watcher))
    grown = server.memory - before
    await watcher.close()
    return grown, late


def _stalled_socket(server: Serving, session_id: str, sockets: ExitStack) -> None:
    connection = sockets.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(server.request(f"/api/sessions/{session_id}/stream"))


async def _burst(session: ConversationSession, watcher: Follower) -> float:
    """A tenth of a second's events; how late the last one was at a connection that is read."""
    began = time.monotonic()
    append = partial(session.extend, [message() for _ in range(A_SECOND // 10)])
    seq = await asyncio.to_thread(append)
    durable = time.monotonic()
    async with asyncio.timeout(30):
        await watcher.until(seq)
    late = time.monotonic() - durable
    await asyncio.sleep(max(0.0, began + 0.1 - time.monotonic()))
    return late
