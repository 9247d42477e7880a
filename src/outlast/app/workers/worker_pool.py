"""Worker pool: runs the turns of a store's sessions in the background, for doors that only admit inputs.

A door admits an input durably and wakes the pool. The pool claims the sessions that have waited longest, as many as it
has free slots, and the turn host runs their turns. Once started, the pool also resumes turns that a dead process left
open, and answers inputs that no other process took. Any number of pools share a store: a pool does not touch a session
while another process drives it. A pool that closes hands its turns over: they stay open in the log, and the next
process continues them.
"""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from outlast.app.logging_setup import error_fields, log_event
from outlast.app.placement import Placement
from outlast.app.settings import Settings
from outlast.app.turn_host import HeldLease, TurnHost
from outlast.app.workers.backoff import Backoff
from outlast.app.workers.contexts import Equip, Rights, WorkerContexts
from outlast.app.workers.dispatcher import Dispatcher
from outlast.app.workers.metrics import Metrics, WorkerLoad
from outlast.app.workers.pool_turn import PoolTurn
from outlast.app.workers.turn_slots import TurnSlot, TurnSlots
from outlast.core.errors import InvalidInput, OutlastError, SessionBusy, SessionNotFound, StaleLease
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.turn.context import TurnContext
from outlast.store.log_store import LogStore
from outlast.store.port import LEASE_MS, Claimed, Query

NO_MODEL = "none"
ROUND_SECONDS = 1.0
GRACE_SECONDS = 3.0
"""How long an input waits for the process that admitted it to drive it, before the pool claims the session."""
AT_ONCE = 64
PAGE = 200
STOP_SECONDS = 10.0

_log = logging.getLogger("outlast.workers")


