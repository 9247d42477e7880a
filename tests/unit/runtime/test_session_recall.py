"""recall shows a session its own originals, behind compactions and clears too; never another session's, never what was
rewound, never what was redacted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Agent, CompletionResponse, ToolCall, open_store
from outlast.core import events as e
from outlast.runtime import session_recall
from outlast.runtime.session_recall import PAGE_CHARACTERS, SessionRecall
from outlast.runtime.tools.port import ToolFault, ToolOutcome
from outlast.store.log_store import LogStore
from outlast.store.port import Redact
from outlast.store.read.decode import load_state
from tests.support.agents import agent_with, call, only


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def recall_in(store: LogStore, session_id: str) -> SessionRecall:
    return SessionRecall(store, session_id, load_state(store, session_id))


def found(store: LogStore, session_id: str, query: str, seq: int | None = None) -> ToolOutcome:
    return recall_in(store, session_id).answer(query, seq, 0)


def refused(store: LogStore, session_id: str, seq: int) -> str:
    with pytest.raises(ToolFault) as fault:
        recall_in(store, session_id).answer(None, seq, 0)
    return str(fault.value)


def seq_of(agent: Agent, kind: type[e.Event], number: int = 0) -> int:
    rows = agent.store.read(agent.session.session_id, kinds=frozenset({e.KIND_OF[kind]}))
    return rows[number].seq


async def draw(agent: Agent, what: str, **arguments: object) -> None:
    assert (
        await agent.service.boundary(agent.session.session_id, what, dict(arguments), agent._turn_context()) == "done"
    )


async def talked(store: LogStore, project: Path, *questions: str) -> Agent:
    agent = agent_with(store, project, *(f"Answer to {question}." for question in questions), "Later.", "Later.")
    for question in questions:
        await agent.run(question)
    return agent


@pytest.mark.parametrize("mode", ["read-only", "prompt", "workspace-write"])
async def test_an_agent_recalls_by_itself_in_every_mode_and_nobody_is_asked(
    store: LogStore, project: Path, mode: str
) -> None:
    agent = agent_with(
        store,
        project,
        "The code word is Zephyr.",
        call("recall", "c1", query="CODE word"),
        call("recall", "c2", seq=1),
        "It is Zephyr.",
        permission_mode=mode,
    )
    await agent.run("Remember a code word.")
    await draw(agent, "clear")
    assert await agent.run("Which code word?") == "It is Zephyr."
    first, second = (event.parts[0].text for event in only(agent, e.ToolCallFinished))
    assert "The code word is Zephyr." in first
    assert f"event {seq_of(agent, e.AssistantReplied)}, assistant" in first
    assert "holds no text" in second
    assert only(agent, e.ApprovalRequested) == []


async def test_a_long_text_is_shown_in_pages(store: LogStore, project: Path) -> None:
    long = "".join(f"{n} é " for n in range(9_000))
    agent = await talked(store, project, long)
    recall = recall_in(store, agent.session.session_id)
    seq = seq_of(agent, e.InputAdmitted)
    pages: list[str] = []
    while sum(map(len, pages)) < len(long):
        head, _, page = recall.answer(None, seq, sum(map(len, pages))).text.partition("\n")
        assert len(page) <= PAGE_CHARACTERS
        assert f"of {len(long)}" in head
        pages.append(page)
    assert "".join(pages) == long
    with pytest.raises(ToolFault, match="smaller offset"):
        recall.answer(None, seq, len(long))


async def test_calls_are_shown_with_their_arguments(store: LogStore, project: Path) -> None:
    wanted = ToolCall(id="c1", name="glob", arguments={"pattern": "*.nothing"})
    agent = agent_with(store, project, CompletionResponse(content="Let me look.", tool_calls=[wanted]), "None.")
    await agent.run("Which files?")
    said = recall_in(store, agent.session.session_id).answer(None, seq_of(agent, e.AssistantReplied), 0).text
    assert said.endswith('Let me look.\n[called glob with {"pattern":"*.nothing"}]')


async def test_what_was_rewound_is_not_part_of_the_session(store: LogStore, project: Path) -> None:
    agent = await talked(store, project, "first thing", "second thing")
    second = seq_of(agent, e.InputAdmitted, 1)
    await draw(agent, "rewind", seq=second, keep=False)
    assert "was rewound" in refused(store, agent.session.session_id, second)
    assert "was rewound" in refused(store, agent.session.session_id, seq_of(agent, e.AssistantReplied, 1))
    assert "second thing" not in found(store, agent.session.session_id, "thing").text
    assert "first thing" in found(store, agent.session.session_id, "thing").text
    await draw(agent, "unrewind")
    assert "second thing" in found(store, agent.session.session_id, "thing").text


async def test_redacted_text_stays_redacted(store: LogStore, project: Path) -> None:
    agent = await talked(store, project, "my password is hunter2")
    session_id, seq = agent.session.session_id, seq_of(agent, e.InputAdmitted)
    assert "hunter2" in found(store, session_id, "hunter2").text
    for kind in (e.InputAdmitted, e.AssistantReplied):
        store.commit(Redact(session_id=session_id, seq=seq_of(agent, kind), actor="user"))
    assert "was redacted" in refused(store, session_id, seq)
    assert found(store, session_id, "hunter2").facts == {"hits": 0}


async def test_a_fork_recalls_what_it_inherited_and_nothing_that_came_later_or_elsewhere(
    store: LogStore, project: Path
) -> None:
    agent = await talked(store, project, "shared marmalade")
    at = agent.session.state.last_seq
    other = await talked(store, project, "foreign marmalade")
    await agent.run("later marmalade")
    child = agent.service.fork(agent.session.session_id, at=at)
    said = found(store, child, "marmalade").text
    assert "shared marmalade" in said
    assert "later" not in said
    assert "foreign" not in said
    assert "foreign" in found(store, other.session.session_id, "marmalade").text
    assert "shared marmalade" in recall_in(store, child).answer(None, seq_of(agent, e.InputAdmitted), 0).text
    assert "there is no event" in refused(store, child, agent.session.state.last_seq)


async def test_after_a_rotation_the_inherited_events_count(store: LogStore, project: Path) -> None:
    agent = await talked(store, project, "the anchor is copper", *(f"thing {n}" for n in range(5)))
    before = agent.session.session_id
    await draw(agent, "rotate")
    child = store.tip(before)
    assert child != before
    assert "copper" in found(store, child, "anchor").text


async def test_search_gives_the_newest_first_and_goes_on_before_a_seq(
    store: LogStore, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_recall, "MOST_HITS", 3)
    agent = await talked(store, project, *(f"walnut number {n}" for n in range(4)))
    session_id = agent.session.session_id
    seen: list[str] = []
    seq = None
    while True:
        lines = found(store, session_id, "number walnut", seq).text.splitlines()
        seen += [line for line in lines if line.startswith("event ")]
        if not lines[-1].startswith("The search stopped here"):
            break
        seq = int(lines[-1].partition("seq=")[2].partition(")")[0])
    numbers = [int(line.removeprefix("event ").partition(",")[0]) for line in seen]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == 8  # each question and its answer


async def test_a_search_ends_when_its_time_is_up(
    store: LogStore, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await talked(store, project, "one", "two")
    monkeypatch.setattr(session_recall, "SEARCH_SECONDS", -1.0)
    assert "The search stopped here" in found(store, agent.session.session_id, "one").text


async def test_the_answers_of_recall_are_not_found_again(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, call("recall", "c1", query="quince"), "No.", "No.")
    await agent.run("Look.")
    assert found(store, agent.session.session_id, "quince").facts == {"hits": 0}


async def test_neither_a_query_nor_a_seq_is_one_sentence(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, call("recall", "c1"), call("recall", "c2", seq=99_999), "Hm.")
    await agent.run("Look.")
    first, second = (event.parts[0].text for event in only(agent, e.ToolCallFinished))
    assert first == "recall needs a query to search for or the seq of an event"
    assert second.endswith("there is no event 99999")
