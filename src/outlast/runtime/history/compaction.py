"""Compaction: decides when the window is too large and what to keep, and builds the event. The driver writes it.

    plan = due(rows, state, settings, context_window=...)        # None: not now
    summary = await summary_of(plan, model, ...)                   # `model_summary`; may take minutes
    if still_fits(plan, rows_since):                               # under the lease
        append(compacted_event(plan, summary))

Old tool outputs are pruned first; if that frees enough, there is no summary. Only a compaction prunes, so the beginning
of the window stays the same between two of them. A plan has a watermark, `upto_seq`: events written while the summary
is made come after it and stay. Nothing changes before the event is written, so a failed summary does no harm.

`compact_if_due` compacts a session that no agent drives (by its library object): without a model, under a lease that
is claimed and released in the same commit.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

import msgspec

from outlast.core import events as e
from outlast.core.boundaries import BoundaryKind
from outlast.core.events import Compacted, UserWords
from outlast.core.fold import Row
from outlast.core.ids import id_from
from outlast.core.messages import Message, TextPart, Usage
from outlast.core.state import SessionState
from outlast.core.text import text_tokens
from outlast.core.window import SUMMARY_MARK, WindowMessage, said, whole_from
from outlast.models.port import UNKNOWN_WINDOW, ToolSpec
from outlast.runtime.history.pruned_outputs import PRUNED_OVER, prune_limit, pruned_count, pruned_tokens
from outlast.runtime.history.structural_summary import NOTES, KnownFacts, SummaryBudget, known, structural_summary
from outlast.runtime.history.user_words import kept_words, words_tokens
from outlast.runtime.history.window_tokens import (
    SUMMARY_TOKENS,
    CompactionSettings,
    WindowLimits,
    limits,
    message_tokens,
    request_tokens,
    tokens_now,
)
from outlast.store.port import Append, Claim, Lease, NewEvent, Release, Store
from outlast.store.process_identity import holder
from outlast.store.read.decode import decode_events

COOL_DOWN = (0, 2, 6, 16)
"""Turns to wait before the next compaction, by the number of futile compactions in a row."""
_BOUNDARIES = (e.Compacted, e.CompactionUndone, e.HistoryCleared, e.Rewound, e.RewindUndone, e.EventRedacted)


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Plan of a compaction: the summary and the user's `words` replace `dropped`; `earlier` is the text of the previous
    summary, `earlier_tokens` what it and its words take now. Outputs up to `pruned_upto` become references; without
    `summarised` that is all that happens."""

    first_kept_seq: int
    upto_seq: int
    tokens_before: int
    kept_tokens: int
    dropped: tuple[Message, ...]
    kept: tuple[Message, ...]
    earlier: str = ""
    earlier_tokens: int = 0
    known: KnownFacts = KnownFacts()
    reason: str = "auto"
    summary_tokens: int = SUMMARY_TOKENS
    words: tuple[UserWords, ...] = ()
    pruned_upto: int = 0
    summarised: bool = True


class CompactionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`usage` is the cost of the model request, even if its summary was rejected; `why` is then the reason."""

    text: str
    usage: Usage = Usage()
    model: str | None = None
    why: str | None = None


# --- whether to compact --------------------------------------------------------------------------------------------


def may_compact(state: SessionState, tokens: int, limits: WindowLimits) -> bool:
    """Whether an automatic compaction makes sense now. A compaction by the user or after an overflow skips this check.

    The counters are folded from the log, so a restart does not reset the cool-down. It ends early when the next request
    may not fit and the window has grown since the last compaction.
    """
    if tokens < limits.threshold:
        return False
    counters = state.compactions
    if counters.count and counters.turns_since < COOL_DOWN[min(counters.futile, len(COOL_DOWN) - 1)]:
        return tokens >= limits.pressing and tokens * 10 > counters.tokens_after * 11
    return tokens >= limits.pressing if _taken_back(state) else True


def _taken_back(state: SessionState) -> bool:
    """Whether the user undid the last compaction; the next automatic one then waits for the `pressing` limit."""
    last = state.compactions.last_seq
    return any(drawn.what is BoundaryKind.UNCOMPACTED and drawn.target == last for drawn in state.journal)


def due(
    rows: Sequence[Row],
    state: SessionState,
    settings: CompactionSettings,
    *,
    context_window: int = UNKNOWN_WINDOW,
    max_output: int = 0,
    system: str = "",
    tools: Sequence[ToolSpec] = (),
    summarise: bool = False,
) -> CompactionPlan | None:
    """Return the plan of an automatic compaction, or None if none is due. It only prunes old outputs if that frees
    enough, unless `summarise` asks for a summary."""
    most = limits(settings, context_window, max_output)
    tokens = tokens_now(rows, state, system, tools)
    if not may_compact(state, tokens, most):
        return None
    if settings.recall and not summarise:
        plan = prune_plan(rows, state, limits=most, tokens=tokens)
        if plan is not None:
            return plan
    return planned(rows, state, settings, limits=most, tokens=tokens)


# --- what to compact -----------------------------------------------------------------------------------------------


def prune_plan(rows: Sequence[Row], state: SessionState, *, limits: WindowLimits, tokens: int) -> CompactionPlan | None:
    """Plan a compaction that only prunes outputs; None if that would not free enough of the window."""
    spoken = _spoken(rows, state)
    messages = tuple(one.message for one in spoken)
    upto = prune_limit(spoken, limits.recent)
    saved = pruned_tokens(messages, upto)
    if not saved or tokens - saved >= limits.settled:
        return None
    return CompactionPlan(
        first_kept_seq=state.window_from,
        upto_seq=state.last_seq,
        tokens_before=tokens,
        kept_tokens=request_tokens(messages) - saved,
        dropped=(),
        kept=messages,
        pruned_upto=upto,
        summarised=False,
    )


def planned(
    rows: Sequence[Row],
    state: SessionState,
    settings: CompactionSettings,
    *,
    limits: WindowLimits,
    tokens: int | None = None,
    reason: str = "auto",
) -> CompactionPlan | None:
    """Plan what to keep and what to summarise; None if there is nothing to gain. Calls stay with their results."""
    spoken = _spoken(rows, state)
    wanted = _wanted(spoken, settings, limits.kept)
    first = max(whole_from(rows, wanted if wanted else state.last_seq + 1), state.window_from)
    dropped = tuple(one.message for one in spoken if one.place < first)
    kept = tuple(one.message for one in spoken if one.place >= first)
    still_said = state.turn.inputs if state.turn and state.turn.seq < first else []
    carried = [message for message in dropped if message.seq in still_said]
    if len(dropped) == len(carried):
        return None
    summary, words, earlier_tokens = _earlier(rows, state)
    gone = [message for message in dropped if message.seq not in still_said]
    upto = prune_limit(spoken, limits.recent) if settings.recall else 0
    upto = max(upto, state.view.pruned_upto)
    return CompactionPlan(
        first_kept_seq=first,
        upto_seq=state.last_seq,
        tokens_before=tokens_now(rows, state) if tokens is None else tokens,
        kept_tokens=request_tokens([*kept, *carried]) - pruned_tokens(kept, upto),
        dropped=dropped,
        kept=kept,
        earlier=summary,
        earlier_tokens=earlier_tokens,
        known=known(state),
        reason=reason,
        summary_tokens=limits.summary,
        words=kept_words(words, gone, [*kept, *carried], limits.words, recall=settings.recall),
        pruned_upto=upto,
    )


def _spoken(rows: Sequence[Row], state: SessionState) -> list[WindowMessage]:
    """Return the messages of the window that say something, without the summary."""
    return [one for one in said(rows, state) if not one.message.is_summary and _speaks(one.message)]


def _earlier(rows: Sequence[Row], state: SessionState) -> tuple[str, tuple[UserWords, ...], int]:
    """Return the summary in force, the user's words beside it that were not redacted since, and their tokens."""
    redacted = {event.seq for _, event in rows if isinstance(event, e.EventRedacted)}
    for stored, event in rows:
        if stored.seq == state.view.summary_at and isinstance(event, Compacted):
            shown = [one.message for one in said(rows, state) if one.message.is_summary]
            words = tuple(one for one in event.words if one.seq not in redacted)
            return f"{SUMMARY_MARK}\n{event.summary.removeprefix(SUMMARY_MARK).lstrip()}", words, request_tokens(shown)
    return "", (), 0


def _speaks(message: Message) -> bool:
    return any(not isinstance(part, TextPart) or part.text.strip() for part in message.parts)


