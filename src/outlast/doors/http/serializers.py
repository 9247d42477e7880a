"""Converts application objects to the response bodies of `schemas`."""

from __future__ import annotations

import msgspec

from outlast.app.sessions.delete import DeletionReceipt
from outlast.app.sessions.messages_page import MessageRow
from outlast.app.sessions.session_list import SessionRow
from outlast.core.messages import FilePart, ImagePart, Part, ReasoningPart, TextPart, ToolCall, ToolResult
from outlast.core.usage import ModelUsage
from outlast.doors.http.schemas import (
    DeleteReceipt,
    FileInfo,
    ImageInfo,
    MessageInfo,
    PartInfo,
    SessionSummary,
    SpentInfo,
    ToolCallInfo,
    ToolResultInfo,
)


def summary_row(summary: SessionRow) -> SessionSummary:
    return msgspec.convert(summary, SessionSummary, from_attributes=True)


def receipt_row(receipt: DeletionReceipt) -> DeleteReceipt:
    return msgspec.convert(receipt, DeleteReceipt, from_attributes=True)


def spent_row(spent: ModelUsage) -> SpentInfo:
    return msgspec.convert(spent, SpentInfo, from_attributes=True)


def message_row(session_id: str, said: MessageRow) -> MessageInfo:
    message, parts = said.message, said.message.parts
    seq, first = message.seq or 0, parts[0] if len(parts) == 1 else None
    text: list[PartInfo] = [first] if type(first) is TextPart else []  # fast path: most messages are one text
    return MessageInfo(
        seq=seq,
        message_id=said.message_id,
        role=message.role.value,
        content=message.content,
        parts=text or [_part(session_id, seq, n, part) for n, part in enumerate(parts)],
        tool_calls=[] if text else [_call(call) for call in message.tool_calls],
        token_count=said.token_count,
        is_summary=message.is_summary,
        archived=message.archived,
        interrupted=message.interrupted,
        ts=message.at or 0,
        status=said.status,
        facts=said.facts,
    )


def _part(session_id: str, seq: int, n: int, part: Part) -> PartInfo:
    """Convert one part. Pictures and files are described and fetched separately: a page of them would be too large."""
    match part:
        case TextPart() | ReasoningPart():
            return part
        case ToolCall():
            return _call(part)
        case ToolResult(call_id=call_id, content=content, is_error=is_error, name=name):
            return ToolResultInfo(call_id=call_id, content=content, is_error=is_error, name=name)
        case ImagePart(media_type=media_type, data=data, url=source, alt=alt):
            url = _url(session_id, seq, n) if data else None
            return ImageInfo(media_type=media_type, size=len(data), url=url, alt=alt, source=source)
        case FilePart(name=name, media_type=media_type, data=data):
            return FileInfo(name=name, media_type=media_type, size=len(data), url=_url(session_id, seq, n))


def _call(call: ToolCall) -> ToolCallInfo:
    return ToolCallInfo(id=call.id, name=call.name, arguments=call.arguments, raw=call.raw)


def _url(session_id: str, seq: int, n: int) -> str:
    return f"/api/sessions/{session_id}/attachments/{seq}/{n}"
