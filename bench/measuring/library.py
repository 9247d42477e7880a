"""The part of the scenario that Python code does: `library.py NAME STORE_URL PROJECT`, in that version's interpreter.

It prints one JSON object: the sessions by their names in the scenario, and what their objects showed.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

LARGE = "A long text with an end. " * 8000


class Scene:
    """The package, a store of it, and what was seen."""

    def __init__(self, name: str, url: str, project: str) -> None:
        self.hf: Any = importlib.import_module(name)
        self.testing: Any = importlib.import_module(f"{name}.testing")
        self.store: Any = self.hf.open_store(url)
        self.project = Path(project)
        self.sessions: dict[str, str] = {}
        self.shown: list[tuple[str, Any]] = []

    def show(self, title: str, what: Any) -> None:
        self.shown.append((title, msgspec.to_builtins(what)))

    def user(self, text: str) -> Any:
        return self.hf.Message(role=self.hf.Role.USER, content=text)

    def assistant(self, text: str, **more: Any) -> Any:
        return self.hf.Message(role=self.hf.Role.ASSISTANT, content=text, **more)

    def session(self, label: str, **more: Any) -> Any:
        """Make a session and give it a name of the scenario."""
        made = self.hf.ConversationSession(project_root=self.project, store=self.store, **more)
        self.sessions[label] = made.session_id
        return made

    def reply(self, content: str = "", *calls: tuple[str, str, dict[str, Any]], **more: Any) -> Any:
        """A reply of the model, with calls as (id, tool, arguments)."""
        made = [self.hf.ToolCall(id=one, name=tool, arguments=arguments) for one, tool, arguments in calls]
        usage = {"prompt_tokens": 12, "completion_tokens": 5}
        return self.hf.CompletionResponse(content=content, tool_calls=made, usage=usage, **more)

    def agent(self, label: str, *replies: Any, handle: bool = False, **config: Any) -> Any:
        """An agent with a scripted model; its session gets a name of the scenario."""
        kind = self.hf.RuntimeHandle if handle else self.hf.Agent
        made = kind(
            self.testing.ScriptedBackend(list(replies)),
            self.hf.AgentConfig(**{"auto_context": False, **config}),
            self.project,
            store=self.store,
            settings=self.hf.load_settings(project_root=self.project, permission_mode=config.get("permission_mode")),
        )
        self.sessions[label] = made.session.session_id
        return made

    def raises(self, title: str, do: Callable[[], Any]) -> None:
        """Keep the error that something raises."""
        try:
            do()
        except Exception as error:  # noqa: BLE001 - which one it is, is compared
            self.show(title, [type(error).__name__, str(error)])
        else:
            self.show(title, "no error")


def _messages(found: list[Any]) -> list[Any]:
    return [
        [str(one.role), one.content[:200], len(one.content), one.seq, one.archived, one.is_summary] for one in found
    ]


# --- sessions as objects


def appended(scene: Scene) -> None:
    """Write messages of every kind that has a public name, and live a session's life."""
    session = scene.session("appended", title="Appended", messages=[scene.user("first"), scene.assistant("second")])
    seqs = [session.append(scene.user("third")), session.append(scene.user("keyed"), key="k-1")]
    seqs.append(session.append(scene.user("keyed"), key="k-1"))
    seqs.append(session.append(scene.user(LARGE)))
    call = scene.hf.ToolCall(id="c-1", name="read", arguments={"file_path": "notes.txt"})
    seqs.append(session.append(scene.assistant("Looking.", tool_calls=[call])))
    seqs.append(session.append(scene.hf.Message(role=scene.hf.Role.SYSTEM, content="a note")))
    seqs.append(session.extend([scene.user("x\u00e4\U0001f600\ud800"), scene.assistant("y")], key="k-2"))
    seqs.append(asyncio.run(session.append_async(scene.user("async"), expect=session.header.last_seq)))
    scene.show("seqs", seqs)
    scene.raises("expect", lambda: session.append(scene.user("no"), expect=1))
    scene.raises("no message", lambda: session.append("text"))
    session.rename("Renamed")
    session.interrupt("just so")
    session.end("done")
    scene.raises("ended", lambda: session.append(scene.user("late")))
    session.reopen()
    session.append(scene.user("again"), touch=False)
    scene.sessions["appended fork"] = session.fork().session_id
    forked = session.fork(at=4)
    scene.sessions["appended fork at 4"] = forked.session_id
    forked.append(scene.user("in the fork"))
    scene.raises("fork", lambda: session.fork(at=10_000))
    scene.show("history", [_messages(one.history()) for one in (session, forked)])
    scene.show("before", _messages(session.history(limit=2, before=5)))
    scene.show("messages", _messages(session.messages))
    scene.show("usage", session.usage)
    found = scene.hf.ConversationSession.resume(session.session_id[:12], store=scene.store)
    scene.show("resumed", found.session_id == session.session_id)
    scene.show("missing", scene.hf.ConversationSession.load(session_id="a" * 26, store=scene.store))
    listed = scene.hf.ConversationSession.list(project_root=scene.project, store=scene.store)
    scene.show("listed", [[one.session_id, one.title, one.state, one.last_seq, one.message_count] for one in listed])


