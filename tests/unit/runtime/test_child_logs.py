"""What sub-agents change counts as changed by the turn that started them: in its record, and for a rewind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import open_store
from outlast.core import events as e
from outlast.runtime.changes.file_change import digest_of
from outlast.runtime.history.child_logs import ChildLog
from outlast.runtime.history.file_restore import steps
from outlast.store.log_store import LogStore
from tests.support.agents import agent_with, call, only
from tests.support.histories import Log
from tests.unit.runtime.test_file_restore import started
from tests.unit.runtime.test_parallel_calls import Scripts, tasks


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "old.txt").write_text("old\n")
    return folder


def scripts() -> Scripts:
    """The parent writes, then two sub-agents do, one of them by a sub-agent of its own, then the parent again."""
    return Scripts(
        parent=[
            call("write", "p1", file_path="old.txt", content="one\n"),
            tasks("First", "Second"),
            call("edit", "p2", file_path="old.txt", old_string="two", new_string="three"),
            "Done.",
        ],
        First=[call("edit", "k1", file_path="old.txt", old_string="one", new_string="two"), "first"],
        Second=[call("task", "k1", prompt="Below now"), "second"],
        Below=[call("write", "k1", file_path="new.txt", content="new\n"), "below"],
    )


async def test_the_result_of_a_task_names_what_its_sub_agents_changed(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, backend=scripts())
    await agent.run("parent")
    facts = {event.call_id: event.facts for event in only(agent, e.ToolCallFinished)}
    assert facts["t0"]["touched_files"] == ["old.txt"]
    assert facts["t1"]["touched_files"] == ["new.txt"]
    assert (facts["t0"]["added"], facts["t0"]["removed"]) == (1, 1)
    assert "+two" in facts["t0"]["diff"]
    assert "+new" in facts["t1"]["diff"]


async def test_a_sub_agent_that_changed_nothing_adds_nothing(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, backend=Scripts(parent=[tasks("First"), "Done."], First=["nothing"]))
    await agent.run("parent")
    [result] = only(agent, e.ToolCallFinished)
    assert set(result.facts) == {"session_id"}


async def test_a_rewind_with_files_takes_back_what_sub_agents_wrote_and_its_undo_puts_it_back(
    store: LogStore, project: Path
) -> None:
    agent = agent_with(store, project, backend=scripts())
    await agent.run("parent")
    assert (project / "old.txt").read_text() == "three\n"
    [said] = [one.seq for one in agent.session.history() if one.content == "parent"]
    session_id, context = agent.session.session_id, agent._turn_context()
    await agent.service.boundary(session_id, "rewind", {"seq": said, "keep": False, "files": True}, context)
    assert (project / "old.txt").read_text() == "old\n"
    assert not (project / "new.txt").exists()
    await agent.service.boundary(session_id, "unrewind", {}, context)
    assert (project / "old.txt").read_text() == "three\n"
    assert (project / "new.txt").read_text() == "new\n"


async def test_in_the_guided_workflow_they_are_in_the_definition_of_done(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, backend=scripts(), workflow="guided", workflow_mode="execute")
    await agent.run("parent")
    done = agent.session.state.definition_of_done
    assert done is not None
    assert set(done["touched_files"]) == {"old.txt", "new.txt"}


def test_writes_of_parallel_sub_agents_to_one_file_are_ordered_by_what_each_saw() -> None:
    """Child two wrote first, then child one, then child two again."""
    contents = [b"zero", b"one", b"two", b"three"]
    one, two, parent = Log(), Log(), Log()
    for log, n in ((two, 0), (one, 1), (two, 2)):
        before, after = contents[n], contents[n + 1]
        log.add(started(f"c{n}", "f.txt", before, digest_of(before), digest_of(after)))
        log.add(e.ToolCallFinished(call_id=f"c{n}", name="write"))
    children = [ChildLog(2, one.rows, one.state), ChildLog(2, two.rows, two.state)]
    [step] = steps(parent.rows, parent.state, 0, children=children)
    assert (step.restore, step.problem, step.expected) == (b"zero", None, frozenset({digest_of(b"three")}))


def test_a_gap_between_the_writes_of_sub_agents_is_a_problem() -> None:
    one, two, parent = Log(), Log(), Log()
    for log, before, after in ((one, b"a", b"b"), (two, b"c", b"d")):
        log.add(started("c", "f.txt", before, digest_of(before), digest_of(after)))
        log.add(e.ToolCallFinished(call_id="c", name="write"))
    [step] = steps(
        parent.rows, parent.state, 0, children=[ChildLog(1, one.rows, one.state), ChildLog(2, two.rows, two.state)]
    )
    assert step.problem is not None
    assert "something else changed it" in step.problem
