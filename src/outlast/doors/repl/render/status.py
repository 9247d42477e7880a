"""The status line (session, mode, model, context use, tokens, cost) and the activity line above the input.

The activity line shows a spinner, the current activity and its duration, with the last output lines of a running
command below it.
"""

from __future__ import annotations

import time

from prompt_toolkit.formatted_text import StyleAndTextTuples

from outlast.core.state import SessionState
from outlast.doors.terminal_text import cells, cut, output

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
    """The known cost, with a question mark if a price is unknown."""
    total = state.usage.total
    known = f"${total.cost_micros / 1e6:.4f}" if total.cost_micros else "$0"
    if not total.unpriced:
        return known
    return f"{known}?" if total.cost_micros else "$?"


def short_model(name: str) -> str:
    """The file name alone for a scripted model; any other name as it is, cut if it is too long."""
    provider, colon, model = name.partition(":")
    if provider == "scripted" and colon:
        model = model.rpartition("/")[2]
    name = f"{provider}{colon}{model}"
    return name if len(name) <= 48 else f"{name[:47]}…"


class StatusLine:
    """The values of the status line; other objects assign to its attributes."""

    def __init__(self) -> None:
        self.session = ""
        self.mode = ""
        self.sandbox = ""
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
        """Draw as much as fits; the least important pieces are shortened or dropped first."""
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
        """The pieces of the line; a higher `brief` gives fewer and shorter pieces."""
        model = short_model(self.model) or "no model"
        pieces = [] if brief >= BRIEFEST else [("class:status", self.session or "new session")]
        pieces += [("class:status.mode", self.mode)]
        if self.sandbox and brief < 3:
            pieces += [("class:status", self.sandbox)]
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


def activity(doing: str, since: float, hint: str, lines: list[str], width: int) -> StyleAndTextTuples:
    """Draw as much as fits: of the hint only its last part stays (how to stop), in a narrow terminal nothing; then the
    activity is cut. Lines are never wrapped."""
    took = f" {elapsed(time.monotonic() - since)}"
    told = f"{took} · {hint}"
    if cells(doing) + cells(told) + 2 > width:
        told = f"{took} · {hint.rpartition(' · ')[2]}" if width >= HINT_WIDTH else took
    drawn: StyleAndTextTuples = [("class:spinner", f"{spinner(since)} ")]
    drawn += [("", cut(doing, width - 2 - cells(told))), ("class:note", told)]
    for line in lines:
        drawn.append(("class:note", f"\n  {cut(line, width - 2)}"))
    return drawn


KEPT = 8192
HINT_WIDTH = 60
"""A narrower terminal shows no hint next to a long activity."""
LINES = 5


class OutputTail:
    """Collects output pieces and keeps only what is needed to show the end."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, piece: str) -> None:
        self._text = (self._text + piece)[-KEPT:]

    def lines(self, most: int = LINES) -> list[str]:
        """The last lines as a terminal would show them: overwritten text is dropped, tabs are expanded."""
        written = self._text.replace("\r\n", "\n").rstrip("\n\r").split("\n")[-4 * most :]
        seen = [output(line.rstrip("\r").rpartition("\r")[2]).expandtabs(4).rstrip() for line in written]
        return [line for line in seen if line][-most:]
