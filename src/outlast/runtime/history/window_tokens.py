"""Token sizes: the estimate of a message and of a whole request, and the limits of the window that follow from a model.

The estimate counts four bytes as a token. Where a provider counted the last request, its count is used if it is larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from outlast.core import events as e
from outlast.core.fold import Row
from outlast.core.messages import FilePart, ImagePart, Message, ReasoningPart, TextPart, ToolCall, ToolResult
from outlast.core.state import SessionState
from outlast.core.text import text_tokens
from outlast.core.window import said, window
from outlast.models.port import UNKNOWN_WINDOW, ToolSpec

KEEP_LAST = 4
IMAGE_TOKENS = 1_600
MESSAGE_TOKENS = 4
SUMMARY_TOKENS = 2_000
WORDS_TOKENS = 20_000


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`input_tokens_threshold` is the setting `auto_compaction_input_tokens_threshold`; None uses the model's window.

    The last `keep_last` messages are kept, and as many earlier ones as fit into `keep_tokens`. `recall`: the model has
    the tool `recall`, so that old tool outputs may be replaced by references.
    """

    input_tokens_threshold: int | None = None
    keep_last: int = KEEP_LAST
    keep_tokens: int = 0
    recall: bool = False


class WindowLimits(msgspec.Struct, frozen=True):
    """Token limits. `threshold`: compact from here on. `pressing`: the next request may not fit. `kept`: the most that
    a compaction keeps. `settled`: if pruning old outputs leaves less than this, no summary is made. `recent`: the
    newest part of the window, in which no output is pruned. `summary` and `words`: the most that a summary and the
    user's own words beside it may take."""

    threshold: int
    pressing: int
    kept: int
    settled: int = 0
    recent: int = 0
    summary: int = SUMMARY_TOKENS
    words: int = 0


def limits(settings: CompactionSettings, context_window: int = UNKNOWN_WINDOW, max_output: int = 0) -> WindowLimits:
    """Compute the limits. The threshold is at most three quarters of the model's window, or less if the output needs
    more than the remaining quarter. With a lower threshold the other limits shrink in proportion."""
    ceiling = max(1, min(context_window * 3 // 4, context_window - min(max_output, context_window // 2)))
    wanted = settings.input_tokens_threshold
    threshold = ceiling if wanted is None else max(1, min(wanted, ceiling))
    room = min(context_window, threshold * 4 // 3)
    return WindowLimits(
        threshold,
        max(threshold, min(context_window * 19 // 20, 2 * threshold)),
        ceiling // 2,
        settled=threshold * 2 // 3,
        recent=room // 5,
        summary=min(max(SUMMARY_TOKENS, room // 20), context_window // 4),
        words=min(WORDS_TOKENS, room // 10),
    )


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
    `rows` as for `window`. A count from before the last boundary is of another window and is not used."""
    estimate = request_tokens(window(rows, state, asking=True).messages, system, tools)
    drawn = max((boundary.seq for boundary in state.journal), default=0)
    for stored, event in reversed(rows):
        if stored.seq <= drawn:
            break
        if isinstance(event, e.AssistantReplied) and event.usage.input_tokens:
            since = sum(message_tokens(one.message) for one in said(rows, state) if one.place > stored.seq)
            return max(estimate, event.usage.input_tokens + event.usage.output_tokens + since)
    return estimate
