"""Checks whether every provider would accept a window, without sending it, and lists what each would refuse.

assert rejections(window(rows, state, provider="anthropic", asking=True).messages, "anthropic") == []
"""

from __future__ import annotations

from collections.abc import Callable

from outlast.core.messages import Message
from outlast.testing.wire import anthropic, openai_chat, openai_responses
from outlast.testing.wire.rules import Genuine, Wire

as_openai_chat: Callable[[list[Message]], list[Wire]] = openai_chat.rendered
as_openai_responses: Callable[[list[Message]], list[Wire]] = openai_responses.rendered
as_anthropic: Callable[[list[Message]], list[Wire]] = anthropic.rendered


def rejections(
    messages: list[Message],
    provider: str | None = None,
    *,
    request: bool = True,
    genuine: Genuine | None = None,
) -> list[str]:
    """Return everything that a provider would refuse; with `provider`, check only its formats and signatures.

    Pass `request=False` for a window that is not sent: it may end with the assistant. `genuine` checks whether a
    signature is the provider's own and belongs to this text.
    """
    found: list[str] = []
    if provider in {None, "openai"}:
        chat = openai_chat.faults(as_openai_chat(messages), request=request)
        items = openai_responses.faults(as_openai_responses(messages), request=request, genuine=genuine)
        found += [*(f"chat {fault}" for fault in chat), *(f"responses {fault}" for fault in items)]
    if provider in {None, "anthropic"}:
        blocks = anthropic.faults(as_anthropic(messages), request=request, genuine=genuine)
        found += [f"anthropic {fault}" for fault in blocks]
    return found
