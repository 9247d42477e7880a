"""What goes over the wire. Bodies refuse what they do not know; answers may grow.

Times are microseconds since 1970, UTC, as integers; costs are millionths of a US dollar, null when unknown.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from outlast.app.sessions.delete import DeletionReceipt
from outlast.app.sessions.messages_page import OpenDraft
from outlast.app.sessions.search import SearchPage
from outlast.app.sessions.session_list import SessionRow
from outlast.core.messages import ReasoningPart, TextPart
from outlast.core.usage import ModelUsage

LARGEST_SEQ = 2**53 - 1
Seq = Annotated[int, Meta(ge=1, le=LARGEST_SEQ)]
Key = Annotated[str, Meta(min_length=1, max_length=200, pattern="^[ -~]+$")]
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern="\\S")]
AbsolutePath = Annotated[str, Meta(min_length=1, max_length=4096, pattern="^/[^\\x00]*$")]
Label = Annotated[str, Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$")]
SomeText = Annotated[str, Meta(min_length=1)]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request's body."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer's body."""


# --- sessions --------------------------------------------------------------------------------------------------------


class SessionSummary(SessionRow, kw_only=True):
    """A row of the list. `state` is active, ended, archived, or damaged: then nothing but the id is known.

    `active_stream_id` names the turn that is open; `activity` is running, approval (it waits for the user's word, in
    lists), interrupted (a turn is open and nobody is at it), waiting (an input nobody has answered), or null.
    """


class CreateSessionRequest(Body, frozen=True, kw_only=True):
    """`repo_path` is the project's folder on the server; without it, the folder that the server was started in. With
    `place`, the label of one that workers offer, it is whatever folder they have for it."""

    persona_name: Name | None = None
    model_override: Name | None = None
    repo_path: AbsolutePath | None = None
    title: Name | None = None
    place: Label | None = None


class SessionAck(Answer, frozen=True, kw_only=True):
    session_id: str
    state: str


class PatchSessionRequest(Body, frozen=True, kw_only=True):
    """What is given is changed. A permission mode can be lowered, never raised above what the server may."""

    title: Name | None = None
    model: Name | None = None
    persona: Name | None = None
    permission_mode: Literal["read-only", "workspace-write", "danger-full-access", "prompt", "allow"] | None = None
    plan_mode: bool | None = None


# --- messages --------------------------------------------------------------------------------------------------------


