"""The runner drains one session: it takes the lease, recovers an open turn, and runs turns until no input waits.

It is one of the two supervised loops. Each turn runs as a task next to three minder tasks: one renews the lease, one
follows the writes of doors, one watches the time budget. A minder that finds a reason to stop records it and cancels
the turn; the runner then answers every open call and releases the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from outlast.core.errors import ConflictError, InvalidInput, ModelError, OutlastError, StaleLease
from outlast.core.events import Delivery, TurnStarted
from outlast.core.header import ENDED
from outlast.core.messages import Part
from outlast.core.state import SessionState
from outlast.runtime.commit_retry import RACES
from outlast.runtime.current_session import current
from outlast.runtime.driven_turns import DrivenTurn
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.history.boundaries import apply_boundary_requests, rotated
from outlast.runtime.history.rewind import finish_restoring
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.recovery import closing_events, handover_events, take_over
from outlast.runtime.turn_loop import BUDGET, INTERRUPTED, Turn
from outlast.store.port import Store

LEFT = "left"


class StopRequest(Exception):
    """Why a running turn has to end now."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


StopNow = Callable[[StopRequest], None]


class Runner:
    """Runs the turns of one session with one turn context."""

    def __init__(
        self,
        store: Store,
        session_id: str,
        context: TurnContext,
        opened: Driver | None = None,
        driven: DrivenTurn | None = None,
    ) -> None:
        """`opened` is a freshly opened driver of the session; without it, `drain` opens one. `driven` is the caller's
        entry among the turns of this process. Once `outdated` returns True, the runner starts no further turn with its
        context."""
        self.store = store
        self.session_id = session_id
        self.context = context
        self.driver: Driver | None = None
        self.outdated: Callable[[SessionState], bool] = lambda state: False
        self._opened = opened
        self._driven = driven if driven is not None else DrivenTurn()
        self.error: ModelError | None = None
        self.answer = ""
        self._left = False
        self._sub_agents: set[Runner] = set()
        self._stop_now: StopNow | None = None

    @property
    def left(self) -> bool:
        return self._left

    def leave(self) -> None:
        """Stop now, and leave the turn open for the session's next driver, which treats the reply as interrupted and
        resumes the calls by their effect class. Its sub-agents leave, too, and the next driver continues them. `drain`
        returns as soon as everything below it has stopped."""
        self._left = True
        for runner in self._sub_agents:
            runner.leave()
        if self._stop_now is not None:
            self._stop_now(StopRequest(LEFT, "this process leaves the turn to the next one"))

    async def drain(self) -> Driver:
        """Answer waiting inputs, oldest first, until none is left; return the driver with its lease released.

        Raises `SessionBusy` if another process drives the session. `error` holds the error of a failed turn.
        """
        clock, ttl_ms = self.context.clock, self.context.ttl_ms
        driver = self._opened or await Driver.open(self.store, self.session_id, clock, ttl_ms)
        driver.clock, driver.ttl_ms, driver.wrote = clock, ttl_ms, self.context.observer.event_written
        self.driver, driver.driven = driver, self._driven
        try:
            with self._driven:
                await self._drain(driver)
        except asyncio.CancelledError:  # between two turns, or while one was being started
            await _shielded(self._close(driver, (), []))
            raise
        finally:
            await self._let_go(driver)
        return driver

    async def _drain(self, driver: Driver) -> None:
        for _ in range(10_000):
            if self._left:
                return
            self._may_drive(driver.state)
            if driver.state.turn is None and self.outdated(driver.state):
                return  # the next driver uses the settings that were chosen since
            if driver.state.turn is not None:
                if not await take_over(driver):
                    continue
                await finish_restoring(driver, self.context)
            elif driver.state.requests:
                await driver.claim()
                await apply_boundary_requests(driver, self.context)
                self.session_id = driver.session_id  # a rotation continues in a new session
                continue
            elif await self._rotated(driver):
                continue
            elif not await self._begin(driver):
                return
            if driver.lease is None:
                continue  # another driver has started the turn: run it only if it can be taken over
            await self._run_turn(driver)
            # Even with the lease released: a process that got `SessionBusy` relies on this runner to see its input.
            await driver.catch_up()

    def _may_drive(self, state: SessionState) -> None:
        if self.context.model is None:
            raise InvalidInput("no model is set, so no turn can run; choose one with --model")
        if not state.drivable:
            met = state.unknown[0]
            raise InvalidInput(
                f"session {self.session_id} holds an event this Outlast does not know ({met.kind} at {met.seq}); "
                "it can be read and exported here; continue it with the newer version that wrote it"
            )

    async def _rotated(self, driver: Driver) -> bool:
        """In rotate mode, rotate a session whose window is due for compaction before its next turn starts."""
        if self.context.config.compaction_mode != "rotate" or not next_inputs(driver.state):
            return False
        policy = self.context.policy(driver, self.context)
        if driver.lease is None:
            await driver.claim()
        if await rotated(driver, self.context, policy.system_prompt().text, self.context.tools.specs()):
            self.session_id = driver.session_id
            return True
        return False

    async def _begin(self, driver: Driver) -> bool:
        """Start the next turn; False if no input waits. If another driver was faster, catch up and check again."""
        for _ in range(RACES):
            inputs = next_inputs(driver.state)
            if not inputs or driver.state.life == ENDED or driver.state.turn is not None:
                return driver.state.turn is not None
            opening = await self.context.policy(driver, self.context).begin(inputs)
            assert self.context.model is not None
            started = TurnStarted(inputs=inputs, model=self.context.model.name, mode=opening.mode)
            try:
                await driver.write(started, *opening.events, claim=driver.lease is None, unmoved=True)
            except ConflictError:
                await driver.catch_up()
                continue
            reach("turn.started")
            return True
        raise ConflictError(f"session {self.session_id} keeps changing, so no turn could start; try again")

    async def _run_turn(self, driver: Driver) -> None:
        current.set(driver.session_id)  # inherited by the turn's task and every tool below it
        # Changes written between two turns apply from the first call on.
        self.context.observer.state_changed(driver.state)
        turn = Turn(driver, self.context, self._sub_agent_drained)
        working = asyncio.ensure_future(turn.run())
        stop: list[StopRequest] = []

        def stop_now(why: StopRequest) -> None:
            if not stop:
                stop.append(why)
            working.cancel()

        self._stop_now = stop_now
        minders = [
            asyncio.ensure_future(_minded(driver.renew_for_ever(), stop_now)),
            asyncio.ensure_future(_minded(driver.watch(lambda: self._noticed(driver.state, stop_now)), stop_now)),
            asyncio.ensure_future(self._mind_time(driver, stop_now)),
        ]
        _look(driver.state, stop_now)  # a stop that was requested before the turn started
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            mine = not stop  # the runner's own caller was cancelled
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await _shielded(self._close(driver, turn.attempts.partial, stop))
            if mine:
                raise
        finally:
            self._stop_now = None
            for minder in minders:
                minder.cancel()
            await asyncio.gather(*minders, return_exceptions=True)
        self.error, self.answer = turn.error, turn.answer

    async def _sub_agent_drained(self, store: Store, session_id: str, context: TurnContext) -> str:
        """Answer the waiting inputs of a sub-agent's session and return the last answer. Raises the error of its last
        turn. If this runner leaves, the sub-agent has no result yet."""
        runner = Runner(store, session_id, context, driven=DrivenTurn(self._driven))
        self._sub_agents.add(runner)
        try:
            await runner.drain()
        finally:
            self._sub_agents.discard(runner)
        if runner.left:
            raise asyncio.CancelledError
        if runner.error is not None:
            raise runner.error
        return runner.answer

    def _noticed(self, state: SessionState, stop_now: StopNow) -> None:
        _look(state, stop_now)
        self.context.observer.state_changed(state)

    async def _close(self, driver: Driver, partial: tuple[Part, ...], stop: list[StopRequest]) -> None:
        """Close a stopped turn, or hand it over after `leave`, unless its last commit already ended it."""
        why = stop[0] if stop else StopRequest(INTERRUPTED, "the caller was cancelled")
        if why.outcome == "stale":
            driver.lease = None
            raise StaleLease(str(why))
        if driver.lease is None:
            return
        await driver.catch_up()
        events = (
            handover_events(driver.state, partial)
            if self._left
            else closing_events(driver.state, why.outcome, why.reason, partial)
        )
        if events:
            await driver.write(*events, release=True)

    async def _mind_time(self, driver: Driver, stop_now: StopNow) -> None:
        turn = driver.state.turn
        left = self.context.budgets.seconds_left(turn, driver.clock.now_us()) if turn is not None else None
        if left is not None:
            await driver.clock.sleep(max(0.0, left))
            stop_now(StopRequest(BUDGET, f"the time budget of {self.context.budgets.max_seconds:g} s is used up"))

    async def _let_go(self, driver: Driver) -> None:
        if driver.lease is not None:
            await _shielded(driver.release())


