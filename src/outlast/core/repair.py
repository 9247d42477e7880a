"""Repairs the messages of a window so that every provider accepts them.

Each call has one result, right after the message that requests it; a result without its call and an empty message are
dropped; call ids are unique, short and plain. The user speaks first, and at every request to the model there is a
message to answer. What was sent once is sent the same way again: a result that arrives after the model was told there
is none appears where it arrived. Every change is reported. `outlast.core.part_repair` handles the parts.
"""

from __future__ import annotations

import msgspec

from outlast.core.messages import FilePart, ImagePart, Message, Part, Role, ToolCall, ToolResult
from outlast.core.part_repair import PartSanitizer, Repair, sent_id, sent_name

__all__ = ["ASKED", "EMPTY", "GO_ON", "NOT_EXECUTED", "OPENING", "OUTCOME_UNKNOWN", "Repair", "accepted"]

NOT_EXECUTED = "Not executed: the turn was interrupted before this call was started."
OUTCOME_UNKNOWN = "Interrupted: this call was started and its outcome is unknown. Check before doing it again."
OPENING = "[The session goes on from here.]"
GO_ON = "[Go on.]"
EMPTY = "[An empty message.]"
ATTACHED = "(see the attachment)"
MAX_ID = 40

ASKED = Message(role=Role.USER, content=GO_ON)
"""Marks, by identity, a request to the model; it is sent only if there is nothing else to answer."""


class _AskedCall:
    """One call of one message, and its result."""

    def __init__(self, message: Message, call: ToolCall, call_id: str) -> None:
        self.message = message
        self.call = call
        self.call_id = call_id
        self.answer: Message | None = None
        self.parts: tuple[Part, ...] = ()


def accepted(
    messages: list[Message],
    started: set[tuple[int | None, str]],
    inputs: set[int],
    *,
    provider: str | None,
    max_image_bytes: int,
) -> tuple[list[Message], list[Repair]]:
    """Return the repaired messages and the repairs. `started` holds (seq of the reply, call id) of each started call,
    `inputs` the seqs of admitted inputs, which are sent even if they are empty."""
    repairs: list[Repair] = []
    sanitizer = PartSanitizer(provider, max_image_bytes, repairs)
    asked = _asked(messages, repairs)
    late = _answer(messages, asked, repairs)
    out: list[Message] = []
    for n, message in enumerate(messages):
        if message is ASKED:
            _ask(out, repairs)
            continue
        goes_on = bool(out) and out[-1].role is Role.ASSISTANT
        said = sanitizer.cleaned(message, _own_parts(message, asked.get(n, []), repairs), goes_on=goes_on)
        if said is None and message.seq in inputs and message.role is Role.USER:
            said = Message(role=Role.USER, content=EMPTY, seq=message.seq, at=message.at)
        if said is not None:
            out.append(said)
        for one in asked.get(n, []):
            answer = _answered(one, started, repairs)
            out.append(sanitizer.cleaned(answer, answer.parts) or answer)
        if n in late:
            out.append(sanitizer.cleaned(late[n], late[n].parts) or late[n])
    return _opened(out, repairs), repairs


def _ask(out: list[Message], repairs: list[Repair]) -> None:
    """Add a message to answer if the model was asked here without one."""
    spoken = any(message.role is not Role.SYSTEM for message in out)
    if not spoken or out[-1].role is Role.ASSISTANT:
        repairs.append(Repair("go_on_added", out[-1].seq if out else None, "the model was asked without a question"))
        out.append(ASKED)


def _asked(messages: list[Message], repairs: list[Repair]) -> dict[int, list[_AskedCall]]:
    """Return the calls by the position of their message, each with a unique id."""
    ids = _Ids()
    found: dict[int, list[_AskedCall]] = {}
    for n, message in enumerate(messages):
        if message.role is not Role.ASSISTANT or not message.tool_calls:
            continue
        found[n] = []
        for call in message.tool_calls:
            call_id = ids.unused(call.id)
            if call_id != call.id:
                repairs.append(Repair("call_renamed", message.seq, f"{call.id!a} is now {call_id!a}"))
            found[n].append(_AskedCall(message, call, call_id))
    return found


