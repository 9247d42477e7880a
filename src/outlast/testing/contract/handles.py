"""Use of one open store: threads, event loops, group commit, closing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from outlast.core import events as e
from outlast.core.errors import ConflictError, SessionNotFound, StoreUnavailable
from outlast.core.header import Header
from outlast.store.port import Append, Claim, Create, NewEvent, Query, Receipt, Store
from outlast.testing.contract.exam import Exam, new_id, said


def at_once(*jobs: Callable[[], object]) -> None:
    """Run all jobs at the same time, each in its own thread; raise an error that one of them raised."""
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], object]) -> object:
        start.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        for done in [pool.submit(run, job) for job in jobs]:
            done.result()


def message(session_id: str, text: str, key: str | None = None) -> Append:
    return Append(session_id=session_id, events=(said(text),), key=key)


class HandleQuestions(Exam):
    def test_eight_threads_append_to_one_session_gapless(self) -> None:
        session_id = self.begin()
        receipts: list[Receipt] = []

        def write(thread: int) -> None:
            for n in range(50):
                receipts.extend(self.store.commit(message(session_id, f"{thread}:{n}", f"{thread}:{n}")))

        at_once(*(lambda thread=thread: write(thread) for thread in range(8)))
        texts = self.texts(session_id)
        assert sorted(receipt.seq for receipt in receipts) == list(range(2, 402))
        assert sorted(texts) == sorted(f"{thread}:{n}" for thread in range(8) for n in range(50))
        for thread in range(8):
            mine = [text for text in texts if text.startswith(f"{thread}:")]
            assert mine == [f"{thread}:{n}" for n in range(50)]

    def test_threads_on_their_own_sessions_do_not_mix(self) -> None:
        sessions = [self.begin() for _ in range(8)]

        def write(session_id: str) -> None:
            for n in range(25):
                self.store.commit(message(session_id, f"{session_id} {n}"))

        at_once(*(lambda session_id=session_id: write(session_id) for session_id in sessions))
        for session_id in sessions:
            assert self.texts(session_id) == [f"{session_id} {n}" for n in range(25)]

    def test_two_handles_write_one_session_gapless(self) -> None:
        session_id, stores = self.begin(), [self.store, self.another()]

        def write(store: Store) -> None:
            for n in range(50):
                store.commit(message(session_id, str(n)))

        at_once(*(lambda store=store: write(store) for store in stores))
        assert len(self.events(session_id)) == 101
        assert self.events(session_id, stores[1]) == self.events(session_id)

    def test_a_bad_commit_fails_alone_among_good_ones(self) -> None:
        session_id = self.begin()
        bad: list[Exception] = []

        def write(thread: int) -> None:
            for n in range(25):
                if (thread + n) % 3:
                    self.store.commit(message(session_id, "good"))
                    continue
                refused = Append(session_id=session_id, events=(said("bad"),), expect=10**9)
                try:
                    self.store.commit(refused)
                except ConflictError as error:
                    bad.append(error)

        at_once(*(lambda thread=thread: write(thread) for thread in range(6)))
        texts = self.texts(session_id)
        assert set(texts) == {"good"}
        assert len(texts) + len(bad) == 150

    def test_a_batch_with_one_bad_commit_decides_each_by_itself(self) -> None:
        session_id = self.begin()

        async def together() -> list[object]:
            good = [self.store.commit_async(message(session_id, str(n), f"k{n}")) for n in range(20)]
            missing = self.store.commit_async(message(new_id(), "nowhere"))
            conflict = self.store.commit_async(Append(session_id=session_id, events=(said("x"),), expect=10**9))
            repeat = self.store.commit_async(message(session_id, "0", "k0"))
            return await asyncio.gather(*good[:10], missing, *good[10:], conflict, repeat, return_exceptions=True)

        outcomes = asyncio.run(together())
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert [type(error) for error in failed] == [SessionNotFound, ConflictError]
        assert self.texts(session_id) == [str(n) for n in range(20)]

    def test_the_same_key_from_many_threads_is_written_once(self) -> None:
        session_id = self.begin()
        receipts: list[Receipt] = []
        write = message(session_id, "once", "k")
        at_once(*(lambda: receipts.extend(self.store.commit(write)) for _ in range(8)))
        assert {receipt.seq for receipt in receipts} == {2}
        assert sorted(receipt.replayed for receipt in receipts) == [False] + [True] * 7
        assert self.texts(session_id) == ["once"]

    def test_one_of_many_claims_wins(self) -> None:
        session_id = self.begin()
        won: list[Receipt] = []
        lost: list[str] = []

        def claim(name: str) -> None:
            try:
                won.extend(self.store.commit(Claim(session_id=session_id, token=name, holder=f"holder of {name}")))
            except Exception as error:  # noqa: BLE001 - the test checks which error it is
                lost.append(type(error).__name__)

        at_once(*(lambda name=name: claim(name) for name in "abcdefgh"))
        assert len(won) == 1
        assert lost == ["SessionBusy"] * 7

    def test_one_of_many_creates_wins(self) -> None:
        session_id, outcomes = new_id(), list[str]()

        def create() -> None:
            try:
                self.store.commit(
                    Create(header=Header(session_id=session_id), events=(NewEvent(event=e.SessionCreated()),))
                )
                outcomes.append("created")
            except ConflictError:
                outcomes.append("conflict")

        at_once(*[create] * 6)
        assert sorted(outcomes) == ["conflict"] * 5 + ["created"]
        assert len(self.events(session_id)) == 1

    def test_several_event_loops_and_threads_commit_at_once(self) -> None:
        session_id = self.begin()

        async def many(name: str) -> None:
            await asyncio.gather(*(self.store.commit_async(message(session_id, f"{name} {n}")) for n in range(25)))

        def alone(name: str) -> None:
            for n in range(25):
                self.store.commit(message(session_id, f"{name} {n}"))

        loops = [lambda name=name: asyncio.run(many(name)) for name in ("loop 1", "loop 2", "loop 3")]
        threads = [lambda name=name: alone(name) for name in ("thread 1", "thread 2")]
        at_once(*loops, *threads)
        assert len(self.events(session_id)) == 126
        assert len(set(self.texts(session_id))) == 125

    def test_a_cancelled_caller_does_not_withdraw_its_write(self) -> None:
        session_id = self.begin()

        async def give_up() -> None:
            task = asyncio.ensure_future(_awaited(self.store.commit_async(message(session_id, "kept", "k"))))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(give_up())
        [receipt] = self.store.commit(message(session_id, "kept", "k"))
        assert receipt.seq == 2
        assert self.texts(session_id) == ["kept"]

    def test_readers_never_see_half_a_commit(self) -> None:
        first, second = self.begin(), self.begin()
        stop, torn = threading.Event(), list[int]()

        def watch() -> None:
            while not stop.is_set():
                rows = self.store.read(first)
                if len(rows) % 2 == 0:
                    torn.append(len(rows))

        watcher = threading.Thread(target=watch)
        watcher.start()
        for n in range(60):
            pair = Append(session_id=first, events=(said(str(n)), said(str(n))))
            self.store.commit(pair, message(second, str(n)))
        stop.set()
        watcher.join()
        assert torn == []

    def test_closing_finishes_what_was_handed_in(self) -> None:
        session_id, store = self.begin(), self.another()
        receipts: list[Receipt] = []
        refused = threading.Event()

        def write() -> None:
            while not refused.is_set():
                try:
                    receipts.extend(store.commit(message(session_id, "x")))
                except StoreUnavailable:
                    refused.set()

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(receipts) < 20:
            threading.Event().wait(0.001)
        store.close()
        for thread in threads:
            thread.join()
        assert sorted(receipt.seq for receipt in receipts) == list(range(2, len(receipts) + 2))
        assert len(self.events(session_id)) == len(receipts) + 1

    def test_a_closed_store_refuses_everything_and_may_be_closed_twice(self) -> None:
        session_id, store = self.begin(), self.another()
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.commit(message(session_id, "x")),
            lambda: store.head(session_id),
            lambda: store.read(session_id),
            lambda: store.find(Query()),
            lambda: store.resolve(session_id),
            lambda: store.route("r"),
            lambda: store.blob(session_id, "0" * 64),
            lambda: list(store.follow(session_id, timeout=0)),
            lambda: asyncio.run(_awaited(store.commit_async(message(session_id, "x")))),
        ]
        for call in calls:
            with pytest.raises(StoreUnavailable):
                call()
        assert self.texts(session_id) == []

    def test_a_store_closes_at_the_end_of_its_with_block(self) -> None:
        session_id = self.begin()
        with self.another() as store:
            store.commit(message(session_id, "inside"))
        with pytest.raises(StoreUnavailable):
            store.commit(message(session_id, "outside"))

        async def use() -> Store:
            async with self.another() as store:
                await store.commit_async(message(session_id, "async"))
            return store

        with pytest.raises(StoreUnavailable):
            asyncio.run(use()).head(session_id)
        assert self.texts(session_id) == ["inside", "async"]

    def test_closing_one_handle_leaves_the_other_usable(self) -> None:
        session_id = self.begin()
        self.another().close()
        self.append(session_id, said("still open"))
        assert self.texts(session_id) == ["still open"]

    def test_a_store_tells_where_it_is(self) -> None:
        assert "://" in self.store.url


async def _awaited(commit: Awaitable[list[Receipt]]) -> list[Receipt]:
    return await commit