def rotated_file(scene: Scene) -> None:
    """Write more than a live segment of the files store holds."""
    session = scene.session("segments", rotate_after_bytes=250)
    for number in range(6):
        session.append(scene.user(f"Message {number}: " + "x" * 120))
    scene.store.rotate_after_bytes = None
    scene.show("segments", _messages(session.history()))


def remembered(scene: Scene) -> None:
    """Write what seed 000 remembers of the runtime: state, timeline, trace, ledger, prompts."""
    hf = scene.hf
    session = scene.session(
        "remembered",
        permission_mode="prompt",
        permission_prompting_enabled=True,
        permission_rule_counts={"allow": 1, "deny": 2, "ask": 3},
        prompt_format="react",
        prompt_sections=["Runtime Config"],
    )
    session.update_runtime_state(
        current_task="Inspect",
        runtime_owner_type="RuntimeHandle",
        workflow_ambiguity_score=0.2,
        permission_mode="allow",
    )
    entry = {"kind": "route", "mode": "plan", "summary": "plan it", "decision_kind": "initial_route"}
    session.append_workflow_timeline_entry(
        hf.WorkflowTimelineEntry(
            timestamp="2026-04-07T12:00:00Z",
            reason_code="task_is_complex",
            route_score=0.72,
            evidence_provenance=[
                hf.EvidenceProvenance(category="verification", source="dod", summary="missing", status="missing")
            ],
            **entry,
        )
    )
    session.append_completion_trace_entry(
        hf.CompletionTraceEntry(
            stage="definition_of_done", outcome="continue", decision_code="reentry", decision_summary="went on"
        )
    )
    item = hf.WorkflowLedgerItem(text="notes stay", status="tracked", introduced_phase="clarify", evidence=["said so"])
    session.update_workflow_ledger(hf.WorkflowLedger(assumptions=[item], decision_boundaries=[item]))
    for minute in (0, 1, 2):  # the second one says the same as the first
        snapshot = {"workflow_mode": "plan" if minute < 2 else "execute", "permission_mode": "prompt"}
        session.append_prompt_snapshot(
            hf.PromptSnapshot(
                timestamp=f"2026-04-07T14:0{minute}:00Z",
                prompt_format="native",
                prompt_sections=["Runtime Config"],
                content="# Introduction\n",
                **snapshot,
            )
        )
    scene.raises("unknown name", lambda: session.update_runtime_state(no_such_name=1))
    again = hf.ConversationSession.load(session_id=session.session_id, store=scene.store)
    names = ("permission_mode", "prompt_format", "prompt_sections", "current_task", "runtime_owner_type")
    scene.show("remembered", [getattr(again, name) for name in (*names, "runtime_owner_path", "workflow_mode")])
    scene.show("workflow", [again.workflow_timeline, again.completion_trace, again.workflow_ledger])
    scene.show("prompts", [again.prompt_history, again.definition_of_done])


