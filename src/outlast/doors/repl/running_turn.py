"""The turn that runs in this terminal: what it works with, and what its calls put out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from outlast.app.sessions.update import change_running_mode
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.observer import NullObserver


class RunningTurn(NullObserver):
    """Remembers what the running turn works with, so that its mode can be changed while it runs. `progress` is told
    what a running call puts out: the call's id, and the next piece."""

    def __init__(self) -> None:
        self.context: TurnContext | None = None
        self.progress: Callable[[str, str], None] = lambda call_id, text: None

    def __call__(self, context: TurnContext) -> TurnContext:
        self.context = replace(context, observer=self)
        return self.context

    def call_output(self, call_id: str, text: str) -> None:
        self.progress(call_id, text)

    def request(self, mode: str) -> None:
        """Ask for a mode in the turn that runs; its policy keeps to the ceiling."""
        change_running_mode(self.context, mode)
