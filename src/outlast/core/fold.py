"""Fold: how each event changes `SessionState`.

One small handler per kind, and one table that is total over the union. Boundaries change only the view: the writer of a
clear or rewind first ends the turn and answers its inputs. So the state and the header, which sees each event alone,
always agree about pending inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from outlast.core import events as e
from outlast.core.boundaries import Boundary, BoundaryKind, journal_with, view_of
from outlast.core.event_row import StoredEvent
from outlast.core.header import ACTIVE, ARCHIVED, ENDED, REDACTED, UNARCHIVED, excerpt_of, life_after
from outlast.core.inbox import PendingInput
from outlast.core.messages import ToolCall, Usage
from outlast.core.state import (
    Approval,
    BoundaryRequest,
    CompactionCounters,
    OpenCall,
    OpenTurn,
    SessionState,
    UnknownEvent,
    takeover_record,
)
from outlast.core.usage import UsageTotals

TIMELINE, TRACE, PROMPTS = 24, 8, 16
UNKNOWN, REQUESTS, LIVE, FOLDERS = 16, 8, 256, 64
ARGUMENTS_LIMIT = 16 * 1024
CONTINUE = "continue"
SHELL = "bash"
HANDED_OVER = "handed_over"
"""Runtime key that a driver sets when it hands its turn over to the next driver on purpose."""
TAKEN_OVER = "taken_over"
"""Runtime key of the record in which a driver says that it replaced a dead one, see `TakeoverRecord`."""

Row = tuple[StoredEvent, e.Event | e.Opaque]
MESSAGE_KINDS = frozenset({"MessageAppended", "InputAdmitted", "AssistantReplied", "ToolCallFinished"})


def fold(state: SessionState, stored: StoredEvent, event: e.Event | e.Opaque) -> None:
    """Add one event. Total: an unknown event is recorded, and the state is then not `drivable`."""
    state.last_seq = stored.seq
    state.message_count += stored.kind in MESSAGE_KINDS and (stored.redacted or not isinstance(event, e.Opaque))
    if state.turn is not None and stored.epoch is not None:
        state.turn.epoch = stored.epoch
    if stored.redacted:
        _redacted(state, stored)
    elif isinstance(event, e.Opaque):
        state.unknown_count += 1
        if len(state.unknown) < UNKNOWN:
            state.unknown.append(UnknownEvent(seq=stored.seq, kind=event.kind, v=event.v, why=event.why[:200]))
    else:
        HANDLERS[type(event)](state, stored, event)


def folded(rows: Iterable[Row], state: SessionState | None = None) -> SessionState:
    """Return the state after these rows; with `state`, fold them into it in place."""
    state = SessionState() if state is None else state
    for stored, event in rows:
        fold(state, stored, event)
    return state


def _redacted(state: SessionState, stored: StoredEvent) -> None:
    """Apply what the kind alone implies: the body is gone."""
    if stored.kind == "InputAdmitted":
        state.inbox.admit(PendingInput(seq=stored.seq, excerpt=REDACTED))
    if stored.kind in {"AssistantReplied", "ReplyInterrupted"}:
        state.attempt = None


# --- the life of a session ---------------------------------------------------------------------------------------


def _created(state: SessionState, stored: StoredEvent, event: e.SessionCreated) -> None:
    state.title, state.model, state.persona = event.title, event.model, event.persona
    state.settings = event.settings


def _forked(state: SessionState, stored: StoredEvent, event: e.SessionForked) -> None:
    """Inherited events are history: none of their work is open here, and their usage counts in the base session."""
    state.life, state.was_ended, state.rotated_to = ACTIVE, False, None
    state.turn = state.attempt = state.interrupt = None
    state.calls, state.approvals, state.requests = [], [], []
    state.inbox.keep(event.carried_inputs)
    state.usage = UsageTotals()


def _rotated(state: SessionState, stored: StoredEvent, event: e.SessionRotated) -> None:
    _lives(state, ENDED)
    state.rotated_to = event.to_session_id
    _carried_out(state, "rotate")


def _renamed(state: SessionState, stored: StoredEvent, event: e.SessionRenamed) -> None:
    state.title = event.title


def _ended(state: SessionState, stored: StoredEvent, event: e.SessionClosed) -> None:
    _lives(state, ENDED)


def _archived(state: SessionState, stored: StoredEvent, event: e.SessionArchived) -> None:
    _lives(state, ARCHIVED)


def _unarchived(state: SessionState, stored: StoredEvent, event: e.SessionUnarchived) -> None:
    _lives(state, UNARCHIVED)


def _reopened(state: SessionState, stored: StoredEvent, event: e.SessionReopened) -> None:
    _lives(state, ACTIVE)


def _lives(state: SessionState, change: str) -> None:
    state.life, state.was_ended = life_after(state.life, state.was_ended, change)


def _model_changed(state: SessionState, stored: StoredEvent, event: e.ModelChanged) -> None:
    state.model = event.model


def _persona_changed(state: SessionState, stored: StoredEvent, event: e.PersonaChanged) -> None:
    state.persona = event.persona


def _nothing(state: SessionState, stored: StoredEvent, event: e.Event) -> None:
    """For events that are shown, searched or counted elsewhere; a driver does not need them."""


# --- input -------------------------------------------------------------------------------------------------------


def _admitted(state: SessionState, stored: StoredEvent, event: e.InputAdmitted) -> None:
    state.inbox.admit(PendingInput(seq=stored.seq, excerpt=excerpt_of(event.parts), delivery=event.delivery))


def _promoted(state: SessionState, stored: StoredEvent, event: e.InputPromoted) -> None:
    _read(state, stored, event.inputs)
    if state.turn is not None:
        state.turn.inputs += [seq for seq in event.inputs if seq not in state.turn.inputs]
        state.turn.decided, state.turn.code = CONTINUE, None  # whatever ended the turn, these are to be answered
    _progressed(state)


def _read(state: SessionState, stored: StoredEvent, inputs: list[int]) -> None:
    state.inbox.promote(inputs)
    state.reads = [*state.reads, *((seq, stored.seq) for seq in inputs)][-LIVE:]


def _withdrawn(state: SessionState, stored: StoredEvent, event: e.InputWithdrawn) -> None:
    state.inbox.answer(event.inputs)


def _interrupt_requested(state: SessionState, stored: StoredEvent, event: e.InterruptRequested) -> None:
    """Record an interrupt only for running or pending work: a stop pressed while idle must not stop a later turn."""
    if state.turn is not None or state.inbox.oldest():
        state.interrupt = stored.seq


def _boundary_requested(state: SessionState, stored: StoredEvent, event: e.BoundaryRequested) -> None:
    _carried_out(state, event.what)
    state.requests.append(BoundaryRequest(seq=stored.seq, what=event.what, arguments=event.arguments))
    del state.requests[:-REQUESTS]


def _carried_out(state: SessionState, what: str) -> None:
    state.requests = [request for request in state.requests if request.what != what]


# --- a turn ------------------------------------------------------------------------------------------------------


def _turn_started(state: SessionState, stored: StoredEvent, event: e.TurnStarted) -> None:
    state.turn = OpenTurn(
        turn=stored.turn or str(stored.seq),
        seq=stored.seq,
        inputs=list(event.inputs),
        model=event.model,
        mode=event.mode,
        epoch=stored.epoch,
        at=stored.at,
    )
    state.attempt, state.calls, state.approvals = None, [], []
    _read(state, stored, event.inputs)
    state.usage.turns += 1
    state.compactions.turns_since += 1


def _model_requested(state: SessionState, stored: StoredEvent, event: e.ModelRequested) -> None:
    state.attempt = stored.seq
    if state.turn is not None:
        state.turn.attempts = event.attempt
        state.turn.wait_until = 0
        state.turn.decided = state.turn.code = None


def _replied(state: SessionState, stored: StoredEvent, event: e.AssistantReplied) -> None:
    state.attempt = None
    state.calls = [_requested(stored.seq, part) for part in event.parts if isinstance(part, ToolCall)]
    state.approvals = []
    state.usage.replies += 1
    state.usage.add(event.usage, event.model)
    if state.turn is not None:
        state.turn.replies += 1
        state.turn.tokens += event.usage.input_tokens + event.usage.output_tokens
        state.turn.attempts = 0
    _progressed(state)


def _requested(seq: int, call: ToolCall) -> OpenCall:
    return OpenCall(
        call_id=call.id,
        name=call.name,
        arguments=_small(call.arguments),
        malformed=call.raw is not None,
        requested_seq=seq,
    )


def _small(arguments: dict[str, Any]) -> dict[str, Any] | None:
    return arguments if len(repr(arguments)) <= ARGUMENTS_LIMIT else None


def _progressed(state: SessionState) -> None:
    if state.turn is not None:
        state.turn.recoveries = state.turn.counted = state.turn.wait_until = 0


def _reply_interrupted(state: SessionState, stored: StoredEvent, event: e.ReplyInterrupted) -> None:
    state.attempt = None
    if event.usage != Usage():
        state.usage.add(event.usage, event.model)


def _call(state: SessionState, call_id: str) -> OpenCall | None:
    """Return the newest unfinished call with this id: ids may repeat."""
    return next((call for call in reversed(state.calls) if call.call_id == call_id and not call.finished_seq), None)


def _call_started(state: SessionState, stored: StoredEvent, event: e.ToolCallStarted) -> None:
    call = _call(state, event.call_id)
    if call is None:
        call = OpenCall(call_id=event.call_id, name=event.name)
        state.calls.append(call)
        _keep_live(state)
    call.name, call.arguments, call.effect = event.name, _small(event.arguments), event.effect
    call.digest_before, call.digest_after = event.target_digest_before, event.target_digest_after
    call.started_seq = stored.seq
    if state.turn is not None:
        state.turn.wait_until = 0


def _keep_live(state: SessionState) -> None:
    """Bound the lists: no driver has this many open calls, and a strange log must not make the state grow forever."""
    if len(state.calls) > LIVE:
        state.calls = [call for call in state.calls if not call.finished_seq][-LIVE:]
    del state.approvals[:-LIVE]


def _process_spawned(state: SessionState, stored: StoredEvent, event: e.ToolProcessSpawned) -> None:
    call = _call(state, event.call_id)
    if call is not None:
        call.pid, call.pid_started, call.host = event.pid, event.started, event.host


def _call_finished(state: SessionState, stored: StoredEvent, event: e.ToolCallFinished) -> None:
    state.usage.tool_calls += 1
    call = _call(state, event.call_id)
    if call is not None:
        call.finished_seq, call.status = stored.seq, event.status
        if not call.requested_seq:
            state.calls = [other for other in state.calls if other is not call]
    folder = event.facts.get("cwd")
    if event.name == SHELL and isinstance(folder, str) and folder != state.shell_folder:
        state.shell_folders = [*state.shell_folders, (stored.seq, folder)][-FOLDERS:]
    _progressed(state)


def _approval_requested(state: SessionState, stored: StoredEvent, event: e.ApprovalRequested) -> None:
    state.approvals.append(
        Approval(
            seq=stored.seq,
            call_id=event.call_id,
            name=event.name,
            call_digest=event.call_digest,
            reason=event.reason,
            mode=event.mode,
        )
    )
    _keep_live(state)
    _progressed(state)


def _approval_answered(state: SessionState, stored: StoredEvent, event: e.ApprovalAnswered) -> None:
    for approval in state.open_approvals:
        if approval.seq == event.approval_seq:
            approval.answer, approval.answered_seq = event.answer, stored.seq


def _decided(state: SessionState, stored: StoredEvent, event: e.CompletionDecided) -> None:
    if state.turn is not None:
        state.turn.decided, state.turn.code = event.outcome, event.code
        state.turn.nudges += event.outcome == CONTINUE
    _progressed(state)


def _turn_ended(state: SessionState, stored: StoredEvent, event: e.TurnEnded) -> None:
    state.turn = state.attempt = state.interrupt = None
    state.calls, state.approvals = [], []
    state.inbox.answer(event.answered)
    state.inbox.demote_all()


# --- boundaries of the window ------------------------------------------------------------------------------------


def _draw(state: SessionState, stored: StoredEvent, what: BoundaryKind, target: int = 0) -> None:
    carried = _carried(state, stored, what, target)
    _journal(state, Boundary(stored.seq, what, target, _needs(state, what, target), carried))


def _journal(state: SessionState, boundary: Boundary) -> None:
    state.view_start, state.journal = journal_with(state.view_start, state.journal, boundary)
    state.view = view_of(state.view_start, state.journal)


def _needs(state: SessionState, what: BoundaryKind, target: int) -> int:
    """Return the oldest input that is read after the boundary: a pending one, or one whose turn is kept."""
    kept = [seq for seq, read_at in state.reads if what is BoundaryKind.COMPACTED and read_at >= target]
    return min((seq for seq in (*kept, state.inbox.oldest()) if seq), default=0)


def _carried(state: SessionState, stored: StoredEvent, what: BoundaryKind, target: int) -> tuple[int, ...]:
    """Return the inputs of the running turn that the boundary would hide from the model."""
    turn, first = state.turn, stored.seq if what is BoundaryKind.CLEARED else max(target, state.view.cleared_at + 1)
    if turn is None or what not in {BoundaryKind.COMPACTED, BoundaryKind.CLEARED} or turn.seq >= first:
        return ()
    return tuple(seq for seq in turn.inputs if seq < first)


def _compacted(state: SessionState, stored: StoredEvent, event: e.Compacted) -> None:
    what, target = BoundaryKind.COMPACTED, event.first_kept_seq
    needs, carried = _needs(state, what, target), _carried(state, stored, what, target)
    pruned = (event.pruned_upto, event.pruned_over, event.summarised)
    _journal(state, Boundary(stored.seq, what, target, needs, carried, *pruned))
    _carried_out(state, "compact")
    before, counters = event.tokens_before, state.compactions
    futile = counters.futile + 1 if event.tokens_after * 10 > before * 9 else 0
    state.compactions = CompactionCounters(
        count=counters.count + 1,
        undone=counters.undone,
        last_seq=stored.seq,
        last_at=stored.at,
        tokens_before=before,
        tokens_after=event.tokens_after,
        futile=futile,
    )
    if event.usage != Usage():
        state.usage.add(event.usage, event.model)


def _compaction_undone(state: SessionState, stored: StoredEvent, event: e.CompactionUndone) -> None:
    _draw(state, stored, BoundaryKind.UNCOMPACTED, event.compacted_seq)
    _carried_out(state, "uncompact")
    state.compactions.undone += 1


def _cleared(state: SessionState, stored: StoredEvent, event: e.HistoryCleared) -> None:
    _draw(state, stored, BoundaryKind.CLEARED)
    _carried_out(state, "clear")


def _rewound(state: SessionState, stored: StoredEvent, event: e.Rewound) -> None:
    _draw(state, stored, BoundaryKind.REWOUND, event.to_seq)
    _carried_out(state, "rewind")


def _rewind_undone(state: SessionState, stored: StoredEvent, event: e.RewindUndone) -> None:
    _draw(state, stored, BoundaryKind.UNREWOUND, event.rewound_seq)
    _carried_out(state, "unrewind")


# --- runtime state and workflow records --------------------------------------------------------------------------


def _runtime_changed(state: SessionState, stored: StoredEvent, event: e.RuntimeStateChanged) -> None:
    state.runtime = {**state.runtime, **event.changes}
    refused = event.changes.get("boundary_refused")
    if isinstance(refused, dict):  # a refused request is settled too
        _carried_out(state, str(cast("dict[str, Any]", refused).get("what")))
    if HANDED_OVER in event.changes and state.turn is not None:
        state.turn.epoch = None  # a planned handover: the next driver's takeover is not a recovery
    if TAKEN_OVER in event.changes and state.turn is not None:
        record = takeover_record(event.changes[TAKEN_OVER])
        state.turn.recoveries, state.turn.counted = record.number, record.counted
        state.turn.wait_until = record.wait_until
    state.runtime_at = {**state.runtime_at, **dict.fromkeys(event.changes, stored.seq)}


def _timeline(state: SessionState, stored: StoredEvent, event: e.TimelineRecorded) -> None:
    state.timeline = [*state.timeline, event.entry][-TIMELINE:]


def _trace(state: SessionState, stored: StoredEvent, event: e.TraceRecorded) -> None:
    state.trace = [*state.trace, event.entry][-TRACE:]


def _ledger(state: SessionState, stored: StoredEvent, event: e.LedgerUpdated) -> None:
    state.ledger = event.ledger


def _prompt(state: SessionState, stored: StoredEvent, event: e.PromptRecorded) -> None:
    if not state.prompts or state.prompts[-1] != event.snapshot:
        state.prompts = [*state.prompts, event.snapshot][-PROMPTS:]


def _definition(state: SessionState, stored: StoredEvent, event: e.DefinitionOfDoneUpdated) -> None:
    state.definition_of_done = event.definition


def _usage(state: SessionState, stored: StoredEvent, event: e.UsageRecorded) -> None:
    state.usage.add(event.usage, event.model)


Handler = Callable[[SessionState, StoredEvent, Any], None]
HANDLERS: dict[type[e.Event], Handler] = {
    e.SessionCreated: _created,
    e.SessionForked: _forked,
    e.SessionRotated: _rotated,
    e.SessionRenamed: _renamed,
    e.SessionClosed: _ended,
    e.SessionReopened: _reopened,
    e.SessionArchived: _archived,
    e.SessionUnarchived: _unarchived,
    e.ModelChanged: _model_changed,
    e.PersonaChanged: _persona_changed,
    e.EventRedacted: _nothing,
    e.MessageAppended: _nothing,
    e.InputAdmitted: _admitted,
    e.InputPromoted: _promoted,
    e.InputWithdrawn: _withdrawn,
    e.InterruptRequested: _interrupt_requested,
    e.BoundaryRequested: _boundary_requested,
    e.TurnStarted: _turn_started,
    e.ModelRequested: _model_requested,
    e.AssistantReplied: _replied,
    e.ReplyInterrupted: _reply_interrupted,
    e.ToolCallStarted: _call_started,
    e.ToolProcessSpawned: _process_spawned,
    e.ToolCallFinished: _call_finished,
    e.ApprovalRequested: _approval_requested,
    e.ApprovalAnswered: _approval_answered,
    e.CompletionDecided: _decided,
    e.TurnEnded: _turn_ended,
    e.Compacted: _compacted,
    e.CompactionUndone: _compaction_undone,
    e.HistoryCleared: _cleared,
    e.Rewound: _rewound,
    e.RewindUndone: _rewind_undone,
    e.RouteOpened: _nothing,
    e.NoticePosted: _nothing,
    e.DeliveryBegun: _nothing,
    e.DeliveryMade: _nothing,
    e.DeliveryClosed: _nothing,
    e.RuntimeStateChanged: _runtime_changed,
    e.TimelineRecorded: _timeline,
    e.TraceRecorded: _trace,
    e.LedgerUpdated: _ledger,
    e.PromptRecorded: _prompt,
    e.EnvironmentDescribed: _nothing,
    e.DefinitionOfDoneUpdated: _definition,
    e.UsageRecorded: _usage,
}
"""Total over the union; a test compares it with `KINDS`."""
