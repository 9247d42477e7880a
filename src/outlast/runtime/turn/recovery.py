"""Recovery of open turns, based on the folded state alone.

There are three cases: a new driver takes over and continues the turn of a dead process; a stopped turn (by the user, a
cancelled caller or a budget) is closed with every call answered; ending or clearing a session closes its turn first.
Each case is recorded as events. Who died and why is inferred from the log, never from clocks; only the pause before
another try has an end in time.
"""

from __future__ import annotations

import asyncio

import msgspec

from outlast.core.events import Event, ReplyInterrupted, RuntimeStateChanged, TurnEnded
from outlast.core.fold import HANDED_OVER, TAKEN_OVER
from outlast.core.messages import Part
from outlast.core.state import OpenTurn, SessionState, TakeoverRecord
from outlast.runtime.driven_turns import SHARED
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.turn.call_result import cancelled
from outlast.runtime.turn.draft import StoredDraft, stored_draft
from outlast.runtime.turn.observer import TakeoverWait
from outlast.runtime.turn.phases import Phase, PhaseEnd, Transition

FAILED_RECOVERY = "failed_recovery"
MOST_COUNTED = 5
"""The take-over that counts against the turn and ends it."""
WAITS = (0, 1, 5, 30, 120)
"""Seconds before the driver goes on, by number of take-overs without progress."""
WAITED_SECONDS = 60.0
WAITED = "waited_for_model"
"""Runtime key: the seq of the attempt whose driver had waited `WAITED_SECONDS` for the first byte of the reply."""

USER_QUESTIONS = frozenset({"ask_user", "exit_plan"})


async def take_over(driver: Driver) -> bool:
    """Take over the open turn: record that, and close an interrupted reply. False if there is no turn to continue.

    The turn ends here if the reply has killed its reader five times. A death counts against the turn only if its driver
    had received the first byte of the reply, or had waited a minute for it, and drove no other turn. Every death but
    the first makes the next driver wait before it goes on; a driver that dies during that wait adds nothing to it.
    """
    await driver.claim()
    reach("lease.claimed")
    turn = driver.state.turn
    if turn is None:
        return False
    phase = driver.state.runtime.get("active_turn_phase") or Phase.PREPARE
    attempt = driver.state.attempt
    draft = await _stored_draft(driver)
    record = _takeover(driver, draft)
    events: list[Event] = [_recorded(str(phase), record)]
    if attempt is not None:
        reason = "the process driving it was gone"
        events.append(ReplyInterrupted(attempt_seq=attempt, parts=draft.parts, reason=reason))
    await driver.write(*events)
    if turn.counted < MOST_COUNTED:
        return True
    await driver.write(*closing_events(driver.state, FAILED_RECOVERY, _given_up(turn.counted)))
    return False


def _takeover(driver: Driver, draft: StoredDraft) -> TakeoverRecord | None:
    """Return the record of this take-over; None if no driver died: the turn was handed over, or is this driver's."""
    state, turn = driver.state, driver.state.turn
    assert turn is not None
    assert driver.lease is not None
    if turn.epoch is None or turn.epoch == driver.lease.epoch:
        return None
    now = driver.clock.now_us()
    if turn.wait_until > now:  # the dead driver had only waited
        return TakeoverRecord(number=turn.recoveries, counted=turn.counted, wait_until=turn.wait_until)
    waited = state.attempt is not None and state.runtime.get(WAITED) == state.attempt
    counts = (draft.begun or waited) and not state.runtime.get(SHARED)
    seconds = 0 if _waits_for_user(state) else WAITS[min(turn.recoveries, len(WAITS) - 1)]
    until = now + round(seconds * 1_000_000) if seconds else 0
    return TakeoverRecord(number=turn.recoveries + 1, counted=turn.counted + counts, wait_until=until)


def _waits_for_user(state: SessionState) -> bool:
    asks = any(call.started_seq and call.name in USER_QUESTIONS for call in state.open_calls)
    return asks or bool(state.open_approvals)


def _given_up(counted: int) -> str:
    return (
        f"{counted} processes died while they read the model's reply to this message and did nothing else; "
        "retry asks the model again, with a new count"
    )


def takeover_wait(turn: OpenTurn | None, now_us: int) -> TakeoverWait | None:
    """Return how long the turn's driver still waits after deaths; None if it does not. A clock that was set back makes
    no wait longer than the rule says."""
    if turn is None or not turn.wait_until:
        return None
    longest = WAITS[min(max(turn.recoveries - 1, 0), len(WAITS) - 1)]
    seconds = min(float(longest), max(0.0, (turn.wait_until - now_us) / 1e6))
    return TakeoverWait(seconds=seconds, deaths=turn.recoveries)


async def stored_partial_reply(driver: Driver) -> tuple[Part, ...]:
    """Return the stored part of another driver's open reply, for the event that closes the attempt."""
    return (await _stored_draft(driver)).parts


async def _stored_draft(driver: Driver) -> StoredDraft:
    if driver.state.attempt is None:
        return StoredDraft()
    return await asyncio.to_thread(stored_draft, driver.store, driver.session_id, driver.state.last_seq)


def _recorded(phase: str, takeover: TakeoverRecord | None) -> RuntimeStateChanged:
    before = Phase(phase) if phase in set(Phase) else Phase.PREPARE
    moved = Transition(
        before=before,
        after=before,
        kind=PhaseEnd.RECOVERY,
        reason_code="turn_recovered",
        summary="Going on with a turn that another process left open",
    )
    record = {} if takeover is None else {TAKEN_OVER: msgspec.to_builtins(takeover)}
    return RuntimeStateChanged(changes={**moved.changes(), **record})


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
