"""What a compaction keeps of messages: references for old tool outputs, and the user's words next to a summary.

Both depend only on the log, so the window has the same bytes at every step between two boundaries. The tool `recall`
shows the original that a reference names.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import msgspec

from outlast.core.events import UserWords
from outlast.core.header import REDACTED
from outlast.core.messages import FilePart, ImagePart, Message, Part, Role, ToolResult

SUMMARY_MARK = "[COMPACTED CONTEXT]"
PRUNED = "[output pruned: recall(seq={}) shows it]"
WORDS_MARK = "[The user's own earlier messages, oldest first, each with the number of its event; they were read then.]"


def pruned_message(message: Message, upto: int, over: int) -> Message:
    """Return the message with a reference in place of each tool output of more than `over` characters, and of the
    attachments of a tool; the message itself if it is newer than event `upto` or holds no such output."""
    if message.seq is None or message.seq > upto or not message.tool_results:
        return message
    attached = message.role is Role.TOOL and any(isinstance(part, ImagePart | FilePart) for part in message.parts)
    if not attached and all(len(result.content) <= over for result in message.tool_results):
        return message
    reference = PRUNED.format(message.seq)
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolResult) and (attached or len(part.content) > over):
            parts.append(msgspec.structs.replace(part, content=reference))
        elif not (attached and isinstance(part, ImagePart | FilePart)):
            parts.append(part)
    return Message(role=message.role, parts=tuple(parts), seq=message.seq, at=message.at)


def summary_message(message: Message, words: Sequence[UserWords] = (), redacted: Container[int] = ()) -> Message:
    """Return the system message that begins a compacted window: the summary, then the user's words. A message of the
    user that was redacted since the compaction is not shown."""
    content = message.content if message.content.startswith(SUMMARY_MARK) else f"{SUMMARY_MARK}\n{message.content}"
    said = [f"[event {one.seq}]\n{REDACTED if one.seq in redacted else one.text}" for one in words]
    content = "\n\n".join([content, WORDS_MARK, *said]) if said else content
    return Message(role=Role.SYSTEM, content=content, seq=message.seq, at=message.at, is_summary=True)
