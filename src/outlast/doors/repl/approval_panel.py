"""Question panel of the terminal: an approval with its exact bytes and diff, or a question from the model.

A text longer than the screen is paged, never cut. The panel's keys answer only while the panel has the focus, and it
takes the focus only while the input line is empty; text typed into the panel goes to the input line. So neither a
message meant for the model nor a command can approve a call.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from textwrap import wrap
from typing import Any

import msgspec
from prompt_toolkit.formatted_text import StyleAndTextTuples

from outlast.app.sessions.pending_approvals import command_details
from outlast.doors.terminal_text import cells, cut, exact, pieces, readable

ANSWERS = ("once", "session", "always", "deny")
_LABELS = {
    "once": "Yes, once",
    "session": "Yes, this session",
    "always": "Yes, always here",
    "deny": "No",
}
_PLAN_LABELS = {"once": "Yes, start the work", "deny": "No, keep planning"}
LETTERS = {"y": "once", "n": "deny"}
"""Answers that outlast this call need a number or the arrows: typing `also ...` must not choose `always`."""


class ApprovalQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """An open question. `change` is the diff of a file tool call, `scope` what a lasting answer would cover.
    `from_runtime`: the loop guard asks, not the model."""

    session_id: str
    seq: int
    name: str
    arguments: dict[str, Any]
    call_digest: str
    reason: str | None = None
    change: str | None = None
    scope: str | None = None
    from_runtime: bool = False

    @property
    def at(self) -> tuple[str, int]:
        """Identity of the question: session id and the seq of its event."""
        return self.session_id, self.seq

    @property
    def is_approval(self) -> bool:
        return self.name != "ask_user"

    @property
    def is_plan(self) -> bool:
        """Whether the model asks to carry out its plan. Such an answer never outlasts the call."""
        return self.name == "exit_plan"

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers to choose from; for a question from the model, the choices it offers."""
        if self.is_plan:
            return tuple(_PLAN_LABELS)
        if self.is_approval:
            return ANSWERS
        offered: object = self.arguments.get("choices")
        return tuple(str(one) for one in offered) if isinstance(offered, list) else ()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    def label(self, choice: str) -> str:
        if self.is_plan:
            return _PLAN_LABELS.get(choice, choice)
        return _LABELS[choice] if self.is_approval else readable(" ".join(choice.split()))

    def lines(self) -> list[tuple[str, str]]:
        """Return the whole text of the question as (style, line) pairs."""
        if not self.is_approval:
            return [("", line) for line in readable(str(self.arguments.get("question", self.reason or ""))).split("\n")]
        if self.is_plan:
            return [("", line) for line in exact(str(self.arguments.get("plan", ""))).split("\n")]
        if self.change is not None:
            return [(_diff_style(line), line) for line in exact(self.change).split("\n")]
        if self.name == "bash" and isinstance(self.arguments.get("command"), str):
            lines = [("", line) for line in exact(self.arguments["command"]).split("\n")]
            details = command_details(self.arguments, self.reason)
            return [*lines, *(("class:note", exact(line)) for line in details)]
        text = json.dumps(self.arguments, indent=1, ensure_ascii=False)
        return [("", line) for line in exact(text).split("\n")]

    @property
    def heading(self) -> str:
        if self.is_plan:
            return "Carry out this plan?"
        if self.is_approval:
            return f"Allow {exact(self.name)}?"
        return "Outlast asks:" if self.from_runtime else "The model asks:"


def _diff_style(line: str) -> str:
    if line.startswith("+"):
        return "ansigreen"
    return "ansired" if line.startswith("-") else "class:note"


