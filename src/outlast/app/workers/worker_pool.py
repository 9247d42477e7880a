"""The crew: runs the turns of a store's sessions in the background, for doors that only admit.

The second supervised loop. A door admits an input, which is durable, and wakes the crew; the crew claims what has
waited longest, as much as it has berths for, and answers it. Once started it also takes what nobody woke it for: a turn
that a dead process left open, an input that nobody came for. Any number of crews share a store: a session that somebody
drives is left to them. What a crew runs when it is closed is handed over: it stays open in the log, and whoever comes
next goes on with it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import msgspec

from outlast.app.logging_setup import error_fields, log_event
from outlast.app.permissions import keep_mode
from outlast.app.placement import Placement
from outlast.app.sessions.update import is_to_plan
from outlast.app.settings import Settings, in_project
from outlast.app.turn_host import HeldLease, TurnHost
from outlast.app.turn_setup import build_turn_context
from outlast.app.workers.dispatcher import Dispatcher
from outlast.app.workers.metrics import Metrics, WorkerLoad
from outlast.app.workers.turn_slots import TurnSlot, TurnSlots
from outlast.core.errors import (
    ConfigError,
    InvalidInput,
    OutcomeUnknown,
    OutlastError,
    SessionBusy,
    SessionNotFound,
    StaleLease,
)
from outlast.core.errors import StoreUnavailable as Unavailable
from outlast.core.event_row import StoredEvent
from outlast.core.events import Event, TurnEnded, TurnStarted
from outlast.core.header import PLAN, Header
from outlast.core.state import SessionState
from outlast.models.port import Model
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.driver import Driver
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.runner import Runner
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.observer import NullObserver
from outlast.store.log_store import LogStore
from outlast.store.port import LEASE_MS, Claimed, Query
from outlast.store.read.decode import load_state

NO_MODEL = "none"
ROUND_SECONDS = 1.0
GRACE_SECONDS = 3.0
"""How long an input may wait for whoever admitted it and drives what he admits, before the crew takes it up."""
AT_ONCE = 64
PAGE = 200
BACK_OFF = (1.0, 5.0, 30.0, 60.0)
STOP_SECONDS = 10.0

_log = logging.getLogger("outlast.workers")


class SessionTrouble(msgspec.Struct, kw_only=True):
    """Why a session's input is not answered, and when it is tried again."""

    text: str
    seq: int
    tries: int = 1
    until: float = 0.0


