"""The window: what the model sees, made from the log and repaired in the projection.

Events since the last boundary, a compaction's summary first. An input stands where a turn read it, not where it was
admitted, so a queued one never breaks into another turn. The beginning stays the same from one step to the next, byte
for byte, as long as no boundary is drawn: providers cache by prefix. The log stays as it is; repairs are reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.core import events as e
from holdfast.core.boundaries import View
from holdfast.core.fold import Row
from holdfast.core.log import StoredEvent
from holdfast.core.messages import Message, Role, TextPart
from holdfast.core.repair import Repair, accepted
from holdfast.core.state import SessionState
from holdfast.core.transcript import message_of

SUMMARY_MARK = "[COMPACTED CONTEXT]"
BROKE_OFF = "[The reply broke off here.]"
MAX_IMAGE = 5 * 1024 * 1024


class Window(NamedTuple):
    messages: list[Message]
    repairs: list[Repair]


def window(
    rows: Iterable[Row], state: SessionState, *, provider: str | None = None, max_image_bytes: int = MAX_IMAGE
) -> Window:
    """What the model sees. `rows` begin at `state.read_from` or earlier and end at the head; of those before
    `state.window_from` only `InputAdmitted` matters.

    Reasoning signed by another provider than `provider` loses its signature; images and files over `max_image_bytes`
    become a note.
    """
    said = _Said(state.view)
    for stored, event in rows:
        said.hear(stored, event)
    said.place_carried()
    messages, repairs = accepted(said.messages, said.started, provider=provider, max_image_bytes=max_image_bytes)
    return Window(messages, said.repairs + repairs)


class _Said:
    """Collects what was said since the last boundary, in the order in which the model came to know it."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.messages: list[Message] = []
        self.started: set[tuple[int | None, str]] = set()
        self.repairs: list[Repair] = []
        self._inputs: dict[int, Message] = {}
        self._read_in_turn: set[int] = set()
        self._carried = list(view.carried)
        self._calls: dict[str, int | None] = {}
        self._broken: Message | None = None

    def hear(self, stored: StoredEvent, event: e.Event | e.Opaque) -> None:
        message = message_of(stored, event)
        if message is not None and stored.kind == "InputAdmitted":
            self._inputs[stored.seq] = message
        elif stored.seq == self.view.compacted_at and message is not None:
            self.messages.insert(0, _summary(message))
        elif stored.seq >= self.view.window_from and not self.view.hides(stored.seq):
            self.place_carried()
            self._hear_visible(stored, event, message)

    def _hear_visible(self, stored: StoredEvent, event: e.Event | e.Opaque, message: Message | None) -> None:
        match event:
            case e.TurnStarted(inputs=inputs):
                self._read_in_turn = set()
                self._read(inputs)
            case e.InputPromoted(inputs=inputs):
                self._read(inputs)
            case e.ToolCallStarted(call_id=call_id):
                self.started.add((self._calls.get(call_id), call_id))
            case e.ReplyInterrupted():
                self._broken = message
            case e.ModelRequested():
                self._broken = None
            case e.TurnEnded():
                self._keep_broken()
            case e.Compacted():
                pass
            case _:
                if message is not None:
                    self._say(message)

    def _say(self, message: Message) -> None:
        self.messages.append(message)
        if message.role is Role.ASSISTANT:
            self._broken = None
            self._calls.update((call.id, message.seq) for call in message.tool_calls)

    def _read(self, inputs: list[int]) -> None:
        for seq in inputs:
            message = self._inputs.get(seq)
            if message is None:
                self.repairs.append(Repair("input_missing", seq, "a turn reads an input that is not in these rows"))
            elif seq not in self._read_in_turn and not (self.messages and self.messages[-1] is message):
                self.messages.append(message)
            self._read_in_turn.add(seq)

    def place_carried(self) -> None:
        """A boundary was drawn in the middle of a turn: what the turn is about is still said."""
        carried, self._carried = self._carried, []
        self._read(carried)

    def _keep_broken(self) -> None:
        """The turn ended with a reply that broke off: the model should know what the user saw of it."""
        broken, self._broken = self._broken, None
        texts = [part for part in broken.parts if isinstance(part, TextPart) and part.text] if broken else []
        if broken and texts:
            parts = (*texts, TextPart(BROKE_OFF))
            self.messages.append(
                Message(role=Role.ASSISTANT, parts=parts, seq=broken.seq, at=broken.at, interrupted=True)
            )


def _summary(message: Message) -> Message:
    content = message.content if message.content.startswith(SUMMARY_MARK) else f"{SUMMARY_MARK}\n{message.content}"
    return Message(role=Role.SYSTEM, content=content, seq=message.seq, at=message.at, is_summary=True)


def whole_from(rows: Iterable[Row], wanted: int) -> int:
    """The last seq, at or before `wanted`, from which on no tool call is parted from its result.

    A compaction that keeps everything from there on splits nothing. Rows must reach back far enough.
    """
    asked: dict[str, int] = {}
    groups: list[tuple[int, int]] = []
    waiting: set[str] = set()
    for stored, event in rows:
        message = message_of(stored, event)
        if message is None:
            continue
        for result in message.tool_results:
            if result.call_id in asked:
                groups.append((asked[result.call_id], stored.seq))
                waiting.discard(result.call_id)
        if message.role is Role.ASSISTANT and not message.interrupted:
            waiting = {call.id for call in message.tool_calls}
            asked.update((call.id, stored.seq) for call in message.tool_calls)
    groups += [(asked[call_id], wanted) for call_id in waiting]  # its result is still to come
    for first, last in sorted(groups, reverse=True):
        if first < wanted <= last:
            wanted = first
    return wanted