def _wanted(spoken: list[WindowMessage], settings: CompactionSettings, most: int) -> int:
    """Return the place of the first message to keep; 0 for none. The last message is kept whatever its size."""
    wanted, held = 0, 0
    for n, one in enumerate(reversed(spoken)):
        held += message_tokens(one.message)
        if n >= settings.keep_last and held > settings.keep_tokens:
            break
        if n and held > most:
            break
        wanted = one.place
    return wanted


def still_fits(plan: CompactionPlan, since: Iterable[Row]) -> bool:
    """Whether the plan is still valid: no other boundary came after its watermark, and no redaction, whose content
    would survive in the summary."""
    return not any(isinstance(event, _BOUNDARIES) for stored, event in since if stored.seq > plan.upto_seq)


# --- the event -----------------------------------------------------------------------------------------------------


def structural(
    plan: CompactionPlan, *, usage: Usage | None = None, model: str | None = None, why: str | None = None
) -> CompactionSummary:
    """Build the structural summary; `usage`, `model` and `why` come from a model whose summary failed."""
    notes = SummaryBudget(max(NOTES.chars, plan.summary_tokens * 4), NOTES.lines, NOTES.line)
    text = structural_summary(plan.dropped, earlier=plan.earlier, known=plan.known, notes=notes)
    return CompactionSummary(text=text, usage=usage or Usage(), model=model, why=why)


def compacted_event(plan: CompactionPlan, summary: CompactionSummary) -> e.Compacted:
    """Build the event; the driver writes it under the lease, after `still_fits`."""
    other = plan.tokens_before - request_tokens([*plan.dropped, *plan.kept]) - plan.earlier_tokens
    after = max(0, other) + plan.kept_tokens + text_tokens(summary.text) + words_tokens(plan.words)
    pruned = pruned_count(plan.kept, plan.pruned_upto)
    return e.Compacted(
        summary=summary.text,
        first_kept_seq=plan.first_kept_seq,
        tokens_before=plan.tokens_before,
        tokens_after=after,
        usage=summary.usage,
        model=summary.model,
        facts={
            "reason": plan.reason,
            "upto_seq": plan.upto_seq,
            "dropped": len(plan.dropped),
            "kept": len(plan.kept),
            "structural": plan.summarised and (summary.why is not None or summary.model is None),
            **({"why": summary.why} if summary.why else {}),
            **({"pruned": pruned} if pruned else {}),
        },
        pruned_upto=plan.pruned_upto,
        pruned_over=PRUNED_OVER if plan.pruned_upto else 0,
        words=plan.words,
        summarised=plan.summarised,
    )


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """The last compaction of a session; `count` is the number of compactions so far."""

    count: int
    removed_message_count: int
    summary: str
    tokens_before: int
    tokens_after: int


def last_compaction(store: Store, session_id: str, state: SessionState) -> Compaction | None:
    """Return the last compaction, or None."""
    counters = state.compactions
    if not counters.last_seq:
        return None
    stored = store.read(session_id, after=counters.last_seq - 1, before=counters.last_seq + 1)
    [(_, event)] = decode_events(store, stored)
    if not isinstance(event, Compacted):
        return None
    return Compaction(
        count=counters.count,
        removed_message_count=int(event.facts.get("dropped", 0)),
        summary=event.summary,
        tokens_before=event.tokens_before,
        tokens_after=event.tokens_after,
    )


def compact_if_due(
    store: Store, session_id: str, state: SessionState, settings: CompactionSettings, actor: str
) -> bool:
    """Compact if the window is past the threshold. Raises `SessionBusy` if a driver holds the lease, `ConflictError` if
    the log has grown since `state` was folded; nothing is written in either case."""
    rows = decode_events(store, store.read(session_id, after=state.read_from - 1, before=state.last_seq + 1))
    plan = due(rows, state, settings)
    if plan is None:
        return False
    lease = Lease(session_id, 0, id_from(secrets.token_bytes(16)))
    event = NewEvent(event=compacted_event(plan, structural(plan)), actor=actor)
    store.commit(
        Claim(session_id=session_id, token=lease.token, holder=holder()),
        Append(session_id=session_id, events=(event,), lease=lease, expect=state.last_seq),
        Release(lease=lease),
    )
    return True
