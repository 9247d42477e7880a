"""Which old tool outputs a compaction prunes: the model sees a reference in their place and can recall them.

Pruned are outputs that the model has seen and that are older than the newest part of the window. They are recorded as
one rule in `Compacted` (every longer output up to an event), so the state stays small however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from outlast.core.compacted_view import pruned_message
from outlast.core.messages import Message, Role
from outlast.core.window import WindowMessage
from outlast.runtime.history.window_tokens import message_tokens

PRUNED_OVER = 400
"""Shorter outputs, in characters, stay: a reference would save nothing."""


def prune_limit(spoken: Sequence[WindowMessage], recent: int) -> int:
    """Return the last event whose output may be pruned; 0 for none. The newest `recent` tokens are left alone, and
    everything since the newest reply: the model has not seen those results yet."""
    answered = max((one.place for one in spoken if one.message.role is Role.ASSISTANT), default=0)
    newer = 0
    for one in reversed(spoken):
        if newer >= recent and one.place < answered:
            return one.place
        newer += message_tokens(one.message)
    return 0


def pruned_tokens(messages: Iterable[Message], upto: int) -> int:
    """Estimate what the messages take less after pruning up to event `upto`."""
    pruned = ((message, pruned_message(message, upto, PRUNED_OVER)) for message in messages)
    return sum(message_tokens(before) - message_tokens(after) for before, after in pruned if after is not before)


def pruned_count(messages: Iterable[Message], upto: int) -> int:
    """Return how many of the messages lose an output to pruning up to event `upto`."""
    return sum(pruned_message(message, upto, PRUNED_OVER) is not message for message in messages)
