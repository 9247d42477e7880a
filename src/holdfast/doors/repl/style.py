"""Colours of the terminal: the user's own sixteen, so that they fit light and dark ones."""

from __future__ import annotations

from prompt_toolkit.styles import Style

HERE = "\u276f"
"""Where one is: before the input line, a chosen row, what was said."""

STYLE = Style.from_dict(
    {
        "prompt": "ansicyan bold",
        "rule": "ansibrightblack",
        "status": "noreverse ansibrightblack",
        "status.mode": "ansiyellow",
        "status.warn": "ansired",
        "title": "ansicyan bold",
        "picked": "ansicyan bold",
        "note": "ansibrightblack",
        "question": "ansiyellow bold",
        "choice": "",
        "chosen": "reverse",
        "spinner": "ansicyan",
        "completion-menu": "noreverse bg:default",
        "completion-menu.completion": "noreverse bg:default ansibrightblack",
        "completion-menu.completion.current": "noreverse bg:default ansicyan bold",
        "completion-menu.meta.completion": "noreverse bg:default ansibrightblack",
        "completion-menu.meta.completion.current": "noreverse bg:default ansicyan",
    }
)
