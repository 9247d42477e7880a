"""A turn that a dead process left behind, event by event, as that process would have written it."""

from __future__ import annotations

import hashlib
from typing import Any

from outlast.core import events as e
from outlast.core.header import Header
from outlast.core.messages import Part, TextPart, ToolCall
from outlast.runtime.permissions.evaluate import call_digest
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Claim, Create, Lease, NewEvent, PutChunk
from outlast.store.process_identity import holder
from tests.faults.witness import new_id

ABSENT = "absent"


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def dead_holder() -> str:
    """The holder of a lease whose process is gone: our own pid, started at another time."""
    return " ".join([*holder().split(" ")[:3], "1"])


class Past:
    """A session with one input; the verbs add to it and give the seq of what they wrote."""

    def __init__(self, store: LogStore, said: str = "Do it.") -> None:
        self.store, self.session_id = store, new_id()
        self._lease: Lease | None = None
        self._turn: str | None = None
        created = NewEvent(event=e.SessionCreated(model="scripted"), actor="user/library")
        store.commit(Create(header=Header(session_id=self.session_id), events=(created,)))
        self.input = self.door(e.InputAdmitted(parts=(TextPart(said),)))

    def door(self, event: e.Event) -> int:
        new = (NewEvent(event=event, actor="user/library"),)
        return self.store.commit(Append(session_id=self.session_id, events=new))[0].seq

    def driver(self, *events: e.Event) -> int:
        """What the driver wrote in one commit; the last one's seq."""
        if self._lease is None:
            self.taken_over()
        new = tuple(NewEvent(event=event, turn=self._turn) for event in events)
        return self.store.commit(Append(session_id=self.session_id, events=new, lease=self._lease))[0].seq

    def taken_over(self, by: str | None = None) -> None:
        """Another process drives it from here on; unless it is said who, it dies as well."""
        claim = Claim(session_id=self.session_id, token=new_id(), holder=by or dead_holder())
        self._lease = self.store.commit(claim)[0].lease

    def turn(self) -> int:
        self._turn = "t3"
        task = e.RuntimeStateChanged(changes={"current_task": "Do it.", "active_turn_phase": "prepare"})
        return self.driver(e.TurnStarted(inputs=[self.input], model="scripted"), task) - 1

    def attempt(self, *drafted: str) -> int:
        """An open attempt, and the chunks of its draft."""
        seq = self.driver(e.ModelRequested(model="scripted"))
        for n, text in enumerate(drafted, 1):
            assert self._lease is not None
            self.store.commit(PutChunk(lease=self._lease, attempt_seq=seq, n=n, part="text", data=text.encode()))
        return seq

    def reply(self, *parts: Part) -> int:
        return self.driver(e.AssistantReplied(attempt_seq=self.attempt(), parts=parts))

    def calls(self, *calls: ToolCall) -> int:
        """A turn whose first reply asks for these calls."""
        self.turn()
        return self.reply(*calls)

    def asked(self, call: ToolCall, answer: str | None = None, mode: str = "workspace-write") -> int:
        digest = call_digest(call.name, call.arguments)
        seq = self.driver(
            e.ApprovalRequested(
                call_id=call.id, name=call.name, arguments=call.arguments, call_digest=digest, mode=mode
            )
        )
        if answer is not None:
            self.door(e.ApprovalAnswered(approval_seq=seq, answer=answer, call_digest=digest))
        return seq

    def started(self, call: ToolCall, effect: e.EffectClass = e.EffectClass.OTHER, **more: Any) -> int:
        return self.driver(
            e.ToolCallStarted(call_id=call.id, name=call.name, arguments=call.arguments, effect=effect, **more)
        )

    def writing(self, call: ToolCall, before: str, after: str, **facts: Any) -> int:
        """A verifiable write that was started."""
        return self.started(
            call,
            e.EffectClass.VERIFIABLE,
            target_digest_before=before,
            target_digest_after=after,
            facts={"path": call.arguments["file_path"], "before": None, **facts},
        )

    def finished(self, call: ToolCall, text: str = "done") -> int:
        return self.driver(e.ToolCallFinished(call_id=call.id, name=call.name, parts=(TextPart(text),)))

    def decided(self, outcome: str, code: str) -> int:
        return self.driver(e.CompletionDecided(outcome=outcome, code=code, summary=code))
