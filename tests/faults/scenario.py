"""A turn with everything in it, told by a script: what is killed in `turn_factory` and must come to the same end.

One turn of the parent session reads, writes, edits, keeps a list, runs two commands (one of them after an approval),
compacts, hands a task to a sub-agent, streams an answer and has its work verified. Every command of class N leaves a
line in `witness.txt`, so that one that ran twice is seen.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from outlast import Agent, AgentConfig, CompletionResponse, ToolCall
from outlast.app.settings import load_settings
from outlast.models.port import Abilities, ModelEvent, ModelRequest
from outlast.models.scripted import Item, Line, ScriptedBackend
from outlast.runtime.turn.approvals import Question
from outlast.store.log_store import LogStore
from outlast.testing.validity import rejections

FIRST = "First a look, then the work."
TASK = "Carry out the five steps in notes.txt."
SUBTASK = "Count the words of this very sentence."
ANSWER = "All five steps are done: made.txt is written and edited, and the words are counted. " * 3
COUNTED = "There are seven words in it."
NOTES, MADE, EDITED = "five steps\n", "alpha\nbeta\n", "alpha\ngamma\n"
COMMANDS = {"n1": "one", "n2": "two", "n3": "three"}
PAST_THE_THRESHOLD = {"prompt_tokens": 160_000, "completion_tokens": 10}


def _calls(text: str, *calls: ToolCall, usage: dict[str, int] | None = None) -> CompletionResponse:
    return CompletionResponse(content=text, tool_calls=list(calls), usage=usage)


def _call(call_id: str, name: str, **arguments: object) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def _echo(word: str) -> str:
    return f"echo {word} >> witness.txt"


SCRIPT: list[Item] = [
    _calls(
        FIRST,
        _call("r1", "read", file_path="notes.txt"),
        _call("w1", "write", file_path="made.txt", content=MADE),
        _call("e1", "edit", file_path="made.txt", old_string="beta", new_string="gamma"),
        _call("n1", "bash", command=_echo(COMMANDS["n1"])),
        _call("t1", "todo", items=[{"content": "count", "status": "completed"}]),
    ),
    _calls(
        "",
        _call("n2", "bash", command=_echo(COMMANDS["n2"]), needs=["network:example.org"]),  # so that it is asked about
        usage=PAST_THE_THRESHOLD,
    ),
    _calls("", _call("s1", "task", prompt=SUBTASK)),
    Line(reply=ANSWER, delay=0.03),
]
CHILD: list[Item] = [_calls("", _call("n3", "bash", command=_echo(COMMANDS["n3"]))), COUNTED]


class Teller:
    """Says the line at the session's count of replies, so a new process goes on where the last one was killed."""

    name = "scripted:tale"
    provider = "scripted"
    abilities = Abilities(context_window=200_000, summarises=False)

    def __init__(self) -> None:
        self.rejected: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.rejected += rejections(request.messages)
        asked = [message.content for message in request.messages]
        script = CHILD if SUBTASK in asked else SCRIPT
        told = ScriptedBackend(completions=script[request.replies :][:1])
        async for event in told.stream(request):
            yield event

    async def close(self) -> None:
        """Nothing is held open."""


async def yes(question: Question) -> str:
    return "once"


def project_in(folder: Path) -> Path:
    project = folder / "project"
    if not project.exists():
        project.mkdir()
        (project / "notes.txt").write_text(NOTES)
    return project


def teller_of(store: LogStore, folder: Path) -> Agent:
    project = project_in(folder)
    settings = load_settings(home=folder / "home", project_root=project)
    config = AgentConfig(auto_context=False, plan=False, workflow_mode="execute")
    return Agent(Teller(), config, project, store=store, settings=settings, answerer=yes)
