"""Every event that a session can record: frozen, named in the past tense, one closed union.

The stored kind of an event is its class name, except for those in `_OTHER_KINDS`. A body never holds its own position,
time or author: those are fields of the row (`outlast.core.event_row`). A new field needs a new version and an upcaster
in `outlast.core.codec`; golden files pin version 1 of every event.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from outlast.core.messages import Part, Role, Usage


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One fact in a log. The subclasses form the union."""


class Delivery(StrEnum):
    """When the session reads an input that arrives during a turn."""

    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT = "interrupt"


class EffectClass(StrEnum):
    """The consequence of running a tool twice."""

    READ = "R"
    VERIFIABLE = "V"
    OTHER = "N"


# --- the life of a session ---------------------------------------------------------------------------------------


class SessionCreated(Event, frozen=True, kw_only=True):
    """First event of a session that starts its own log."""

    title: str | None = None
    model: str | None = None
    persona: str | None = None
    project_root: str | None = None
    project_key: str | None = None
    project_fingerprint: str | None = None
    parent_session_id: str | None = None
    depth: int = 0
    settings: dict[str, Any] = {}


class SessionForked(Event, frozen=True, kw_only=True):
    """First event of a session that continues from event `base_seq` of another session."""

    base_session_id: str
    base_seq: int
    reason: str = "fork"
    carried_inputs: list[int] = []


class SessionRotated(Event, frozen=True, kw_only=True):
    """The session continues as `to_session_id`; nothing follows in this log."""

    to_session_id: str


class SessionRenamed(Event, frozen=True, kw_only=True):
    title: str


class SessionClosed(Event, frozen=True, kw_only=True):
    """The session takes no more input. Stored as `SessionEnded`; the class name avoids a clash with that error."""

    reason: str | None = None


class SessionReopened(Event, frozen=True, kw_only=True):
    pass


class SessionArchived(Event, frozen=True, kw_only=True):
    pass


class SessionUnarchived(Event, frozen=True, kw_only=True):
    pass


class ModelChanged(Event, frozen=True, kw_only=True):
    model: str


class PersonaChanged(Event, frozen=True, kw_only=True):
    persona: str


class EventRedacted(Event, frozen=True, kw_only=True):
    """The body of `seq` was replaced by its digest; `counted` is its contribution to the header's sums."""

    seq: int
    body_digest: str
    reason: str | None = None
    counted: dict[str, int] = {}


# --- input -------------------------------------------------------------------------------------------------------


class MessageAppended(Event, frozen=True, kw_only=True):
    """A message that a library caller added as history; it does not request a turn."""

    role: Role
    parts: tuple[Part, ...]


class InputAdmitted(Event, frozen=True, kw_only=True):
    """An input was accepted; a turn will answer it."""

    parts: tuple[Part, ...]
    delivery: Delivery = Delivery.QUEUE
    message_id: str | None = None


class InputPromoted(Event, frozen=True, kw_only=True):
    """The running turn has read these inputs."""

    inputs: list[int]


class InputWithdrawn(Event, frozen=True, kw_only=True):
    """These inputs were withdrawn before a turn answered them."""

    inputs: list[int]
    reason: str | None = None


class InterruptRequested(Event, frozen=True, kw_only=True):
    reason: str | None = None


class BoundaryRequested(Event, frozen=True, kw_only=True):
    """A door asked the driver to clear, rewind, compact or rotate between two steps."""

    what: str
    arguments: dict[str, Any] = {}


# --- a turn ------------------------------------------------------------------------------------------------------


class TurnStarted(Event, frozen=True, kw_only=True):
    inputs: list[int] = []
    model: str | None = None
    mode: str | None = None


class ModelRequested(Event, frozen=True, kw_only=True):
    """A request to the model is about to be sent; the seq of this event identifies the attempt."""

    model: str
    attempt: int = 1
    window_digest: str | None = None
    input_tokens_estimate: int | None = None


class AssistantReplied(Event, frozen=True, kw_only=True):
    attempt_seq: int
    parts: tuple[Part, ...]
    usage: Usage = Usage()
    model: str | None = None
    finish_reason: str | None = None


class ReplyInterrupted(Event, frozen=True, kw_only=True):
    attempt_seq: int
    parts: tuple[Part, ...] = ()
    reason: str = "interrupted"
    usage: Usage = Usage()
    model: str | None = None


class ToolCallStarted(Event, frozen=True, kw_only=True):
    """Written before the tool runs. `facts` (since version 2) holds the path and pre-image needed to undo the call."""

    call_id: str
    name: str
    arguments: dict[str, Any] = {}
    effect: EffectClass = EffectClass.OTHER
    approval_seq: int | None = None
    target_digest_before: str | None = None
    target_digest_after: str | None = None
    facts: dict[str, Any] = {}


class ToolProcessSpawned(Event, frozen=True, kw_only=True):
    call_id: str
    pid: int
    started: str
    host: str


class ToolCallFinished(Event, frozen=True, kw_only=True):
    call_id: str
    name: str
    parts: tuple[Part, ...] = ()
    status: str = "executed"
    is_error: bool = False
    facts: dict[str, Any] = {}


