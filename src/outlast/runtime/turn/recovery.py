"""Recovery of open turns, based on the folded state alone.

There are three cases: a new driver takes over and continues the turn of a dead process; a stopped turn (by the user, a
cancelled caller or a budget) is closed with every call answered; ending or clearing a session closes its turn first.
Each case is recorded as events, and nothing is inferred from clocks.
"""

from __future__ import annotations

import asyncio

from outlast.core.events import Event, ReplyInterrupted, RuntimeStateChanged, TurnEnded
from outlast.core.fold import HANDED_OVER
from outlast.core.messages import Part
from outlast.core.state import SessionState
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.turn.call_result import cancelled
from outlast.runtime.turn.draft import stored_draft
from outlast.runtime.turn.phases import Phase, PhaseEnd, Transition

RECOVERIES = 3
FAILED_RECOVERY = "failed_recovery"


async def take_over(driver: Driver) -> bool:
    """Take over the open turn: record that, and close an interrupted reply. False if there is no turn to continue.

    A turn that three drivers took over without progress ends here: what killed them would also kill the next driver.
    """
    await driver.claim()
    reach("lease.claimed")
    turn = driver.state.turn
    if turn is None:
        return False
    phase = driver.state.runtime.get("active_turn_phase") or Phase.PREPARE
    events: list[Event] = [_recorded(str(phase))]
    attempt = driver.state.attempt
    if attempt is not None:
        partial = await stored_partial_reply(driver)
        events.append(ReplyInterrupted(attempt_seq=attempt, parts=partial, reason="the process driving it was gone"))
    await driver.write(*events)
    if turn.recoveries < RECOVERIES or driver.state.open_approvals:  # or it only waits for a user
        return True
    await driver.write(
        *closing_events(driver.state, FAILED_RECOVERY, f"taken over {turn.recoveries} times without getting further")
    )
    return False


async def stored_partial_reply(driver: Driver) -> tuple[Part, ...]:
    """Return the stored part of another driver's open reply, for the event that closes the attempt."""
    if driver.state.attempt is None:
        return ()
    return await asyncio.to_thread(stored_draft, driver.store, driver.session_id, driver.state.last_seq)


def _recorded(phase: str) -> RuntimeStateChanged:
    before = Phase(phase) if phase in set(Phase) else Phase.PREPARE
    moved = Transition(
        before=before,
        after=before,
        kind=PhaseEnd.RECOVERY,
        reason_code="turn_recovered",
        summary="Going on with a turn that another process left open",
    )
    return RuntimeStateChanged(changes=moved.changes())


def handover_events(state: SessionState, partial: tuple[Part, ...] = ()) -> tuple[Event, ...]:
    """Return the events with which a live driver hands its turn over: they close an open reply, and the next driver
    does not count as a recovery after a crash."""
    if state.turn is None:
        return ()
    left = RuntimeStateChanged(changes={HANDED_OVER: state.turn.turn})
    if state.attempt is None:
        return (left,)
    return ReplyInterrupted(attempt_seq=state.attempt, parts=partial, reason="handed over to another process"), left


def closing_events(
    state: SessionState, outcome: str, reason: str | None, partial: tuple[Part, ...] = ()
) -> tuple[Event, ...]:
    """Return the events that end the open turn now: they close the attempt, answer every call, and mark the turn's
    inputs as answered."""
    turn = state.turn
    if turn is None:
        return ()
    events: list[Event] = []
    if state.attempt is not None:
        events.append(ReplyInterrupted(attempt_seq=state.attempt, parts=partial, reason=reason or outcome))
    events += [cancelled(call) for call in state.open_calls]
    phase = state.runtime.get("active_turn_phase")
    moved = Transition(
        before=Phase(phase) if phase in set(Phase) else Phase.START,
        after=Phase.FINALIZE,
        kind=PhaseEnd.TERMINAL,
        reason_code=outcome,
        summary=reason or outcome,
    )
    ended = {"outcome": outcome, "reason": reason}
    events.append(RuntimeStateChanged(changes={**moved.changes(), "last_turn": ended}))
    events.append(TurnEnded(outcome=outcome, reason=reason, answered=list(turn.inputs)))
    return tuple(events)