def compacted(scene: Scene) -> None:
    """Compact a session without a model."""
    words = [scene.user(f"question {n}") if n % 2 else scene.assistant(f"answer {n}") for n in range(1, 9)]
    session = scene.session("compacted", messages=words, auto_compaction_input_tokens_threshold=1)
    scene.show("compaction", session.maybe_compact() is not None)
    scene.show("window", _messages(session.messages))
    scene.show("still there", _messages(session.history()))


# --- agents


def _in(scene: Scene, name: str) -> str:
    return str(scene.project / name)


def worked(scene: Scene) -> None:
    """Run one turn with most tools, and a second one."""
    agent = scene.agent(
        "worked",
        scene.reply("I look.", ("w1", "read", {"file_path": _in(scene, "notes.txt")})),
        scene.reply("", ("w2", "write", {"file_path": _in(scene, "new.txt"), "content": "hello\nworld\n"})),
        scene.reply("", ("w3", "edit", {"file_path": "code.py", "old_string": "41", "new_string": "42"})),
        scene.reply("", ("w4", "glob", {"pattern": "*.py"}), ("w5", "search", {"pattern": "return \\d+"})),
        scene.reply("", ("w6", "todo", {"items": [{"text": "do it", "status": "completed"}]})),
        scene.reply("", ("w6b", "todo", {"items": [{"content": "do it", "status": "completed"}]})),
        scene.reply("", ("w7", "bash", {"command": "cat new.txt; echo told >&2; exit 3"})),
        scene.reply("", ("w8", "read", {"file_path": "missing.txt"}), ("w9", "no_such_tool", {"a": 1})),
        scene.reply("", ("wa", "ask_user", {"question": "Which one?", "choices": ["a", "b"]})),
        scene.reply("", ("wb", "edit", {"file_path": "code.py", "old_string": "not there", "new_string": "x"})),
        scene.reply("Everything is done: code.py returns 42 and new.txt is written.", reasoning="I thought."),
        *[scene.reply("It is all done and verified. There is nothing left to do.")] * 8,
        permission_mode="allow",
    )
    scene.show("answer", agent.run_sync("Change code.py so that it returns 42, and write new.txt."))
    scene.show("summary", agent.last_turn_summary is not None)
    scene.show("agent", [agent.current_task, agent.workflow_mode, agent.active_permission_mode, agent.session.usage])
    done = agent.session.definition_of_done
    scene.show("definition of done", done)
    scene.show("second answer", agent.run_sync("What is a session?"))
    scene.show("what the model saw", _messages(agent.messages))


def denied(scene: Scene) -> None:
    """Ask for what needs an approval while no user can be asked."""
    agent = scene.agent(
        "denied",
        scene.reply("", ("d1", "bash", {"command": "rm -f notes.txt"})),
        scene.reply("", ("d2", "write", {"file_path": _in(scene, "../outside.txt"), "content": "no"})),
        scene.reply("I may not."),
        *[scene.reply("I was not allowed to do it, so nothing was changed.")] * 6,
    )
    scene.show("denied", agent.run_sync("Remove notes.txt."))


def approved(scene: Scene) -> None:
    """Ask somebody who answers: once, for the session, no, and in words."""
    answers = iter(["once", "session", "deny", "the second"])

    async def answer(question: Any) -> str:
        scene.show("question", [question.name, question.arguments, question.reason])
        return next(answers, "once")

    agent = scene.agent(
        "approved",
        *[scene.reply("", (f"a{n}", "write", {"file_path": f"asked{n}.txt", "content": str(n)})) for n in range(3)],
        scene.reply("", ("a9", "ask_user", {"question": "Which?"})),
        scene.reply("Two files are written."),
        *[scene.reply("Two files are written, the third was denied.")] * 6,
        permission_mode="prompt",
        prompting=True,
    )
    agent.answerer = answer
    scene.show("approved", agent.run_sync("Tell me about approvals."))


def delegated(scene: Scene) -> None:
    """Hand work to a sub-agent."""
    agent = scene.agent(
        "delegated",
        scene.reply("", ("t1", "task", {"prompt": "Read notes.txt and tell its first line."})),
        scene.reply("", ("s1", "read", {"file_path": "notes.txt"})),
        scene.reply("The first line is 'one'."),
        scene.reply("The sub-agent says: one."),
        *[scene.reply("The first line of notes.txt is 'one'.")] * 6,
        permission_mode="allow",
    )
    scene.show("delegated", agent.run_sync("What is the first line of notes.txt?"))


