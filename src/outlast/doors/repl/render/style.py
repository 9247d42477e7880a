"""Terminal styles: only the user's own sixteen colours, so that they fit light and dark themes.

Less important text is dim instead of grey: some palettes have no grey that differs from the background.
"""

from __future__ import annotations

from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from outlast.app.settings import wants_colours

HERE = "\u276f"
"""Marker of the current position: before the input line, the selected row and user messages."""

STYLE = Style.from_dict(
    {
        "prompt": "ansicyan bold",
        "rule": "dim",
        "status": "noreverse dim",
        "status.mode": "ansiyellow",
        "status.warn": "ansired",
        "title": "ansicyan bold",
        "picked": "ansicyan bold",
        "note": "dim",
        "question": "ansiyellow bold",
        "choice": "",
        "chosen": "reverse",
        "spinner": "ansicyan",
        "completion-menu": "noreverse bg:default",
        "completion-menu.completion": "noreverse bg:default dim",
        "completion-menu.completion.current": "noreverse nodim bg:default ansicyan bold",
        "completion-menu.meta.completion": "noreverse bg:default dim",
        "completion-menu.meta.completion.current": "noreverse nodim bg:default ansicyan",
    }
)


def colours() -> ColorDepth:
    return ColorDepth.DEPTH_4_BIT if wants_colours() else ColorDepth.DEPTH_1_BIT
