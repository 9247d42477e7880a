"""Colours of the terminal: the user's own sixteen, so that they fit light and dark ones.

What matters less is dim, not grey: some palettes have no grey that differs from their ground.
"""

from __future__ import annotations

from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from outlast.app.settings import wants_colours

HERE = "\u276f"
"""Where one is: before the input line, a chosen row, what was said."""

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
