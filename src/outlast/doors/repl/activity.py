"""What goes on right now: a spinner, what it is, how long it takes; under it the last lines of what a command says."""

from __future__ import annotations

import time

from prompt_toolkit.formatted_text import StyleAndTextTuples

from outlast.doors.cells import cells, cut
from outlast.doors.repl.status import elapsed, spinner


def activity(doing: str, since: float, hint: str, lines: list[str], width: int) -> StyleAndTextTuples:
    """As much as fits: what is done is cut last, the hint is left out first. No line is broken into two."""
    took = f" {elapsed(time.monotonic() - since)}"
    told = f"{took} · {hint}"
    if cells(doing) + cells(told) + 2 > width:
        told = took
    drawn: StyleAndTextTuples = [("class:spinner", f"{spinner(since)} ")]
    drawn += [("", cut(doing, width - 2 - cells(told))), ("class:note", told)]
    for line in lines:
        drawn.append(("class:note", f"\n  {cut(line, width - 2)}"))
    return drawn