def broken(scene: Scene) -> None:
    """Let a reply break off, and a model have nothing to say."""
    line = scene.testing.Line
    agent = scene.agent("broken", line(reply="A reply that breaks off here", breaks_after=16), scene.reply("Whole."))
    scene.raises("broken", lambda: scene.show("after a break", agent.run_sync("What is it?")))
    empty = scene.agent("exhausted")
    scene.raises("exhausted", lambda: empty.run_sync("Hello?"))


def steered(scene: Scene) -> None:
    """Steer, take steering back, interrupt, clear, and go on in a handle."""
    agent = scene.agent("steered", scene.reply("Noted."), scene.reply("Again."))
    agent.queue_steering_message("Never mind.")
    scene.show("drained", agent.drain_steering_messages())
    agent.queue_steering_message("Be short.")
    scene.show("steered", agent.run_sync("What is steering?"))
    agent.current_task = "Keep it tidy."
    agent.prompt_format = "native"
    agent.prompt_sections = ["Runtime Config"]
    agent.set_workflow_mode("clarify")
    scene.raises("no mode", lambda: agent.set_workflow_mode("none"))
    agent.interrupt()
    handle = scene.agent("handle", scene.reply("I go on."), handle=True)
    scene.sessions.pop("handle")
    scene.show("resumes", [handle.resume_session("b" * 26), handle.resume_session(agent.session.session_id)])
    scene.show("goes on", handle.run_sync("And now?"))
    scene.show("owner", [handle.session.runtime_owner_type, handle.session.runtime_owner_path])
    again = scene.agent("resumed as before", scene.reply("Here."), scene.reply("Still here."))
    again.run_sync("Are you here?")
    scene.show("resumed as before", again.resume_session(again.session.session_id))
    scene.show("still here", again.run_sync("And now?"))
    handle.clear_history()
    scene.show("cleared", [handle.current_task, handle.workflow_mode, handle.messages])


def outgrown(scene: Scene) -> None:
    """Let windows outgrow their threshold: once in place, once into a new session."""
    for mode in ("in_place", "rotate"):
        agent = scene.agent(
            f"outgrown {mode}",
            *[scene.reply(f"Answer {n}. " + "word " * 4000) for n in range(4)],
            *[scene.reply("It is done.")] * 6,
            compaction_mode=mode,
            auto_compaction_input_tokens_threshold=12_000,
            compaction_keep_last_messages=2,
        )
        for number in range(4):
            agent.run_sync(f"Explain part {number}.")
        scene.sessions[f"outgrown {mode} at last"] = agent.session.session_id
        scene.show(f"outgrown {mode}", _messages(agent.messages))


def planned(scene: Scene) -> None:
    """Ask for a plan, and for a definition of done that a command verifies."""
    agent = scene.agent(
        "planned",
        scene.reply("1. Read code.py\n2. Change it\n3. Run `python -m py_compile code.py`"),
        scene.reply("", ("p1", "write", {"file_path": "planned.txt", "content": "planned\n"})),
        scene.reply("planned.txt is written."),
        *[scene.reply("planned.txt is written and verified. Nothing is left to do.")] * 8,
        permission_mode="allow",
        workflow_mode="plan",
    )
    scene.show("planned", agent.run_sync("Create planned.txt, refactor code.py and verify it with tests."))
    scene.show("carried out", agent.run_sync("Go on."))
    scene.show("planned done", agent.session.definition_of_done)


STEPS: tuple[Callable[[Scene], None], ...] = (
    appended,
    rotated_file,
    remembered,
    compacted,
    worked,
    denied,
    approved,
    delegated,
    broken,
    steered,
    outgrown,
    planned,
)


def main() -> None:
    """Do every step and print what was seen."""
    name, url, project = sys.argv[1:4]
    scene = Scene(name, url, project)
    for step in STEPS:
        step(scene)
    scene.store.close()
    print(json.dumps({"sessions": scene.sessions, "shown": scene.shown}))


if __name__ == "__main__":
    main()
