"""A model that answers what it was asked, so that every answer can be traced to its message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from outlast.context import current_session_id
from outlast.core.messages import Role, Usage
from outlast.models.port import Abilities, CompletionResponse, Finished, ModelEvent, ModelRequest, TextDelta

ASKED_TO_CONTINUE = "Continue."


class Echo:
    """Says `re: TEXT` in some pieces, or what `script` makes of the text. Remembers who asked what, from which context.
    It waits for `halfway` before its last piece, and for `hold` before it says that it has finished.

    `seen` holds (session of the request, session that the context names, text).
    """

    provider = "echo"
    name = "echo"

    def __init__(
        self,
        *,
        delay: float = 0.0,
        pieces: int = 3,
        tokens: int = 0,
        script: Callable[[str, ModelRequest], str | CompletionResponse] | None = None,
    ) -> None:
        self.abilities = Abilities(context_window=200_000, summarises=False, tools=True)
        self.seen: list[tuple[str, str | None, str]] = []
        self.delay, self.pieces, self.tokens = delay, pieces, tokens
        self.hold: asyncio.Event | None = None
        self.halfway: asyncio.Event | None = None
        self._script = script

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        asked = last_user_text(request)
        self.seen.append((request.session_id, current_session_id(), asked))
        reply = self._script(asked, request) if self._script is not None else f"re: {asked}"
        finished = (CompletionResponse(content=reply) if isinstance(reply, str) else reply).finished(self.name)
        text = reply if isinstance(reply, str) else reply.content
        size = max(1, -(-len(text) // self.pieces))
        for at in range(0, len(text), size):
            await asyncio.sleep(self.delay)
            if self.halfway is not None and at + size >= len(text):
                await self.halfway.wait()
            yield TextDelta(text[at : at + size])
        if self.hold is not None:
            await self.hold.wait()
        used = Usage(input_tokens=self.tokens, output_tokens=1 if self.tokens else 0)
        yield Finished(parts=finished.parts, usage=used, model=self.name, finish_reason=finished.finish_reason)

    async def close(self) -> None:
        """Nothing is held open."""


def last_user_text(request: ModelRequest) -> str:
    """What was asked for, without what the runtime says itself."""
    texts = [message.content for message in request.messages if message.role is Role.USER]
    return next((text for text in reversed(texts) if text != ASKED_TO_CONTINUE), "")
