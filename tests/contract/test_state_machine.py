"""Random histories against a plain model: whatever is done, in whatever order, store and model say the same."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import random
import time
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from outlast.core import events as e
from outlast.core.errors import OutlastError
from outlast.core.event_row import GENESIS, check_chain
from outlast.core.events import Event
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import Role, TextPart
from outlast.store import lineage, open_store, port
from outlast.store.engine.encode import event_of
from outlast.store.port import Append, Create, Lease, NewEvent, Query, Receipt, Store, Write
from tests.contract.model import Fact, Model, Session

EXAMPLES = {"sqlite": (60, 30), "files": (40, 25), "postgres": (12, 25), "memory": (60, 30)}
SOAK = {"sqlite": (1_000, 60), "files": (1_000, 60), "postgres": (400, 60), "memory": (1_000, 60)}
MONTH = 31 * 24 * 3_600_000_000
NAMES = st.sampled_from(["a", "b", "c"])
KEYS = st.sampled_from([None, None, None, "k1", "k2", "k3", "k4", "k5"])
PICK = st.integers(0, 11)
EVENTS: dict[str, Event] = {
    "message": e.MessageAppended(role=Role.USER, parts=(TextPart("hello"),)),
    "large message": e.MessageAppended(role=Role.ASSISTANT, parts=(TextPart("large " * 15_000),)),
    "input": e.InputAdmitted(parts=(TextPart("please"),)),
    "turn": e.TurnStarted(inputs=[1]),
    "request": e.ModelRequested(model="m"),
    "interrupted": e.ReplyInterrupted(attempt_seq=3),
    "reply": e.AssistantReplied(attempt_seq=3, parts=(TextPart("answer"),)),
    "turn over": e.TurnEnded(outcome="done", answered=[1]),
    "clear": e.HistoryCleared(),
    "end": e.SessionClosed(),
    "reopen": e.SessionReopened(),
    "archive": e.SessionArchived(),
    "unarchive": e.SessionUnarchived(),
    "rename": e.SessionRenamed(title="renamed"),
}
LIFE = ["end", "reopen", "archive", "unarchive", "rename"]
ORDINARY = st.sampled_from([name for name in EVENTS if name not in LIFE])
LEASES = st.sampled_from(["none", "ours", "ours", "ours", "this commit's", "stale epoch", "wrong token"])
EXPECTS = st.sampled_from([None, None, None, None, 0, 0, 1])


class Histories(RuleBasedStateMachine):
    """`open_handle` opens one more handle on the same place; each example is an owner of its own in it."""

    open_handle: Callable[[], Store]
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.owner = f"owner {os.getpid()} {next(self.numbers)} {random.SystemRandom().random()}"
        self.opened = [self.open_handle(), self.open_handle()]
        self.store = self.opened[0]
        self.made = 0

    def teardown(self) -> None:
        for store in self.opened:
            store.close()

    # --- doing it on both sides

    def both(self, *writes: Write) -> list[Receipt] | None:
        """Commit on the store and on the model: the same receipts or the same error."""
        expected, refused = self.foreseen(writes)
        receipts, error = None, None
        try:
            receipts = self.store.commit(*writes)
        except OutlastError as raised:
            error = raised
        assert refused == (type(error) if error else None), f"{error or receipts!r} instead of {refused or expected}"
        if receipts is not None:
            self.compare(writes, receipts, expected)
        return receipts

    def foreseen(self, writes: tuple[Write, ...]) -> tuple[list[Receipt], type[OutlastError] | None]:
        try:
            return self.model.commit(*writes), None
        except OutlastError as error:
            return [], type(error)

    def compare(self, writes: tuple[Write, ...], receipts: list[Receipt], expected: list[Receipt]) -> None:
        for write, receipt, foreseen in zip(writes, receipts, expected, strict=True):
            assert receipt.replayed == foreseen.replayed
            if foreseen.session_id != "?":
                assert receipt.session_id == foreseen.session_id
            if isinstance(write, Append | Create | port.Redact) and foreseen.seq:
                assert (receipt.first_seq, receipt.seq) == (foreseen.first_seq, foreseen.seq)
            assert foreseen.replayed or receipt.lease == foreseen.lease

    # --- choosing

    def new_id(self) -> str:
        self.made += 1
        return id_from(hashlib.sha256(f"{self.owner} {self.made}".encode()).digest()[:16])

    def pick(self, number: int) -> Session:
        """Some session; a deleted one only now and then."""
        sessions = list(self.model.world.sessions.values())
        living = [session for session in sessions if not session.deleted or number == 11]
        return (living or sessions)[number % len(living or sessions)]

    def scoped(self, name: str) -> str:
        return f"{self.owner} {name}"

    def lease(self, session: Session, which: str) -> Lease | None:
        token = session.token or "nobody"
        match which:
            case "ours" if session.token:
                return Lease(session.session_id, session.epoch, token)
            case "this commit's" if session.token:
                return Lease(session.session_id, 0, token)
            case "stale epoch":
                return Lease(session.session_id, session.epoch + 7, token)
            case "wrong token":
                return Lease(session.session_id, session.epoch, "wrong")
            case _:
                return None

    def append(
        self,
        number: int,
        events: list[str],
        key: str | None,
        which: str,
        off: int | None,
        *,
        to_tip: bool | None = None,
    ) -> Append:
        session = self.pick(number)
        return Append(
            session_id=session.session_id,
            events=tuple(
                NewEvent(event=EVENTS[event], turn=f"turn {len(events)}", actor="user/exam") for event in events
            ),
            key=key,
            lease=self.lease(session, which),
            expect=None if off is None else session.head + off,
            to_tip=number % 3 == 0 if to_tip is None else to_tip,
        )

    # --- what is done

    @initialize()
    def begin(self) -> None:
        self.create(events=[], key=None)

    @rule(events=st.lists(ORDINARY, max_size=2), key=KEYS)
    def create(self, events: list[str], key: str | None) -> None:
        header = Header(session_id=self.new_id(), owner_id=self.owner)
        news = (NewEvent(event=e.SessionCreated()), *(NewEvent(event=EVENTS[event]) for event in events))
        self.both(Create(header=header, events=news, key=key))

    @rule(number=PICK, events=st.lists(ORDINARY, min_size=1, max_size=3), key=KEYS, which=LEASES, off=EXPECTS)
    def write(self, number: int, events: list[str], key: str | None, which: str, off: int | None) -> None:
        self.both(self.append(number, events, key, which, off))

    @rule(number=PICK, event=st.sampled_from(LIFE))
    def live_on(self, number: int, event: str) -> None:
        self.both(self.append(number, [event], None, "none", None))

    @rule(numbers=st.lists(PICK, min_size=2, max_size=4), event=ORDINARY, key=KEYS, off=EXPECTS)
    def write_several(self, numbers: list[int], event: str, key: str | None, off: int | None) -> None:
        """One commit over several sessions: all or none."""
        writes = [
            self.append(number, [event], key if at == 0 else None, "none", off) for at, number in enumerate(numbers)
        ]
        self.both(*writes)

    @rule(numbers=st.lists(PICK, min_size=2, max_size=6), event=ORDINARY, key=KEYS, off=EXPECTS)
    def write_at_once(self, numbers: list[int], event: str, key: str | None, off: int | None) -> None:
        """Several commits in one batch: each for itself; those to the same session in the order of their handing in.

        Between sessions no order is promised, so one lineage takes part by one of its sessions only.
        """
        lineages: dict[str, str] = {}
        writes = [self.append(number, [event], key, "none", off, to_tip=False) for number in numbers]
        for write in writes:
            lineages.setdefault(self.model.world.sessions[write.session_id].root, write.session_id)
        writes = [write for write in writes if write.session_id in lineages.values()]

        async def together() -> list[list[Receipt] | BaseException]:
            return await asyncio.gather(*map(self.store.commit_async, writes), return_exceptions=True)

        for write, outcome in zip(writes, asyncio.run(together()), strict=True):
            expected, refused = self.foreseen((write,))
            if isinstance(outcome, BaseException):
                assert type(outcome) is refused, repr(outcome)
            else:
                assert refused is None
                self.compare((write,), outcome, expected)

    @rule(number=PICK, other=st.booleans())
    def repeat(self, number: int, other: bool) -> None:
        """A key that was used before, with the same content or another one."""
        used = [(name, key) for name, key in self.model.world.keys.items() if key.last]
        if not used:
            return
        (scope, name), key = used[number % len(used)]
        first = self.model.world.sessions[key.session_id].facts[key.first - 1 : key.last]
        events = tuple(NewEvent(event=fact.event) for fact in first)
        if other:
            events = (*events, NewEvent(event=e.HistoryCleared()))
        self.both(Append(session_id=scope, events=events, key=name))

    @rule(number=PICK, token=NAMES, expired=st.booleans(), force=st.booleans())
    def claim(self, number: int, token: str, expired: bool, force: bool) -> None:
        session = self.pick(number)
        ttl = 0 if expired else 3_600_000
        self.both(port.Claim(session_id=session.session_id, token=token, holder="exam", ttl_ms=ttl, force=force))

    @rule(number=PICK, token=NAMES, event=ORDINARY, data=st.binary(max_size=3))
    def drive(self, number: int, token: str, event: str, data: bytes) -> None:
        """A driver's first commit: claim, write and draft with the epoch that the claim is given."""
        session = self.pick(number)
        session_id, attempt = session.session_id, session.head + 1
        lease = Lease(session_id, 0, token)
        self.both(
            port.Claim(session_id=session_id, token=token, holder="exam", ttl_ms=3_600_000),
            Append(session_id=session_id, events=(NewEvent(event=EVENTS[event]),), lease=lease),
            port.PutChunk(lease=lease, attempt_seq=attempt, n=1, part="text", data=data),
        )

    @rule(number=PICK, which=LEASES, release=st.booleans())
    def renew_or_release(self, number: int, which: str, release: bool) -> None:
        lease = self.lease(self.pick(number), which)
        if lease is not None:
            self.both(port.Release(lease=lease) if release else port.Renew(lease=lease, ttl_ms=3_600_000))

    @rule(number=PICK, which=LEASES, skip=st.sampled_from([0, 0, 0, 1, -1]), data=st.binary(max_size=3))
    def draft(self, number: int, which: str, skip: int, data: bytes) -> None:
        session = self.pick(number)
        lease = self.lease(session, which) or Lease(session.session_id, session.epoch, "nobody")
        n = len(session.draft) + 1 + skip
        attempt = session.attempt or session.open_attempt or 3
        self.both(port.PutChunk(lease=lease, attempt_seq=attempt, n=n, part="text", data=data))

    @rule(number=PICK, part=st.floats(0, 1.2))
    def fork(self, number: int, part: float) -> None:
        session = self.pick(number)
        at = round(session.head * part)
        header = Header(session_id=session.session_id, owner_id=self.owner, last_seq=session.head)
        shared = Session("", "", facts=session.facts[:at])
        self.both(lineage.fork(header, self.new_id(), at=at, messages=shared.messages))

    @rule(number=PICK, which=LEASES, carry=st.booleans(), stale=st.sampled_from([0, 0, 0, 1]))
    def rotate(self, number: int, which: str, carry: bool, stale: int) -> None:
        session = self.pick(number)
        header = Header(
            session_id=session.session_id,
            owner_id=self.owner,
            last_seq=session.head - stale,
            message_count=session.messages,
        )
        lease = self.lease(session, which)
        carried = list(range(1, session.pending + 1)) if carry else []
        hour = 3_600_000
        self.both(
            *lineage.rotate(header, self.new_id(), token="a", holder="exam", lease=lease, carried=carried, ttl_ms=hour)
        )

    @rule(number=PICK, name=NAMES, nowhere=st.booleans())
    def route(self, number: int, name: str, nowhere: bool) -> None:
        self.both(port.PutRoute(route=self.scoped(name), session_id=None if nowhere else self.pick(number).session_id))

    @rule(number=PICK, name=NAMES, expected=PICK, surely=st.booleans())
    def route_if(self, number: int, name: str, expected: int, surely: bool) -> None:
        route = self.scoped(name)
        leads = self.model.world.routes.get(route) if surely else self.pick(expected).session_id
        self.both(port.PutRoute(route=route, session_id=self.pick(number).session_id, expect=leads))

    @rule(number=PICK, to=PICK)
    def move_routes(self, number: int, to: int) -> None:
        one, two = self.pick(number).session_id, self.pick(to).session_id
        self.both(port.MoveRoutes(from_session_id=one, to_session_id=two))

    @rule(number=PICK, part=st.floats(0, 1.1))
    def redact(self, number: int, part: float) -> None:
        session = self.pick(number)
        self.both(port.Redact(session_id=session.session_id, seq=round(session.head * part), actor="user"))

    @rule(number=PICK, with_forks=st.booleans(), sure=st.integers(0, 3))
    def delete(self, number: int, with_forks: bool, sure: int) -> None:
        if sure == 0:  # otherwise little is left to go on with
            self.both(port.Delete(session_id=self.pick(number).session_id, actor="user", with_forks=with_forks))

    @rule(sure=st.integers(0, 3))
    def sweep(self, sure: int) -> None:
        """A month later; but no blob goes that an event names."""
        while sure == 0 and not self.store.sweep(time.time_ns() // 1000 + MONTH).done:
            pass
        if sure == 0:
            self.model.forget()

    @rule()
    def use_the_other_handle(self) -> None:
        self.opened.reverse()
        self.store = self.opened[0]

    @rule()
    def close_and_open_again(self) -> None:
        self.store.close()
        self.store = self.opened[0] = self.open_handle()

    @rule()
    def abandon_the_handle(self) -> None:
        """As after a crash: nobody closes it, and somebody else goes on."""
        self.opened.append(self.store)
        self.store = self.opened[0] = self.open_handle()
        if len(self.opened) > 8:
            self.opened.pop(2).close()  # a server has only so many connections

    # --- what must hold

    @invariant()
    def every_session_reads_as_it_should(self) -> None:
        for session in self.model.world.sessions.values():
            if not session.deleted:
                self.check_log(session)
                self.check_head(session)

    def check_log(self, session: Session) -> None:
        rows = self.store.read(session.session_id)
        assert [row.seq for row in rows] == list(range(1, session.head + 1))
        assert check_chain(GENESIS, 0, rows) == self.store.head(session.session_id).head_hash
        for row, fact in zip(rows, session.facts, strict=True):
            event = event_of(row, lambda digest: self.store.blob(session.session_id, digest))
            assert (row.session_id, row.epoch, row.redacted, row.actor) == (
                fact.owner,
                fact.epoch,
                fact.redacted,
                fact.actor,
            )
            assert row.kind == e.KIND_OF[type(fact.event)]
            assert row.turn == fact.turn
            assert fact.redacted or self.same(event, fact)
            assert fact.key is None or row.key == fact.key

    def same(self, event: object, fact: Fact) -> bool:
        if isinstance(fact.event, e.EventRedacted):
            return isinstance(event, e.EventRedacted) and event.seq == fact.event.seq
        return event == fact.event

    def check_head(self, session: Session) -> None:
        head = self.store.head(session.session_id)
        found = (head.last_seq, head.root_id, head.base_id, head.base_seq, head.state, head.rotated_to, head.epoch)
        assert found == (
            session.head,
            session.root,
            session.base,
            session.base_seq,
            session.state,
            session.rotated_to,
            session.epoch,
        )
        assert (head.message_count, head.pending_count, head.turn) == (session.messages, session.pending, session.turn)
        holder = self.store.holder(session.session_id)
        assert (holder and holder.expired) == (None if session.token is None else session.expired)
        batches = self.store.follow(session.session_id, after=session.head, timeout=0)
        chunks = [(chunk.part, chunk.data) for batch in batches for chunk in batch.chunks]
        assert chunks == session.draft
        tip = self.model.world.tips[session.root] if session.rotated_to else session.session_id
        assert self.store.tip(session.session_id) == tip

    @invariant()
    def routes_and_lists_are_as_they_should_be(self) -> None:
        for name in ("a", "b", "c"):
            assert self.store.route(self.scoped(name)) == self.model.world.routes.get(self.scoped(name))
        listed = self.store.find(Query(owner_id=self.owner, limit=100)).headers
        living = {name for name, session in self.model.world.sessions.items() if not session.deleted}
        assert {head.session_id for head in listed} == living
        assert listed == sorted(listed, key=lambda head: (head.updated_at, head.session_id), reverse=True)

    @invariant()
    def a_deleted_session_says_so(self) -> None:
        for name, session in self.model.world.sessions.items():
            if session.deleted:
                with pytest.raises(OutlastError) as caught:
                    self.store.head(name)
                assert caught.typename == "SessionDeleted"

    @invariant()
    def a_key_still_gives_its_first_receipt(self) -> None:
        names = list(self.model.world.keys)
        if names:
            self.repeat(number=self.made + len(names), other=False)


def run(url: str, examples: int, steps: int) -> None:
    class There(Histories):
        @staticmethod
        def open_handle() -> Store:
            return open_store(url)

    run_state_machine_as_test(There, settings=settings(max_examples=examples, stateful_step_count=steps))


def kind_of(url: str) -> str:
    return url.partition(":")[0].replace("postgresql", "postgres")


@pytest.mark.slow
def test_every_history_agrees_with_the_model(store_url: str) -> None:
    run(store_url, *EXAMPLES[kind_of(store_url)])


@pytest.mark.soak
def test_many_long_histories_agree_with_the_model(store_url: str) -> None:
    run(store_url, *SOAK[kind_of(store_url)])
