"""The crew: what is admitted is answered, what was left open goes on, and nobody is fought over."""

from __future__ import annotations

import asyncio
import hashlib
import json
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast import ConversationSession, load_settings, open_store
from outlast.app.placement import Placement
from outlast.app.sessions.create import create
from outlast.app.sessions.update import change
from outlast.app.settings import Settings
from outlast.app.workers import worker_pool as crew_module
from outlast.app.workers.worker_pool import WorkerPool
from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.header import Header
from outlast.core.messages import ToolCall
from outlast.runtime.service import SessionService
from outlast.runtime.turn.tool_context import whereabouts
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Claim, Create, Lease, NewEvent, Release
from outlast.store.read.decode import decode_events
from outlast.testing.contract.exam import OPAQUE_HOLDER, admitted, new_id

SOON = 10.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _quick_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "ROUND_SECONDS", 0.02)


class Bench:
    """A project, a store and a script; makes crews on them."""

    def __init__(self, store: LogStore, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.project = folder / "project"
        self.project.mkdir()
        self.service = SessionService(store, "test")

    def session(self) -> str:
        made = ConversationSession(project_root=self.project, store=self.store)
        made.persist()
        return made.session_id

    def settings(self, *replies: dict[str, Any], model: str | None = None, mode: str | None = None) -> Settings:
        script = self.folder / "script.json"
        script.write_text(json.dumps(list(replies)))
        return load_settings(
            home=self.folder / "home",
            model=model or f"scripted:{script}",
            project_root=self.project,
            permission_mode=mode,
        )

    @asynccontextmanager
    async def pool(self, *replies: dict[str, Any], resume: bool = True, **options: Any) -> AsyncGenerator[WorkerPool]:
        settings = self.settings(*replies, model=options.pop("model", None), mode=options.pop("permission_mode", None))
        pool = WorkerPool(self.store, settings, **options)
        await pool.start(resume=resume)
        try:
            yield pool
        finally:
            await pool.close()

    def started(self, session_id: str) -> StoredEvent:
        [found] = self.store.read(session_id, kinds=frozenset({"TurnStarted"}))
        return found

    def asks(self, session_id: str) -> list[int]:
        """The seqs of its questions."""
        return [stored.seq for stored in self.store.read(session_id, kinds=frozenset({"ApprovalRequested"}))]

    def left_open(self, session_id: str, *events: e.Event) -> None:
        """Somebody drove it, wrote this and is gone."""
        claim = Claim(session_id=session_id, token="gone", holder=OPAQUE_HOLDER)
        new = tuple(NewEvent(event=event, turn="t3") for event in events)
        lease = Lease(session_id, 0, "gone")
        self.store.commit(claim, Append(session_id=session_id, events=new, lease=lease), Release(lease=lease))

    def events(self, session_id: str, kind: type[e.Event]) -> list[Any]:
        rows = decode_events(self.store, self.store.read(session_id))
        return [event for _, event in rows if isinstance(event, kind)]

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(SOON):
            while not true():
                await asyncio.sleep(0.01)

    async def answered(self, session_id: str) -> None:
        def over() -> bool:
            head = self.store.head(session_id)
            return head.pending_count == 0 and head.turn is None

        await self.until(over)


@pytest.fixture
def bench(store: LogStore, tmp_path: Path) -> Bench:
    return Bench(store, tmp_path)


async def test_what_is_admitted_is_answered_once_however_often_it_is_woken(bench: Bench) -> None:
    session_id = bench.session()
    async with bench.pool({"content": "one"}, {"content": "two"}) as pool:
        await bench.service.admit(session_id, "first")
        await bench.service.admit(session_id, "second")
        for _ in range(5):
            pool.wake(session_id)
        await bench.answered(session_id)
        await bench.until(lambda: not pool.running)
    replies = [event.parts[0].text for event in bench.events(session_id, e.AssistantReplied)]
    assert replies == ["one", "two"]


async def test_what_nobody_came_for_is_taken_up_on_the_rounds_after_a_grace(bench: Bench) -> None:
    session_id = bench.session()
    async with bench.pool({"content": "one"}, grace_seconds=0.2):
        admitted_at = asyncio.get_running_loop().time()
        await bench.service.admit(session_id, "somebody else admitted this")
        await bench.answered(session_id)
        assert asyncio.get_running_loop().time() - admitted_at >= 0.15


async def test_what_waits_when_it_starts_is_left_alone_if_so_told(bench: Bench) -> None:
    waiting, later = bench.session(), bench.session()
    await bench.service.admit(waiting, "from before")
    async with bench.pool({"content": "one"}, resume=False, grace_seconds=0.0) as pool:
        await bench.service.admit(later, "from now")
        await bench.answered(later)
        assert bench.store.head(waiting).pending_count == 1
        pool.wake(waiting)
        await bench.answered(waiting)


async def test_a_turn_that_a_crew_leaves_is_gone_on_with_by_the_next_one(bench: Bench) -> None:
    session_id = bench.session()
    await bench.service.admit(session_id, "tell me something long")
    slow = {"content": "a long answer " * 20, "delay_ms": 60_000}
    async with bench.pool(slow) as pool:
        await bench.until(lambda: pool.running)
        await bench.until(lambda: bench.events(session_id, e.ModelRequested))
    head = bench.store.head(session_id)
    assert head.turn is not None, "the turn stays open"
    assert bench.store.holder(session_id) is None, "its lease is given back"
    async with bench.pool({"content": "short"}):
        await bench.answered(session_id)
    assert len(bench.events(session_id, e.TurnStarted)) == 1
    assert len(bench.events(session_id, e.TurnEnded)) == 1
    assert [event.parts[0].text for event in bench.events(session_id, e.AssistantReplied)] == ["short"]


async def test_a_command_that_runs_when_the_crew_leaves_is_stopped_and_its_outcome_unknown(bench: Bench) -> None:
    session_id, witness = bench.session(), bench.project / "witness"
    call = {"id": "c1", "name": "bash", "arguments": {"command": "echo ran >> witness; sleep 60; echo late >> witness"}}
    script = ({"content": "", "tool_calls": [call]}, {"content": "done"})
    await bench.service.admit(session_id, "run it")
    async with bench.pool(*script, permission_mode="allow"):
        await bench.until(lambda: witness.exists() and witness.read_text())
    async with bench.pool(*script, permission_mode="allow"):
        await bench.answered(session_id)
    assert witness.read_text() == "ran\n"
    [finished] = bench.events(session_id, e.ToolCallFinished)
    assert "unknown" in finished.parts[0].text


async def test_a_session_that_somebody_drives_is_left_to_them_until_they_are_gone(bench: Bench) -> None:
    session_id = bench.session()
    [receipt] = bench.store.commit(Claim(session_id=session_id, token="t", holder=OPAQUE_HOLDER))
    assert receipt.lease is not None
    async with bench.pool({"content": "one"}, grace_seconds=0.0) as pool:
        await bench.service.admit(session_id, "hello")
        pool.wake(session_id)
        await bench.until(lambda: not pool._work)
        assert bench.store.head(session_id).pending_count == 1
        assert pool.trouble(session_id) is None
        bench.store.commit(Release(lease=receipt.lease))
        await bench.answered(session_id)


async def test_a_fault_of_one_session_is_told_and_stops_nobody_else(bench: Bench, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / ".outlast").mkdir(parents=True)
    rules = broken / ".outlast" / "config.toml"
    rules.write_text("permission_mode = 'allow'\n")
    bad = ConversationSession(project_root=broken, store=bench.store)
    bad.persist()
    good = bench.session()
    async with bench.pool({"content": "one"}) as pool:
        for session_id in (bad.session_id, good):
            await bench.service.admit(session_id, "hello")
            pool.wake(session_id)
        await bench.answered(good)
        await bench.until(lambda: pool.trouble(bad.session_id))
        assert "may only lower permission_mode" in (pool.trouble(bad.session_id) or "")
        rules.unlink()
        pool.wake(bad.session_id)
        await bench.answered(bad.session_id)
        assert pool.trouble(bad.session_id) is None


async def test_with_the_model_none_nothing_ever_runs(bench: Bench) -> None:
    session_id = bench.session()
    async with bench.pool(model="none", grace_seconds=0.0) as pool:
        await bench.service.admit(session_id, "hello")
        pool.wake(session_id)
        await asyncio.sleep(0.1)
        assert not pool.answers
        assert bench.store.head(session_id).pending_count == 1


async def test_a_sub_agents_session_is_its_parents_business(bench: Bench) -> None:
    child = new_id()
    header = Header(session_id=child, depth=1, parent_session_id=bench.session())
    bench.store.commit(Create(header=header, events=(NewEvent(event=e.SessionCreated(depth=1)), admitted("go"))))
    other = bench.session()
    async with bench.pool({"content": "one"}, grace_seconds=0.0):
        await bench.service.admit(other, "hello")
        await bench.answered(other)
        assert bench.store.head(child).pending_count == 1


# --- berths, claims and places


async def test_never_more_turns_run_than_there_are_berths_and_the_oldest_begin_first(bench: Bench) -> None:
    names = [bench.session() for _ in range(6)]
    for name in names:
        await bench.service.admit(name, "hello")
    most = 0
    async with bench.pool({"content": "one", "delay_ms": 100}, at_once=2) as pool:
        while not all(bench.store.head(name).pending_count == 0 for name in names):
            most = max(most, len(pool.running))
            assert pool.slots.free >= 0
            await asyncio.sleep(0.005)
    assert most == 2
    begun = sorted(names, key=lambda name: bench.started(name).at)
    assert max(abs(begun.index(name) - place) for place, name in enumerate(names)) <= 1


async def test_a_turn_that_waits_for_a_person_holds_no_berth_and_gets_one_back(bench: Bench) -> None:
    asking, other = bench.session(), bench.session()
    call = {"id": "c1", "name": "bash", "arguments": {"command": "echo hello"}}
    await bench.service.admit(asking, "ask me first")
    async with bench.pool(
        {"content": "", "tool_calls": [call]}, {"content": "done"}, at_once=1, permission_mode="prompt"
    ) as pool:
        await bench.until(lambda: pool.slots.beside == 1)
        await bench.until(lambda: pool.slots.free == 1)
        await bench.service.admit(other, "and me")
        pool.wake(other)
        await bench.until(lambda: bench.asks(other))
        await bench.until(lambda: pool.slots.beside == 2)
        for session_id in (asking, other):
            await bench.service.answer(session_id, bench.asks(session_id)[-1], "once")
            await bench.answered(session_id)
        await bench.until(lambda: pool.slots.free == 1)
        assert (pool.slots.beside, pool.slots.taken) == (0, 0)


async def test_a_question_outlives_any_number_of_hand_overs(bench: Bench) -> None:
    session_id = bench.session()
    call = {"id": "c1", "name": "bash", "arguments": {"command": "echo hello"}}
    script = ({"content": "", "tool_calls": [call]}, {"content": "done"})
    await bench.service.admit(session_id, "ask me first")
    for _ in range(5):
        async with bench.pool(*script, permission_mode="prompt") as pool:
            await bench.until(lambda pool=pool: pool.slots.beside == 1)
            await pool.close(patience=60)  # it does not wait for whom nobody can hurry
        assert bench.store.holder(session_id) is None
    async with bench.pool(*script, permission_mode="prompt"):
        await bench.service.answer(session_id, bench.asks(session_id)[-1], "once")
        await bench.answered(session_id)
    assert len(bench.asks(session_id)) == 1
    assert [event.outcome for event in bench.events(session_id, e.TurnEnded)] == ["completed"]


async def test_a_turn_that_is_handed_over_again_and_again_is_not_given_up(bench: Bench) -> None:
    session_id = bench.session()
    await bench.service.admit(session_id, "tell me something long")
    for number in range(1, 6):
        async with bench.pool({"content": "a long answer " * 20, "delay_ms": 60_000}):
            await bench.until(lambda number=number: len(bench.events(session_id, e.ModelRequested)) == number)
    async with bench.pool({"content": "short"}):
        await bench.answered(session_id)
    assert [event.outcome for event in bench.events(session_id, e.TurnEnded)] == ["completed"]
    reasons = {event.reason for event in bench.events(session_id, e.ReplyInterrupted)}
    assert reasons == {"handed over to another process"}


async def test_what_a_server_admits_anybody_takes_at_once(bench: Bench) -> None:
    session_id, terminal = bench.session(), bench.session()
    async with bench.pool({"content": "one"}, grace_seconds=60.0):
        await bench.service.admit(terminal, "a terminal drives this itself")
        await SessionService(bench.store, "http").admit(session_id, "from a server without a worker")
        await bench.answered(session_id)
        assert bench.store.head(terminal).pending_count == 1


async def test_without_having_been_started_only_what_is_woken_is_run(bench: Bench) -> None:
    woken, other = bench.session(), bench.session()
    for session_id in (other, woken):
        await bench.service.admit(session_id, "hello")
    settings = bench.settings({"content": "one"})
    pool = WorkerPool(bench.store, settings, grace_seconds=0.0)
    try:
        pool.wake(woken)
        await bench.answered(woken)
        assert bench.store.head(other).pending_count == 1
    finally:
        await pool.close()


async def test_a_crew_that_does_not_work_leaves_it_to_others(bench: Bench) -> None:
    session_id = bench.session()
    async with bench.pool({"content": "one"}, works=False) as pool:
        await bench.service.admit(session_id, "hello")
        pool.wake(session_id)
        await asyncio.sleep(0.1)
        assert pool.answers
        assert bench.store.head(session_id).pending_count == 1
        async with bench.pool({"content": "one"}):
            await bench.answered(session_id)


async def test_two_crews_on_one_store_answer_each_input_once(bench: Bench) -> None:
    names = [bench.session() for _ in range(12)]
    async with bench.pool({"content": "one"}, at_once=2), bench.pool({"content": "one"}, at_once=2):
        service = SessionService(bench.store, "http")
        for name in names:
            await service.admit(name, "hello")
        for name in names:
            await bench.answered(name)
    for name in names:
        assert len(bench.events(name, e.TurnStarted)) == len(bench.events(name, e.AssistantReplied)) == 1


async def test_a_session_at_a_place_runs_in_the_folder_that_is_offered_for_it(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    call = {"id": "c1", "name": "write", "arguments": {"file_path": "note", "content": "hello"}}
    script = ({"content": "", "tool_calls": [call]}, {"content": "done"})
    session_id = create(bench.store, bench.settings(*script), None, door="http", place="shop")
    await SessionService(bench.store, "http").admit(session_id, "write it")
    async with bench.pool(*script, permission_mode="allow"):
        await asyncio.sleep(0.2)
        assert bench.store.head(session_id).pending_count == 1
    async with bench.pool(*script, permission_mode="allow", places=Placement.parse([f"shop={folder}"])):
        await bench.answered(session_id)
    assert (folder / "note").read_text() == "hello"
    assert not (bench.project / "note").exists()


async def test_a_session_whose_folder_is_gone_waits_and_says_why(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    made = ConversationSession(project_root=folder, store=bench.store)
    made.persist()
    folder.rmdir()
    async with bench.pool({"content": "one"}) as pool:
        await bench.service.admit(made.session_id, "hello")
        pool.wake(made.session_id)
        await bench.until(lambda: pool.trouble(made.session_id))
        assert "is not on this machine" in (pool.trouble(made.session_id) or "")
        assert bench.store.holder(made.session_id) is None
        folder.mkdir()
        pool.wake(made.session_id)
        await bench.answered(made.session_id)


@pytest.mark.parametrize(("started_at", "status"), [("here", "executed"), ("elsewhere:/else", "unknown")])
async def test_a_write_is_compared_only_where_it_was_started(bench: Bench, started_at: str, status: str) -> None:
    session_id = bench.session()
    call = ToolCall(id="c1", name="write", arguments={"file_path": "note", "content": "hello"})
    place = whereabouts(bench.project) if started_at == "here" else started_at
    started = e.ToolCallStarted(
        call_id="c1",
        name="write",
        arguments=call.arguments,
        effect=e.EffectClass.VERIFIABLE,
        target_digest_before="absent",
        target_digest_after=hashlib.sha256(b"hello").hexdigest(),
        facts={"path": str(bench.project / "note"), "before": None, "place": place},
    )
    await bench.service.admit(session_id, "write it")
    bench.left_open(session_id, e.TurnStarted(inputs=[2]), e.ModelRequested(model="m"))
    bench.left_open(session_id, e.AssistantReplied(attempt_seq=4, parts=(call,)), started)
    async with bench.pool({"content": ""}, {"content": "done"}, permission_mode="allow"):
        await bench.answered(session_id)
    finished = bench.events(session_id, e.ToolCallFinished)[0]  # the runtime may verify a write by a call of its own
    assert (finished.call_id, finished.status) == ("c1", status)
    assert (bench.project / "note").exists() is (status == "executed")


@pytest.mark.usefixtures("asks_first")
async def test_a_mode_that_is_lowered_elsewhere_is_in_force_in_the_turn_that_runs_here(bench: Bench) -> None:
    session_id = bench.session()
    calls = [{"id": f"c{n}", "name": "bash", "arguments": {"command": f"echo {n} >> said; sleep 0.5"}} for n in (1, 2)]
    script = (*({"content": "", "tool_calls": [call]} for call in calls), {"content": "done"})
    settings = bench.settings(*script, mode="allow")
    await bench.service.admit(session_id, "say it twice")
    async with bench.pool(*script, permission_mode="allow"):
        await bench.until((bench.project / "said").exists)
        header = bench.store.head(session_id)
        change(bench.store, settings, header, door="http", permission_mode="read-only")
        await bench.answered(session_id)
    statuses = [event.status for event in bench.events(session_id, e.ToolCallFinished)]
    assert statuses[:2] == ["executed", "blocked"]
    assert (bench.project / "said").read_text() == "1\n"


async def test_a_session_in_which_no_driver_finds_the_work_is_not_claimed_again_and_again(bench: Bench) -> None:
    session_id = bench.session()
    await bench.service.admit(session_id, "hello")
    bench.left_open(session_id, e.InputWithdrawn(inputs=[2]))
    # A header that says more than its log, as after a fault that `verify` would tell.
    database: Any = bench.store
    writer = database._database.ready()
    [[header]] = writer.execute("SELECT header FROM sessions WHERE session_id = ?", (session_id,)).fetchall()
    changed = json.dumps(json.loads(header) | {"pending_count": 1, "work_since": 1}).encode()
    writer.execute("UPDATE sessions SET header = ?, crc = ?", (changed, zlib.crc32(changed)))
    writer.execute("INSERT INTO work VALUES ('local', 1, ?)", (session_id,))
    database._database._heads = {}
    before = bench.store.head(session_id)
    assert before.has_work
    async with bench.pool({"content": "one"}) as pool:
        await bench.until(lambda: pool.trouble(session_id))
        await asyncio.sleep(0.3)
        assert bench.store.head(session_id).epoch == before.epoch + 1
        assert "outlast verify" in (pool.trouble(session_id) or "")
