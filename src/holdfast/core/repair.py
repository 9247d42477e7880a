"""Messages as every provider accepts them.

Each call is answered once and right behind the message that asks for it; a result without its call, an empty message
and an empty part are dropped; call ids are unique; texts are valid Unicode; reasoning carries no foreign signature;
what is too large is a note. The first thing said is said by the user. Whatever had to be changed is reported.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec

from holdfast.core.messages import (
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
)

NOT_EXECUTED = "Not executed: the turn was interrupted before this call was started."
OUTCOME_UNKNOWN = "Interrupted: this call was started and its outcome is unknown. Check before doing it again."
NO_OUTPUT = "(no output)"
OPENING = "[The session goes on from here.]"


class Repair(NamedTuple):
    """One thing that was changed for the model, and the event it concerns."""

    what: str
    seq: int | None
    detail: str


class _Asked:
    """One call of one message, and what answered it."""

    def __init__(self, message: Message, call: ToolCall, call_id: str) -> None:
        self.message = message
        self.call = call
        self.call_id = call_id
        self.answer: Message | None = None
        self.parts: tuple[Part, ...] = ()


def accepted(
    messages: list[Message],
    started: set[tuple[int | None, str]],
    *,
    provider: str | None,
    max_image_bytes: int,
) -> tuple[list[Message], list[Repair]]:
    """These messages, repaired. `started` holds (seq of the reply, call id) of each call that was begun."""
    repairs: list[Repair] = []
    cleaner = _Cleaner(provider, max_image_bytes, repairs)
    asked = _asked(messages, repairs)
    _answer(messages, asked, repairs)
    out: list[Message] = []
    for n, message in enumerate(messages):
        said = cleaner.cleaned(message, _own_parts(message, asked.get(n, []), repairs))
        if said is not None:
            out.append(said)
        for one in asked.get(n, []):
            answer = _answered(one, started, repairs)
            out.append(cleaner.cleaned(answer, answer.parts) or answer)
    return _opened(out, repairs), repairs


def _asked(messages: list[Message], repairs: list[Repair]) -> dict[int, list[_Asked]]:
    """The calls by the position of their message, each with an id that no other has."""
    used: set[str] = set()
    found: dict[int, list[_Asked]] = {}
    for n, message in enumerate(messages):
        if message.role is not Role.ASSISTANT or not message.tool_calls:
            continue
        found[n] = []
        for call in message.tool_calls:
            call_id = _unused(_valid(call.id) or "call", used)
            used.add(call_id)
            if call_id != call.id:
                repairs.append(Repair("call_renamed", message.seq, f"{call.id!a} is now {call_id!a}"))
            found[n].append(_Asked(message, call, call_id))
    return found


def _unused(wanted: str, used: set[str]) -> str:
    name, n = wanted, 2
    while name in used:
        name, n = f"{wanted}_{n}", n + 1
    return name


def _answer(messages: list[Message], asked: dict[int, list[_Asked]], repairs: list[Repair]) -> None:
    """Give each result to the newest message that asked for it before."""
    newest: dict[str, list[_Asked]] = {}
    for n, message in enumerate(messages):
        for one in asked.get(n, []):
            if newest.get(one.call.id, [one])[0].message is not message:
                del newest[one.call.id]
            newest.setdefault(one.call.id, []).append(one)
        rest = tuple(part for part in message.parts if isinstance(part, ImagePart | FilePart))
        for result in message.tool_results:
            one = next((one for one in newest.get(result.call_id, []) if one.answer is None), None)
            if one is None:
                repairs.append(Repair("result_dropped", message.seq, f"nothing open asked for {result.call_id!a}"))
                continue
            one.answer = message
            one.parts = (msgspec.structs.replace(result, call_id=one.call_id),)
            if message.role is Role.TOOL:
                one.parts, rest = (*one.parts, *rest), ()


def _own_parts(message: Message, asked: list[_Asked], repairs: list[Repair]) -> tuple[Part, ...]:
    """The parts that stay with the message: results go behind their calls, calls get their unique ids."""
    if message.role is Role.TOOL:
        if not message.tool_results:
            repairs.append(Repair("result_dropped", message.seq, "a tool message without a result"))
        return ()
    if not message.tool_calls and not message.tool_results:
        return message.parts
    names = iter(asked)
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            one = next(names, None)
            if one is None:
                repairs.append(Repair("call_dropped", message.seq, f"a {message.role} message may not call a tool"))
            else:
                parts.append(part if part.id == one.call_id else msgspec.structs.replace(part, id=one.call_id))
        elif not isinstance(part, ToolResult):
            parts.append(part)
    return tuple(parts)


def _answered(one: _Asked, started: set[tuple[int | None, str]], repairs: list[Repair]) -> Message:
    if one.answer is not None:
        return Message(role=Role.TOOL, parts=one.parts, seq=one.answer.seq, at=one.answer.at)
    begun = (one.message.seq, one.call.id) in started
    repairs.append(Repair("call_answered", one.message.seq, f"{one.call_id!a} had no result"))
    content = OUTCOME_UNKNOWN if begun else NOT_EXECUTED
    return Message(
        role=Role.TOOL,
        parts=(ToolResult(call_id=one.call_id, content=content, is_error=True, name=one.call.name),),
        at=one.message.at,
    )


class _Cleaner:
    """Cleans the parts of a message."""

    def __init__(self, provider: str | None, max_image_bytes: int, repairs: list[Repair]) -> None:
        self.provider = provider
        self.limit = max_image_bytes
        self.repairs = repairs

    def cleaned(self, message: Message, parts: tuple[Part, ...]) -> Message | None:
        """The message with these parts as they may be sent; None when nothing is left of it."""
        kept = tuple(part for part in (self._part(part, message) for part in parts) if part is not None)
        if all(isinstance(part, ReasoningPart) for part in kept):
            if message.role is not Role.TOOL and not message.tool_results:
                self._note("message_dropped", message, "nothing in it can be sent")
            return None
        return message if kept == message.parts else msgspec.structs.replace(message, parts=kept)

    def _part(self, part: Part, message: Message) -> Part | None:
        match part:
            case TextPart(text=text):
                return self._text(part, text, message)
            case ReasoningPart():
                return self._reasoning(part, message)
            case ToolCall():
                return self._call(part, message)
            case ToolResult(content=content):
                return self._result(part, content, message)
            case ImagePart() | FilePart():
                return self._attachment(part, message)

    def _text(self, part: TextPart, text: str, message: Message) -> TextPart | None:
        if not text.strip():
            self._note("part_dropped", message, "an empty text")
            return None
        sent = self._sent(text, message)
        return part if sent is text else TextPart(sent)

    def _reasoning(self, part: ReasoningPart, message: Message) -> ReasoningPart | None:
        foreign = part.signature is not None and self.provider is not None and part.provider != self.provider
        if foreign:
            self._note("signature_stripped", message, f"reasoning of {part.provider!a}")
        signature = None if foreign else part.signature
        if signature is None and (part.redacted or not part.text.strip()):
            self._note("part_dropped", message, "reasoning without text")
            return None
        sent = self._sent(part.text, message)
        if not foreign and sent is part.text:
            return part
        return msgspec.structs.replace(
            part, text=sent, signature=signature, provider=None if foreign else part.provider
        )

    def _call(self, part: ToolCall, message: Message) -> ToolCall:
        arguments = _valid_value(part.arguments)
        if arguments == part.arguments:
            return part
        self._note("text_replaced", message, "arguments that are not valid Unicode")
        return msgspec.structs.replace(part, arguments=arguments)

    def _result(self, part: ToolResult, content: str, message: Message) -> ToolResult:
        sent = self._sent(content, message) if content.strip() else NO_OUTPUT
        return part if sent is content else msgspec.structs.replace(part, content=sent)

    def _attachment(self, part: ImagePart | FilePart, message: Message) -> Part | None:
        name = (part.alt or "image") if isinstance(part, ImagePart) else part.name
        if not part.data and not (isinstance(part, ImagePart) and part.url):
            self._note("part_dropped", message, f"nothing in {name!a}")
            return None
        if len(part.data) <= self.limit:
            return part
        self._note("part_too_large", message, f"{name!a} has {len(part.data)} bytes")
        size = f"{len(part.data)} bytes, the limit is {self.limit}"
        return TextPart(_valid(f"[{name} ({part.media_type}) is left out: {size}]"))

    def _sent(self, text: str, message: Message) -> str:
        sent = _valid(text)
        if sent == text:
            return text
        self._note("text_replaced", message, "text that is not valid Unicode")
        return sent

    def _note(self, what: str, message: Message, detail: str) -> None:
        self.repairs.append(Repair(what, message.seq, detail))


def _valid(text: str) -> str:
    """The text with U+FFFD for each lone surrogate: no provider takes those."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _valid_value(value: Any) -> Any:
    if isinstance(value, str):
        return _valid(value)
    if isinstance(value, list):
        return [_valid_value(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_valid_value(key): _valid_value(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value


def _opened(messages: list[Message], repairs: list[Repair]) -> list[Message]:
    """With a user's message before anything the assistant says."""
    first = next((n for n, message in enumerate(messages) if message.role is not Role.SYSTEM), None)
    if first is None or messages[first].role is Role.USER:
        return messages
    repairs.append(Repair("opening_added", messages[first].seq, "the window began with the assistant"))
    opening = Message(role=Role.USER, content=OPENING)
    return [*messages[:first], opening, *messages[first:]]