async def _shielded(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` to its end. If the caller is cancelled again, `work` continues but its result is discarded."""
    doing = asyncio.ensure_future(work)
    doing.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.shield(doing)


async def _minded(work: Awaitable[None], stop_now: StopNow) -> None:
    """Run a minder, and stop the turn if the minder fails: a turn must not run without it."""
    try:
        await work
    except StaleLease as error:
        stop_now(StopRequest("stale", str(error)))
    except OutlastError as error:
        stop_now(StopRequest(INTERRUPTED, str(error)))


def _look(state: SessionState, stop_now: StopNow) -> None:
    """Stop the turn if a door asked for that: an interrupt, the end of the session, or an interrupting input."""
    if state.interrupt is not None:
        stop_now(StopRequest(INTERRUPTED, "the user interrupted it"))
    elif state.life == ENDED:
        stop_now(StopRequest(INTERRUPTED, "the session was ended"))
    elif any(item.delivery is Delivery.INTERRUPT and not item.promoted for item in state.inbox.inputs):
        stop_now(StopRequest(INTERRUPTED, "a newer message interrupts it"))


def next_inputs(state: SessionState) -> list[int]:
    """Return the inputs that the next turn answers: the oldest one, and the steering inputs directly after it."""
    waiting = state.inbox.inputs
    if not waiting:
        return state.inbox.seqs()[:1]
    taken = [waiting[0].seq]
    for item in waiting[1:]:
        if item.delivery is not Delivery.STEER:
            break
        taken.append(item.seq)
    return taken
