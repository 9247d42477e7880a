"""A client that follows one session's stream: cut off at a random byte, and back with its cursor at whichever server.

It writes down every event that it gets, for the checker, and answers the questions that it sees.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.client_log import Diary
from tests.crash.evidence import Ack, ClientLog, Heard
from tests.crash.oracle import Job
from tests.support.sse import StreamClient

Asked = Callable[[str, int, str], None]
"""Told of a question: the session, the event that asks, and the call that does."""


@dataclass
class Ways:
    """How clients reach the servers."""

    ports: Sequence[int]
    token: str
    project: Path

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@dataclass
class Notebook:
    """What all clients wrote down. `wrong` is what a server told a client that it must not."""

    acks: list[Ack] = field(default_factory=list[Ack])
    logs: list[ClientLog] = field(default_factory=list[ClientLog])
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    sessions: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    wrong: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class Follower:
    """One client's stream of one session."""

    def __init__(self, log: ClientLog, seed: int, ways: Ways, counts: Counter[str], diary: Diary, asked: Asked) -> None:
        self.log = log
        self._asked = asked
        self._diary = diary
        self._client = StreamClient()
        self._dice = random.Random(seed)
        self._ways, self._counts = ways, counts
        self._admitted: set[int] = set()
        self._written = 0

    @property
    def waiting(self) -> int:
        """Inputs that it saw admitted and not answered."""
        return len(self._admitted)

    async def run(self, finish: asyncio.Event) -> None:
        """Follow, with many interruptions, until told to finish; then read to the tip."""
        finishing = asyncio.create_task(finish.wait())
        while not finish.is_set() and not self.log.broken:
            connection = asyncio.create_task(self._connection(last=False))
            await asyncio.wait({connection, finishing}, return_when=asyncio.FIRST_COMPLETED)
            connection.cancel()
            await asyncio.gather(connection, return_exceptions=True)
            await asyncio.sleep(0.02 + 0.2 * self._dice.random())
        await finishing
        while not self.log.broken and not await self._connection(last=True):
            await asyncio.sleep(0.2)

    async def _connection(self, *, last: bool) -> bool:
        """One connection; whether it came to its end, which only the last one does."""
        self._client.ids.clear()  # on one connection an id comes once; a bare cursor may bring the draft's again
        cursor = self._client.connected(bare=self._dice.random() < 0.3)
        budget = 1 << 40 if last else int(self._dice.expovariate(1 / 30_000)) + 1
        try:
            async with asyncio.timeout(20.0 if last else 1 + 8 * self._dice.random()):
                return await self._read(cursor, budget, follow=not last)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            self._counts["streams broken"] += 1
        except AssertionError as error:
            self.log.broken = str(error) or "the stream broke its promises"
        return False

    async def _read(self, cursor: str, budget: int, *, follow: bool) -> bool:
        port = self._dice.choice(self._ways.ports)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self._counts["streams"] += 1
        try:
            path = f"/api/sessions/{self.log.session_id}/stream?follow={'true' if follow else 'false'}"
            lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close"]
            lines += [f"Authorization: Bearer {self._ways.token}"]
            lines += [f"Last-Event-ID: {cursor}"] if cursor else []
            writer.write("\r\n".join([*lines, "", ""]).encode())
            head = await reader.readuntil(b"\r\n\r\n")
            status = head.split(b" ", 2)[1]
            if status in (b"429", b"503", b"500"):
                return False
            assert status == b"200", f"the stream was answered with {head[:200]!r}"
            assert b"transfer-encoding: chunked" in head.lower(), f"no stream: {head!r}"
            while budget > 0:
                size = int(await reader.readuntil(b"\r\n"), 16)
                if size == 0:
                    return True
                data = await reader.readexactly(min(size, budget))
                budget -= len(data)
                self._client.feed(data)
                self._take()
                if budget:
                    await reader.readexactly(2)
            self._counts["streams cut"] += 1
            return False
        finally:
            writer.transport.abort()

    def _take(self) -> None:
        """Write down what is new."""
        assert not self._client.resyncs, "the server wants this client to begin again"
        for event in self._client.events[self._written :]:
            self.log.heard.append(
                Heard(event["seq"], event["kind"], event["at"], event.get("turn"), event.get("body"), self._diary.now)
            )
            if event["kind"] == "ApprovalRequested":
                self._asked(self.log.session_id, event["seq"], event["body"]["call_id"])
            elif event["kind"] == "InputAdmitted":
                self._admitted.add(event["seq"])
            elif event["kind"] == "TurnEnded":
                self._admitted -= set(event["body"].get("answered", []))
        self._written = len(self._client.events)
