"""A client that posts: it believes only what it is told, and writes that down for the checker.

A message is repeated under the same key, at any server, until somebody says that it is stored; now and then one that is
stored is repeated, a turn is interrupted, and every question that comes up is answered, until that is taken too.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx

from tests.crash.client_log import Diary
from tests.crash.evidence import Ack, ClientLog
from tests.crash.follower import Follower, Notebook, Ways
from tests.crash.oracle import Job, made_job, told_to

PATIENCE = 8.0
WAITING_AT_MOST = 3
INTERRUPTS = 0.04
LEAST = 3
"""Messages of each user, however short the run and slow the machine: there is always something to judge."""
FAULTS = (httpx.HTTPError, OSError, ValueError)


class Poster:
    """One user: a session, some messages, the next session. Leaves when `stopping` is set and all is acknowledged, of
    which some there is. What it says is a matter of the seed alone; when it says it, of how it is answered too."""

    def __init__(self, name: str, seed: int, ways: Ways, book: Notebook, diary: Diary, stopping: asyncio.Event) -> None:
        self.name = name
        self._dice = random.Random(f"{seed} {name}")
        self._jobs = random.Random(f"{seed} {name} jobs")
        self._said = 0
        self._ways, self._book, self._diary, self._stopping = ways, book, diary, stopping
        self._followers: list[Follower] = []
        self.following: list[asyncio.Task[None]] = []
        self.answering: dict[tuple[str, int], asyncio.Task[None]] = {}
        self.finish = asyncio.Event()

    @property
    def _may_leave(self) -> bool:
        return self._stopping.is_set() and self._said >= LEAST

    async def run(self) -> None:
        async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False, headers=self._ways.headers) as http:
            while not self._may_leave:
                session_id = await self._create(http)
                if session_id is None:
                    return
                self._follow(session_id)
                for _ in range(self._dice.randrange(2, 9)):
                    if self._may_leave:
                        return
                    self._said += 1
                    await self._say(http, session_id, made_job(f"{self.name}m{self._said}", self._jobs))
                    await self._pause()
                    if self._dice.random() < INTERRUPTS:
                        await self._asked(http, f"/api/sessions/{session_id}/interrupt", {})
                        self._book.counts["interrupts"] += 1

    async def _create(self, http: httpx.AsyncClient) -> str | None:
        while not self._may_leave:
            body = {"repo_path": str(self._ways.project), "title": self.name}
            told = await self._asked(http, "/api/sessions", body)
            if told is not None:
                self._book.sessions.append(told["session_id"])
                return told["session_id"]
        return None

    async def _say(self, http: httpx.AsyncClient, session_id: str, job: Job) -> None:
        """Until it is acknowledged: a message that nobody confirmed is posted again, with the same key."""
        key = f"key-{job.name}"
        delivery = "steer" if self._dice.random() < 0.1 else "queue"
        body = {"content": job.text, "key": key, "delivery": delivery}
        self._book.jobs[job.name] = job
        first: dict[str, Any] | None = None
        while first is None:
            first = await self._asked(http, f"/api/sessions/{session_id}/messages", body)
        ack = Ack(first["session_id"], job.name, key, first["seq"])
        self._book.acks.append(ack)
        self._diary.note("ack", job.name, session=ack.session_id, seq=ack.seq)
        if self._dice.random() < 0.3:
            again = await self._asked(http, f"/api/sessions/{session_id}/messages", body)
            self._book.counts["repeats"] += 1
            if again is not None and (again["session_id"], again["seq"]) != (ack.session_id, ack.seq):
                self._book.wrong.append((ack.session_id, f"{key} was event {ack.seq}, and is told as {again['seq']}"))

    async def _asked(
        self, http: httpx.AsyncClient, path: str, body: dict[str, Any], *, fine: tuple[int, ...] = ()
    ) -> dict[str, Any] | None:
        """One request to one server; None when it did not answer or could not. A refusal in `fine` is an answer."""
        url = f"http://127.0.0.1:{self._dice.choice(self._ways.ports)}{path}"
        self._book.counts["posts"] += 1
        try:
            answer = await http.post(url, json=body)
            if answer.status_code == 200 or answer.status_code in fine:
                return answer.json()
            self._book.counts[f"answered {answer.status_code}"] += 1
            if answer.status_code not in (429, 500, 502, 503, 504):
                self._book.wrong.append(("", f"{path} answered {answer.status_code}: {answer.text[:300]}"))
            if answer.status_code == 500:
                self._diary.note("500", self.name, text=answer.text[:300])
        except FAULTS:
            self._book.counts["no answer"] += 1
        await asyncio.sleep(0.05 + 0.4 * self._dice.random())
        return None

    async def _pause(self) -> None:
        """Before the next message: none, a moment, or until what was asked is answered."""
        await asyncio.sleep(self._dice.choice((0.0, 0.2, 0.5, 1.0, 2.0)))
        follower = self._followers[-1]
        while follower.waiting >= WAITING_AT_MOST and not self._stopping.is_set():
            await asyncio.sleep(0.1)

    def _question(self, session_id: str, seq: int, call: str) -> None:
        """Somebody asks: answer, once, whoever of the followers saw it first."""
        if (session_id, seq) not in self.answering:
            self.answering[(session_id, seq)] = asyncio.create_task(self._answer(session_id, seq, call))

    async def _answer(self, session_id: str, seq: int, call: str) -> None:
        """Until it is taken, or nobody wants it any more: then the turn has ended meanwhile."""
        await asyncio.sleep(2 * self._dice.random())
        body = {"approval_id": seq, "answer": told_to(call)}
        async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False, headers=self._ways.headers) as http:
            while await self._asked(http, f"/api/sessions/{session_id}/approvals", body, fine=(409,)) is None:
                pass
        self._book.counts["answers"] += 1

    def _follow(self, session_id: str) -> None:
        for n in range(1 + (self._dice.random() < 0.3)):
            log = ClientLog(f"{self.name}f{n}", session_id)
            self._book.logs.append(log)
            seed = self._dice.randrange(1 << 30)
            self._followers.append(Follower(log, seed, self._ways, self._book.counts, self._diary, self._question))
            self.following.append(asyncio.create_task(self._followers[-1].run(self.finish)))