class PoolObserver(NullObserver):
    """Counts and logs what one turn writes, keeps its permission mode, and frees its slot while a person thinks."""

    def __init__(self, metrics: Metrics, slot: TurnSlot, keep_mode: Callable[[SessionState], None]) -> None:
        self._metrics = metrics
        self._slot = slot
        self._keep_mode = keep_mode

    def event_written(self, stored: StoredEvent, event: Event) -> None:
        self._metrics.wrote(stored, event)
        facts = {"session": stored.session_id, "seq": stored.seq, "turn": stored.turn}
        if isinstance(event, TurnStarted):
            log_event(_log, logging.INFO, "turn.started", **facts)
        elif isinstance(event, TurnEnded):
            log_event(_log, logging.INFO, "turn.ended", **facts, outcome=event.outcome)

    def state_changed(self, state: SessionState) -> None:
        self._keep_mode(state)

    def waiting_for_person(self) -> AbstractAsyncContextManager[None]:
        return self._slot.released()


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
        equip: Callable[[TurnContext, Header], TurnContext] | None = None,
        rights: Callable[[str], PermissionMode] | None = None,
        places: Placement | None = None,
        metrics: Metrics | None = None,
        works: bool = True,
    ) -> None:
        self.store = store
        self.settings = settings
        self.config = config if config is not None else AgentConfig(prompting=True)
        self.works = works
        self.places = places if places is not None else Placement()
        self.metrics = metrics if metrics is not None else Metrics()
        self.metrics.loads.append(self._load)
        self.slots = TurnSlots(at_once, self._poke)
        self._ttl_ms = round(lease_seconds * 1000)
        self._host = TurnHost(store, ttl_ms=self._ttl_ms)
        self._equip = equip if equip is not None else self._as_asked
        self._rights = rights
        self._work: dict[str, asyncio.Task[None]] = {}
        self._held_slots: dict[str, TurnSlot] = {}
        self._troubles: dict[str, SessionTrouble] = {}
        self._left_alone: dict[str, int] = {}
        self._made: dict[str | None, Model | None] = {}
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
        self._troubles.pop(session_id, None)
        self._left_alone.pop(session_id, None)
        self._rounds.call(session_id)
        self._go()

    def trouble(self, session_id: str) -> str | None:
        """Why nothing answers there, in a sentence; None when nothing is known to be wrong."""
        found = self._troubles.get(session_id)
        return found.text if found is not None else None

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
        header = self.store.head(session_id)
        try:
            folder = self.places.folder(header, self.settings.project_root)
        except ConfigError:
            folder = self.settings.project_root  # it runs elsewhere
        return self._turn_context(header, load_state(self.store, session_id), folder)

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
        made, self._made = self._made, {}
        for model in made.values():
            if model is not None:
                await model.close()

    async def _drain(self, patience: float) -> None:
        until = time.monotonic() + patience
        while self._work and time.monotonic() < until and not self._hurry.is_set():
            for session_id, runner in list(self._host.runners.items()):
                if self._held_slots[session_id].is_beside:
                    self._hand_over(runner)
            hurried = asyncio.ensure_future(self._hurry.wait())
            await asyncio.wait([hurried, *self._work.values()], timeout=0.2, return_when="FIRST_COMPLETED")
            hurried.cancel()
        for runner in list(self._host.runners.values()):
            self._hand_over(runner)

    def _hand_over(self, runner: Runner) -> None:
        if not runner.left:
            runner.leave()
            self.metrics.count("outlast_turns_handed_over_total")
            log_event(_log, logging.INFO, "turn.handed_over", **_where(runner.session_id, runner.driver))

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
            self._troubles.pop(session_id, None)

    async def _drive(self, claimed: Claimed, asked: float, slot: TurnSlot) -> None:
        lease = claimed.lease
        self._held_slots[lease.session_id] = slot
        driven: list[Driver] = []

        async def build(driver: Driver) -> TurnContext:
            driven.append(driver)
            return await self._built(driver, slot)

        held = HeldLease(lease, asked)
        try:
            outcome = await self._host.run(lease.session_id, build, held=held, while_chosen=True)
        except StaleLease as error:
            self.metrics.count("outlast_fenced_total")
            where = _where(driven[0].session_id, driven[0])
            log_event(_log, logging.WARNING, "turn.fenced", **where, epoch=lease.epoch, **error_fields(error))
        else:
            if not outcome.left:
                await self._refuse_idling(lease.session_id, outcome.opened_at)
        finally:
            del self._held_slots[lease.session_id]

    async def _built(self, driver: Driver, slot: TurnSlot) -> TurnContext:
        """The context of the turns that this driver runs here, observed by the pool."""
        header = await asyncio.to_thread(self.store.head, driver.session_id)
        folder = self.places.folder(header, self.settings.project_root)
        context = await asyncio.to_thread(self._turn_context, header, driver.state, folder)
        observer = PoolObserver(self.metrics, slot, self._keeps_mode(driver, context))
        return replace(context, ttl_ms=self._ttl_ms, observer=observer)

    async def _refuse_idling(self, session_id: str, before: int) -> None:
        """What is claimed and given back untouched would be claimed again at once, for ever."""
        header = await asyncio.to_thread(self.store.head, session_id)
        if header.has_work and header.last_seq == before:
            raise InvalidInput(
                f"session {session_id} is said to have work, and a driver finds none; `outlast verify {session_id}` "
                "tells whether it is damaged"
            )

    def _keeps_mode(self, driver: Driver, context: TurnContext) -> Callable[[SessionState], None]:
        """The mode in force follows what the session's state says, within the rights of the session that is driven."""
        return lambda state: keep_mode(*self._under(driver.session_id), context, state)

    def _turn_context(self, header: Header, state: SessionState, folder: Path) -> TurnContext:
        settings, config = self._under(header.session_id)
        settings = in_project(settings, folder)
        return self._equip(build_turn_context(settings, config, settings.project_root, state, made=self._made), header)

    def _under(self, session_id: str) -> tuple[Settings, AgentConfig]:
        """What a turn of this session runs with, its rights as asked for and as the most there can be."""
        if self._rights is None:
            return self.settings, self.config
        mode = self._rights(session_id)
        config = msgspec.structs.replace(self.config, permission_mode=str(mode))
        return replace(self.settings, permission_mode=mode), config

    def _as_asked(self, context: TurnContext, header: Header) -> TurnContext:
        """A session that is to plan only is asked for a plan each time, until somebody says otherwise."""
        if not is_to_plan(self.store, header):
            return context
        return replace(context, config=msgspec.structs.replace(context.config, workflow_mode=PLAN))

    # --- what could not be done

    def _trouble(self, session_id: str, error: Exception, seq: int) -> None:
        """Note it, and leave the session alone for a while; something new in it, or a wake, is tried at once."""
        passes = isinstance(error, Unavailable | OutcomeUnknown)
        last = self._troubles.get(session_id)
        tries = last.tries + 1 if last is not None else 1
        wait = BACK_OFF[min(tries, len(BACK_OFF)) - 1] if passes else BACK_OFF[-1]
        known = isinstance(error, OutlastError)
        text = str(error) if known else "a turn failed in a way nobody foresaw; the log of the server has it"
        self._troubles[session_id] = SessionTrouble(text=text, seq=seq, tries=tries, until=time.monotonic() + wait)
        self.metrics.count("outlast_troubles_total", error=type(error).__name__)
        told = error_fields(error) if isinstance(error, OutlastError) else {"error": type(error).__name__}
        log_event(_log, logging.WARNING, "turn.trouble", session=session_id, seq=seq, tries=tries, **told)

    def _last_seq(self, session_id: str) -> int:
        """Where it stands; 0 when that cannot be read. A store that is away takes its time: not for the loop."""
        try:
            return self.store.head(session_id).last_seq
        except OutlastError:
            return 0

    def _resting(self) -> dict[str, int]:
        """Those that failed a short while ago, or are to be left alone, as long as nothing is new in them."""
        now = time.monotonic()
        return self._left_alone | {name: one.seq for name, one in self._troubles.items() if now < one.until}

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


def _where(session_id: str, driver: Driver | None) -> dict[str, str | int | None]:
    state = driver.state if driver is not None else None
    turn = state.turn.turn if state is not None and state.turn is not None else None
    return {"session": session_id, "seq": state.last_seq if state is not None else None, "turn": turn}
