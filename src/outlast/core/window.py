"""The window: the messages the model sees, projected from the log and repaired for the provider.

It holds the events since the last boundary, after a compaction's summary; old outputs that a compaction pruned are
references. An input appears where a turn read it, not
where it was admitted, so a queued input never breaks into another turn. Between boundaries the prefix stays the same
byte for byte from step to step, because providers cache by prefix. The log is not changed; repairs are reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from outlast.core import events as e
from outlast.core.boundaries import BoundaryView
from outlast.core.compacted_view import SUMMARY_MARK, pruned_message, summary_message
from outlast.core.event_row import StoredEvent
from outlast.core.fold import Row
from outlast.core.messages import Message, Role, TextPart
from outlast.core.part_repair import MAX_IMAGE
from outlast.core.repair import ASKED, Repair, accepted
from outlast.core.state import SessionState
from outlast.core.transcript import message_of

__all__ = ["BROKE_OFF", "SUMMARY_MARK", "Window", "WindowMessage", "said", "unread", "whole_from", "window"]

BROKE_OFF = "[The reply broke off here.]"


class Window(NamedTuple):
    messages: list[Message]
    repairs: list[Repair]


class WindowMessage(NamedTuple):
    """An original message, and the event at which the model got it; for an input, the event where a turn read it."""

    place: int
    message: Message


def window(
    rows: Iterable[Row],
    state: SessionState,
    *,
    provider: str | None = None,
    asking: bool = False,
    environment: str | None = None,
    max_image_bytes: int = MAX_IMAGE,
) -> Window:
    """Build the window. `rows` start at `state.read_from` or earlier and end at the head; before `state.window_from`
    only `InputAdmitted` matters.

    `asking`: the window is about to be sent, so it must end with a message to answer and shows what the runtime told
    about the environment; `environment` is the text of an `EnvironmentDescribed` that is still to be written.
    Reasoning signed by another provider than `provider` loses its signature; images and files over `max_image_bytes`
    become a note.
    """
    heard = _heard(rows, state, asking=asking)
    if environment is not None:
        heard.describe(state.last_seq + 1, environment)
    messages = [said.message for said in heard.said]
    if asking:
        messages.append(ASKED)
    limit = max_image_bytes
    sent, repairs = accepted(messages, heard.started, heard.inputs_said, provider=provider, max_image_bytes=limit)
    return Window(sent, heard.repairs + repairs)


def said(rows: Iterable[Row], state: SessionState) -> list[WindowMessage]:
    """Return the messages of the window before repair; a summary has place 0."""
    return [one for one in _heard(rows, state).said if one.message is not ASKED]


def _heard(rows: Iterable[Row], state: SessionState, *, asking: bool = False) -> _Heard:
    heard = _Heard(state.view, asking=asking)
    for stored, event in rows:
        heard.hear(stored, event)
    heard.place_carried(state.last_seq + 1)
    heard.place_summary()
    return heard


class _Heard:
    """Collects the messages since the last boundary, in the order in which the model got them."""

    def __init__(self, view: BoundaryView, *, asking: bool) -> None:
        self.view = view
        self.asking = asking
        self.said: list[WindowMessage] = []
        self.started: set[tuple[int | None, str]] = set()
        self.inputs_said: set[int] = set()
        self.repairs: list[Repair] = []
        self._inputs: dict[int, Message] = {}
        self._read_in_turn: set[int] = set()
        self._carried = list(view.carried)
        self._calls: dict[str, int | None] = {}
        self._broken: Message | None = None
        self._last: Message | None = None
        self._summary: tuple[Message, tuple[e.UserWords, ...]] | None = None
        self._redacted: set[int] = set()

    def hear(self, stored: StoredEvent, event: e.Event | e.Opaque) -> None:
        message = message_of(stored, event)
        if isinstance(event, e.EventRedacted):
            self._redacted.add(event.seq)
        if message is not None and stored.kind == "InputAdmitted":
            self._inputs[stored.seq] = message
        elif stored.seq == self.view.summary_at and message is not None:
            self._summary = message, event.words if isinstance(event, e.Compacted) else ()
        elif stored.seq >= self.view.window_from and not self.view.hides(stored.seq):
            self.place_carried(stored.seq)
            self._hear_visible(stored.seq, event, message)

    def _hear_visible(self, seq: int, event: e.Event | e.Opaque, message: Message | None) -> None:
        match event:
            case e.TurnStarted(inputs=inputs):
                self._read_in_turn = set()
                self._read(seq, inputs)
            case e.InputPromoted(inputs=inputs):
                self._read(seq, inputs)
            case e.ToolCallStarted(call_id=call_id):
                self.started.add((self._calls.get(call_id), call_id))
            case e.ReplyInterrupted():
                self._broken = message
            case e.ModelRequested():
                self._asked(seq)
            case e.TurnEnded():
                self._keep_broken(seq)
            case e.EnvironmentDescribed(text=text):
                if self.asking:
                    self.describe(seq, text)
            case e.Compacted():
                pass
            case _:
                if message is not None:
                    self._say(seq, pruned_message(message, self.view.pruned_upto, self.view.pruned_over))

    def _say(self, place: int, message: Message) -> None:
        self.said.append(WindowMessage(place, message))
        self._last = message
        if message.role is Role.ASSISTANT:
            self._broken = None
            self._calls.update((call.id, message.seq) for call in message.tool_calls)

    def _asked(self, seq: int) -> None:
        """Mark a request to the model: later windows must repeat what it was told here about its calls."""
        self._broken, self._calls = None, {}
        self.said.append(WindowMessage(seq, ASKED))

    def _read(self, place: int, inputs: list[int]) -> None:
        for seq in inputs:
            message = self._inputs.get(seq)
            if message is None:
                self.repairs.append(Repair("input_missing", seq, "a turn reads an input that is not in these rows"))
            elif seq not in self._read_in_turn and self._last is not message:
                self.inputs_said.add(seq)
                self._say(place, message)
            self._read_in_turn.add(seq)

    def describe(self, place: int, text: str) -> None:
        """Say what the runtime told, before the messages that the next request answers: the user's, or a reminder."""
        at = len(self.said)
        while at and _is_to_be_answered(self.said[at - 1].message):
            at -= 1
        self.said.insert(at, WindowMessage(place, Message(role=Role.SYSTEM, content=text, seq=place)))

    def place_carried(self, place: int) -> None:
        """Place the inputs of a turn that was running when the boundary was drawn."""
        carried, self._carried = self._carried, []
        self._read(place, carried)

    def place_summary(self) -> None:
        """Put the summary before everything else, once it is known which of the user's words were redacted since."""
        if self._summary is not None:
            message, words = self._summary
            self.said.insert(0, WindowMessage(0, summary_message(message, words, self._redacted)))

    def _keep_broken(self, place: int) -> None:
        """Keep the text of a reply that broke off at the end of a turn: the model should know what the user saw."""
        broken, self._broken = self._broken, None
        texts = [part for part in broken.parts if isinstance(part, TextPart) and part.text] if broken else []
        if broken and texts:
            parts = (*texts, TextPart(BROKE_OFF))
            seq, at = broken.seq, broken.at
            self._say(place, Message(role=Role.ASSISTANT, parts=parts, seq=seq, at=at, interrupted=True))


def _is_to_be_answered(message: Message) -> bool:
    return message.role in {Role.USER, Role.SYSTEM} and message is not ASKED and not message.is_summary


def unread(state: SessionState) -> list[int]:
    """Return the pending inputs that no turn has read and no window shows. A fork writes `InputPromoted` for them after
    its first event: no turn will answer them there, but the window then shows them."""
    read = {seq for seq, _ in state.reads}
    return [seq for seq in state.unanswered if seq not in read]


def whole_from(rows: Iterable[Row], wanted: int) -> int:
    """Return the last seq, at or before `wanted`, that does not separate a tool call from its result.

    A compaction can keep everything from this seq on. The rows must reach back far enough.
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
    groups += [(asked[call_id], wanted) for call_id in waiting]  # their results are still to come
    for first, last in sorted(groups, reverse=True):
        if first < wanted <= last:
            wanted = first
    return wanted
