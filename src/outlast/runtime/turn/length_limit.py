"""Replies that the length limit cut off: the model is asked to continue, and the pieces are one answer.

Each piece is recorded as a reply, and each request for more as a decision with its reason. The requests are bounded: a
model that only thinks until the limit, or never comes to an end, stops here.
"""

from __future__ import annotations

import msgspec

from outlast.core.events import RuntimeStateChanged, TimelineRecorded
from outlast.core.messages import Part, TextPart, text_of
from outlast.core.record_storage import dump
from outlast.core.workflow_mode import mode_of
from outlast.core.workflow_records import COMPLETION_PREFIX, EntryKind, WorkflowTimelineEntry
from outlast.models.port import Finished
from outlast.runtime.clock import timestamp
from outlast.runtime.driver import Driver
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.dialect import written_calls
from outlast.runtime.turn.policy import CONTINUE, PolicyVerdict
from outlast.runtime.turn.turn_stats import REPLY_CUT_OFF, TurnRecord

LENGTH = "length"
CUT_OFF_EXHAUSTED = "reply_cut_off_exhausted"
MAX_CONTINUATIONS = 10
MAX_IDLE = 3
GO_ON = "[Outlast runtime] Your reply was cut off by the length limit. Continue exactly where it stopped."


def joined_parts(parts: tuple[Part, ...], record: TurnRecord) -> tuple[Part, ...]:
    """Return the parts of a reply after the text of the cut-off replies that it continues."""
    return (TextPart(record.cut_text), *parts) if record.cut_text else parts


def own_parts(parts: tuple[Part, ...], record: TurnRecord) -> tuple[Part, ...]:
    """Return what a reply adds to the cut-off replies that it continues; the inverse of `joined_parts`."""
    cut = record.cut_text
    if not cut:
        return parts
    added = (_added(part, cut) if isinstance(part, TextPart) else part for part in parts)
    return tuple(part for part in added if not isinstance(part, TextPart) or part.text)


def _added(part: TextPart, cut: str) -> TextPart:
    return TextPart(part.text[len(cut) :] if part.text.startswith(cut) else "")


def cut_off_verdict(
    finished: Finished, parts: tuple[Part, ...], record: TurnRecord, driver: Driver, context: TurnContext
) -> PolicyVerdict | None:
    """Return the verdict on a reply without native calls that the length limit cut off; None for any other reply.
    `parts` are joined with those that the reply continues."""
    assert context.model is not None
    if finished.finish_reason != LENGTH or context.model.abilities.chat_profile:
        return None  # a demo model that only chats rambles up to its limit, so its answer is what it has said
    written = written_calls(parts, record, driver, context)
    if written is not None and all(call.raw is None for call in written.calls):
        return None  # the calls at its end are whole
    idle = 0 if text_of(finished.parts).strip() else record.idle_cuts + 1
    if record.cuts >= MAX_CONTINUATIONS or idle >= MAX_IDLE:
        summary = "the length limit cut the reply off again and again"
        stopped = _verdict(driver, "finalize", CUT_OFF_EXHAUSTED, summary, EntryKind.REPAIR_FAIL)
        return msgspec.structs.replace(stopped, reason=summary)
    summary = "asked to continue because the length limit cut the reply off"
    return _verdict(driver, CONTINUE, REPLY_CUT_OFF, summary, EntryKind.REPAIR_RETRY, GO_ON)


def _verdict(
    driver: Driver, outcome: str, code: str, summary: str, kind: EntryKind, nudge: str | None = None
) -> PolicyVerdict:
    entry = WorkflowTimelineEntry(
        timestamp=timestamp(driver.clock),
        kind=str(kind),
        mode=str(mode_of(driver.state.runtime.get("workflow_mode"))),
        reason_code=code,
        summary=f"{COMPLETION_PREFIX}{summary}",
        policy_outcome=outcome,
    )
    changes = {"last_completion_decision_code": code, "last_completion_decision_summary": summary}
    events = (TimelineRecorded(entry=dump(entry)), RuntimeStateChanged(changes=changes))
    return PolicyVerdict(outcome=outcome, code=code, summary=summary, events=events, nudge=nudge)
