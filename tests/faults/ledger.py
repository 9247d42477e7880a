"""What the log of a turn must come to, however often the turn was cut in two: one problem a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from outlast.core import events as e
from outlast.core.fold import Row, folded
from outlast.core.messages import ToolCall, text_of
from outlast.core.window import window
from outlast.store.log_store import LogStore
from outlast.store.port import Query
from outlast.store.read.decode import decode_events
from outlast.store.verify import verify
from outlast.testing.validity import rejections
from tests.faults import scenario

RAN = frozenset({"executed", "recovered"})


def turn_problems(rows: Sequence[Row]) -> list[str]:
    """Whatever the turns were about: attempts and turns closed once, calls answered once, inputs answered once."""
    found: list[str] = []
    opened = [stored.seq for stored, event in rows if isinstance(event, e.ModelRequested)]
    closed = [event.attempt_seq for _, event in rows if isinstance(event, e.AssistantReplied | e.ReplyInterrupted)]
    if sorted(opened) != sorted(closed):
        found.append(f"attempts {opened} were closed as {closed}")
    started = [stored.turn for stored, event in rows if isinstance(event, e.TurnStarted)]
    ended = [stored.turn for stored, event in rows if isinstance(event, e.TurnEnded)]
    if started != ended:
        found.append(f"turns {started} ended as {ended}")
    admitted = [stored.seq for stored, event in rows if isinstance(event, e.InputAdmitted)]
    answered = [seq for _, event in rows if isinstance(event, e.TurnEnded) for seq in event.answered]
    if sorted(admitted) != sorted(answered):
        found.append(f"inputs {admitted} were answered as {answered}")
    return found + _call_problems(rows)


def _call_problems(rows: Sequence[Row]) -> list[str]:
    asked: Counter[str] = Counter()
    told: Counter[str] = Counter()
    started: Counter[str] = Counter()
    for _, event in rows:
        match event:
            case e.AssistantReplied(parts=parts):
                asked.update(part.id for part in parts if isinstance(part, ToolCall))
            case e.ToolCallStarted(call_id=call_id):
                started[call_id] += 1
            case e.ToolCallFinished(call_id=call_id):
                told[call_id] += 1
            case _:
                pass
    asked.update(name for name in started if name.startswith("verify-"))
    found = [f"calls {dict(asked)} were answered as {dict(told)}"] if asked != told else []
    return found + [f"call {name} was started {count} times" for name, count in started.items() if count > 1]


class TaleCheck:
    """What must be there when the tale has been told, and what must not."""

    def __init__(self, store: LogStore, session_id: str, project: Path) -> None:
        self._store, self._project = store, project
        self._sessions = {session_id: decode_events(store, store.read(session_id))}
        children = [
            header.session_id for header in store.find(Query()).headers if header.parent_session_id == session_id
        ]
        self._children = {name: decode_events(store, store.read(name)) for name in children}
        self._parent = self._sessions[session_id]
        self._sessions |= self._children

    def problems(self, acknowledged: Sequence[int]) -> list[str]:
        found = [f"{text} ({name})" for name, rows in self._sessions.items() for text in self._session(name, rows)]
        found += [f"finding: {finding}" for finding in verify(self._store).findings if finding.damage]
        if len(self._children) != 1:
            found.append(f"there are {len(self._children)} child sessions")
        admitted = [stored.seq for stored, event in self._parent if isinstance(event, e.InputAdmitted)]
        if [seq for seq in acknowledged if seq not in admitted] or len(admitted) != 1:
            found.append(f"inputs {list(acknowledged)} were acknowledged and {admitted} are there")
        if sum(isinstance(event, e.Compacted) for _, event in self._parent) != 1:
            found.append("it was not compacted once")
        return found + self._effects() + self._answers()

    def _session(self, name: str, rows: list[Row]) -> list[str]:
        found = turn_problems(rows)
        state = folded(rows)
        if state.turn or state.attempt or state.open_calls or state.open_approvals or state.unanswered:
            found.append("something is still open")
        if self._store.holder(name) is not None:
            found.append("the lease is still held")
        if any(batch.chunks for batch in self._store.follow(name, after=state.last_seq, timeout=0)):
            found.append("there is still a draft")
        shown = [row for row in rows if row[0].seq >= state.read_from]
        return found + rejections(window(shown, state).messages, request=False)

    def _effects(self) -> list[str]:
        witness = self._project / "witness.txt"
        lines = Counter(witness.read_text().split() if witness.exists() else [])
        found = [f"command {word} ran {count} times" for word, count in lines.items() if count > 1]
        for rows in self._sessions.values():
            for _, event in rows:
                if isinstance(event, e.ToolCallFinished) and event.call_id in scenario.COMMANDS:
                    word = scenario.COMMANDS[event.call_id]
                    if event.status not in {*RAN, "unknown"}:
                        found.append(f"command {word} is told as {event.status}")
                    if event.status in RAN and not lines[word]:
                        found.append(f"command {word} is told as executed and never ran")
        if (self._project / "made.txt").read_text() != scenario.EDITED:
            found.append("made.txt is not what was written")
        return found

    def _answers(self) -> list[str]:
        found: list[str] = []
        replies = [text_of(event.parts) for _, event in self._parent if isinstance(event, e.AssistantReplied)]
        if replies[-1:] != [scenario.ANSWER]:
            found.append(f"the answer is {replies[-1:]}")
        results = {event.call_id: event for _, event in self._parent if isinstance(event, e.ToolCallFinished)}
        if (told := text_of(results["s1"].parts)) != scenario.COUNTED:
            found.append(f"the sub-agent's answer is {told!r}")
        for name in ("r1", "w1", "e1", "t1"):
            if results[name].status not in RAN:
                found.append(f"call {name} is told as {results[name].status}")
        outcomes = [event.outcome for _, event in self._parent if isinstance(event, e.TurnEnded)]
        if outcomes != ["completed"]:
            found.append(f"the turn ended as {outcomes}")
        partial = [text_of(event.parts) for _, event in self._parent if isinstance(event, e.ReplyInterrupted)]
        if not all(any(whole.startswith(text) for whole in (scenario.ANSWER, scenario.FIRST)) for text in partial):
            found.append(f"what is left of a reply is {partial}")
        return found
