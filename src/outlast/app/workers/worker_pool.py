"""The worker pool: runs the turns of a store's sessions in the background, for doors that only admit.

The second supervised loop. A door admits an input, which is durable, and wakes the pool. The pool claims the sessions
that have waited longest, as many as it has free slots, and has the turn host answer them. Once started, it also takes a
turn that a dead process left open, and an input that no process came for. Any number of pools share a store: a pool
leaves a session alone while another process drives it. When a pool closes, it hands its turns over: they stay open in
the log, and the next process goes on with them.
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
"""How long an input may wait for whoever admitted it and drives what he admits, before the crew takes it up."""
AT_ONCE = 64
PAGE = 200
STOP_SECONDS = 10.0

_log = logging.getLogger("outlast.workers")


class WorkerPool:
    """Runs turns with the rights and the model of `settings`; each session in its own project.

    `at_once` is how many turns may run; those that wait for a person do not count. `grace_seconds` is for those who
    share the store with terminals, which drive what they admit themselves. `rights` are those of one session, where not
    all have the same; they are asked for with every turn, so it must be quick. Without `works` nothing is ever run
    here: others do, and are told by the store.
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
        self._rounds = Dispatcher(
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
        """Whether anything may answer; with the model `none` nothing ever does."""
        return self.settings.model != NO_MODEL

    # --- for doors

    async def start(self, *, resume: bool = True) -> None:
        """Take up whatever waits, from now on. With `resume` also everything that waits already, whoever left it."""
        if not self.answers or not self.works or self._rounds.open:
            return
        if not resume:
            self._left_alone = await asyncio.to_thread(self._waiting)
        self._rounds.open, self._rounds.hurried = True, resume
        self._rounds.looked.clear()
        self._rounds.poke()
        self._go()
        await self._rounds.looked.wait()

    def wake(self, session_id: str) -> None:
        """Somebody waits in this session: answer. Nothing happens twice, however often it is called."""
        if self._closed or not self.answers or not self.works:
            return
        self._backoff.forget(session_id)
        self._left_alone.pop(session_id, None)
        self._rounds.call(session_id)
        self._go()

    def trouble(self, session_id: str) -> str | None:
        """Why nothing answers there, in a sentence; None when nothing is known to be wrong."""
        return self._backoff.reason(session_id)

    @property
    def running(self) -> frozenset[str]:
        """The sessions whose turns run here now."""
        return frozenset(runner.session_id for runner in self._host.runners.values())

    def _load(self) -> WorkerLoad:
        beside = self.slots.beside
        return WorkerLoad(len(self.running) - beside, beside, self.slots.most if self.works else 0)

    def running_context(self, session_id: str) -> TurnContext | None:
        """What the turn that runs here works with; None when none does."""
        return self._host.running_context(session_id)

    def turn_context(self, session_id: str) -> TurnContext:
        """What a turn of this session would work with: for boundaries, ends and previews. Reads; not for the loop."""
        return self.contexts.preview(session_id)

    def hurry(self) -> None:
        """Whoever waits in `close` for turns to end waits no longer."""
        self._hurry.set()

    async def close(self, *, patience: float = 0.0) -> None:
        """Stop: nothing is claimed any more. Turns have `patience` seconds to end by themselves; those that do not, and
        those that only wait for a person, are handed over: left open in the log, their tools stopped and their leases
        given back."""
        self._closed = self._rounds.closed = True
        self._host.close()  # a session claimed just before is left to the next process
        self._rounds.poke()
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
                if self._turns[session_id].slot.is_beside:
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

    # --- the work on one session

    def _go(self) -> None:
        if self._going is None:
            self._going = asyncio.create_task(self._supervised_rounds())

    async def _supervised_rounds(self) -> None:
        while not self._closed:
            try:
                await self._rounds.go()
            except OutlastError as error:
                log_event(_log, logging.ERROR, "claim.failed", **error_fields(error))
            except Exception:  # noqa: BLE001 - whatever it was, those who wait must not wait for ever
                _log.exception("claim.failed")
            await asyncio.sleep(0 if self._closed else ROUND_SECONDS)

    def _poke(self) -> None:
        self._rounds.poke()

    def _take(self, claimed: Claimed, asked: float) -> None:
        """A session was claimed for us, by a question asked at that moment."""
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
            if before is not None:  # it has given the lease back, and is about to end
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
            return  # another process is at it, and will read what waits; or it was deleted meanwhile
        except OutlastError as error:
            self._trouble(session_id, error, await asyncio.to_thread(self._last_seq, session_id))
        except Exception as error:  # noqa: BLE001 - one session's fault must not stop the others
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
        """What is claimed and given back untouched would be claimed again at once, for ever."""
        header = await asyncio.to_thread(self.store.head, session_id)
        if header.has_work and header.last_seq == before:
            raise InvalidInput(
                f"session {session_id} is said to have work, and a driver finds none; `outlast verify {session_id}` "
                "tells whether it is damaged"
            )

    # --- what could not be done

    def _trouble(self, session_id: str, error: Exception, seq: int) -> None:
        """Note it, and leave the session alone for a while; something new in it, or a wake, is tried at once."""
        noted = self._backoff.note(session_id, error, seq)
        self.metrics.count("outlast_troubles_total", error=type(error).__name__)
        told = error_fields(error) if isinstance(error, OutlastError) else {"error": type(error).__name__}
        log_event(_log, logging.WARNING, "turn.trouble", session=session_id, seq=seq, tries=noted.tries, **told)

    def _last_seq(self, session_id: str) -> int:
        """Where it stands; 0 when that cannot be read. A store that is away takes its time: not for the loop."""
        try:
            return self.store.head(session_id).last_seq
        except OutlastError:
            return 0

    def _resting(self) -> dict[str, int]:
        """Those that failed a short while ago, or are to be left alone, as long as nothing is new in them."""
        return self._left_alone | self._backoff.resting()

    def _waiting(self) -> dict[str, int]:
        """Every session with work, and where it stands."""
        query = Query(pending=True, limit=PAGE)
        found: dict[str, int] = {}
        while True:
            page = self.store.find(query)
            found |= {header.session_id: header.last_seq for header in page.headers}
            if page.cursor is None:
                return found
            query = msgspec.structs.replace(query, cursor=page.cursor)
