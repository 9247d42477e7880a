"""Compaction: when the window grows too large, what is kept, and what the event says. Pure; the driver writes.

    plan = due(rows, state, settings, context_window=...)        # None: not now
    summary = await summary_of(plan, model, ...)                   # `model_summary`; may take minutes
    if still_fits(plan, rows_since):                               # under the lease
        append(compacted_event(plan, summary))

A plan is made against a watermark, `upto_seq`: whatever is written while the summary is made comes behind it and stays.
Nothing changes before the event is written, so a summary that fails costs nothing.

Compacting a session that no agent drives: by its library object, without a model, under a lease of one commit.
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
"""Turns to wait after so many compactions in a row that saved nothing."""
_BOUNDARIES = (e.Compacted, e.CompactionUndone, e.HistoryCleared, e.Rewound, e.RewindUndone, e.EventRedacted)


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`input_tokens_threshold` is the setting `auto_compaction_input_tokens_threshold`; None: by the model's window.

    The last `keep_last` messages are kept, and before them as many as fit into `keep_tokens`.
    """

    input_tokens_threshold: int | None = None
    keep_last: int = KEEP_LAST
    keep_tokens: int = 0


class WindowLimits(msgspec.Struct, frozen=True):
    """`threshold`: compact from here on. `pressing`: the next request may not fit. `kept`: the most that is kept."""

    threshold: int
    pressing: int
    kept: int


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction will do: `dropped` is what the summary stands for, `earlier` the summary that stood there."""

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
    """`usage` is what asking a model has cost, also when its answer was of no use; `why` says why it was not."""

    text: str
    usage: Usage = Usage()
    model: str | None = None
    why: str | None = None


# --- how much there is ---------------------------------------------------------------------------------------------


def limits(settings: CompactionSettings, context_window: int = UNKNOWN_WINDOW, max_output: int = 0) -> WindowLimits:
    """Never above the model's own window: three quarters of it, less if the answer needs more than the rest."""
    ceiling = max(1, min(context_window * 3 // 4, context_window - min(max_output, context_window // 2)))
    wanted = settings.input_tokens_threshold
    threshold = ceiling if wanted is None else max(1, min(wanted, ceiling))
    return WindowLimits(threshold, max(threshold, min(context_window * 19 // 20, 2 * threshold)), ceiling // 2)


def message_tokens(message: Message) -> int:
    parts = message.parts
    if len(parts) == 1 and type(parts[0]) is TextPart:  # most are
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
    """An estimate of a whole request."""
    told = sum(text_tokens(tool.name + tool.description + repr(tool.parameters)) for tool in tools)
    return text_tokens(system) + told + sum(message_tokens(message) for message in messages)


def tokens_now(rows: Sequence[Row], state: SessionState, system: str = "", tools: Sequence[ToolSpec] = ()) -> int:
    """What the next request will hold: our estimate, or what the provider last counted and what came since, whichever
    is larger. `rows` as for `window`."""
    estimate = request_tokens(window(rows, state, asking=True).messages, system, tools)
    drawn = max((boundary.seq for boundary in state.journal), default=0)
    for stored, event in reversed(rows):
        if stored.seq <= drawn:
            break
        if isinstance(event, e.AssistantReplied) and event.usage.input_tokens:
            since = sum(message_tokens(one.message) for one in said(rows, state) if one.place > stored.seq)
            return max(estimate, event.usage.input_tokens + event.usage.output_tokens + since)
    return estimate


# --- whether -------------------------------------------------------------------------------------------------------


def may_compact(state: SessionState, tokens: int, limits: WindowLimits) -> bool:
    """Whether an automatic compaction makes sense now. Asked for by the user or by an overflow, it always does.

    The counters are folded from the log: a restart does not start the thrashing again.
    """
    if tokens < limits.threshold:
        return False
    counters = state.compactions
    if counters.count and counters.turns_since < COOL_DOWN[min(counters.futile, len(COOL_DOWN) - 1)]:
        return False
    return tokens >= limits.pressing if _taken_back(state) else True


def _taken_back(state: SessionState) -> bool:
    """The user undid the last compaction, so the next one waits until it must be."""
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
    """The plan of an automatic compaction, if it is time for one."""
    most = limits(settings, context_window, max_output)
    tokens = tokens_now(rows, state, system, tools)
    if not may_compact(state, tokens, most):
        return None
    return planned(rows, state, settings, limits=most, tokens=tokens)


# --- what ----------------------------------------------------------------------------------------------------------


def planned(
    rows: Sequence[Row],
    state: SessionState,
    settings: CompactionSettings,
    *,
    limits: WindowLimits,
    tokens: int | None = None,
    reason: str = "auto",
) -> CompactionPlan | None:
    """What to keep and what to summarise; None when there is nothing to gain. No call is parted from its result."""
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
    """The place of the first message to keep; 0 for none. The last one is kept whatever its size."""
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
    """Whether the plan still holds after what was written behind its watermark: no other boundary, and no redaction,
    which would live on in the summary."""
    return not any(isinstance(event, _BOUNDARIES) for stored, event in since if stored.seq > plan.upto_seq)


# --- the event -----------------------------------------------------------------------------------------------------


def structural(
    plan: CompactionPlan, *, usage: Usage | None = None, model: str | None = None, why: str | None = None
) -> CompactionSummary:
    """The summary that needs no model; `usage` and `why` are those of a model that was asked in vain."""
    text = structural_summary(plan.dropped, earlier=plan.earlier, known=plan.known)
    return CompactionSummary(text=text, usage=usage or Usage(), model=model, why=why)


def compacted_event(plan: CompactionPlan, summary: CompactionSummary) -> e.Compacted:
    """What to write; under the lease, after `still_fits`."""
    other = plan.tokens_before - request_tokens(
        [*plan.dropped, *plan.kept]
    )  # the system prompt, tools, what was carried
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
    """The last compaction of a session; `count` is how many there were."""

    count: int
    removed_message_count: int
    summary: str
    tokens_before: int
    tokens_after: int


def last_compaction(store: Store, session_id: str, state: SessionState) -> Compaction | None:
    """What the last compaction did; None when there was none."""
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
    """Compact if the window is past the threshold. `SessionBusy` when somebody drives the session, `ConflictError` when
    it moved on meanwhile: nothing was written then."""
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