class ImageInfo(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """`url` gives the bytes; `source` is where the picture is said to be, and is never loaded."""

    media_type: str
    size: int
    url: str | None = None
    alt: str | None = None
    source: str | None = None


class FileInfo(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="file"):
    name: str
    media_type: str
    size: int
    url: str | None = None


class ToolCallInfo(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="tool_call"):
    """A call of the model. `raw` is what it wrote where that was no JSON; then it was not run."""

    id: str
    name: str
    arguments: dict[str, Any]
    raw: str | None = None


class ToolResultInfo(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="tool_result"):
    call_id: str
    content: str
    is_error: bool
    name: str | None = None


PartInfo = TextPart | ReasoningPart | ToolCallInfo | ToolResultInfo | ImageInfo | FileInfo


class MessageInfo(Answer, frozen=True, kw_only=True):
    """One message. `interrupted` marks a reply that broke off; `archived` what was cleared or rewound.

    Of a tool's result, `status` tells whether it was run and `facts` what came of it: a diff, an exit code, seconds.
    """

    seq: int
    message_id: str
    role: Literal["user", "assistant", "tool", "system"]
    content: str
    parts: list[PartInfo]
    tool_calls: list[ToolCallInfo]
    token_count: int
    is_summary: bool
    archived: bool
    interrupted: bool
    ts: int
    status: str | None = None
    facts: dict[str, Any] | None = None


class SessionDetail(Answer, frozen=True, kw_only=True):
    """A session as of event `last_seq`: follow it from there. `draft` is the reply that is being written.

    `interrupted` tells in words what a turn that nobody is at was doing, `trouble` why nothing answers here.
    """

    session: SessionSummary
    messages: list[MessageInfo]
    draft: OpenDraft | None
    last_seq: int
    first_seq: int | None
    permission_mode: str
    interrupted: str | None
    trouble: str | None
    approvals: int


class Attachment(Body, frozen=True, kw_only=True):
    """A picture or a file, as base64. What a picture really is, its bytes tell."""

    data: Annotated[bytes, Meta(min_length=1)]
    name: Name | None = None
    media_type: Annotated[str, Meta(min_length=3, max_length=100, pattern="^[a-z0-9.+-]+/[a-z0-9.+-]+$")] | None = None


class PostMessageRequest(Body, frozen=True, kw_only=True):
    """The same `key` twice is one message. `delivery`: queue, as without one, waits for its own turn, steer is read by
    the running one, interrupt stops it."""

    content: SomeText
    key: Key | None = None
    delivery: Literal["queue", "steer", "interrupt"] | None = None
    attachments: Annotated[list[Attachment], Meta(max_length=20)] | None = None


class MessageAck(Answer, frozen=True, kw_only=True):
    """It is stored. `session_id` is another one where the session goes on elsewhere."""

    session_id: str
    seq: int
    message_id: str


# --- verbs -----------------------------------------------------------------------------------------------------------


class VerbAck(Answer, frozen=True, kw_only=True):
    """`result` is done; requested, where whoever drives the session does it between two steps; or nothing, where there
    was nothing to do."""

    session_id: str
    state: str
    result: Literal["done", "requested", "nothing"]


class ReasonRequest(Body, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(max_length=2000)] | None = None


class ForkRequest(Body, frozen=True, kw_only=True):
    """`at` is the last event that both share; without it, the newest."""

    at: Seq | None = None
    title: Name | None = None


class RewindRequest(Body, frozen=True, kw_only=True):
    """`seq` is a message: it stays the last one, or with `keep` false goes too. `files` brings files back as well."""

    seq: Seq
    keep: bool = True
    files: bool = False


class CompactRequest(Body, frozen=True, kw_only=True):
    """`instructions` say what the summary must keep."""

    instructions: Annotated[str, Meta(max_length=20_000)] | None = None


class DeleteReceipt(DeletionReceipt, frozen=True, kw_only=True):
    """What is left of a deleted session: who deleted it and when, how many events it had, and their hash."""


# --- approvals -------------------------------------------------------------------------------------------------------


class ApprovalInfo(Answer, frozen=True, kw_only=True):
    """A question that waits. `arguments` are exactly what would be done, `diff` what it would change now, `scope` how
    far an approval for the session would reach. `ask_user` asks for a text instead. `session_id` is whose question it
    is, and where it is answered: the session's own, or that of a sub-agent at work below it."""

    session_id: str
    approval_id: int
    call_id: str
    name: str
    arguments: dict[str, Any]
    call_digest: str
    reason: str | None
    mode: str | None
    diff: str | None
    scope: str | None
    answers: list[str]
    asked_at: int


class AnswerRequest(Body, frozen=True, kw_only=True):
    """`answer`: once, session, always or deny; for `ask_user` any text. `call_digest` is what was shown: the answer
    counts for that call and no other."""

    approval_id: Seq
    answer: Annotated[str, Meta(min_length=1, max_length=100_000)]
    call_digest: Annotated[str, Meta(max_length=200)] | None = None


class AnswerAck(Answer, frozen=True, kw_only=True):
    session_id: str
    approval_id: int
    seq: int


# --- projections -----------------------------------------------------------------------------------------------------


class EventInfo(Answer, frozen=True, kw_only=True):
    """A row of the log. `hash` ties it to its predecessor; `body` is null where it was redacted."""

    seq: int
    kind: str
    v: int
    at: int
    actor: str
    turn: str | None
    epoch: int | None
    hash: str
    redacted: bool
    body: Any


class RoleUse(Answer, frozen=True, kw_only=True):
    messages: int
    tokens: int


class ContextInfo(Answer, frozen=True, kw_only=True):
    """How full the model's window is, about; `window` is 0 where no model is known."""

    window: int
    used: int
    compacts_at: int
    system: int
    tools: int
    by_role: dict[str, RoleUse]


class ReplyUsage(Answer, frozen=True, kw_only=True):
    """One reply of the model, for charts; `kind` is reply, interrupted or compaction."""

    seq: int
    at: int
    kind: Literal["reply", "interrupted", "compaction"]
    turn: str | None
    model: str | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cost_micros: int | None


class SpentInfo(ModelUsage, kw_only=True, omit_defaults=False):
    """Sums over replies; what is nothing is told, too."""


class UsageInfo(Answer, frozen=True, kw_only=True):
    """What a session has spent. `cost_micros` adds up what is known; `unpriced` replies have no known price."""

    session_id: str
    turns: int
    replies: int
    tool_calls: int
    total: SpentInfo
    models: dict[str, SpentInfo]
    context: ContextInfo
    recent: list[ReplyUsage]


class SearchResults(SearchPage, frozen=True, kw_only=True):
    """One hit per lineage: `session_id` said it at event `seq`, `resume_id` goes on with it."""


class MarkdownRequest(Body, frozen=True, kw_only=True):
    texts: Annotated[list[str], Meta(max_length=200)]


# --- the server ------------------------------------------------------------------------------------------------------


class Health(Answer, frozen=True, kw_only=True):
    status: Literal["ok"]


class LoginLink(Answer, frozen=True, kw_only=True):
    """`path` is good once, for `expires_in` seconds."""

    path: str
    expires_in: int


class PersonaInfo(Answer, frozen=True, kw_only=True):
    name: str
    description: str
    source: str


class ServerInfo(Answer, frozen=True, kw_only=True):
    """What this server is and may do. `permission_mode` is the ceiling, `permission_modes` what can be chosen."""

    version: str
    store: str
    project_root: str
    project_key: str
    model: str | None
    answers: bool
    permission_mode: str
    permission_modes: list[str]
    personas: list[PersonaInfo]
