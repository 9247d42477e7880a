"""Claims: the session that has waited longest goes to exactly one of the claimants."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from outlast.core import events as e
from outlast.core.header import Header
from outlast.store.port import Append, Claimed, ClaimRequest, Lease, Release, Store
from outlast.testing.contract.exam import OPAQUE_HOLDER, Exam, NewEvent, admitted, new_id, said
from outlast.testing.contract.leases import dead_holder
from outlast.testing.contract.restores import elsewhere, part

WEB, TERMINAL = "user/http", "user/cli"
LONG_MS = 3_600_000


def wanted(token: str = "worker", **more: Any) -> ClaimRequest:
    given: dict[str, Any] = {"most": 100, "ttl_ms": 60_000, **more}
    return ClaimRequest(token=token, holder=OPAQUE_HOLDER, **given)


class ClaimQuestions(Exam):
    def waiting(self, moment: int = 1, *, actor: str = TERMINAL, header: Header | None = None) -> str:
        """Create a session with an unanswered input."""
        session_id = self.begin(header=header)
        self.append(session_id, NewEvent(event=admitted("please").event, at=moment, actor=actor))
        return session_id

    def claimed(self, store: Store | None = None, **more: Any) -> list[str]:
        return [one.lease.session_id for one in (store or self.store).claim(wanted(**more))]

    def test_those_that_have_waited_longest_are_claimed_first_and_no_more_than_are_wanted(self) -> None:
        names = [self.waiting(moment) for moment in (50, 10, 40, 20, 30)]
        self.begin("nothing to do here")
        assert self.claimed(most=0) == []
        assert self.claimed(most=2) == [names[1], names[3]]
        assert self.claimed(token="another", most=2) == [names[4], names[2]]
        assert self.claimed(token="a third") == [names[0]]
        assert self.claimed(token="a fourth") == []

    def test_a_claimed_lease_drives_and_keeps_others_out(self) -> None:
        session_id = self.waiting()
        [found] = self.store.claim(wanted())
        assert found == Claimed(Lease(session_id, 1, "worker"), taken_over=False)
        self.append(session_id, said("driven"), lease=found.lease)
        held = self.store.holder(session_id)
        assert held is not None
        assert (held.holder, held.expired) == (OPAQUE_HOLDER, False)
        self.store.commit(Release(lease=found.lease))
        [again] = self.store.claim(wanted())
        assert (again.lease.epoch, again.taken_over) == (2, False)

    def test_each_goes_to_one_however_many_ask_at_once(self) -> None:
        names = {self.waiting(moment) for moment in range(20)}
        handles = [self.store, *(self.another() for _ in range(3))]
        found: list[list[str]] = [[] for _ in handles]

        def work(number: int) -> None:
            while taken := self.claimed(handles[number], token=new_id(), most=3):
                found[number] += taken

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(handles))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        everything = [name for names in found for name in names]
        assert len(everything) == len(set(everything))
        assert set(everything) == names

    def test_a_lease_that_ran_out_is_taken_over_and_its_driver_refused(self) -> None:
        session_id = self.waiting()
        old = self.claim(session_id, "old", ttl_ms=0)
        [found] = self.store.claim(wanted())
        assert (found.lease.epoch, found.taken_over) == (old.epoch + 1, True)
        assert self.claimed(token="another") == []

    def test_a_session_whose_holder_died_on_this_host_is_claimed_at_once(self) -> None:
        session_id = self.waiting()
        free = self.waiting(2)
        dead = ClaimRequest(token="dead", holder=dead_holder(), ttl_ms=LONG_MS)
        assert [one.lease.session_id for one in self.store.claim(dead)] == [session_id]
        found = self.store.claim(wanted())
        assert sorted((one.lease.session_id, one.taken_over) for one in found) == sorted(
            [(session_id, True), (free, False)]
        )

    def test_a_session_at_a_place_goes_only_to_those_who_offer_it(self) -> None:
        anywhere = self.waiting(1)
        here = self.waiting(2, header=Header(session_id=new_id(), place="shop"))
        self.waiting(3, header=Header(session_id=new_id(), place="@elsewhere"))
        assert self.store.head(here).place == "shop"
        assert self.claimed(places=frozenset({"office"})) == [anywhere]
        assert self.claimed(token="another", places=frozenset({"shop", "office"})) == [here]

    def test_what_is_left_aside_is_taken_once_something_is_new_in_it(self) -> None:
        first, second = self.waiting(1), self.waiting(2)
        aside = {first: self.store.head(first).last_seq}
        assert self.claimed(besides=aside, most=1) == [second]
        assert self.claimed(token="another", besides=aside) == []
        self.append(first, admitted("and another thing"))
        assert self.claimed(token="another", besides=aside) == [first]

    def test_only_those_that_are_asked_for_are_claimed(self) -> None:
        first, second = self.waiting(1), self.waiting(2)
        assert self.claimed(only=frozenset()) == []
        assert self.claimed(only=frozenset({second, new_id()})) == [second]
        assert self.claimed(token="another", only=frozenset({first})) == [first]

    def test_what_came_from_a_file_goes_on_when_somebody_here_says_so(self) -> None:
        names = [new_id(), new_id()]
        for name in names:
            asked = elsewhere(name, e.SessionCreated(), admitted("asked elsewhere"), e.TurnStarted(inputs=[2]))
            self.store.commit(part(asked))
            assert self.store.head(name).has_work
        assert self.claimed() == []
        assert self.store.queue().waiting == 0
        assert self.claimed(woken=frozenset(names[:1])) == names[:1]
        self.append(names[1], admitted("asked here"))
        assert self.store.queue().waiting == 1
        assert self.claimed(token="another") == names[1:]

    def test_who_drives_what_he_admits_has_a_grace_to_begin(self) -> None:
        terminal, web = self.waiting(1), self.waiting(2, actor=WEB)
        begun = self.waiting(3)
        self.append(begun, NewEvent(event=e.TurnStarted(inputs=[2]), turn="t"))
        served = frozenset({"http"})
        assert self.claimed(grace_ms=LONG_MS, served=served) == [web, begun]
        assert self.claimed(token="another", grace_ms=LONG_MS, served=served) == []
        assert self.claimed(token="another", grace_ms=LONG_MS, woken=frozenset({terminal})) == [terminal]

    def test_after_the_grace_it_is_anybodys(self) -> None:
        session_id = self.waiting()
        assert self.claimed(grace_ms=0) == [session_id]

    def test_a_sub_agents_session_is_its_parents_business_unless_somebody_asks_for_it(self) -> None:
        child = self.waiting(header=Header(session_id=new_id(), depth=1, parent_session_id=new_id()))
        spoken_to = self.waiting(2, actor=WEB, header=Header(session_id=new_id(), depth=1))
        served = frozenset({"http"})
        assert self.claimed(served=served) == [spoken_to]
        assert self.claimed(token="another", served=served, woken=frozenset({child})) == [child]

    def test_an_ended_session_and_another_owners_are_not_claimed(self) -> None:
        ended, mine = self.waiting(1), self.waiting(2, header=Header(session_id=new_id(), owner_id="me"))
        self.append(ended, e.SessionClosed())
        assert self.claimed() == []
        assert self.claimed(owner_id="me") == [mine]

    def test_the_queue_tells_what_waits_what_is_driven_and_since_when(self) -> None:
        assert (self.store.queue().waiting, self.store.queue().oldest) == (0, None)
        for moment in (30, 10, 20):
            self.waiting(moment)
        assert self.claimed(most=1)
        queue = self.store.queue()
        assert (queue.waiting, queue.driven, queue.oldest) == (2, 1, 20)
        assert queue.now > 1_600_000_000_000_000

    def test_who_waits_for_work_hears_of_it_from_another_handle(self) -> None:
        session_id, other = self.begin(), self.another()

        async def heard() -> bool:
            since = self.store.work_heard()
            waiting = asyncio.create_task(self.store.await_work(since, 10.0))
            await asyncio.sleep(0.05)
            await other.commit_async(Append(session_id=session_id, events=(admitted("please"),)))
            return await waiting

        assert asyncio.run(heard())

    def test_work_that_came_before_the_wait_ends_it_at_once(self) -> None:
        session_id = self.begin()

        async def heard() -> bool:
            since = self.store.work_heard()
            await asyncio.to_thread(self.append, session_id, admitted("please"))
            return await self.store.await_work(since, 10.0)

        assert asyncio.run(heard())
