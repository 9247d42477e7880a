"""Models that reply from a script, for tests, demos and `--model scripted:FILE`.

Replies and exceptions come in order. A request beyond the end of the script raises: a test that sends more requests
than expected must not pass on an empty answer. The price of a scripted reply is unknown, never zero.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outlast.core.errors import ConfigError, ModelRefused, ModelUnavailable, ScriptExhausted
from outlast.core.messages import Part, ReasoningPart, TextPart, ToolCall
from outlast.models.port import (
    Abilities,
    CallDelta,
    CompletionResponse,
    Finished,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    usage_of,
)

DELTAS = 4
"""Each text is streamed in about this many pieces."""
PIECE_MS = 40
"""A delayed reply from a file is streamed with about one piece per this interval, like a model's tokens."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a script, with its timing and faults.

    Each text is streamed in about `pieces` pieces, with `delay` seconds before each. After `breaks_after` characters
    the stream breaks off: with `error`, or silently if there is none.
    """

    reply: CompletionResponse | Finished | str = ""
    delay: float = 0.0
    breaks_after: int | None = None
    error: BaseException | None = None
    pieces: int = DELTAS


Item = Line | CompletionResponse | Finished | str | BaseException


class ScriptedBackend:
    """Replies with `completions` in order and records every request in `requests`.

    An item is a `CompletionResponse`, a `Finished`, a text, a `Line` (any of these with a delay or a break), or an
    exception to raise. Raises `ScriptExhausted` if no item is left.
    """

    provider = "scripted"

    def __init__(
        self,
        completions: Sequence[Item] = (),
        stream: bool = True,
        name: str = "scripted",
        abilities: Abilities | None = None,
    ) -> None:
        self.completions: list[Item] = list(completions)
        self.requests: list[ModelRequest] = []
        self.name = name
        self.abilities = abilities or Abilities(context_window=200_000, summarises=False)
        self.closed = False
        self._streams = stream

    @property
    def left(self) -> int:
        return max(0, len(self.completions) - len(self.requests))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next item of the script."""
        position = len(self.requests)
        self.requests.append(request)
        if position >= len(self.completions):
            raise ScriptExhausted(
                f"the script of '{self.name}' has {len(self.completions)} replies "
                f"and was asked for number {position + 1}"
            )
        async for event in _spoken(_line(self.completions[position]), self.name, self._streams):
            yield event

    async def close(self) -> None:
        self.closed = True


def _line(item: Item) -> Line:
    if isinstance(item, Line):
        return item
    return Line(error=item, breaks_after=0) if isinstance(item, BaseException) else Line(reply=item)


def _finished(reply: CompletionResponse | Finished | str, name: str) -> Finished:
    if isinstance(reply, str):
        reply = CompletionResponse(content=reply)
    if isinstance(reply, Finished):
        return reply if reply.model else msgspec.structs.replace(reply, model=name)
    finished = reply.finished(name)
    if reply.reasoning:
        finished = msgspec.structs.replace(finished, parts=(ReasoningPart(text=reply.reasoning), *finished.parts))
    return finished


async def _spoken(line: Line, name: str, streams: bool) -> AsyncIterator[ModelEvent]:
    finished = _finished(line.reply, name)
    left = line.breaks_after
    for event in _deltas(finished.parts, line.pieces) if streams else ():
        if left is not None and left < len(event.text):
            if left:
                yield msgspec.structs.replace(event, text=event.text[:left])
            break
        await asyncio.sleep(line.delay)
        left = left - len(event.text) if left is not None else None
        yield event
    else:
        if not streams:
            await asyncio.sleep(line.delay)
        if line.breaks_after is None:
            yield finished
    if line.error is not None:
        raise line.error


