"""The line at the bottom: session, mode, model, how full the window is, tokens, cost."""

from __future__ import annotations

import time

from prompt_toolkit.formatted_text import StyleAndTextTuples

from outlast.core.state import SessionState
from outlast.doors.cells import cells, cut

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FULL = 0.75
BRIEFEST = 4


def spinner(since: float) -> str:
    return SPINNER[int((time.monotonic() - since) * 10) % len(SPINNER)]


def elapsed(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"


def tokens(count: int) -> str:
    if count < 1000:
        return str(count)
    if count < 100_000:
        return f"{count / 1000:.1f}k"
    return f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def cost(state: SessionState) -> str:
    """What is known, with a question mark where a price is not."""
    total = state.usage.total
    known = f"${total.cost_micros / 1e6:.4f}" if total.cost_micros else "$0"
    if not total.unpriced:
        return known
    return f"{known}?" if total.cost_micros else "$?"


def short_model(name: str) -> str:
    """A script by its file's name alone; anything else as it is, unless it is a sentence."""
    provider, colon, model = name.partition(":")
    if provider == "scripted" and colon:
        model = model.rpartition("/")[2]
    name = f"{provider}{colon}{model}"
    return name if len(name) <= 48 else f"{name[:47]}…"


class Status:
    """What the line shows; whoever learns something new puts it here."""

    def __init__(self) -> None:
        self.session = ""
        self.mode = ""
        self.model = ""
        self.lane = ""
        self.window = 0
        self.used = 0
        self.spent = "0 tok"
        self.cost = "$0"

    def take(self, state: SessionState) -> None:
        total = state.usage.total
        self.spent = f"{tokens(total.input_tokens + total.output_tokens)} tok"
        self.cost = cost(state)

    def line(self, width: int = 1000) -> StyleAndTextTuples:
        """As much of it as fits, the most important to the last."""
        pieces = self._pieces(0)
        for brief in range(1, BRIEFEST + 1):
            if sum(cells(text) + 3 for _, text in pieces) - 2 <= width:
                break
            pieces = self._pieces(brief)
        line: StyleAndTextTuples = []
        for style, text in pieces:
            line += [("class:status", " · " if line else " "), (style, text)]
        return line

    def _pieces(self, brief: int) -> list[tuple[str, str]]:
        """What stands on the line; the higher `brief`, the less."""
        model = short_model(self.model) or "no model"
        pieces = [] if brief >= BRIEFEST else [("class:status", self.session or "new session")]
        pieces += [("class:status.mode", self.mode)]
        pieces += [("class:status", model if brief < 2 else cut(model.rpartition(":")[2], 16))]
        if self.lane:
            pieces += [("class:status.mode", self.lane)]
        if self.window:
            share = self.used / self.window
            told = f"ctx {share:.0%}" if brief else f"ctx {share:.0%} of {tokens(self.window)}"
            pieces += [("class:status.warn" if share >= FULL else "class:status", told)]
        if brief < 3:
            pieces += [("class:status", self.spent)]
        return [*pieces, ("class:status", self.cost)]
