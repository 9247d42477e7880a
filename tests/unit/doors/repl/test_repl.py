"""The REPL without a terminal: what becomes of what is typed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from outlast.core.errors import OutcomeUnknown, OutlastError
from outlast.doors.repl.commands.inspect import context
from outlast.doors.repl.commands.model_and_permissions import model, next_mode
from outlast.doors.repl.launch import REPL, LaunchOptions, open_repl_session
from outlast.doors.repl.repl import Repl
from outlast.session import ConversationSession


@pytest.fixture
def repl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repl]:
    """One whose messages are stored and not answered."""
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        repl_session = open_repl_session(LaunchOptions(model="none", store=f"sqlite:///{tmp_path}/s.db"), REPL)
        yield Repl(repl_session)
        repl_session.agent.store.close()


def said(repl: Repl) -> list[str]:
    return [message.content for message in repl.controller.session.history()]


async def test_a_message_whose_fate_is_unknown_comes_back_and_is_stored_once(
    repl: Repl, monkeypatch: pytest.MonkeyPatch
) -> None:
    admit = repl.controller.work.admit

    async def stored_but_not_told(*arguments: Any, **more: Any) -> None:
        await admit(*arguments, **more)
        raise OutcomeUnknown("the disk is full", key=more["key"])

    monkeypatch.setattr(repl.controller.work, "admit", stored_but_not_told)
    with pytest.raises(OutlastError, match="the disk is full; Enter sends it again, and it is stored once"):
        await repl._say("hello")
    assert repl.controller.screen.input.text == "hello"
    monkeypatch.setattr(repl.controller.work, "admit", admit)
    await repl._say("hello")
    assert said(repl) == ["hello"]
    await repl._say("hello")  # said on purpose this time
    assert said(repl) == ["hello", "hello"]
    await repl.controller.leave()


async def test_a_path_at_the_beginning_is_no_command_and_what_is_typed_is_not_replaced(repl: Repl) -> None:
    await repl._submit("/etc/hosts is broken")
    assert said(repl) == ["/etc/hosts is broken"]
    await repl._submit("/nosuch thing")
    assert len(said(repl)) == 1
    repl.controller.screen.offer("first")
    repl.controller.screen.offer("second")
    assert repl.controller.screen.input.text == "first"
    assert repl.controller.screen.input.cursor_position == 5
    await repl.controller.leave()


async def test_the_screen_says_where_the_size_of_the_window_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    options = LaunchOptions(model="openai:my-own", base_url="http://127.0.0.1:1/v1", store=f"sqlite:///{tmp_path}/s.db")
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        repl_session = open_repl_session(options, REPL)
        controller = Repl(repl_session).controller
        lines: list[str] = []
        monkeypatch.setattr(controller, "put", lambda line: lines.append(str(line)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        controller.refresh()
        await controller.tell_assumed_window()
        assert lines == ["· the context window of openai:my-own is assumed to be 32,768 tokens: set context_window"]
        await context(controller, "")
        assert any("window of 32,768 tokens, source: assumed 32,768: set context_window" in line for line in lines)
        await model(controller, "")
        assert "window of 32,768 tokens (source: assumed 32,768: set context_window)" in lines[-1]
        lines.clear()
        controller.change_config(context_window=50_000)
        controller.refresh()
        await controller.tell_assumed_window()
        assert lines == []
        await context(controller, "")
        assert any("window of 50,000 tokens, source: setting" in line for line in lines)
        await controller.leave()
        repl_session.agent.store.close()


# --- plan mode and workflow


async def test_plan_mode_of_a_new_session_is_stored_with_its_first_message(repl: Repl) -> None:
    controller = repl.controller
    await repl._submit("/plan")
    assert (controller.status.lane, controller.session.exists) == ("plan mode", False)
    await repl._submit("look around")
    assert controller.session.state.asked_to_plan
    assert controller.repl_session.choices == {}
    await repl._submit("/plan")
    assert (controller.status.lane, controller.session.state.plan_mode) == ("", False)
    await repl._submit("/plan and now again")
    assert controller.session.state.asked_to_plan
    assert said(repl) == ["look around", "and now again"]
    await controller.leave()


async def test_shift_tab_goes_through_the_modes_to_plan_mode_and_round(repl: Repl) -> None:
    controller = repl.controller
    seen: list[tuple[str, str]] = []
    for _ in range(5):
        await next_mode(controller)
        seen.append((controller.status.mode, controller.status.lane))
    assert seen == [
        ("workspace-write", "plan mode"),
        ("read-only", ""),
        ("prompt", ""),
        ("workspace-write", ""),
        ("workspace-write", "plan mode"),
    ]
    assert not controller.session.exists, "a key that changes a mode begins no session"


async def test_workflow_is_chosen_for_the_session_and_kept_by_a_resume(repl: Repl) -> None:
    controller = repl.controller
    controller.refresh()
    assert (controller.workflow, controller.status.lane) == ("plain", "")
    await repl._submit("/workflow guided")
    assert (controller.workflow, controller.status.lane) == ("guided", "guided")
    with pytest.raises(OutlastError, match="'quick' is not a workflow; choose one of plain, guided"):
        await repl._submit("/workflow quick")
    await repl._submit("hello")
    name = controller.session.session_id
    await controller.take(None)
    assert controller.workflow == "plain", "another session has its own workflow"
    taken = ConversationSession.load(session_id=name, store=controller.repl_session.agent.store)
    await controller.take(taken)
    assert (controller.workflow, controller.status.lane) == ("guided", "guided")
    await repl._submit("/workflow plain")
    assert controller.session.state.runtime["workflow"] == "plain"
    await controller.leave()


async def test_the_flags_plan_and_workflow_hold_for_the_session_that_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    options = LaunchOptions(model="none", plan=True, workflow="guided", store=f"sqlite:///{tmp_path}/s.db")
    repl_session = open_repl_session(options, REPL)
    assert repl_session.plan_mode
    assert repl_session.agent.turn_setup().workflow == "guided"
    await repl_session.admit("look around")
    assert repl_session.agent.session.state.asked_to_plan
    repl_session.new_session()
    assert not repl_session.plan_mode
    repl_session.agent.store.close()
