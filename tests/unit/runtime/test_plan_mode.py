"""Plan mode: switched on by the user or the model, left with an approved plan, and nothing is written meanwhile."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outlast import Agent, AgentConfig, CompletionResponse, ToolCall, open_store
from outlast.core import events as e
from outlast.runtime.turn.approvals import Answerer, Question
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.plain_policy import PlainPolicy
from outlast.store.log_store import LogStore
from tests.support.agents import agent_with, call, only

PLAN = "# Steps\n- write a.txt"
WRITE = {"file_path": "a.txt", "content": "x"}


@pytest.fixture
def store() -> Iterator[LogStore]:
    with open_store("memory://") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "p").mkdir()
    return tmp_path / "p"


def plain(context: TurnContext) -> TurnContext:
    return replace(context, policy=PlainPolicy)


def answers(*given: str) -> tuple[list[Question], Answerer]:
    asked: list[Question] = []

    async def answerer(question: Question) -> str:
        asked.append(question)
        return given[len(asked) - 1]

    return asked, answerer


def planning(store: LogStore, project: Path, *replies: object, **config: object) -> Agent:
    agent = agent_with(store, project, *replies, context=plain, permission_mode="allow", **config)  # pyright: ignore[reportArgumentType]
    agent.set_workflow_mode("plan")
    return agent


def results(agent: Agent) -> list[str]:
    return [one.parts[0].text for one in only(agent, e.ToolCallFinished)]


@pytest.mark.parametrize("answer", ["once", "deny"])
async def test_the_users_answer_to_the_plan_decides_whether_work_starts(
    store: LogStore, project: Path, answer: str
) -> None:
    asked, answerer = answers(answer)
    steps = [
        call("write", "w1", **WRITE),
        call("exit_plan", "x1", plan=PLAN),
        call("write", "w2", **WRITE),
        "That is it.",
    ]
    agent = planning(store, project, *steps, answerer=answerer)
    assert await agent.run("Make a.txt.") == "That is it."
    assert [(one.name, one.arguments) for one in asked] == [("exit_plan", {"plan": PLAN})]
    before, shown, after = results(agent)
    assert "plan mode is on" in before
    assert (project / "a.txt").exists() is (answer == "once")
    if answer == "once":
        assert "approved" in shown
        assert (agent.session.workflow_mode, agent.session.state.runtime["approved_plan"]) == ("execute", PLAN)
    else:
        assert "declined the plan" in shown
        assert "plan mode is on" in after
        assert agent.session.workflow_mode == "plan"


async def test_the_model_enters_plan_mode_and_the_next_turn_is_still_in_it(store: LogStore, project: Path) -> None:
    steps = [call("enter_plan", reason="It is large."), call("write", "w1", **WRITE), "I would write a.txt."]
    agent = agent_with(store, project, *steps, "Nothing new.", context=plain, permission_mode="allow")
    await agent.run("Rebuild all of it.")
    assert agent.session.state.plan_mode
    assert "plan mode is on" in results(agent)[1]
    await agent.run("And now?")
    assert [one.mode for one in only(agent, e.TurnStarted)] == ["execute", "plan"]
    assert not (project / "a.txt").exists()


async def test_with_nobody_to_ask_the_plan_is_the_answer(store: LogStore, project: Path) -> None:
    agent = planning(store, project, call("exit_plan", plan=PLAN), PLAN)
    assert await agent.run("Make a.txt.") == PLAN
    [told] = results(agent)
    assert "give the plan as your answer" in told
    assert agent.session.state.plan_mode
    assert not only(agent, e.ApprovalRequested)


async def test_exit_plan_outside_plan_mode_says_so(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, call("exit_plan", plan=PLAN), "Well.", context=plain)
    await agent.run("Make a.txt.")
    [told] = results(agent)
    assert "plan mode is not on" in told


async def test_a_queued_message_after_an_approved_plan_is_worked_on_as_usual(store: LogStore, project: Path) -> None:
    _, answerer = answers("once")
    agent = planning(
        store,
        project,
        call("exit_plan", plan=PLAN),
        "Done.",
        call("write", "w1", **WRITE),
        "Done too.",
        answerer=answerer,
    )
    agent.session.commit(agent.service.writes.admission(agent.session.session_id, "Make a.txt."))
    await agent.run("Then write it.")
    assert (project / "a.txt").exists()


async def test_a_sub_agent_of_a_planning_session_only_reads_and_cannot_leave_plan_mode(
    store: LogStore, project: Path
) -> None:
    _, answerer = answers()
    steps = [
        call("task", "t1", prompt="Write a.txt."),
        call("write", "w1", **WRITE),
        call("exit_plan", "x1", plan=PLAN),
        call("write", "w2", **WRITE),
        "I could not.",
        "It could not.",
    ]
    agent = planning(store, project, *steps, answerer=answerer)
    assert await agent.run("Delegate it.") == "It could not."
    assert not (project / "a.txt").exists()


async def test_a_plan_shown_before_a_restart_is_not_asked_about_twice(store: LogStore, project: Path) -> None:
    """The first process dies after the user's answer; the next one has nobody to ask and takes the stored answer."""
    asked, answerer = answers("once")
    agent = planning(store, project, call("exit_plan", plan=PLAN), answerer=answerer)
    session_id = agent.session.session_id

    class Died(BaseException):
        pass

    def die(name: str) -> None:
        if name == "approval.answered":
            raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outlast.runtime.turn.approvals.reach", die)
        with pytest.raises(Died):
            await agent.run("Make a.txt.")
    later = agent_with(store, project, "Started.", context=plain)
    assert later.resume_session(session_id)
    await later.resume()
    assert len(asked) == 1
    assert not later.session.state.plan_mode


def test_both_tools_are_always_in_the_list(store: LogStore, project: Path) -> None:
    agent = Agent(None, AgentConfig(), project, store=store)
    assert {"enter_plan", "exit_plan"} <= set(agent.turn_setup().tools.names())


async def test_calls_of_one_reply_are_judged_in_their_order_around_plan_mode(store: LogStore, project: Path) -> None:
    _, answerer = answers("once")
    enter, leave = ToolCall(id="e", name="enter_plan"), ToolCall(id="x", name="exit_plan", arguments={"plan": PLAN})
    early, late = (ToolCall(id=name, name="write", arguments=WRITE) for name in ("w1", "w2"))
    both = [CompletionResponse(tool_calls=[enter, early]), CompletionResponse(tool_calls=[leave, late]), "Done."]
    agent = agent_with(store, project, *both, answerer=answerer, context=plain, permission_mode="allow")
    await agent.run("Plan, then write.")
    statuses = {one.call_id: one.status for one in only(agent, e.ToolCallFinished)}
    assert statuses == {"e": "executed", "w1": "blocked", "x": "executed", "w2": "executed"}
