"""A thousand followers on two servers and one PostgreSQL, twenty a session: how late a frame is, against a hundred."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import msgspec

from bench.figures.figure import Figure, Round, ratio
from bench.figures.lab import Lab
from bench.figures.messages import message
from bench.figures.serving import Follower, Serving
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.log_store import LogStore

A_SESSION, A_SECOND = 20, 4
FEW, MANY = 100, 1_000
SECONDS = 15.0
LATE_SECONDS = 5.0
AT_ONCE = 50


class Crowd(msgspec.Struct, frozen=True):
    """How the followers of one round fared: p99 in milliseconds, those that were cut off, frames that never came."""

    p99: float
    cut: int
    missing: int


def streams(lab: Lab, kind: str) -> Iterator[Figure]:
    url, seconds = lab.url(kind), SECONDS * min(1.0, lab.options.scale)
    with (
        open_store(url) as store,
        Serving(url, lab.folder()) as one,
        Serving(url, lab.folder()) as other,
    ):
        servers = (one, other)
        asyncio.run(_crowd(store, servers, A_SESSION, 1.0))
        pairs = [
            (asyncio.run(_crowd(store, servers, FEW, seconds)), asyncio.run(_crowd(store, servers, MANY, seconds)))
            for _ in range(lab.rounds)
        ]
    rounds = [Round(few.p99, many.p99) for few, many in pairs]
    title = f"a frame at one of {MANY:,} followers on 2 servers, p99"
    yield ratio("streams", title, f"{FEW} followers", rounds, measured_in="ms", goal=10.0)
    crowds = [crowd for pair in pairs for crowd in pair]
    yield Figure(
        name="streams-cut",
        title=f"{MANY:,} followers on 2 servers: cut off, or behind",
        against="-",
        value=float(sum(crowd.cut + crowd.missing for crowd in crowds)),
        goal=0.0,
        unit="in all",
        note=f"{A_SESSION} a session, {A_SECOND} frames a second to each of them",
    )


async def _crowd(store: LogStore, servers: tuple[Serving, ...], count: int, seconds: float) -> Crowd:
    sessions = [ConversationSession(store=store) for _ in range(count // A_SESSION)]
    crowds: list[list[Follower]] = []
    for session in sessions:
        await asyncio.to_thread(session.persist)
        head = await asyncio.to_thread(store.head, session.session_id)
        crowds.append([Follower(servers[n % 2], session.session_id, head.last_seq) for n in range(A_SESSION)])
    everybody = [follower for crowd in crowds for follower in crowd]
    for first in range(0, count, AT_ONCE):
        await asyncio.gather(*(follower.connect() for follower in everybody[first : first + AT_ONCE]))
    durable = await asyncio.gather(
        *(_speak(session, seconds, number / len(sessions)) for number, session in enumerate(sessions))
    )
    await asyncio.sleep(0.1)
    delays, missing = await _heard(crowds, durable)
    cut = sum(follower.is_over for follower in everybody)
    for follower in everybody:
        await follower.close()
    return Crowd(sorted(delays)[int(len(delays) * 0.99)], cut, missing)


async def _speak(session: ConversationSession, seconds: float, phase: float) -> dict[int, float]:
    """Four times a second; when each was durable."""
    durable: dict[int, float] = {}
    begin = time.monotonic() + phase / A_SECOND
    for number in range(max(2, int(seconds * A_SECOND))):
        await asyncio.sleep(max(0.0, begin + number / A_SECOND - time.monotonic()))
        seq = await session.append_async(message())
        durable[seq] = time.monotonic()
    return durable


async def _heard(crowds: list[list[Follower]], durable: list[dict[int, float]]) -> tuple[list[float], int]:
    delays: list[float] = []
    missing = 0
    until = time.monotonic() + LATE_SECONDS
    for crowd, told in zip(crowds, durable, strict=True):
        for follower in crowd:
            while max(told) not in follower.arrived and time.monotonic() < until:
                await asyncio.sleep(0.01)
            missing += sum(seq not in follower.arrived for seq in told)
            delays += [
                max(0.0, follower.arrived[seq] - at) * 1e3 for seq, at in told.items() if seq in follower.arrived
            ]
    return delays, missing
