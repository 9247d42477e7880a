"""Request and response bodies of the HTTP API. Requests with unknown fields are refused; responses may get new fields.

Times are integers: microseconds since 1970, UTC. Costs are millionths of a US dollar, null if unknown.
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
    """Base of request bodies."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base of response bodies."""


# --- sessions --------------------------------------------------------------------------------------------------------


class SessionSummary(SessionRow, kw_only=True):
    """A row of the session list. `state` is active, ended, archived, or damaged, where only the id is known.

    `active_stream_id` names the open turn. `activity` is running, approval (only in lists: a question waits for the
    user's answer), interrupted (a turn is open without a driver), waiting (an input has no answer yet), or null.
    """


class CreateSessionRequest(Body, frozen=True, kw_only=True):
    """`repo_path` is the project's folder on the server; by default the folder in which the server was started. `place`
    is a label that workers offer; the session then uses the worker's folder for that label."""

    persona_name: Name | None = None
    model_override: Name | None = None
    repo_path: AbsolutePath | None = None
    title: Name | None = None
    place: Label | None = None


class SessionAck(Answer, frozen=True, kw_only=True):
    session_id: str
    state: str


class PatchSessionRequest(Body, frozen=True, kw_only=True):
    """Only the given fields change. A permission mode can be lowered, but never raised above the server's own."""

    title: Name | None = None
    model: Name | None = None
    persona: Name | None = None
    permission_mode: Literal["read-only", "workspace-write", "danger-full-access", "prompt", "allow"] | None = None
    plan_mode: bool | None = None
    workflow: Literal["plain", "guided"] | None = None


# --- messages --------------------------------------------------------------------------------------------------------


class ImageInfo(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """`url` serves the bytes; `source` is the claimed address of the picture, and is never loaded."""

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
    """A tool call of the model. `raw` is the model's text if that was not valid JSON; the call was then not run."""

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
    """One message. `interrupted` marks an incomplete reply; `archived` marks a message that was cleared or rewound.

    For a tool result, `status` says whether the call was run, and `facts` holds its outcome: a diff, an exit code,
    seconds.
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
    """A session as of event `last_seq`; follow the stream from there. `draft` is the reply in progress.

    `interrupted` describes what an open turn without a driver was doing, `trouble` why this server gives no answer.
    """

    session: SessionSummary
    messages: list[MessageInfo]
    draft: OpenDraft | None
    last_seq: int
    first_seq: int | None
    permission_mode: str
    workflow: str | None
    interrupted: str | None
    trouble: str | None
    approvals: int


class Attachment(Body, frozen=True, kw_only=True):
    """A picture or a file, as base64. The type of a picture is detected from its bytes."""

    data: Annotated[bytes, Meta(min_length=1)]
    name: Name | None = None
    media_type: Annotated[str, Meta(min_length=3, max_length=100, pattern="^[a-z0-9.+-]+/[a-z0-9.+-]+$")] | None = None


class PostMessageRequest(Body, frozen=True, kw_only=True):
    """The same `key` twice is one message. `delivery`: queue (the default) waits for its own turn, steer is read by the
    running turn, interrupt stops the running turn."""

    content: SomeText
    key: Key | None = None
    delivery: Literal["queue", "steer", "interrupt"] | None = None
    attachments: Annotated[list[Attachment], Meta(max_length=20)] | None = None


class MessageAck(Answer, frozen=True, kw_only=True):
    """The message is stored. `session_id` differs from the requested id if the session continues in another one."""

    session_id: str
    seq: int
    message_id: str


# --- verbs -----------------------------------------------------------------------------------------------------------


class VerbAck(Answer, frozen=True, kw_only=True):
    """`result` is done; requested, if the session's driver will do it between two steps; or nothing, if there was
    nothing to do."""

    session_id: str
    state: str
    result: Literal["done", "requested", "nothing"]


class ReasonRequest(Body, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(max_length=2000)] | None = None


class ForkRequest(Body, frozen=True, kw_only=True):
    """`at` is the last event that both sessions share; by default the newest."""

    at: Seq | None = None
    title: Name | None = None


class RewindRequest(Body, frozen=True, kw_only=True):
    """`seq` is a message: it becomes the last one, or with `keep` false is set aside too. `files` also restores
    files."""

    seq: Seq
    keep: bool = True
    files: bool = False


class CompactRequest(Body, frozen=True, kw_only=True):
    """`instructions` says what the summary must keep."""

    instructions: Annotated[str, Meta(max_length=20_000)] | None = None


class DeleteReceipt(DeletionReceipt, frozen=True, kw_only=True):
    """The record of a deleted session: who deleted it and when, how many events it had, and their hash."""


# --- approvals -------------------------------------------------------------------------------------------------------


class ApprovalInfo(Answer, frozen=True, kw_only=True):
    """An open question. `arguments` are the exact arguments of the call, `diff` is what it would change now, `scope` is
    what an approval for the session would cover. `ask_user` asks for a text instead. `session_id` is the session that
    asks, and in which the question is answered: the requested session, or one of its working sub-agents."""

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
    """`answer`: once, session, always or deny; for `ask_user` any text. `call_digest` identifies the call that was
    shown: the answer applies only to that call."""

    approval_id: Seq
    answer: Annotated[str, Meta(min_length=1, max_length=100_000)]
    call_digest: Annotated[str, Meta(max_length=200)] | None = None


class AnswerAck(Answer, frozen=True, kw_only=True):
    session_id: str
    approval_id: int
    seq: int


# --- projections -----------------------------------------------------------------------------------------------------


class EventInfo(Answer, frozen=True, kw_only=True):
    """An event of the log. `hash` chains it to its predecessor; `body` is null if it was redacted."""

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
    """Estimated use of the model's context window; `window` is 0 if no model is known."""

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
    """Sums over replies; zero values are included."""


class UsageInfo(Answer, frozen=True, kw_only=True):
    """Usage and cost of a session. `cost_micros` sums the known costs; `unpriced` counts replies without a known
    price."""

    session_id: str
    turns: int
    replies: int
    tool_calls: int
    total: SpentInfo
    models: dict[str, SpentInfo]
    context: ContextInfo
    recent: list[ReplyUsage]


class SearchResults(SearchPage, frozen=True, kw_only=True):
    """One hit per lineage: event `seq` of `session_id` contains the match; `resume_id` is the session to continue."""


class MarkdownRequest(Body, frozen=True, kw_only=True):
    texts: Annotated[list[str], Meta(max_length=200)]


# --- the server ------------------------------------------------------------------------------------------------------


class Health(Answer, frozen=True, kw_only=True):
    status: Literal["ok"]


class LoginLink(Answer, frozen=True, kw_only=True):
    """`path` is valid once, for `expires_in` seconds."""

    path: str
    expires_in: int


class PersonaInfo(Answer, frozen=True, kw_only=True):
    name: str
    description: str
    source: str


class ServerInfo(Answer, frozen=True, kw_only=True):
    """Version, configuration and rights of the server. `permission_mode` is the upper limit, `permission_modes` are the
    modes a session can choose."""

    version: str
    store: str
    project_root: str
    project_key: str
    model: str | None
    answers: bool
    permission_mode: str
    permission_modes: list[str]
    personas: list[PersonaInfo]
