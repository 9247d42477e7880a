"""What the engine itself costs in a turn: commits, and the time that is not spent waiting for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import msgspec

from bench.figures.figure import Figure
from bench.figures.lab import Lab
from outlast.agent import Agent
from outlast.models.scripted import ScriptedBackend
from outlast.runtime.agent_config import AgentConfig
from outlast.store.log_store import LogStore
from outlast.store.port import Receipt, Write

SESSIONS, TURNS = 20, 10


class Turn(msgspec.Struct, frozen=True):
    """One turn without tools: its commits, and milliseconds in and beside them."""

    commits: int
    committing: float
    beside: float


class CountedCommits:
    """Stands before a store's `commit_async` and keeps the time."""

    def __init__(self, store: LogStore) -> None:
        self._commit = store.commit_async
        self.count, self.seconds = 0, 0.0

    async def __call__(self, *writes: Write) -> list[Receipt]:
        began = time.perf_counter()
        try:
            return await self._commit(*writes)
        finally:
            self.count += 1
            self.seconds += time.perf_counter() - began


def whole_turn(lab: Lab, kind: str) -> Iterator[Figure]:
    folder = lab.folder()
    with lab.store(kind) as store:
        commits = CountedCommits(store)
        setattr(store, "commit_async", commits)  # noqa: B010 - a method, and only for these turns
        turns = [turn for _ in range(lab.count(SESSIONS)) for turn in asyncio.run(_turns(store, commits, folder))]
    inside = median(turn.committing for turn in turns)
    yield Figure(
        name="turn-commits",
        title="commits of a turn without tools",
        against="-",
        value=max(turn.commits for turn in turns),
        goal=5,
        unit="commits",
        note=f"{inside:.1f} ms in all",
    )
    yield Figure(
        name="turn-overhead",
        title="a turn without tools, besides its commits",
        against="-",
        value=median(turn.beside for turn in turns),
        goal=5,
        unit="ms",
        note=f"the {TURNS} turns after the first of {lab.count(SESSIONS)} sessions",
    )


async def _turns(store: LogStore, commits: CountedCommits, folder: Path) -> list[Turn]:
    replies = ["It is four, as it was."] * (TURNS + 1)
    agent = Agent(ScriptedBackend(completions=replies), AgentConfig(auto_context=False), folder, store=store)
    await agent.run("What is two and two?")
    return [await _timed(agent, commits) for _ in range(TURNS)]


async def _timed(agent: Agent, commits: CountedCommits) -> Turn:
    count, seconds, began = commits.count, commits.seconds, time.perf_counter()
    await agent.run("What is two and two?")
    whole, inside = time.perf_counter() - began, commits.seconds - seconds
    return Turn(commits.count - count, inside * 1e3, (whole - inside) * 1e3)
