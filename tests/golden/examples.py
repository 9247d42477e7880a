"""One event of every kind with all of its fields set. The golden files hold them as version 1 wrote them."""

import msgspec

from outlast.core import events as e
from outlast.core.messages import FilePart, ImagePart, ReasoningPart, Role, TextPart, ToolCall, ToolResult, Usage

USAGE = Usage(
    input_tokens=1200,
    output_tokens=80,
    cache_read_tokens=1000,
    cache_write_tokens=200,
    reasoning_tokens=30,
    cost_micros=4321,
)
TEXT = TextPart("naïve 😀 \0 \u202eright to left\u202c e\u0301")
NOT_UTF8 = TextPart("lone \ud800 surrogate")
ARGUMENTS = {
    "command": "ls -l",
    "$b64": "a caller's own key",
    "$": [1, 1.5, True, None, -(2**63)],
    "\ud800": {"deep": ["\udfff", b"\x00\xff"]},
}
CALL = ToolCall(id="call_1", name="bash", arguments=ARGUMENTS, provider_id="toolu_01", raw='{"command": "ls')
RESULT = ToolResult(call_id="call_1", content="total 0", is_error=True, name="bash")
PARTS = (
    TEXT,
    NOT_UTF8,
    ReasoningPart(text="so far", signature="c2ln", provider="anthropic", redacted=True),
    CALL,
    RESULT,
    ImagePart(media_type="image/png", data=b"\x89PNG\r\n", url="data:,", alt="a dot"),
    FilePart(name="a.txt", media_type="text/plain", data=b"\xff\x00"),
)

FULL: tuple[e.Event, ...] = (
    e.SessionCreated(
        title="A title",
        model="anthropic:model",
        persona="reviewer",
        project_root="/srv/project",
        project_key="0123456789abcdef",
        project_fingerprint="origin:abc",
        parent_session_id="a" * 26,
        depth=2,
        settings={"plan": True},
    ),
    e.SessionForked(base_session_id="b" * 26, base_seq=41, reason="rotation", carried_inputs=[40, 41]),
    e.SessionRotated(to_session_id="c" * 26),
    e.SessionRenamed(title="Another \ud800 title"),
    e.SessionClosed(reason="done"),
    e.SessionReopened(),
    e.SessionArchived(),
    e.SessionUnarchived(),
    e.ModelChanged(model="openai:other"),
    e.PersonaChanged(persona="writer"),
    e.EventRedacted(seq=7, body_digest="0" * 64, reason="a secret", counted={"messages": 1, "pending": 1}),
    e.MessageAppended(role=Role.ASSISTANT, parts=PARTS),
    e.InputAdmitted(parts=(TEXT, PARTS[5]), delivery=e.Delivery.INTERRUPT, message_id="m-1"),
    e.InputPromoted(inputs=[3, 5]),
    e.InputWithdrawn(inputs=[4], reason="asked twice"),
    e.InterruptRequested(reason="ctrl-c"),
    e.BoundaryRequested(what="rewind", arguments={"to_seq": 3}),
    e.TurnStarted(inputs=[3], model="anthropic:model", mode="execute"),
    e.ModelRequested(model="anthropic:model", attempt=2, window_digest="1" * 64, input_tokens_estimate=900),
    e.AssistantReplied(
        attempt_seq=9, parts=(TEXT, CALL), usage=USAGE, model="anthropic:model-1", finish_reason="tool_use"
    ),
    e.ReplyInterrupted(attempt_seq=9, parts=(NOT_UTF8,), reason="recovered", usage=USAGE, model="anthropic:model-1"),
    e.ToolCallStarted(
        call_id="call_1",
        name="bash",
        arguments=ARGUMENTS,
        effect=e.EffectClass.VERIFIABLE,
        approval_seq=11,
        target_digest_before="2" * 64,
        target_digest_after="3" * 64,
        facts={"path": "a.txt", "before": b"\xffold"},
    ),
    e.ToolProcessSpawned(call_id="call_1", pid=4242, started="81726354", host="host/boot"),
    e.ToolCallFinished(
        call_id="call_1", name="bash", parts=(TEXT, RESULT), status="declined", is_error=True, facts={"exit": 1}
    ),
    e.ApprovalRequested(
        call_id="call_1",
        name="bash",
        arguments=ARGUMENTS,
        call_digest="4" * 64,
        reason="asks",
        mode="workspace-write",
    ),
    e.ApprovalAnswered(approval_seq=11, answer="once", call_digest="4" * 64),
    e.CompletionDecided(outcome="complete", code="verification_passed", summary="all green", facts={"passed": 3}),
    e.TurnEnded(outcome="completed", reason="turn_complete", answered=[3], facts={"steps": 2}),
    e.Compacted(
        summary="What went before.",
        first_kept_seq=12,
        tokens_before=90_000,
        tokens_after=9_000,
        usage=USAGE,
        model="anthropic:small",
        facts={"how": "model"},
        pruned_upto=18,
        pruned_over=400,
        words=(e.UserWords(seq=3, text="Rename it."),),
        summarised=False,
    ),
    e.CompactionUndone(compacted_seq=20),
    e.HistoryCleared(),
    e.Rewound(to_seq=4, files={"a.txt": "5" * 64}),
    e.RewindUndone(rewound_seq=23),
    e.RouteOpened(route="telegram:home:1001::", from_session_id="d" * 26),
    e.NoticePosted(route="telegram:home:1001::", text="A new session \ud800.", reply_to="77", facts={"command": "new"}),
    e.DeliveryBegun(route="telegram:home:1001::", of_seq=12, part=2, attempt=3, by="host boot 4242 81726354 ab"),
    e.DeliveryMade(route="telegram:home:1001::", of_seq=12, part=2, attempt=3, message_id="78"),
    e.DeliveryClosed(
        route="telegram:home:1001::", of_seq=12, outcome="failed", reason="the bot was blocked", settled_seq=19
    ),
    e.RuntimeStateChanged(changes={"workflow_mode": "plan", "phase": None}),
    e.TimelineRecorded(entry={"kind": "route", "score": 0.35}),
    e.TraceRecorded(entry={"code": "verification_passed"}),
    e.LedgerUpdated(ledger={"assumptions": [{"text": "it builds", "status": "open"}]}),
    e.PromptRecorded(snapshot={"mode": "plan", "text": "You are"}),
    e.EnvironmentDescribed(text="[Outlast runtime] Your environment:\n- Date: 2026-11-18", facts={"date": "6" * 16}),
    e.DefinitionOfDoneUpdated(definition={"status": "draft", "verification_commands": ["make test"]}),
    e.UsageRecorded(usage=USAGE, model="anthropic:small", purpose="summary"),
)


def minimal(full: e.Event) -> e.Event:
    """The same event with its required fields only."""
    required = [field.name for field in msgspec.structs.fields(full) if field.required]
    return type(full)(**{name: getattr(full, name) for name in required})