class ApprovalRequested(Event, frozen=True, kw_only=True):
    """`mode` is the permission mode at the time of the request: an answer is not valid under a lower mode."""

    call_id: str
    name: str
    arguments: dict[str, Any] = {}
    call_digest: str
    reason: str | None = None
    mode: str | None = None


class ApprovalAnswered(Event, frozen=True, kw_only=True):
    approval_seq: int
    answer: str
    call_digest: str | None = None


class CompletionDecided(Event, frozen=True, kw_only=True):
    outcome: str
    code: str
    summary: str | None = None
    facts: dict[str, Any] = {}


class TurnEnded(Event, frozen=True, kw_only=True):
    outcome: str
    reason: str | None = None
    answered: list[int] = []
    facts: dict[str, Any] = {}


# --- boundaries of the window ------------------------------------------------------------------------------------


class UserWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text of the user's message at `seq`, which a compaction keeps: whole, or its head and tail."""

    seq: int
    text: str


class Compacted(Event, frozen=True, kw_only=True):
    """The model sees `summary` instead of everything before `first_kept_seq`; the originals stay readable.

    Since version 2: tool outputs up to event `pruned_upto` with more than `pruned_over` characters are replaced in the
    window by a reference, `words` are the user's own texts that stay next to the summary, and with `summarised` False
    only outputs were pruned: an earlier summary and the start of the window stay as they were.
    """

    summary: str
    first_kept_seq: int
    tokens_before: int
    tokens_after: int
    usage: Usage = Usage()
    model: str | None = None
    facts: dict[str, Any] = {}
    pruned_upto: int = 0
    pruned_over: int = 0
    words: tuple[UserWords, ...] = ()
    summarised: bool = True


class CompactionUndone(Event, frozen=True, kw_only=True):
    compacted_seq: int


class HistoryCleared(Event, frozen=True, kw_only=True):
    """All earlier events are archived: kept and exported, but not shown and not sent to the model."""


class Rewound(Event, frozen=True, kw_only=True):
    """All events after `to_seq` and before this event are hidden."""

    to_seq: int
    files: dict[str, Any] = {}


class RewindUndone(Event, frozen=True, kw_only=True):
    rewound_seq: int


# --- chats -------------------------------------------------------------------------------------------------------


class RouteOpened(Event, frozen=True, kw_only=True):
    """A chat's route now leads to this session; `from_session_id` is the session it led to before."""

    route: str
    from_session_id: str | None = None


class NoticePosted(Event, frozen=True, kw_only=True):
    """A text from the gateway to a chat: a command's answer or a refusal. It is not a message of the session."""

    route: str
    text: str
    reply_to: str | None = None
    facts: dict[str, Any] = {}


class DeliveryBegun(Event, frozen=True, kw_only=True):
    """A gateway (`by`) is about to send part `part` of the outbox item that began with event `of_seq`. If `attempt`
    is over 1, the previous attempt may have arrived."""

    route: str
    of_seq: int
    part: int = 1
    attempt: int = 1
    by: str


class DeliveryMade(Event, frozen=True, kw_only=True):
    """The platform accepted the part as its message `message_id`, which may still be edited."""

    route: str
    of_seq: int
    part: int = 1
    attempt: int = 1
    message_id: str


class DeliveryClosed(Event, frozen=True, kw_only=True):
    """The outbox item that began with event `of_seq` is delivered, or (`failed`, with the reason) never will be.
    No open item of the chat needs an event up to `settled_seq`."""

    route: str
    of_seq: int
    outcome: str = "delivered"
    reason: str | None = None
    settled_seq: int = 0


# --- runtime state and workflow records ----------------------------------------------------------------------------


class RuntimeStateChanged(Event, frozen=True, kw_only=True):
    changes: dict[str, Any]


class TimelineRecorded(Event, frozen=True, kw_only=True):
    entry: dict[str, Any]


class TraceRecorded(Event, frozen=True, kw_only=True):
    entry: dict[str, Any]


class LedgerUpdated(Event, frozen=True, kw_only=True):
    ledger: dict[str, Any]


class PromptRecorded(Event, frozen=True, kw_only=True):
    snapshot: dict[str, Any]


class EnvironmentDescribed(Event, frozen=True, kw_only=True):
    """What the runtime told the model about folder, date, permissions, mode and project, in the request that follows.

    Only the window shows it; it is no message of the transcript. `facts` holds a digest of each fact by its name.
    """

    text: str
    facts: dict[str, str] = {}


class DefinitionOfDoneUpdated(Event, frozen=True, kw_only=True):
    definition: dict[str, Any]


class UsageRecorded(Event, frozen=True, kw_only=True):
    """Tokens used outside a reply, for example by a summariser."""

    usage: Usage
    model: str | None = None
    purpose: str | None = None


class Opaque(msgspec.Struct, frozen=True):
    """An event with a kind, version or field that this Outlast does not know. It is kept, followed and exported
    unchanged, but its session is not driven."""

    kind: str
    v: int
    why: str


_OTHER_KINDS: dict[type[Event], str] = {SessionClosed: "SessionEnded"}
KIND_OF: dict[type[Event], str] = {cls: _OTHER_KINDS.get(cls, cls.__name__) for cls in Event.__subclasses__()}
"""The stored kind of each class. A stored kind never changes, even if the class is renamed."""
KINDS: dict[str, type[Event]] = {kind: cls for cls, kind in KIND_OF.items()}
