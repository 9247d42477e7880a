"""Every fact a session can record.

Frozen, past tense, one closed union. The stored kind of an event is the name of its class, except in `_OTHER_KINDS`.
A body never holds its own position, time or author: those are fields of the row (`outlast.core.event_row`). Adding a
field means a new version and an upcaster in `outlast.core.codec`; golden files pin version 1 of every event.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from outlast.core.messages import Part, Role, Usage


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A fact. Subclasses are the union."""


class Delivery(StrEnum):
    """When an input that arrives during a turn is read."""

    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT = "interrupt"


class EffectClass(StrEnum):
    """What running a tool twice would mean."""

    READ = "R"
    VERIFIABLE = "V"
    OTHER = "N"


# --- the life of a session ---------------------------------------------------------------------------------------


class SessionCreated(Event, frozen=True, kw_only=True):
    """The first event of a session that starts its own log."""

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
    """The first event of a session that goes on from another one's event `base_seq`."""

    base_session_id: str
    base_seq: int
    reason: str = "fork"
    carried_inputs: list[int] = []


class SessionRotated(Event, frozen=True, kw_only=True):
    """The session goes on as `to_session_id`; nothing follows here."""

    to_session_id: str


class SessionRenamed(Event, frozen=True, kw_only=True):
    title: str


class SessionClosed(Event, frozen=True, kw_only=True):
    """The session takes no more input. Stored as `SessionEnded`, which is also the name of the error."""

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
    """The body of `seq` was replaced by its digest; `counted` is what it had added to the header's sums."""

    seq: int
    body_digest: str
    reason: str | None = None
    counted: dict[str, int] = {}


# --- input -------------------------------------------------------------------------------------------------------


class MessageAppended(Event, frozen=True, kw_only=True):
    """A message put into the log by a library caller: history, not a request for a turn."""

    role: Role
    parts: tuple[Part, ...]


class InputAdmitted(Event, frozen=True, kw_only=True):
    """Somebody asks for something; a turn will answer."""

    parts: tuple[Part, ...]
    delivery: Delivery = Delivery.QUEUE
    message_id: str | None = None


class InputPromoted(Event, frozen=True, kw_only=True):
    """Inputs that a running turn has read."""

    inputs: list[int]


class InputWithdrawn(Event, frozen=True, kw_only=True):
    """Inputs that were taken back before a turn answered them."""

    inputs: list[int]
    reason: str | None = None


class InterruptRequested(Event, frozen=True, kw_only=True):
    reason: str | None = None


class BoundaryRequested(Event, frozen=True, kw_only=True):
    """A door asks the driver to clear, rewind, compact or rotate between two steps."""

    what: str
    arguments: dict[str, Any] = {}


# --- a turn ------------------------------------------------------------------------------------------------------


class TurnStarted(Event, frozen=True, kw_only=True):
    inputs: list[int] = []
    model: str | None = None
    mode: str | None = None


class ModelRequested(Event, frozen=True, kw_only=True):
    """An attempt at the model is opened; its seq names the attempt."""

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
    """Written before the effect. `facts` hold what is needed to undo it (since version 2): path and pre-image."""

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
    """`mode` is the permission mode under which it was asked: an answer does not stand under a lower one."""

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


class Compacted(Event, frozen=True, kw_only=True):
    """The model sees `summary` instead of everything before `first_kept_seq`; the originals stay readable."""

    summary: str
    first_kept_seq: int
    tokens_before: int
    tokens_after: int
    usage: Usage = Usage()
    model: str | None = None
    facts: dict[str, Any] = {}


class CompactionUndone(Event, frozen=True, kw_only=True):
    compacted_seq: int


class HistoryCleared(Event, frozen=True, kw_only=True):
    """Everything before is archived: kept, exported, not shown and not sent."""


class Rewound(Event, frozen=True, kw_only=True):
    """Everything after `to_seq` and before this event is set aside."""

    to_seq: int
    files: dict[str, Any] = {}


class RewindUndone(Event, frozen=True, kw_only=True):
    rewound_seq: int


# --- chats -------------------------------------------------------------------------------------------------------


class RouteOpened(Event, frozen=True, kw_only=True):
    """From here on a chat's route leads to this session; `from_session_id` is where it led before."""

    route: str
    from_session_id: str | None = None


class NoticePosted(Event, frozen=True, kw_only=True):
    """The gateway tells a chat something: the answer to a command, a refusal. No message of the session."""

    route: str
    text: str
    reply_to: str | None = None
    facts: dict[str, Any] = {}


class DeliveryBegun(Event, frozen=True, kw_only=True):
    """A gateway (`by`) is about to send part `part` of what began with event `of_seq` to a chat. From the second
    attempt on, the one before it may have arrived."""

    route: str
    of_seq: int
    part: int = 1
    attempt: int = 1
    by: str


class DeliveryMade(Event, frozen=True, kw_only=True):
    """The platform took it, as its message `message_id`, which may still be edited."""

    route: str
    of_seq: int
    part: int = 1
    attempt: int = 1
    message_id: str


class DeliveryClosed(Event, frozen=True, kw_only=True):
    """What began with event `of_seq` stands in the chat, or (`failed`, with the reason) never will. Of what the chat
    was owed up to event `settled_seq`, nothing is left."""

    route: str
    of_seq: int
    outcome: str = "delivered"
    reason: str | None = None
    settled_seq: int = 0


# --- what the agent knows about its work ---------------------------------------------------------------------------


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


class DefinitionOfDoneUpdated(Event, frozen=True, kw_only=True):
    definition: dict[str, Any]


class UsageRecorded(Event, frozen=True, kw_only=True):
    """Tokens spent outside a reply, by a summariser for example."""

    usage: Usage
    model: str | None = None
    purpose: str | None = None


class Opaque(msgspec.Struct, frozen=True):
    """A kind, version or field that this Outlast does not know. Kept, followed and exported as it is; not driven."""

    kind: str
    v: int
    why: str


_OTHER_KINDS: dict[type[Event], str] = {SessionClosed: "SessionEnded"}
KIND_OF: dict[type[Event], str] = {cls: _OTHER_KINDS.get(cls, cls.__name__) for cls in Event.__subclasses__()}
"""The stored kind of each class. A stored kind never changes, whatever the class is called."""
KINDS: dict[str, type[Event]] = {kind: cls for cls, kind in KIND_OF.items()}