class ApprovalPanel:
    """The queue of open questions: draws the first one and tracks the selected choice."""

    def __init__(self) -> None:
        self.waiting: list[ApprovalQuestion] = []
        self.at = 0
        self.top = 0
        self.focused = False
        self._total, self._seen = 0, 1

    @property
    def asked(self) -> ApprovalQuestion | None:
        return self.waiting[0] if self.waiting else None

    def ask(self, asked: ApprovalQuestion) -> bool:
        """Add a question; return False if it is already in the queue."""
        if any(one.at == asked.at for one in self.waiting):
            return False
        self.waiting.append(asked)
        if len(self.waiting) == 1:
            self.at = self.top = 0
        return True

    def take(self, at: tuple[str, int]) -> ApprovalQuestion | None:
        """Remove a question and return it; None if it is not in the queue."""
        found = next((one for one in self.waiting if one.at == at), None)
        if found is not None:
            self._keep(lambda one: one is not found)
        return found

    def leave(self, session_id: str) -> None:
        """Remove all questions of that session: their answers are no longer needed."""
        self._keep(lambda one: one.session_id != session_id)

    def _keep(self, wanted: Callable[[ApprovalQuestion], bool]) -> None:
        first = self.asked
        self.waiting = [one for one in self.waiting if wanted(one)]
        if self.asked is not first:
            self.at = self.top = 0

    def drop(self) -> None:
        self.waiting, self.at, self.top = [], 0, 0

    def move(self, by: int) -> None:
        asked = self.asked
        if asked is not None and asked.choices:
            self.at = (self.at + by) % len(asked.choices)

    def page(self, by: int) -> None:
        """Scroll by that many pages; negative scrolls back."""
        self.top = max(0, min(self.top + by * self._seen, self._total - self._seen))

    def drawn(self, height: int, width: int, rows: int = 1000) -> StyleAndTextTuples:
        """Draw at most `height` lines of the question, fewer if the answers would not fit into `rows` screen rows."""
        asked = self.asked
        if asked is None:
            return []
        lines = [(style, piece) for style, line in asked.lines() for piece in pieces(line, max(20, width - 4))]
        above, below = _heading(asked, width), self._below(asked, width)
        others = "".join(str(piece[1]) for piece in (*above, *below)).count("\n") + 2
        self._total, self._seen = len(lines), max(1, min(height, rows - others))
        upto = min(self.top + self._seen, len(lines))
        drawn = [*above, *((style, f"  {line}\n") for style, line in lines[self.top : upto])]
        if len(lines) > self._seen:
            where = f"  lines {self.top + 1} to {upto} of {len(lines)} · PageUp, PageDown"
            drawn.append(("class:note", f"{cut(where, width)}\n"))
        return [*drawn, *below]

    def _below(self, asked: ApprovalQuestion, width: int) -> StyleAndTextTuples:
        drawn = self._choices(asked, width)
        if asked.is_approval and asked.scope and not asked.is_plan:
            reach = [
                piece for line in wrap(f"2 and 3 cover {asked.scope}", width - 2) for piece in pieces(line, width - 2)
            ]
            drawn += [("class:note", f" {line}\n") for line in reach]
        return [*drawn, ("class:note", cut(self._hint(asked), width))]

    def _choices(self, asked: ApprovalQuestion, width: int) -> StyleAndTextTuples:
        """Draw the choices in one row if they fit, otherwise one below the other."""
        labels = [f" {n} {asked.label(choice)} " for n, choice in enumerate(asked.choices, 1)]
        between = "  " if sum(cells(label) + 2 for label in labels) <= width else "\n"
        drawn: StyleAndTextTuples = []
        for n, label in enumerate(labels):
            drawn.append(("class:chosen" if n == self.at and self.focused else "class:choice", label))
            drawn.append(("", between if n + 1 < len(labels) else "\n"))
        return drawn

    def _hint(self, asked: ApprovalQuestion) -> str:
        more = f" · {len(self.waiting) - 1} more wait" if len(self.waiting) > 1 else ""
        if asked.is_approval and not self.focused:
            return f"Tab answers the question; what you type goes to the model{more}"
        if not self.focused or not asked.choices:
            return f"type an answer and press Enter{more}"
        free = "" if asked.is_approval else " · or type an answer and press Enter"
        return f"1-{len(asked.choices)} or arrows and Enter{free} · Ctrl-C stops the turn{more}"


def _heading(asked: ApprovalQuestion, width: int) -> StyleAndTextTuples:
    """Draw the heading and the reason, on one line if they fit."""
    reason = readable(" ".join((asked.reason or "").split())) if asked.is_approval else ""
    drawn: StyleAndTextTuples = [("class:question", asked.heading)]
    if cells(asked.heading) + 2 + cells(reason) <= width:
        return [*drawn, ("class:note", f"  {reason}\n")]
    lines = [piece for line in wrap(reason, width - 4) for piece in pieces(line, width - 4)]
    return [*drawn, ("class:note", "".join(f"\n  {line}" for line in lines) + "\n")]
