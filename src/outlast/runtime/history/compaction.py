"""Compaction: decides when the window is too large and what to keep, and builds the event. The driver writes it.

    plan = due(rows, state, settings, context_window=...)        # None: not now
    summary = await summary_of(plan, model, ...)                   # `model_summary`; may take minutes
    if still_fits(plan, rows_since):                               # under the lease
        append(compacted_event(plan, summary))

A plan has a watermark, `upto_seq`: events written while the summary is made come after it and stay. Nothing changes
before the event is written, so a failed summary does no harm.

`compact_if_due` compacts a session that no agent drives (by its library object): without a model, under a lease that
is claimed and released in the same commit.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

import msgspec

from outlast.core import events as e
from outlast.core.boundaries import BoundaryKind
from outlast.core.events import Compacted
from outlast.core.fold import Row
from outlast.core.ids import id_from
from outlast.core.messages import FilePart, ImagePart, Message, ReasoningPart, TextPart, ToolCall, ToolResult, Usage
from outlast.core.state import SessionState
from outlast.core.text import text_tokens
from outlast.core.window import WindowMessage, said, whole_from, window
from outlast.models.port import UNKNOWN_WINDOW, ToolSpec
from outlast.runtime.history.structural_summary import KnownFacts, known, structural_summary
from outlast.store.port import Append, Claim, Lease, NewEvent, Release, Store
from outlast.store.process_identity import holder
from outlast.store.read.decode import decode_events

KEEP_LAST = 4
IMAGE_TOKENS = 1_600
MESSAGE_TOKENS = 4
COOL_DOWN = (0, 2, 6, 16)
"""Turns to wait before the next compaction, by the number of futile compactions in a row."""
_BOUNDARIES = (e.Compacted, e.CompactionUndone, e.HistoryCleared, e.Rewound, e.RewindUndone, e.EventRedacted)


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`input_tokens_threshold` is the setting `auto_compaction_input_tokens_threshold`; None uses the model's window.

    The last `keep_last` messages are kept, and as many earlier ones as fit into `keep_tokens`.
    """

    input_tokens_threshold: int | None = None
    keep_last: int = KEEP_LAST
    keep_tokens: int = 0


class WindowLimits(msgspec.Struct, frozen=True):
    """Token limits. `threshold`: compact from here on. `pressing`: the next request may not fit. `kept`: the most that
    a compaction keeps."""

    threshold: int
    pressing: int
    kept: int


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Plan of a compaction: the summary replaces `dropped`; `earlier` is the text of the previous summary."""

    first_kept_seq: int
    upto_seq: int
    tokens_before: int
    kept_tokens: int
    dropped: tuple[Message, ...]
    kept: tuple[Message, ...]
    earlier: str = ""
    known: KnownFacts = KnownFacts()
    reason: str = "auto"


class CompactionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`usage` is the cost of the model request, even if its summary was rejected; `why` is then the reason."""

    text: str
    usage: Usage = Usage()
    model: str | None = None
    why: str | None = None


# --- size of the window --------------------------------------------------------------------------------------------


