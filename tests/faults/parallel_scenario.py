"""A turn whose calls run side by side, told by a script: four reads, then three sub-agents that write and run commands.

Before that, a command changes the folder, and one after it says where it is. Every command of class N leaves a line in
`witness.txt`, so that one that ran twice is seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from outlast import Agent, AgentConfig, CompletionResponse, ToolCall
from outlast.app.settings import load_settings
from outlast.core import events as e
from outlast.core.fold import Row, folded
from outlast.core.messages import text_of
from outlast.core.window import window
from outlast.models.port import Abilities, ModelEvent, ModelRequest
from outlast.models.scripted import Item, ScriptedBackend
from outlast.store.log_store import LogStore
from outlast.store.port import Query
from outlast.store.read.decode import decode_events
from outlast.store.verify import verify
from outlast.testing.validity import rejections
from tests.faults.ledger import RAN, turn_problems

TASK = "Read four files, and let three others work."
ANSWER = "All is read and done."
FILES = {f"{n}.txt": f"text of file {n}\n" for n in range(4)}
CHILDREN = {"Alpha": "one", "Beta": "two", "Gamma": "three"}


def _reply(*calls: ToolCall) -> CompletionResponse:
    return CompletionResponse(tool_calls=list(calls))


def _call(call_id: str, name: str, **arguments: object) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


SCRIPT: list[Item] = [
    _reply(_call("f1", "bash", command="cd sub"), _call("f2", "bash", command="pwd")),
    _reply(*(_call(f"r{n}", "read", file_path=name) for n, name in enumerate(FILES))),
    _reply(*(_call(f"s{name}", "task", prompt=f"{name} works.") for name in CHILDREN)),
    ANSWER,
]


def child_script(name: str) -> list[Item]:
    word = CHILDREN[name]
    return [
        _reply(
            _call(f"n{name}", "bash", command=f"echo {word} >> witness.txt"),
            _call(f"w{name}", "write", file_path=f"{name}.txt", content=f"{word}\n"),
        ),
        f"{name} is done.",
    ]


class ParallelTeller:
    """Says the line at the session's count of replies, so a new process goes on where the last one was killed."""

    name = "scripted:parallel-tale"
    provider = "scripted"
    abilities = Abilities(context_window=200_000, summarises=False)

    def __init__(self) -> None:
        self.rejected: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.rejected += rejections(request.messages)
        said = [message.content for message in request.messages]
        child = next((name for name in CHILDREN if f"{name} works." in said), None)
        script = SCRIPT if child is None else child_script(child)
        async for event in ScriptedBackend(completions=script[request.replies :][:1]).stream(request):
            yield event

    async def close(self) -> None:
        """Nothing is held open."""


def project_in(folder: Path) -> Path:
    project = folder / "project"
    if not project.exists():
        (project / "sub").mkdir(parents=True)
        for name, text in FILES.items():
            (project / name).write_text(text)
    return project


def teller_of(store: LogStore, folder: Path) -> Agent:
    project = project_in(folder)
    settings = load_settings(home=folder / "home", project_root=project)
    config = AgentConfig(auto_context=False, workflow="plain")
    return Agent(ParallelTeller(), config, project, store=store, settings=settings)


class ParallelTaleCheck:
    """What must be there when the tale has been told, and what must not."""

    def __init__(self, store: LogStore, session_id: str, project: Path) -> None:
        self._store, self._project = store, project
        self._parent = decode_events(store, store.read(session_id))
        headers = store.find(Query()).headers
        self._children = {
            header.session_id: decode_events(store, store.read(header.session_id))
            for header in headers
            if header.parent_session_id == session_id
        }

    def problems(self, acknowledged: Sequence[int]) -> list[str]:
        sessions = [self._parent, *self._children.values()]
        found = [text for rows in sessions for text in (*turn_problems(rows), *_open_work(rows))]
        found += [f"finding: {finding}" for finding in verify(self._store).findings if finding.damage]
        admitted = [stored.seq for stored, event in self._parent if isinstance(event, e.InputAdmitted)]
        if list(acknowledged) != admitted:
            found.append(f"inputs {list(acknowledged)} were acknowledged and {admitted} are there")
        if len(self._children) != len(CHILDREN):
            found.append(f"there are {len(self._children)} child sessions")
        return found + self._order() + self._results() + self._effects()

    def _order(self) -> list[str]:
        """Starts stand in the model's order; the window shows the results in it."""
        found: list[str] = []
        asked = [
            part.id for _, event in self._parent if isinstance(event, e.AssistantReplied) for part in _calls(event)
        ]
        started = [event.call_id for _, event in self._parent if isinstance(event, e.ToolCallStarted)]
        if started != asked:
            found.append(f"calls {asked} were started as {started}")
        shown = window(self._parent, folded(self._parent)).messages
        results = [result.call_id for message in shown for result in message.tool_results]
        if results != asked:
            found.append(f"calls {asked} are shown as {results}")
        return found

    def _results(self) -> list[str]:
        results = {event.call_id: event for _, event in self._parent if isinstance(event, e.ToolCallFinished)}
        found = [
            f"call r{n} is told as {results[f'r{n}'].status}" for n in range(4) if results[f"r{n}"].status not in RAN
        ]
        for n, text in enumerate(FILES.values()):
            if text.strip() not in text_of(results[f"r{n}"].parts):
                found.append(f"call r{n} gave {text_of(results[f'r{n}'].parts)!r}")
        for name in CHILDREN:
            if text_of(results[f"s{name}"].parts) != f"{name} is done.":
                found.append(f"{name} gave {text_of(results[f's{name}'].parts)!r}")
            # commands that run at the same time may each see `witness.txt` change; a file tool's write is its own
            touched = set(results[f"s{name}"].facts.get("touched_files", ()))
            if touched - {"witness.txt"} != {f"{name}.txt"}:
                found.append(f"{name} changed {results[f's{name}'].facts}")
        folder = results["f1"].facts.get("cwd", str(self._project))
        if results["f2"].status == "executed" and text_of(results["f2"].parts).splitlines()[0] != folder:
            found.append(f"after {results['f1'].facts} the command ran in {text_of(results['f2'].parts)!r}")
        outcomes = [event.outcome for _, event in self._parent if isinstance(event, e.TurnEnded)]
        return found if outcomes == ["completed"] else [*found, f"the turn ended as {outcomes}"]

    def _effects(self) -> list[str]:
        witness = self._project / "witness.txt"
        lines = Counter(witness.read_text().split() if witness.exists() else [])
        found = [f"command {word} ran {count} times" for word, count in lines.items() if count > 1]
        told = [event for rows in self._children.values() for _, event in rows if isinstance(event, e.ToolCallFinished)]
        for name, word in CHILDREN.items():
            [status] = [event.status for event in told if event.call_id == f"n{name}"] or ["absent"]
            if status not in {*RAN, "unknown"} or (status in RAN and not lines[word]):
                found.append(f"command {word} is told as {status} and ran {lines[word]} times")
            if (self._project / f"{name}.txt").read_text() != f"{word}\n":
                found.append(f"{name}.txt is not what was written")
        return found


def _calls(event: e.AssistantReplied) -> list[ToolCall]:
    return [part for part in event.parts if isinstance(part, ToolCall)]


def _open_work(rows: list[Row]) -> list[str]:
    state = folded(rows)
    is_open = state.turn or state.attempt or state.open_calls or state.open_approvals or state.unanswered
    return ["something is still open"] if is_open else []
