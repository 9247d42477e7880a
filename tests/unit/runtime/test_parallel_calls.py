"""Calls of one reply that run side by side: reads, and sub-agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, CompletionResponse, ToolCall, open_store
from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.models.port import Abilities, ModelEvent, ModelRequest
from outlast.models.scripted import Item
from outlast.runtime.runner import Runner
from outlast.runtime.tools.port import Tool, ToolContext, ToolOutcome
from outlast.runtime.turn.approvals import Question
from outlast.runtime.turn.context import ToolRegistry, TurnContext
from outlast.runtime.turn.observer import NullObserver
from outlast.runtime.turn.subagents import child_of
from outlast.store.log_store import LogStore
from outlast.store.read.decode import decode_events
from outlast.testing import ScriptedBackend
from tests.support.agents import agent_with, call, log_of, only


class Scripts:
    """A model with one script for each first word of the newest input of a session."""

    name, provider = "scripted:several", "scripted"
    abilities = Abilities(context_window=200_000, summarises=False)

    def __init__(self, **scripts: Sequence[Item]) -> None:
        self.scripts = scripts
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        said = [message.content for message in request.messages]
        name = next(name for name in self.scripts if any(text.startswith(name) for text in said))
        told = ScriptedBackend(completions=list(self.scripts[name][request.replies :][:1]))
        async for event in told.stream(request):
            yield event

    async def close(self) -> None:
        """Nothing is held open."""


def calls(*made: ToolCall) -> CompletionResponse:
    return CompletionResponse(tool_calls=list(made))


def one(call_id: str, name: str, **arguments: object) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for n in range(8):
        (folder / f"{n}.txt").write_text(f"text {n}\n")
    return folder


class Meeting:
    """A `read` that waits until so many run at once, and counts them; the other tools are the real ones."""

    def __init__(self, expected: int) -> None:
        self.expected, self.running, self.most = expected, 0, 0
        self.met = asyncio.Event()

    def __call__(self, context: TurnContext) -> TurnContext:
        return replace(context, tools=_Tools(context.tools, self))

    async def run(self, read: Tool, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == self.expected:
            self.met.set()
        try:
            await asyncio.wait_for(self.met.wait(), 5)
            await asyncio.sleep(0)
            return await read.run(arguments, context)
        finally:
            self.running -= 1


class _Tools:
    def __init__(self, real: ToolRegistry, meeting: Meeting) -> None:
        self.specs, self.fault = real.specs, real.fault
        self._real, self._meeting = real, meeting

    def get(self, name: str) -> Tool | None:
        tool = self._real.get(name)
        return tool if tool is None or name != "read" else _Read(tool, self._meeting)


class _Read:
    def __init__(self, real: Tool, meeting: Meeting) -> None:
        self.name, self.description, self.parameters, self.effect = "read", "", real.parameters, real.effect
        self.fault, self.target = real.fault, real.target
        self._real, self._meeting = real, meeting

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        return await self._meeting.run(self._real, arguments, context)


def order(agent: Agent) -> list[str]:
    found: list[str] = []
    for event in log_of(agent):
        match event:
            case e.ToolCallStarted(call_id=call_id):
                found.append(f"start {call_id}")
            case e.ToolCallFinished(call_id=call_id):
                found.append(f"end {call_id}")
            case e.ApprovalRequested(call_id=call_id):
                found.append(f"ask {call_id}")
            case _:
                pass
    return found


async def test_reads_of_one_reply_run_side_by_side_and_their_records_stand_in_the_models_order(
    store: LogStore, project: Path
) -> None:
    reads = calls(*(one(f"c{n}", "read", file_path=f"{n}.txt") for n in range(4)))
    meeting = Meeting(4)
    backend = ScriptedBackend(completions=[reads, "Done."])
    agent = agent_with(store, project, backend=backend, context=meeting)
    await agent.run("Read.")
    assert meeting.most == 4
    assert order(agent) == [*(f"start c{n}" for n in range(4)), *(f"end c{n}" for n in range(4))]
    results = [message.content for message in backend.requests[-1].messages if message.tool_results]
    assert [f"text {n}" in text for n, text in enumerate(results)] == [True] * 4


async def test_no_more_run_at_once_than_the_configuration_says(store: LogStore, project: Path) -> None:
    reads = calls(*(one(f"c{n}", "read", file_path=f"{n}.txt") for n in range(5)))
    meeting = Meeting(2)
    agent = agent_with(store, project, reads, "Done.", context=meeting, parallel_calls=2)
    await agent.run("Read.")
    assert meeting.most == 2
    assert [event.status for event in only(agent, e.ToolCallFinished)] == ["executed"] * 5


async def test_four_reads_take_two_commits(store: LogStore, project: Path) -> None:
    reads = calls(*(one(f"c{n}", "read", file_path=f"{n}.txt") for n in range(4)))
    agent = agent_with(store, project, reads, "Done.")
    commits: list[list[str]] = []
    commit = store.commit_async

    async def counted(*writes: object) -> object:
        kinds = [type(new.event).__name__ for write in writes for new in getattr(write, "events", ())]
        commits.append([kind for kind in kinds if kind.startswith("ToolCall")])
        return await commit(*writes)  # pyright: ignore[reportArgumentType]

    store.commit_async = counted  # pyright: ignore[reportAttributeAccessIssue]
    await agent.run("Read.")
    assert [made for made in commits if made] == [["ToolCallStarted"] * 4, ["ToolCallFinished"] * 4]


async def test_everything_else_runs_alone_and_in_order(store: LogStore, project: Path) -> None:
    batch = calls(
        one("a", "read", file_path="0.txt"),
        one("b", "read", file_path="1.txt"),
        one("c", "write", file_path="2.txt", content="new\n"),
        one("d", "read", file_path="2.txt"),
        one("e", "bash", command="cat 2.txt"),
        one("f", "bash", command="pwd"),
        one("g", "todo", items=[]),
        one("h", "read", file_path="nothing.txt"),
        one("i", "nosuchtool"),
        one("j", "read", file_path="3.txt"),
    )
    agent = agent_with(store, project, batch, "Done.")
    await agent.run("Go.")
    assert order(agent) == [
        "start a", "start b", "end a", "end b", "start c", "end c", "start d", "end d", "start e", "end e", "start f",
        "end f", "start g", "end g", "start h", "end h", "end i", "start j", "end j",
    ]  # fmt: skip
    results = {event.call_id: text_of(event.parts) for event in only(agent, e.ToolCallFinished)}
    assert "new" in results["d"]
    assert "new" in results["e"]


async def test_a_question_is_asked_after_the_calls_before_it_and_the_calls_after_it_wait(
    store: LogStore, project: Path
) -> None:
    async def yes(question: Question) -> str:
        return "once"

    batch = calls(
        one("a", "read", file_path="0.txt"),
        one("b", "read", file_path=str(project.parent / "outside.txt")),
        one("c", "read", file_path="1.txt"),
        one("d", "read", file_path=str(project.parent / "other.txt")),
    )
    agent = agent_with(store, project, batch, "Done.", answerer=yes)
    await agent.run("Read.")
    assert order(agent) == [
        "start a",
        "end a",
        "ask b",
        "start b",
        "start c",
        "end b",
        "end c",
        "ask d",
        "start d",
        "end d",
    ]


async def test_a_grant_for_the_session_counts_for_the_next_call_of_the_same_reply(
    store: LogStore, project: Path
) -> None:
    asked: list[str] = []

    async def yes(question: Question) -> str:
        asked.append(question.call_id)
        return "session"

    outside = str(project.parent / "outside.txt")
    batch = calls(one("a", "read", file_path=outside), one("b", "read", file_path=outside))
    agent = agent_with(store, project, batch, "Done.", answerer=yes)
    await agent.run("Read.")
    assert asked == ["a"]


async def test_an_interrupt_during_several_calls_leaves_a_clean_log(store: LogStore, project: Path) -> None:
    reads = calls(*(one(f"c{n}", "read", file_path=f"{n}.txt") for n in range(3)))
    meeting = Meeting(4)  # one more than there are: they wait for ever
    agent = agent_with(store, project, reads, "Again.", context=meeting)
    running = asyncio.ensure_future(agent.run("Read."))
    while meeting.running < 3:
        await asyncio.sleep(0.01)
    await agent.service.interrupt(agent.session.session_id)
    await running
    assert meeting.running == 0
    assert [event.status for event in only(agent, e.ToolCallFinished)] == ["cancelled"] * 3
    assert [event.outcome for event in only(agent, e.TurnEnded)] == ["interrupted"]
    assert await agent.run("Once more.") == "Again."


# --- sub-agents


def tasks(*names: str) -> CompletionResponse:
    return calls(*(one(f"t{n}", "task", prompt=f"{name} now") for n, name in enumerate(names)))


def children(agent: Agent) -> dict[str, str]:
    return {event.call_id: event.facts["session_id"] for event in only(agent, e.ToolCallFinished)}


async def test_several_sub_agents_run_side_by_side_and_answer_in_the_models_order(
    store: LogStore, project: Path
) -> None:
    """The first one waits for a file that the last one writes."""
    scripts = Scripts(
        parent=[tasks("First", "Second", "Third"), "Done."],
        First=[call("bash", command="until [ -e made.txt ]; do sleep 0.01; done; cat made.txt"), "first"],
        Second=["second"],
        Third=[call("write", file_path="made.txt", content="made\n"), "third"],
    )
    agent = agent_with(store, project, backend=scripts, allow=("bash",))
    assert await agent.run("parent") == "Done."
    assert order(agent)[:3] == ["start t0", "start t1", "start t2"]
    assert order(agent)[-1] == "end t0"
    results = [message.content for message in scripts.requests[-1].messages if message.tool_results]
    assert [text.split("\n")[0] for text in results] == ["first", "second", "third"]


async def test_five_sub_agents_run_four_at_a_time(store: LogStore, project: Path) -> None:
    names = ["One", "Two", "Three", "Four", "Five"]
    scripts = Scripts(parent=[tasks(*names), "Done."], **{name: [name.lower()] for name in names})
    agent = agent_with(store, project, backend=scripts)
    await agent.run("parent")
    assert order(agent)[:4] == [f"start t{n}" for n in range(4)]
    assert order(agent).index("start t4") > 4
    assert len(children(agent)) == 5


@pytest.mark.usefixtures("asks_first")
async def test_questions_of_sub_agents_are_asked_one_at_a_time(store: LogStore, project: Path) -> None:
    asking, most, released = 0, 0, list[str]()

    async def slowly(question: Question) -> str:
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await asyncio.sleep(0.05)
        asking -= 1
        return "once"

    class Watcher(NullObserver):
        def waiting_for_person(self):

            @asynccontextmanager
            async def waiting():
                released.append("out")
                yield
                released.append("back")

            return waiting()

    names = ("One", "Two", "Three")
    script = {name: [call("bash", command=f"bash -c 'echo {name} >> asked.txt'"), name.lower()] for name in names}
    scripts = Scripts(parent=[tasks(*names), "Done."], **script)
    agent = agent_with(
        store, project, backend=scripts, answerer=slowly, context=lambda made: replace(made, observer=Watcher())
    )
    await agent.run("parent")
    assert most == 1
    assert sorted((project / "asked.txt").read_text().split()) == ["One", "Three", "Two"]
    assert released == ["out", "back"] * (len(released) // 2)  # the parent's slot is never given up twice


async def test_two_sub_agents_that_write_one_file_never_overwrite_each_other_unseen(
    store: LogStore, project: Path
) -> None:
    edits = {
        name: [
            call("edit", f"{name}{n}", file_path="0.txt", old_string="text 0\n", new_string=f"text 0\n{name}{n}\n")
            for n in range(8)
        ]
        for name in ("One", "Two")
    }
    scripts = Scripts(
        parent=[tasks("One", "Two"), "Done."], **{name: [*script, "done"] for name, script in edits.items()}
    )
    agent = agent_with(store, project, backend=scripts)
    await agent.run("parent")
    lines = set((project / "0.txt").read_text().split("\n"))
    for child in children(agent).values():
        for _, event in decode_events(store, store.read(child)):
            if isinstance(event, e.ToolCallFinished):
                assert (event.call_id in lines) is (not event.is_error)


async def test_an_interrupt_ends_every_sub_agent(store: LogStore, project: Path) -> None:
    wait = call("bash", command="echo x >> begun.txt; sleep 30")
    scripts = Scripts(parent=[tasks("One", "Two"), "Done."], One=[wait, "one"], Two=[wait, "two"])
    agent = agent_with(store, project, backend=scripts, allow=("bash",))
    running = asyncio.ensure_future(agent.run("parent"))
    begun = project / "begun.txt"
    while not begun.exists() or begun.read_text() != "x\nx\n":
        await asyncio.sleep(0.01)
    await agent.service.interrupt(agent.session.session_id)
    await running
    assert [event.status for event in only(agent, e.ToolCallFinished)] == ["cancelled"] * 2
    asked_at = next(stored.seq for stored in store.read(agent.session.session_id) if stored.kind == "AssistantReplied")
    for call_id in ("t0", "t1"):
        kinds = [stored.kind for stored in store.read(child_of(agent.session.session_id, asked_at, call_id))]
        assert kinds[-1] == "TurnEnded"


@pytest.mark.parametrize("names", [("Left",), ("Left", "Right")], ids=["alone", "side by side"])
async def test_sub_agents_of_a_process_that_leaves_are_continued_by_the_next_one(
    store: LogStore, project: Path, names: tuple[str, ...]
) -> None:
    all_ask = asyncio.Event()

    class Waiting(Scripts):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            if len(self.requests) < 1:
                async for event in super().stream(request):
                    yield event
                return
            self.requests.append(request)
            if len(self.requests) == 1 + len(names):
                all_ask.set()
            await asyncio.Event().wait()

    scripts: dict[str, Sequence[Item]] = {name: [f"{name} is done."] for name in names}
    first = agent_with(store, project, backend=Waiting(Work=[tasks(*names), "All done."], **scripts))
    first.session.persist()
    session_id = first.session.session_id
    await first.service.admit(session_id, "Work.")
    runner = Runner(store, session_id, first._turn_context())
    running = asyncio.ensure_future(runner.drain())
    await asyncio.wait_for(all_ask.wait(), 20)
    runner.leave()
    await asyncio.wait_for(running, 20)
    second = agent_with(store, project, backend=Scripts(Work=[tasks(*names), "All done."], **scripts))
    assert second.resume_session(session_id)
    assert await second.resume() == "All done."
    ends = only(second, e.ToolCallFinished)  # in the order in which the sub-agents finish
    assert sorted((end.status, text_of(end.parts)) for end in ends) == [
        ("executed", f"{name} is done.") for name in names
    ]
    for child in children(second).values():
        log = [event for _, event in decode_events(store, store.read(child))]
        assert [event.outcome for event in log if isinstance(event, e.TurnEnded)] == ["completed"]