class _Ids:
    """Returns each id only once."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.tried: dict[str, int] = {}

    def unused(self, call_id: str) -> str:
        wanted = name = sent_id(call_id, MAX_ID)
        while name in self.used:
            n = self.tried[wanted] = self.tried.get(wanted, 1) + 1
            suffix = f"_{n}"
            name = wanted[: MAX_ID - len(suffix)] + suffix
        self.used.add(name)
        return name


def _answer(messages: list[Message], asked: dict[int, list[_AskedCall]], repairs: list[Repair]) -> dict[int, Message]:
    """Assign each result to the newest earlier message that requests it. Return, by position, the messages for results
    that arrived after the model was told there is none."""
    newest: dict[str, list[_AskedCall]] = {}
    closed: dict[str, _AskedCall] = {}
    late: dict[int, Message] = {}
    for n, message in enumerate(messages):
        if message is ASKED:
            closed.update((one.call.id, one) for group in newest.values() for one in group if one.answer is None)
            newest = {}
        for one in asked.get(n, []):
            if newest.get(one.call.id, [one])[0].message is not message:
                del newest[one.call.id]
            newest.setdefault(one.call.id, []).append(one)
        rest = tuple(part for part in message.parts if isinstance(part, ImagePart | FilePart))
        for result in message.tool_results:
            one = next((one for one in newest.get(result.call_id, []) if one.answer is None), None)
            if one is not None:
                mine = rest if message.role is Role.TOOL else ()
                one.answer, one.parts, rest = message, (_result(one, result, mine), *mine), rest[len(mine) :]
            elif result.call_id in closed:
                late[n] = _late(closed.pop(result.call_id), result, message, late.get(n), repairs)
            else:
                repairs.append(Repair("result_dropped", message.seq, f"nothing open asked for {result.call_id!a}"))
    return late


def _result(one: _AskedCall, result: ToolResult, attached: tuple[Part, ...]) -> ToolResult:
    content = result.content if result.content.strip() or not attached else ATTACHED
    return msgspec.structs.replace(result, call_id=one.call_id, content=content, name=sent_name(one.call.name))


def _late(one: _AskedCall, result: ToolResult, at: Message, before: Message | None, repairs: list[Repair]) -> Message:
    repairs.append(Repair("result_late", at.seq, f"the model was asked before {one.call_id!a} was answered"))
    said = f"[The result of {sent_name(one.call.name)} {one.call_id} came late:]\n{result.content}"
    content = f"{before.content}\n{said}" if before else said
    return Message(role=Role.SYSTEM, content=content, seq=at.seq, at=at.at)


def _own_parts(message: Message, asked: list[_AskedCall], repairs: list[Repair]) -> tuple[Part, ...]:
    """Return the parts that stay in the message: results move behind their calls, calls get their unique ids."""
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


def _answered(one: _AskedCall, started: set[tuple[int | None, str]], repairs: list[Repair]) -> Message:
    if one.answer is not None:
        return Message(role=Role.TOOL, parts=one.parts, seq=one.answer.seq, at=one.answer.at)
    begun = (one.message.seq, one.call.id) in started
    repairs.append(Repair("call_answered", one.message.seq, f"{one.call_id!a} had no result"))
    content = OUTCOME_UNKNOWN if begun else NOT_EXECUTED
    result = ToolResult(call_id=one.call_id, content=content, is_error=True, name=sent_name(one.call.name))
    return Message(role=Role.TOOL, parts=(result,), at=one.message.at)


def _opened(messages: list[Message], repairs: list[Repair]) -> list[Message]:
    """Insert an opening user message if the first non-system message is not the user's."""
    first = next((n for n, message in enumerate(messages) if message.role is not Role.SYSTEM), None)
    if first is None or messages[first].role is Role.USER:
        return messages
    repairs.append(Repair("opening_added", messages[first].seq, "the window began with the assistant"))
    opening = Message(role=Role.USER, content=OPENING)
    return [*messages[:first], opening, *messages[first:]]
