"""Notifications from a running turn to its process: one protocol, and an observer that ignores everything."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

import msgspec

from outlast.core.event_row import StoredEvent
from outlast.core.events import Event
from outlast.core.state import SessionState
from outlast.core.text import duration_text
from outlast.models.port import ModelEvent


class RetryWait(msgspec.Struct, frozen=True, kw_only=True):
    """A failed request is sent again after `seconds`, as attempt `attempt`; after `gives_up_in` seconds no more."""

    attempt: int
    seconds: float
    reason: str
    gives_up_in: float

    @property
    def text(self) -> str:
        return self.at(0.0)

    def at(self, passed: float) -> str:
        """Return the sentence for a user, `passed` seconds after the wait began."""
        return f"{self.countdown(passed)}: {self.reason}"

    def countdown(self, passed: float) -> str:
        """Return when the request is sent again, without the reason."""
        left, end = max(0.0, self.seconds - passed), max(0.0, self.gives_up_in - passed)
        when = f"in {left:.0f} s" if left >= 0.5 else "now"
        return f"retrying {when} (attempt {self.attempt}, gives up in {duration_text(end)})"


class NoData(msgspec.Struct, frozen=True, kw_only=True):
    """The open stream has sent nothing for `seconds`; it is closed after `limit` seconds of silence, if there is a
    limit."""

    seconds: float
    limit: float | None

    @property
    def text(self) -> str:
        return self.at(0.0)

    def at(self, passed: float) -> str:
        end = f"the request is closed after {duration_text(self.limit)}, " if self.limit is not None else ""
        return f"no data for {self.seconds + passed:.0f} s ({end}Ctrl-C stops it)"


class TakeoverWait(msgspec.Struct, frozen=True, kw_only=True):
    """The turn goes on after `seconds`, because the last `deaths` processes that drove it died."""

    seconds: float
    deaths: int

    @property
    def text(self) -> str:
        return self.at(0.0)

    def at(self, passed: float) -> str:
        many = f"the last {self.deaths} processes" if self.deaths > 1 else "the last process"
        return f"going on in {max(0.0, self.seconds - passed):.0f} s: {many} that drove this turn died"


ModelWait = RetryWait | NoData | TakeoverWait


class TurnObserver(Protocol):
    """The turn calls these methods from its event loop; they return quickly and raise nothing."""

    def model_event(self, event: ModelEvent) -> None:
        """The model streamed the next piece of its reply."""
        ...

    def model_waits(self, wait: ModelWait | None) -> None:
        """The turn waits before it retries a request or goes on after deaths, or an open reply sends no data; None: it
        waits no more."""
        ...

    def call_output(self, call_id: str, text: str) -> None:
        """A running tool call produced the next piece of output."""
        ...

    def event_written(self, stored: StoredEvent, event: Event) -> None:
        """The driver wrote an event, and it is durable."""
        ...

    def state_changed(self, state: SessionState) -> None:
        """A turn starts with this state, or another writer changed the state during the turn."""
        ...

    def waiting_for_person(self) -> AbstractAsyncContextManager[None]:
        """The turn holds this context while it only waits: for a user's answer, or to go on after deaths."""
        ...


class NullObserver:
    """Ignores everything. Base class for observers that need only some of the notifications."""

    def model_event(self, event: ModelEvent) -> None:
        return

    def model_waits(self, wait: ModelWait | None) -> None:
        return

    def call_output(self, call_id: str, text: str) -> None:
        return

    def event_written(self, stored: StoredEvent, event: Event) -> None:
        return

    def state_changed(self, state: SessionState) -> None:
        return

    def waiting_for_person(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()


class ModelEventObserver(NullObserver):
    """Passes each model event to a function."""

    def __init__(self, hear: Callable[[ModelEvent], None]) -> None:
        self._hear = hear

    def model_event(self, event: ModelEvent) -> None:
        self._hear(event)


class WithoutModelEvents:
    """Passes everything but model events to another observer: for sub-agents, and for agents that do not stream."""

    def __init__(self, observer: TurnObserver) -> None:
        self.model_waits = observer.model_waits
        self.call_output = observer.call_output
        self.event_written = observer.event_written
        self.state_changed = observer.state_changed
        self.waiting_for_person = observer.waiting_for_person

    def model_event(self, event: ModelEvent) -> None:
        return
