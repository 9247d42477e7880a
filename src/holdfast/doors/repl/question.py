"""A question in the terminal: an approval with its exact bytes and its diff, or one that the model asks.

The text can be longer than the screen: it is paged through, never cut. The keys answer only while the question has the
focus, and it takes the focus only when nothing is being typed, so that no word that was meant for the model approves.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from prompt_toolkit.formatted_text import StyleAndTextTuples

from holdfast.doors.repl.escaping import exact, readable

ANSWERS = ("once", "session", "always", "deny")
_LABELS = {
    "once": "Yes, once",
    "session": "Yes, this session",
    "always": "Yes, always here",
    "deny": "No",
}
LETTERS = {"1": 0, "y": 0, "o": 0, "2": 1, "s": 1, "3": 2, "a": 2, "4": 3, "n": 3, "d": 3}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked. `change` is the diff of a file tool's call."""

    session_id: str
    seq: int
    name: str
    arguments: dict[str, Any]
    call_digest: str
    reason: str | None = None
    change: str | None = None

    @property
    def is_approval(self) -> bool:
        return self.name != "ask_user"

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers to choose from; for the model's own question, those it offers."""
        if self.is_approval:
            return ANSWERS
        offered: object = self.arguments.get("choices")
        return tuple(str(one) for one in offered) if isinstance(offered, list) else ()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    def label(self, choice: str) -> str:
        return _LABELS[choice] if self.is_approval else readable(choice)

    def lines(self) -> list[tuple[str, str]]:
        """The whole of it, each line with its style."""
        if not self.is_approval:
            return [("", line) for line in readable(str(self.arguments.get("question", self.reason or ""))).split("\n")]
        if self.change is not None:
            return [(_diff_style(line), line) for line in exact(self.change).split("\n")]
        if self.name == "bash" and isinstance(self.arguments.get("command"), str):
            others = {name: value for name, value in self.arguments.items() if name != "command"}
            lines = [("", line) for line in exact(self.arguments["command"]).split("\n")]
            return [*lines, *(("class:note", exact(f"{name} = {value}")) for name, value in others.items())]
        text = json.dumps(self.arguments, indent=1, ensure_ascii=False)
        return [("", line) for line in exact(text).split("\n")]

    @property
    def heading(self) -> str:
        return f"Allow {exact(self.name)}?" if self.is_approval else "The model asks:"


def _diff_style(line: str) -> str:
    if line.startswith("+"):
        return "ansigreen"
    return "ansired" if line.startswith("-") else "class:note"


class Panel:
    """The question that is open, if any: what is drawn and what is chosen."""

    def __init__(self) -> None:
        self.waiting: list[Asked] = []
        self.at = 0
        self.top = 0
        self.focused = False
        self._total = 0

    @property
    def asked(self) -> Asked | None:
        return self.waiting[0] if self.waiting else None

    def ask(self, asked: Asked) -> bool:
        """Put a question; False when it is asked already."""
        if any(one.seq == asked.seq for one in self.waiting):
            return False
        self.waiting.append(asked)
        if len(self.waiting) == 1:
            self.at = self.top = 0
        return True

    def take(self, seq: int) -> Asked | None:
        """That question is over."""
        found = next((one for one in self.waiting if one.seq == seq), None)
        self.waiting = [one for one in self.waiting if one.seq != seq]
        if found is not None:
            self.at = self.top = 0
        return found

    def drop(self) -> None:
        self.waiting, self.at, self.top = [], 0, 0

    def move(self, by: int) -> None:
        asked = self.asked
        if asked is not None and asked.choices:
            self.at = (self.at + by) % len(asked.choices)

    def page(self, by: int, height: int) -> None:
        self.top = max(0, min(self.top + by, self._total - height))

    def drawn(self, height: int, width: int) -> StyleAndTextTuples:
        asked = self.asked
        if asked is None:
            return []
        lines = [piece for line in asked.lines() for piece in _wrapped(line, width - 4)]
        self._total = len(lines)
        seen = lines[self.top : self.top + height]
        drawn: StyleAndTextTuples = [("class:question", f"{asked.heading}"), ("class:note", f"  {_reason(asked)}\n")]
        for style, line in seen:
            drawn.append((style, f"  {line}\n"))
        if len(lines) > height:
            upto = min(self.top + height, len(lines))
            drawn.append(("class:note", f"  lines {self.top + 1} to {upto} of {len(lines)} · PageUp, PageDown\n"))
        for n, choice in enumerate(asked.choices):
            chosen = n == self.at and self.focused
            drawn.append(("class:chosen" if chosen else "class:choice", f" {n + 1} {asked.label(choice)} "))
            drawn.append(("", "  " if n + 1 < len(asked.choices) else ""))
        drawn.append(("class:note", "\n" if asked.choices else ""))
        drawn.append(("class:note", self._hint(asked)))
        return drawn

    def _hint(self, asked: Asked) -> str:
        more = f" · {len(self.waiting) - 1} more wait" if len(self.waiting) > 1 else ""
        if not self.focused:
            return f"Tab answers the question; what you type goes to the model{more}"
        free = "" if asked.is_approval else " · or type an answer and press Enter"
        return (
            f"1-{len(asked.choices)} or arrows and Enter{free} · Ctrl-C stops the turn{more}"
            if asked.choices
            else (f"type an answer and press Enter{more}")
        )


def _reason(asked: Asked) -> str:
    return readable(" ".join((asked.reason or "").split())) if asked.is_approval else ""


def _wrapped(line: tuple[str, str], width: int) -> list[tuple[str, str]]:
    style, text = line
    width = max(20, width)
    return [(style, text[n : n + width]) for n in range(0, len(text), width)] or [(style, "")]