def limits(settings: CompactionSettings, context_window: int = UNKNOWN_WINDOW, max_output: int = 0) -> WindowLimits:
    """Compute the limits. The threshold is at most three quarters of the model's window, or less if the output needs
    more than the remaining quarter."""
    ceiling = max(1, min(context_window * 3 // 4, context_window - min(max_output, context_window // 2)))
    wanted = settings.input_tokens_threshold
    threshold = ceiling if wanted is None else max(1, min(wanted, ceiling))
    return WindowLimits(threshold, max(threshold, min(context_window * 19 // 20, 2 * threshold)), ceiling // 2)


def message_tokens(message: Message) -> int:
    parts = message.parts
    if len(parts) == 1 and type(parts[0]) is TextPart:  # the common case
        return MESSAGE_TOKENS + text_tokens(parts[0].text)
    return MESSAGE_TOKENS + sum(_part_tokens(part) for part in message.parts)


def _part_tokens(part: object) -> int:
    match part:
        case TextPart(text=text) | ReasoningPart(text=text):
            return text_tokens(text)
        case ToolCall(name=name, arguments=arguments, raw=raw):
            return text_tokens(name) + text_tokens(raw if raw is not None else repr(arguments))
        case ToolResult(content=content):
            return text_tokens(content)
        case ImagePart():
            return IMAGE_TOKENS
        case FilePart(data=data):
            return len(data) // 16
        case _:
            return 0


def request_tokens(messages: Iterable[Message], system: str = "", tools: Sequence[ToolSpec] = ()) -> int:
    """Estimate the tokens of a whole request."""
    told = sum(text_tokens(tool.name + tool.description + repr(tool.parameters)) for tool in tools)
    return text_tokens(system) + told + sum(message_tokens(message) for message in messages)


def tokens_now(rows: Sequence[Row], state: SessionState, system: str = "", tools: Sequence[ToolSpec] = ()) -> int:
    """Tokens of the next request: the larger of the estimate and the provider's last count plus all messages since.
    `rows` as for `window`."""
    estimate = request_tokens(window(rows, state, asking=True).messages, system, tools)
    drawn = max((boundary.seq for boundary in state.journal), default=0)
    for stored, event in reversed(rows):
        if stored.seq <= drawn:
            break
        if isinstance(event, e.AssistantReplied) and event.usage.input_tokens:
            since = sum(message_tokens(one.message) for one in said(rows, state) if one.place > stored.seq)
            return max(estimate, event.usage.input_tokens + event.usage.output_tokens + since)
    return estimate


# --- whether to compact --------------------------------------------------------------------------------------------


def may_compact(state: SessionState, tokens: int, limits: WindowLimits) -> bool:
    """Whether an automatic compaction makes sense now. A compaction by the user or after an overflow skips this check.

    The counters are folded from the log, so a restart does not reset the cool-down.
    """
    if tokens < limits.threshold:
        return False
    counters = state.compactions
    if counters.count and counters.turns_since < COOL_DOWN[min(counters.futile, len(COOL_DOWN) - 1)]:
        return False
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
) -> CompactionPlan | None:
    """Return the plan of an automatic compaction, or None if none is due."""
    most = limits(settings, context_window, max_output)
    tokens = tokens_now(rows, state, system, tools)
    if not may_compact(state, tokens, most):
        return None
    return planned(rows, state, settings, limits=most, tokens=tokens)


# --- what to compact -----------------------------------------------------------------------------------------------


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
    everything = said(rows, state)
    earlier = "\n".join(one.message.content for one in everything if one.message.is_summary)
    spoken = [one for one in everything if not one.message.is_summary and _speaks(one.message)]
    wanted = _wanted(spoken, settings, limits.kept)
    first = max(whole_from(rows, wanted if wanted else state.last_seq + 1), state.window_from)
    dropped = tuple(one.message for one in spoken if one.place < first)
    kept = tuple(one.message for one in spoken if one.place >= first)
    still_said = state.turn.inputs if state.turn and state.turn.seq < first else []
    carried = [message for message in dropped if message.seq in still_said]
    if len(dropped) == len(carried):
        return None
    return CompactionPlan(
        first_kept_seq=first,
        upto_seq=state.last_seq,
        tokens_before=tokens_now(rows, state) if tokens is None else tokens,
        kept_tokens=request_tokens([*kept, *carried]),
        dropped=dropped,
        kept=kept,
        earlier=earlier,
        known=known(state),
        reason=reason,
    )


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
    text = structural_summary(plan.dropped, earlier=plan.earlier, known=plan.known)
    return CompactionSummary(text=text, usage=usage or Usage(), model=model, why=why)


def compacted_event(plan: CompactionPlan, summary: CompactionSummary) -> e.Compacted:
    """Build the event; the driver writes it under the lease, after `still_fits`."""
    other = plan.tokens_before - request_tokens(
        [*plan.dropped, *plan.kept]
    )  # the system prompt, tools, the earlier summary
    after = max(0, other) + plan.kept_tokens + text_tokens(summary.text)
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
            "structural": summary.why is not None or summary.model is None,
            **({"why": summary.why} if summary.why else {}),
        },
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
