"""The log, told as what happened: inputs, turns, attempts, calls; and whatever does not fit together.

A reader walks over one session's rows in their order and knows what may follow what. It has no other idea of a turn
than the one that `docs/internals/turn.md` gives to everybody.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.crash.evidence import Evidence, Row, Unreadable
from tests.crash.oracle import job_in
from tests.crash.violation import Violation


@dataclass
class Told:
    """A call as the log tells it."""

    session_id: str
    name: str
    asked: int = 0
    started: int = 0
    finished: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])

    @property
    def status(self) -> str:
        return self.finished[0][1] if self.finished else ""


@dataclass
class Turn:
    session_id: str
    first: int
    last: int = 0
    outcome: str = ""
    reason: str = ""
    answered: list[int] = field(default_factory=list[int])
    answer: str = ""
    interrupted: bool = False
    attempts: int = 0
    recoveries: int = 0


@dataclass
class Tale:
    """The same log as what happened: inputs by (lineage, seq), turns, calls. `broken` is what did not fit together."""

    inputs: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    placed: dict[str, list[tuple[str, int]]] = field(
        default_factory=lambda: defaultdict[str, list[tuple[str, int]]](list)
    )
    turns: list[Turn] = field(default_factory=list[Turn])
    calls: dict[tuple[str, str], Told] = field(default_factory=dict[tuple[str, str], Told])
    roots: dict[str, str] = field(default_factory=dict[str, str])
    broken: list[Violation] = field(default_factory=list[Violation])

    @classmethod
    def of(cls, evidence: Evidence) -> Tale:
        tale = cls()
        for session_id, rows in sorted(evidence.stored.rows.items(), key=lambda item: item[1][0].seq):
            tale.roots[session_id] = tale._root(rows[0])
            _Reader(tale, session_id).read(rows)
        return tale

    def _root(self, first: Row) -> str:
        said = first.said() if first.kind == "SessionForked" else {}
        if said.get("reason") != "rotate":
            return first.session_id
        return self.root(str(said["base_session_id"]))

    def root(self, session_id: str) -> str:
        return self.roots.get(session_id, session_id)


class _Reader:
    """Reads one session's rows in their order, and knows what may follow what."""

    def __init__(self, tale: Tale, session_id: str) -> None:
        self.tale, self.session_id = tale, session_id
        self.turn: Turn | None = None
        self.interrupted = False
        self.attempt = 0
        self.open: dict[str, Told] = {}

    def read(self, rows: list[Row]) -> None:
        for row in rows:
            step = getattr(self, f"_{row.kind}", None)
            if step is not None:
                try:
                    step(row, row.said())
                except Unreadable as error:
                    self._wrong("damaged", str(error), row.seq, row.seq)
        last = rows[-1]
        if self.turn is not None and last.kind != "SessionRotated":
            self._wrong("stuck", f"the turn of event {self.turn.first} never ended", self.turn.first, last.seq)

    def _wrong(self, kind: str, text: str, first: int, last: int) -> None:
        self.tale.broken.append(Violation(kind, self.session_id, text, first, last))

    def _InputAdmitted(self, row: Row, said: dict[str, Any]) -> None:
        text = "".join(part.get("text", "") for part in said["parts"])
        self.tale.inputs[(self.tale.root(self.session_id), row.seq)] = text
        job = job_in(text)
        if job is not None:
            self.tale.placed[job.name].append((self.session_id, row.seq))

    def _InterruptRequested(self, row: Row, said: dict[str, Any]) -> None:
        self.interrupted = True

    def _TurnStarted(self, row: Row, said: dict[str, Any]) -> None:
        if self.turn is not None:
            self._wrong("two turns", f"a turn starts at {row.seq} while another runs", self.turn.first, row.seq)
        self.turn = Turn(self.session_id, row.seq)
        self.attempt, self.open = 0, {}

    def _ModelRequested(self, row: Row, said: dict[str, Any]) -> None:
        if self.attempt:
            self._wrong("two attempts", f"attempt {self.attempt} is open when {row.seq} begins", self.attempt, row.seq)
        self.attempt = row.seq
        if self.turn is not None:
            self.turn.attempts = int(said.get("attempt", 1))

    def _closed(self, row: Row, said: dict[str, Any]) -> None:
        if said["attempt_seq"] != self.attempt:
            told = f"event {row.seq} closes attempt {said['attempt_seq']}, and {self.attempt or 'none'} is open"
            self._wrong("two attempts", told, min(said["attempt_seq"], row.seq), row.seq)
        self.attempt = 0

    def _ReplyInterrupted(self, row: Row, said: dict[str, Any]) -> None:
        self._closed(row, said)

    def _AssistantReplied(self, row: Row, said: dict[str, Any]) -> None:
        self._closed(row, said)
        if self.turn is None:
            self._wrong("two turns", f"the reply {row.seq} belongs to no turn", row.seq, row.seq)
            return
        self._refuse_open(row.seq)
        for part in said["parts"]:
            if part["type"] == "tool_call":
                self.open[part["id"]] = self._call(part["id"])
                self.open[part["id"]].asked = row.seq
        if not self.open:
            self.turn.answer = "".join(part["text"] for part in said["parts"] if part["type"] == "text")

    def _call(self, name: str) -> Told:
        return self.tale.calls.setdefault((self.session_id, name), Told(self.session_id, name))

    def _ToolCallStarted(self, row: Row, said: dict[str, Any]) -> None:
        call = self._call(said["call_id"])
        if call.started:
            self._wrong(
                "run twice", f"call {call.name} was started at {call.started} and {row.seq}", call.asked, row.seq
            )
        call.started = row.seq
        self.open[call.name] = call

    def _ToolCallFinished(self, row: Row, said: dict[str, Any]) -> None:
        call = self._call(said["call_id"])
        text = "".join(part.get("text", "") for part in said.get("parts", []))
        call.finished.append((row.seq, said.get("status", "executed"), text))
        if len(call.finished) > 1:
            self._wrong("answered twice", f"call {call.name} has two results", call.asked, row.seq)
        self.open.pop(call.name, None)

    def _RuntimeStateChanged(self, row: Row, said: dict[str, Any]) -> None:
        if self.turn is not None and said["changes"].get("last_turn_transition_reason_code") == "turn_recovered":
            self.turn.recoveries += 1

    def _TurnEnded(self, row: Row, said: dict[str, Any]) -> None:
        if self.turn is None:
            self._wrong("answered twice", f"the turn that ends at {row.seq} never began", row.seq, row.seq)
            self.turn = Turn(self.session_id, row.seq)
        if self.attempt:
            self._wrong("two attempts", f"the turn ends with attempt {self.attempt} open", self.attempt, row.seq)
        self._refuse_open(row.seq)
        turn, self.turn, self.attempt = self.turn, None, 0
        turn.interrupted, self.interrupted = self.interrupted, False
        turn.last, turn.outcome, turn.reason = row.seq, said["outcome"], said.get("reason") or ""
        turn.answered = said.get("answered", [])
        self.tale.turns.append(turn)

    def _refuse_open(self, seq: int) -> None:
        for call in self.open.values():
            self._wrong("unanswered call", f"call {call.name} has no result at {seq}", call.asked or call.started, seq)
        self.open = {}
