"""Following: existing events first, then new ones, from any handle."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from outlast.core import events as e
from outlast.core.errors import ConflictError, StoreUnavailable
from outlast.core.messages import TextPart
from outlast.store import lineage
from outlast.store.port import Append, Batch, Delete, PutChunk, Redact, Store
from outlast.testing.contract.exam import OPAQUE_HOLDER, Exam, new_id, said, seqs

SOON = 10.0  # seconds a test waits for something that should happen at once


class Follower:
    """A thread that follows a session and records what it has seen."""

    def __init__(self, store: Store, session_id: str, after: int = 0, timeout: float | None = SOON) -> None:
        self.batches: list[Batch] = []
        self.error: Exception | None = None
        self.times: dict[int, float] = {}
        self._came = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(store, session_id, after, timeout), daemon=True)
        self._thread.start()

    def _run(self, store: Store, session_id: str, after: int, timeout: float | None) -> None:
        try:
            for batch in store.follow(session_id, after=after, timeout=timeout):
                with self._came:
                    self.batches.append(batch)
                    self.times.update(dict.fromkeys(seqs(batch.events), time.monotonic()))
                    self._came.notify_all()
        except StoreUnavailable as error:
            self.error = error

    @property
    def seen(self) -> list[int]:
        return [seq for batch in self.batches for seq in seqs(batch.events)]

    @property
    def drafted(self) -> bytes:
        return b"".join(chunk.data for batch in self.batches for chunk in batch.chunks)

    def wait(self, until: Callable[[Follower], bool]) -> None:
        with self._came:
            assert self._came.wait_for(lambda: until(self), SOON), f"saw only {self.seen} {self.drafted!r}"

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def ended(self) -> bool:
        self._thread.join(SOON)
        return not self._thread.is_alive()


class FollowQuestions(Exam):
    promptly = 0.5
    """Seconds within which a follower sees a commit of another handle; generous for a busy machine."""

    def test_a_follower_gets_what_is_there_and_then_what_comes(self) -> None:
        session_id = self.begin("1", "2")
        follower = Follower(self.store, session_id)
        follower.wait(lambda it: it.seen == [1, 2, 3])
        self.append(session_id, said("3"))
        follower.wait(lambda it: it.seen == [1, 2, 3, 4])
        self.append(session_id, said("4"), said("5"))
        follower.wait(lambda it: it.seen == [1, 2, 3, 4, 5, 6])
        assert follower.batches[-1].last_seq == 6

    def test_a_follower_starts_after_its_cursor(self) -> None:
        session_id = self.begin("1", "2", "3")
        found = [seq for batch in self.store.follow(session_id, after=2, timeout=0) for seq in seqs(batch.events)]
        assert found == [3, 4]

    def test_a_follower_sees_every_event_of_a_long_session_once(self) -> None:
        session_id = self.begin()
        self.append(session_id, *(said(str(n)) for n in range(1000)))
        found = [seq for batch in self.store.follow(session_id, timeout=0) for seq in seqs(batch.events)]
        assert found == list(range(1, 1002))

    def test_a_follower_reads_through_a_fork(self) -> None:
        parent, child = self.begin("1", "2"), new_id()
        self.store.commit(lineage.fork(self.store.head(parent), child))
        rows = [row for batch in self.store.follow(child, timeout=0) for row in batch.events]
        assert rows == self.events(child)

    def test_commits_of_another_handle_are_seen_promptly(self) -> None:
        session_id = self.begin("1")
        follower = Follower(self.another(), session_id)
        follower.wait(lambda it: it.seen == [1, 2])
        waits: list[float] = []
        for seq in range(3, 13):
            began = time.monotonic()
            self.append(session_id, said("x"))
            follower.wait(lambda it, seq=seq: seq in it.times)
            waits.append(follower.times[seq] - began)
        assert sorted(waits)[len(waits) // 2] < self.promptly
        assert follower.seen == list(range(1, 13))

    def test_draft_chunks_are_followed(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id)
        attempt = self.append(session_id, e.ModelRequested(model="m"), lease=lease).seq
        follower = Follower(self.another(), session_id, after=attempt)
        for n, piece in enumerate((b"Hel", b"lo ", b"you"), 1):
            self.store.commit(PutChunk(lease=lease, attempt_seq=attempt, n=n, part="text", data=piece))
            follower.wait(lambda it, upto=3 * n: len(it.drafted) == upto)
        assert follower.drafted == b"Hello you"
        self.append(session_id, e.AssistantReplied(attempt_seq=attempt, parts=(TextPart("Hello you"),)), lease=lease)
        follower.wait(lambda it: it.seen == [attempt + 1])
        assert follower.drafted == b"Hello you"

    def test_a_bare_cursor_gets_the_whole_draft_and_a_chunk_cursor_the_rest(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id)
        attempt = self.append(session_id, e.ModelRequested(model="m"), lease=lease).seq
        for n in range(1, 6):
            self.store.commit(PutChunk(lease=lease, attempt_seq=attempt, n=n, part="text", data=b"%d" % n))
        for after, chunk, expected in (
            (0, 0, b"12345"),
            (attempt, 0, b"12345"),
            (attempt, 3, b"45"),
            (attempt, 5, b""),
            (attempt - 1, 3, b"12345"),  # a new event arrived, so the client's draft is out of date
        ):
            batches = list(self.store.follow(session_id, after=after, chunk=chunk, timeout=0))
            assert b"".join(one.data for batch in batches for one in batch.chunks) == expected

    def test_a_draft_comes_once_and_after_the_events_before_it(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id)
        self.append(session_id, *(said(str(n)) for n in range(700)), e.ModelRequested(model="m"), lease=lease)
        attempt = self.store.head(session_id).last_seq
        for n in range(1, 4):
            self.store.commit(PutChunk(lease=lease, attempt_seq=attempt, n=n, part="text", data=b"%d" % n))
        batches = list(self.store.follow(session_id, timeout=0))
        assert [seq for batch in batches for seq in seqs(batch.events)] == list(range(1, attempt + 1))
        assert [chunk.n for batch in batches for chunk in batch.chunks] == [1, 2, 3]
        assert batches[-1].chunks

    def test_following_ends_where_the_session_was_rotated(self) -> None:
        session_id = self.begin("1")
        follower = Follower(self.store, session_id, timeout=None)
        follower.wait(lambda it: it.seen == [1, 2])
        self.store.commit(*lineage.rotate(self.store.head(session_id), new_id(), token="t", holder=OPAQUE_HOLDER))
        assert follower.ended()
        assert follower.seen == [1, 2, 3]
        self.store.commit(Redact(session_id=session_id, seq=2, actor="user"))
        again = Follower(self.store, session_id, timeout=None)
        assert again.ended()

    def test_a_fork_of_a_rotated_session_is_followed_past_its_inherited_history(self) -> None:
        session_id, child = self.begin("1"), new_id()
        self.store.commit(*lineage.rotate(self.store.head(session_id), new_id(), token="t", holder=OPAQUE_HOLDER))
        self.store.commit(lineage.fork(self.store.head(session_id), child))
        follower = Follower(self.store, child)
        follower.wait(lambda it: it.seen == [1, 2, 3, 4])
        self.append(child, said("2"))
        follower.wait(lambda it: it.seen == [1, 2, 3, 4, 5])

    def test_following_ends_when_the_session_is_deleted(self) -> None:
        session_id = self.begin("1")
        follower = Follower(self.store, session_id, timeout=None)
        follower.wait(lambda it: it.seen == [1, 2])
        self.store.commit(Delete(session_id=session_id, actor="user"))
        assert follower.ended()

    def test_a_cursor_of_the_future_is_refused(self) -> None:
        session_id = self.begin("1")
        with pytest.raises(ConflictError):
            list(self.store.follow(session_id, after=3, timeout=0))
        assert list(self.store.follow(session_id, after=2, timeout=0)) == []

    def test_following_ends_after_its_idle_time(self) -> None:
        session_id = self.begin("1")
        began = time.monotonic()
        assert len(list(self.store.follow(session_id, timeout=0.2))) == 1
        assert 0.15 < time.monotonic() - began < SOON

    def test_following_ends_after_its_idle_time_though_others_are_busy(self) -> None:
        session_id, other = self.begin("1"), self.begin()
        follower = Follower(self.store, session_id, timeout=0.3)
        deadline = time.monotonic() + SOON
        while follower.alive and time.monotonic() < deadline:
            self.append(other, said("busy"))
        assert not follower.alive

    def test_closing_the_store_ends_its_followers(self) -> None:
        session_id = self.begin("1")
        store = self.another()
        follower = Follower(store, session_id, timeout=None)
        follower.wait(lambda it: it.seen == [1, 2])
        store.close()
        assert follower.ended()
        assert isinstance(follower.error, StoreUnavailable)

    def test_following_works_in_an_event_loop(self) -> None:
        session_id = self.begin("1")
        store = self.another()

        async def watch() -> list[int]:
            seen: list[int] = []
            async for batch in self.store.follow_async(session_id, timeout=SOON):
                seen += seqs(batch.events)
                if len(seen) == 2:
                    await store.commit_async(Append(session_id=session_id, events=(said("2"),)))
                if len(seen) == 3:
                    break
            return seen

        assert asyncio.run(watch()) == [1, 2, 3]

    def test_many_followers_in_one_event_loop_see_the_same(self) -> None:
        session_id = self.begin()

        async def one() -> list[int]:
            seen: list[int] = []
            async for batch in self.store.follow_async(session_id, timeout=SOON):
                seen += seqs(batch.events)
                if seen[-1] == 21:
                    break
            return seen

        async def everything() -> list[list[int]]:
            followers = [asyncio.create_task(one()) for _ in range(10)]
            for n in range(20):
                await self.store.commit_async(Append(session_id=session_id, events=(said(str(n)),)))
            return await asyncio.gather(*followers)

        assert asyncio.run(everything()) == [list(range(1, 22))] * 10

    def test_following_in_an_event_loop_ends_after_its_idle_time(self) -> None:
        session_id = self.begin("1")

        async def count() -> int:
            return len([batch async for batch in self.store.follow_async(session_id, timeout=0.1)])

        assert asyncio.run(asyncio.wait_for(count(), SOON)) == 1
