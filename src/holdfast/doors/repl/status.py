"""The line at the bottom: session, mode, model, how full the window is, tokens, cost."""

from __future__ import annotations

import time

from prompt_toolkit.formatted_text import StyleAndTextTuples

from holdfast.core.state import SessionState

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FULL = 0.75


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
        self.note = ""

    def take(self, state: SessionState) -> None:
        total = state.usage.total
        self.spent = f"{tokens(total.input_tokens + total.output_tokens)} tok"
        self.cost = cost(state)

    def line(self) -> StyleAndTextTuples:
        dot = ("class:status", " · ")
        line: StyleAndTextTuples = [("class:status", f" {self.session or 'new session'}"), dot]
        line += [("class:status.mode", self.mode), dot, ("class:status", short_model(self.model) or "no model")]
        if self.lane:
            line += [dot, ("class:status.mode", self.lane)]
        if self.window:
            share = self.used / self.window
            style = "class:status.warn" if share >= FULL else "class:status"
            line += [dot, (style, f"ctx {share:.0%} of {tokens(self.window)}")]
        line += [dot, ("class:status", self.spent), dot, ("class:status", self.cost)]
        if self.note:
            line += [dot, ("class:status.mode", self.note)]
        return line