def _deltas(parts: Sequence[Part], count: int = DELTAS) -> Iterator[TextDelta | ReasoningDelta | CallDelta]:
    calls = 0
    for part in parts:
        match part:
            case TextPart(text=text):
                yield from map(TextDelta, _pieces(text, count))
            case ReasoningPart(text=text):
                yield from map(ReasoningDelta, _pieces(text, count))
            case ToolCall(name=name, arguments=arguments, raw=raw):
                text = raw if raw is not None else msgspec.json.encode(arguments).decode()
                for piece in _pieces(text, count):
                    yield CallDelta(calls, name, piece)
                calls += 1
            case _:
                pass


def _pieces(text: str, count: int) -> list[str]:
    size = max(1, -(-len(text) // count))
    return [text[n : n + size] for n in range(0, len(text), size)]


# ---- a script in a file ---------------------------------------------------------------------------------------------


class FileCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] = {}
    id: str | None = None


class FileLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a script file: a reply, or an error to raise instead.

    An error can be retried, like a provider's, unless its `status` is a 4xx other than 408, 409 and 429.
    """

    content: str = ""
    tool_calls: list[FileCall] = []
    usage: dict[str, int] | None = None
    delay_ms: float = 0
    error: str | None = None
    status: int | None = None


class ScriptedFile:
    """`--model scripted:FILE`: a JSON list of `{content, tool_calls, usage, delay_ms}` or `{error}`.

    The position is the session's count of replies, so a script continues after a restart, and one file serves many
    sessions. An error is not a reply: the next attempt gets the entry after it, and an error at the end repeats.
    `delay_ms` is spread over the reply.
    """

    provider = "scripted"
    abilities = Abilities(context_window=200_000, summarises=False)

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = f"scripted:{path}"
        self._lines = _read(self.path)
        self._raised: dict[tuple[str, int], int] = {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the entry at the session's count of replies, after the errors before it."""
        position = self._position(request)
        if position >= len(self._lines):
            raise ScriptExhausted(
                f"{self.path}: the script has {len(self._lines)} entries and was asked for number {position + 1}; "
                "add a reply to it or choose another model"
            )
        line = self._lines[position]
        if line.error is not None:
            await asyncio.sleep(line.delay_ms / 1000)
            raise _fault(line.error, line.status)
        async for event in _spoken(_paced(line, position), self.name, True):
            yield event

    def _position(self, request: ModelRequest) -> int:
        replies = [n for n, line in enumerate(self._lines) if line.error is None]
        first = replies[request.replies - 1] + 1 if 0 < request.replies <= len(replies) else request.replies
        asked = (request.session_id, request.replies)
        position = first + self._raised.get(asked, 0)
        if position + 1 < len(self._lines) and self._lines[position].error is not None:
            self._raised[asked] = position + 1 - first
        return position

    async def close(self) -> None:
        """Do nothing: no resource is open."""


def _fault(text: str, status: int | None) -> ModelUnavailable | ModelRefused:
    if status is not None and 400 <= status < 500 and status not in (408, 409, 429):
        return ModelRefused(text, status=status)
    return ModelUnavailable(text, status=status)


def _paced(line: FileLine, position: int) -> Line:
    calls = [
        ToolCall(id=call.id or f"call_{position}_{n}", name=call.name, arguments=call.arguments)
        for n, call in enumerate(line.tool_calls)
    ]
    reply = CompletionResponse(content=line.content, tool_calls=calls, usage=usage_of(line.usage))
    pieces = max(DELTAS, int(line.delay_ms / PIECE_MS))
    delays = sum(1 for _ in _deltas(reply.finished().parts, pieces))
    return Line(reply=reply, delay=line.delay_ms / 1000 / max(1, delays), pieces=pieces)


def _read(path: Path) -> list[FileLine]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[FileLine])
    except OSError as error:
        raise ConfigError(f"{path}: the script cannot be read ({error.strerror}); give scripted:FILE") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: is not a script ({error}); "
            "it must be a JSON list of {content, tool_calls, usage, delay_ms} or {error}"
        ) from error
