"""What is done with a turn that somebody left open: by the folded state, and nothing else.

Three ways in: a dead process's turn is taken over and goes on; a stopped turn (the user, a cancelled caller, a budget)
is closed so that every call is answered; a session that is ended or cleared closes its turn first. All of them are
events; nothing is inferred from clocks.
"""

from __future__ import annotations

import asyncio

from outlast.core.events import Event, ReplyInterrupted, RuntimeStateChanged, TurnEnded
from outlast.core.fold import HANDED_OVER
from outlast.core.messages import Part
from outlast.core.state import SessionState
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.turn.draft import stored_draft
from outlast.runtime.turn.phases import Phase, PhaseEnd, Transition
from outlast.runtime.turn.tool_calls import cancelled

RECOVERIES = 3
FAILED_RECOVERY = "failed_recovery"


async def take_over(driver: Driver) -> bool:
    """Take over the open turn: record that, and close a reply that broke off. False when the turn was given up.

    A turn that three drivers took over without a new record ends here: whatever kills them would kill the next one.
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
    if turn.recoveries < RECOVERIES or driver.state.open_approvals:  # it is a person who is waited for
        return True
    await driver.write(
        *closing_events(driver.state, FAILED_RECOVERY, f"taken over {turn.recoveries} times without getting further")
    )
    return False


async def stored_partial_reply(driver: Driver) -> tuple[Part, ...]:
    """What is stored of a reply that another driver was writing: whoever closes it keeps that."""
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
    """The events with which a driver leaves its turn, alive and on purpose: a reply that breaks off is closed, and the
    next driver does not count as one that found a dead one."""
    if state.turn is None:
        return ()
    left = RuntimeStateChanged(changes={HANDED_OVER: state.turn.turn})
    if state.attempt is None:
        return (left,)
    return ReplyInterrupted(attempt_seq=state.attempt, parts=partial, reason="handed over to another process"), left


def closing_events(
    state: SessionState, outcome: str, reason: str | None, partial: tuple[Part, ...] = ()
) -> tuple[Event, ...]:
    """The events that end the open turn now: the attempt is closed, every call answered, every input too."""
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