class WorkerPool:
    """Runs turns with the rights and the model of `settings`; each session runs in its own project.

    `at_once` limits the running turns; turns that wait for a person do not count. `grace_seconds` is for stores shared
    with terminals, which drive the inputs they admit themselves. `rights` returns the permission mode of one session
    when sessions differ; it is called for every turn, so it must be fast. With `works` false this pool never runs a
    turn: other workers do, and the store notifies them.
    """

    def __init__(
        self,
        store: LogStore,
        settings: Settings,
        config: AgentConfig | None = None,
        *,
        at_once: int = AT_ONCE,
        grace_seconds: float = GRACE_SECONDS,
        lease_seconds: float = LEASE_MS / 1000,
        equip: Equip | None = None,
        rights: Rights | None = None,
        places: Placement | None = None,
        metrics: Metrics | None = None,
        works: bool = True,
    ) -> None:
        self.store = store
        self.settings = settings
        self.works = works
        self.places = places if places is not None else Placement()
        config = config if config is not None else AgentConfig(prompting=True)
        self.contexts = WorkerContexts(store, settings, config, places=self.places, equip=equip, rights=rights)
        self.metrics = metrics if metrics is not None else Metrics()
        self.metrics.loads.append(self._load)
        self.slots = TurnSlots(at_once, self._poke)
        self._ttl_ms = round(lease_seconds * 1000)
        self._host = TurnHost(store, ttl_ms=self._ttl_ms)
        self._work: dict[str, asyncio.Task[None]] = {}
        self._turns: dict[str, PoolTurn] = {}
        self._backoff = Backoff()
        self._left_alone: dict[str, int] = {}
        self._dispatcher = Dispatcher(
            store,
            self._host.clock,
            self._take,
            slots=self.slots,
            resting=self._resting,
            places=self.places.offered,
            ttl_ms=self._ttl_ms,
            grace_ms=round(grace_seconds * 1000),
            every=lambda: ROUND_SECONDS,
        )
        self._going: asyncio.Task[None] | None = None
        self._closed = False
        self._hurry = asyncio.Event()

    @property
    def answers(self) -> bool:
        """Whether any session is answered; with the model `none` none is."""
        return self.settings.model != NO_MODEL

    # --- for doors

    async def start(self, *, resume: bool = True) -> None:
        """Start answering sessions with work. With `resume` this includes work that any process left before; otherwise
        such sessions are skipped until they get a new event or a `wake`."""
        if not self.answers or not self.works or self._dispatcher.open:
            return
        if not resume:
            self._left_alone = await asyncio.to_thread(self._waiting)
        self._dispatcher.open, self._dispatcher.hurried = True, resume
        self._dispatcher.looked.clear()
        self._dispatcher.poke()
        self._go()
        await self._dispatcher.looked.wait()

    def wake(self, session_id: str) -> None:
        """Answer this session now: a door admitted an input. Repeated calls cause no repeated work."""
        if self._closed or not self.answers or not self.works:
            return
        self._backoff.forget(session_id)
        self._left_alone.pop(session_id, None)
        self._dispatcher.call(session_id)
        self._go()

    def trouble(self, session_id: str) -> str | None:
        """Why the session is not answered, as a sentence; None if no failure is recorded."""
        return self._backoff.reason(session_id)

    @property
    def running(self) -> frozenset[str]:
        """The sessions whose turns run in this pool now."""
        return frozenset(runner.session_id for runner in self._host.runners.values())

    def _load(self) -> WorkerLoad:
        beside = self.slots.beside
        return WorkerLoad(len(self.running) - beside, beside, self.slots.most if self.works else 0)

    def running_context(self, session_id: str) -> TurnContext | None:
        """The context of the turn that runs in this pool; None if none runs."""
        return self._host.running_context(session_id)

    def turn_context(self, session_id: str) -> TurnContext:
        """The context a turn of this session would use, for boundaries, ends and previews. Reads the store: do not call
        it on the event loop."""
        return self.contexts.preview(session_id)

    def hurry(self) -> None:
        """Make `close` stop waiting for turns to end."""
        self._hurry.set()

    async def close(self, *, patience: float = 0.0) -> None:
        """Stop claiming and shut down. Running turns get `patience` seconds to end. Turns that do not end in time, and
        turns that only wait for a person, are handed over: they stay open in the log, their tools are stopped and their
        leases are released."""
        self._closed = self._dispatcher.closed = True
        self._host.close()  # sessions claimed just before are left to the next process
        self._dispatcher.poke()
        if self._going is not None:
            await asyncio.wait([self._going], timeout=STOP_SECONDS)
            self._going.cancel()
            await asyncio.gather(self._going, return_exceptions=True)
        await self._drain(patience)
        if self._work:
            await asyncio.wait(self._work.values(), timeout=STOP_SECONDS)
        for task in list(self._work.values()):
            task.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)
        await self.contexts.close()

    async def _drain(self, patience: float) -> None:
        until = time.monotonic() + patience
        while self._work and time.monotonic() < until and not self._hurry.is_set():
            for session_id in list(self._host.runners):
                if self._turns[session_id].slot.is_released:
                    self._hand_over(session_id)
            hurried = asyncio.ensure_future(self._hurry.wait())
            await asyncio.wait([hurried, *self._work.values()], timeout=0.2, return_when="FIRST_COMPLETED")
            hurried.cancel()
        for session_id in list(self._host.runners):
            self._hand_over(session_id)

    def _hand_over(self, session_id: str) -> None:
        runner = self._host.runners[session_id]
        if not runner.left:
            runner.leave()
            self.metrics.count("outlast_turns_handed_over_total")
            log_event(_log, logging.INFO, "turn.handed_over", **self._turns[session_id].position())

    # --- running one session

    def _go(self) -> None:
        if self._going is None:
            self._going = asyncio.create_task(self._supervised_rounds())

    async def _supervised_rounds(self) -> None:
        while not self._closed:
            try:
                await self._dispatcher.go()
            except OutlastError as error:
                log_event(_log, logging.ERROR, "claim.failed", **error_fields(error))
            except Exception:  # noqa: BLE001 - the loop must survive any error, or waiting sessions would wait forever
                _log.exception("claim.failed")
            await asyncio.sleep(0 if self._closed else ROUND_SECONDS)

    def _poke(self) -> None:
        self._dispatcher.poke()

    def _take(self, claimed: Claimed, asked: float) -> None:
        """Start work on a claimed session. `asked` is the monotonic time at which the claim was requested."""
        session_id = claimed.lease.session_id
        self.metrics.count("outlast_claims_total")
        if claimed.taken_over:
            self.metrics.count("outlast_lease_takeovers_total")
            log_event(_log, logging.INFO, "lease.taken_over", session=session_id, epoch=claimed.lease.epoch)
        before = self._work.get(session_id)
        work = self._supervised(claimed, asked, self.slots.take(), before)
        self._work[session_id] = asyncio.create_task(work)

    async def _supervised(
        self, claimed: Claimed, asked: float, slot: TurnSlot, before: asyncio.Task[None] | None
    ) -> None:
        session_id = claimed.lease.session_id
        try:
            if before is not None:  # it has released its lease and is about to end
                await asyncio.wait([before])
            await self._answer(claimed, asked, slot)
        finally:
            slot.leave()
            if self._work.get(session_id) is asyncio.current_task():
                del self._work[session_id]
            self._poke()

    async def _answer(self, claimed: Claimed, asked: float, slot: TurnSlot) -> None:
        session_id = claimed.lease.session_id
        try:
            await self._drive(claimed, asked, slot)
        except (SessionBusy, SessionNotFound):
            return  # another process drives it and will read the input, or it was deleted meanwhile
        except OutlastError as error:
            self._trouble(session_id, error, await asyncio.to_thread(self._last_seq, session_id))
        except Exception as error:  # noqa: BLE001 - a failure in one session must not stop the others
            _log.exception("turn.broke")
            self._trouble(session_id, error, await asyncio.to_thread(self._last_seq, session_id))
        else:
            self._backoff.forget(session_id)

    async def _drive(self, claimed: Claimed, asked: float, slot: TurnSlot) -> None:
        lease = claimed.lease
        turn = self._turns[lease.session_id] = PoolTurn(self.contexts, self.metrics, slot, self._ttl_ms)
        held = HeldLease(lease, asked)
        try:
            outcome = await self._host.run(lease.session_id, turn.build, held=held, while_chosen=True)
        except StaleLease as error:
            self.metrics.count("outlast_fenced_total")
            facts = {**turn.position(), "epoch": lease.epoch}
            log_event(_log, logging.WARNING, "turn.fenced", **facts, **error_fields(error))
        else:
            if not outcome.left:
                await self._refuse_idling(lease.session_id, outcome.opened_at)
        finally:
            del self._turns[lease.session_id]

    async def _refuse_idling(self, session_id: str, before: int) -> None:
        """Raise if the session still has work but the driver wrote nothing: otherwise it would be claimed and released
        again, forever."""
        header = await asyncio.to_thread(self.store.head, session_id)
        if header.has_work and header.last_seq == before:
            raise InvalidInput(
                f"session {session_id} is marked as having work but none was found; `outlast verify {session_id}` "
                "tells whether it is damaged"
            )

    # --- failures

    def _trouble(self, session_id: str, error: Exception, seq: int) -> None:
        """Record the failure and back off; a new event in the session, or a wake, causes an immediate retry."""
        noted = self._backoff.note(session_id, error, seq)
        self.metrics.count("outlast_troubles_total", error=type(error).__name__)
        told = error_fields(error) if isinstance(error, OutlastError) else {"error": type(error).__name__}
        log_event(_log, logging.WARNING, "turn.trouble", session=session_id, seq=seq, tries=noted.tries, **told)

    def _last_seq(self, session_id: str) -> int:
        """The session's last seq; 0 if it cannot be read. May block: do not call it on the event loop."""
        try:
            return self.store.head(session_id).last_seq
        except OutlastError:
            return 0

    def _resting(self) -> dict[str, int]:
        """Sessions not to claim at these seqs: they failed recently, or `start` was told to skip them."""
        return self._left_alone | self._backoff.resting()

    def _waiting(self) -> dict[str, int]:
        """Every session with work, with its last seq."""
        query = Query(pending=True, limit=PAGE)
        found: dict[str, int] = {}
        while True:
            page = self.store.find(query)
            found |= {header.session_id: header.last_seq for header in page.headers}
            if page.cursor is None:
                return found
            query = msgspec.structs.replace(query, cursor=page.cursor)
