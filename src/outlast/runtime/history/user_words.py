"""The user's own words that a compaction keeps beside the summary: the newest ones, verbatim, within a budget.

A message that does not fit keeps its head and its tail. The originals stay in the log; with the tool `recall` the model
can read them, and a cut names the event to ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from outlast.core.events import UserWords
from outlast.core.messages import FilePart, ImagePart, Message, Role, TextPart
from outlast.core.text import text_tokens, valid_text

FEWEST_TOKENS = 64
"""A shorter excerpt of a message would say nothing."""
HEADER_TOKENS = 6


def kept_words(
    earlier: Sequence[UserWords], dropped: Iterable[Message], kept: Iterable[Message], budget: int, *, recall: bool
) -> tuple[UserWords, ...]:
    """Return the words to keep, oldest first: of `earlier` (the words kept by the compaction before) and of the
    messages that this compaction drops. The user's words in `kept` stay in the window anyway and use up the budget.
    With `recall`, a cut names the event that holds the whole message."""
    left = budget - sum(text_tokens(_text(message)) for message in kept if _is_user(message))
    candidates = {one.seq: one.text for one in earlier}
    for message in dropped:
        if _is_user(message) and message.seq is not None and message.seq not in candidates:
            text = _text(message) + _attachments(message, recall=recall)
            if text.strip():
                candidates[message.seq] = text
    chosen: list[UserWords] = []
    for seq, text in sorted(candidates.items(), reverse=True):
        if left < FEWEST_TOKENS:
            break
        share = left if text_tokens(text) + HEADER_TOKENS <= left else left // 2
        said = head_and_tail(text, share - HEADER_TOKENS, seq if recall else None)
        left -= text_tokens(said) + HEADER_TOKENS
        chosen.append(UserWords(seq=seq, text=said))
    return tuple(reversed(chosen))


def words_tokens(words: Iterable[UserWords]) -> int:
    return sum(text_tokens(one.text) + HEADER_TOKENS for one in words)


def head_and_tail(text: str, tokens: int, seq: int | None) -> str:
    """Return the text, or so much of its beginning and its end that both take about `tokens` tokens. `seq` is the
    event that the cut names."""
    if text_tokens(text) <= tokens:
        return text
    reference = f": recall(seq={seq}) shows them" if seq is not None else ""
    data = valid_text(text).encode()
    half = max(0, tokens * 4 - len(reference) - 48) // 2
    head, tail = data[:half].decode("utf-8", "ignore"), data[len(data) - half :].decode("utf-8", "ignore")
    missing = len(text) - len(head) - len(tail)
    return f"{head}\n[... {missing} characters left out{reference} ...]\n{tail}"


def _is_user(message: Message) -> bool:
    return message.role is Role.USER and not message.tool_results


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


def _attachments(message: Message, *, recall: bool) -> str:
    """Return a line for the images and files of a message, which its words cannot hold."""
    count = sum(isinstance(part, ImagePart | FilePart) for part in message.parts)
    if not count:
        return ""
    reference = f": recall(seq={message.seq}) shows {'it' if count == 1 else 'them'}" if recall else ""
    return f"\n[{count} attachment{'' if count == 1 else 's'}{reference}]"
