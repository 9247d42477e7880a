"""Sessions written straight into a store: whatever a log can hold, without a model having to say it."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from outlast.core import events as e
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import Part, ReasoningPart, Role, TextPart, ToolCall, Usage
from outlast.store.lineage import fork
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Create, NewEvent


def new_id() -> str:
    return id_from(secrets.token_bytes(16))


def empty(title: str, *, session_id: str | None = None, **more: str) -> Create:
    """The write that makes a session in which nothing was said."""
    created = e.SessionCreated(title=title, **more)  # pyright: ignore[reportArgumentType]
    header = Header(session_id=session_id or new_id(), title=title, titled=True, **more)  # pyright: ignore[reportArgumentType]
    return Create(header=header, events=(NewEvent(event=created),))


class Writer:
    """Writes one session; every method appends, durably."""

    def __init__(self, store: LogStore, *, title: str, **more: str) -> None:
        self.store = store
        self.id = new_id()
        store.commit(empty(title, session_id=self.id, **more))
        self._calls = 0
        self._held: list[NewEvent] | None = None

    @contextmanager
    def held(self) -> Generator[None]:
        """What is written within comes in one commit: hundreds of events take no longer than one."""
        self._held = []
        yield
        events, self._held = self._held, None
        for begin in range(0, len(events), 200):
            self.store.commit(Append(session_id=self.id, events=tuple(events[begin : begin + 200])))

    def add(self, *events: e.Event, turn: str | None = None) -> int:
        """The seq of the last."""
        new = tuple(NewEvent(event=event, actor="user/test", turn=turn) for event in events)
        if self._held is not None:
            self._held += new
            return self.store.head(self.id).last_seq + len(self._held)
        [receipt] = self.store.commit(Append(session_id=self.id, events=new))
        return receipt.seq

    def asked(self, text: str, *more: Part) -> int:
        return self.add(e.InputAdmitted(parts=(TextPart(text), *more)))

    def appended(self, role: Role, text: str) -> int:
        return self.add(e.MessageAppended(role=role, parts=(TextPart(text),)))

    def turn(self, text: str, *replies: Sequence[Part], outcome: str = "completed", reason: str | None = None) -> None:
        """A message and a turn that answers it; the calls of every reply are taken as done."""
        asked = self.asked(text)
        self.add(e.TurnStarted(inputs=[asked]), turn="t1")
        for parts in replies:
            self.replied(*parts)
        self.add(e.TurnEnded(outcome=outcome, reason=reason, answered=[asked]), turn="t1")

    def replied(self, *parts: Part) -> int:
        at = self.add(e.ModelRequested(model="scripted"), turn="t1")
        usage = Usage(input_tokens=1000 + 10 * at, output_tokens=50 + at, cache_read_tokens=400)
        return self.add(
            e.AssistantReplied(attempt_seq=at, parts=tuple(parts), usage=usage, model="scripted"), turn="t1"
        )

    def call(self, name: str, arguments: dict[str, object], call_id: str | None = None) -> ToolCall:
        self._calls += 1
        return ToolCall(id=call_id or f"call_{self.id[:6]}_{self._calls}", name=name, arguments=arguments)

    def finished(
        self, call: ToolCall, output: str, *, is_error: bool = False, status: str = "executed", **facts: object
    ) -> int:
        return self.add(
            e.ToolCallStarted(call_id=call.id, name=call.name, arguments=call.arguments),
            e.ToolCallFinished(
                call_id=call.id,
                name=call.name,
                parts=(TextPart(output),),
                is_error=is_error,
                status=status,
                facts=dict(facts),
            ),
            turn="t1",
        )


def thought(text: str) -> ReasoningPart:
    return ReasoningPart(text=text)


def forked(store: LogStore, session_id: str, title: str) -> str:
    """A fork of that session, from its newest event on."""
    made = new_id()
    store.commit(fork(store.head(session_id), made))
    store.commit(Append(session_id=made, events=(NewEvent(event=e.SessionRenamed(title=title)),)))
    return made


def sub_agent(store: LogStore, parent: str, title: str, *, project_root: str, project_key: str) -> str:
    """A session that another one started for a task of its own."""
    made = new_id()
    header = Header(
        session_id=made,
        title=title,
        titled=True,
        parent_session_id=parent,
        depth=1,
        project_root=project_root,
        project_key=project_key,
    )
    created = e.SessionCreated(title=title, parent_session_id=parent, depth=1)
    store.commit(Create(header=header, events=(NewEvent(event=created),)))
    return made
