"""The sandbox through every door: unasked inside, asked or denied at a wall, a throw-away copy in read-only mode."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, AgentConfig, ConversationSession, open_store
from outlast.app.sandbox import command_sandbox, sandbox_report
from outlast.app.settings import load_settings
from outlast.core import events as e
from outlast.core.errors import ConfigError
from outlast.core.messages import ToolCall, text_of
from outlast.models.port import CompletionResponse, ModelRequest
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.sandbox import landlock
from outlast.runtime.sandbox.port import SandboxTier
from outlast.runtime.turn.approvals import Question
from outlast.testing import ScriptedBackend
from tests.conftest import everything_is_required
from tests.fleet.fleet import Fleet, bash
from tests.fleet.fleet import reply as says
from tests.gateway.echo import Echo
from tests.gateway.world import kinds_of, running
from tests.http.inside import inside
from tests.support import agents
from tests.support.agents import agent_with, only
from tests.support.terminal import Place, call, reply

THROWN_AWAY = "[read-only: the command ran on a throw-away copy; nothing that it wrote was kept]"
TRIES = "echo kept > made.txt; cat made.txt"


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    report = sandbox_report(load_settings())
    if report.tier is not SandboxTier.BUBBLEWRAP:
        (pytest.fail if everything_is_required() else pytest.skip)(report.reason)


@pytest.fixture(autouse=True)
def _ended(tmp_path: Path) -> Iterator[None]:
    """The sandboxes of the home in this folder end with the test; those of processes end with these."""
    yield
    sandbox = command_sandbox(load_settings(home=tmp_path / "home", sandbox="auto"))
    assert sandbox is not None
    sandbox.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


# --- outlast -p


def test_print_runs_a_command_inside_the_sandbox_and_says_nothing_about_it(place: Place, outside: Path) -> None:
    place.says(call("bash", command=f"echo in > made.txt; echo out > {outside}/made.txt"), reply("It is made."))
    done = place.run("-p", "make it", "--model", place.model)
    assert (done.returncode, done.stdout, done.stderr) == (0, "It is made.\n", "")
    assert (place.project / "made.txt").read_text() == "in\n"
    assert list(outside.iterdir()) == []


def test_print_denies_a_wall_once_and_names_the_flag_that_lifts_it(place: Place) -> None:
    wall = call("bash", command="touch made.txt", needs=["network:example.org"], why="It downloads the data.")
    place.says(wall, wall, reply("I may not download it."))
    done = place.run("-p", "download it", "--model", place.model, "--output-format", "json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit_code"], told["outcome"]) == (0, 0, "completed")
    assert len(done.stderr.splitlines()) == len(told["denied"]) == 1
    assert "needs the network: example.org" in done.stderr
    assert "(--allow network:example.org allows it)" in done.stderr
    assert "in your answer" not in done.stderr, "that is for the model"
    assert not (place.project / "made.txt").exists()


def test_print_lifts_the_wall_that_its_flag_names_and_no_other(place: Place, outside: Path) -> None:
    other = outside.parent / "other"
    other.mkdir()
    command = f"touch {outside}/made.txt; touch {other}/made.txt"
    place.says(call("bash", command=command, needs=[f"write:{outside}"]), reply("Done."))
    done = place.run("-p", "write it", "--model", place.model, "--allow", f"write:{outside}")
    assert (done.returncode, done.stderr) == (0, "")
    assert (outside / "made.txt").exists()
    assert list(other.iterdir()) == []


def test_print_in_read_only_mode_runs_on_a_throw_away_copy_and_lifts_nothing(place: Place, outside: Path) -> None:
    wall = call("bash", command=f"touch {outside}/made.txt", needs=[f"write:{outside}"])
    place.says(call("bash", command=TRIES), wall, reply("Seen."))
    words = ("--permission-mode", "read-only", "--allow", f"write:{outside}", "--output-format", "json")
    done = place.run("-p", "look", "--model", place.model, *words)
    assert done.returncode == 0, done.stderr
    [denied] = json.loads(done.stdout)["denied"]
    assert "in read-only and plan mode no wall is lifted" in denied
    assert list(place.project.iterdir()) == list(outside.iterdir()) == []
    [first, _] = _results(place)
    assert text_of(first.parts) == f"kept\n{THROWN_AWAY}"


def test_print_denies_the_destruction_of_work_inside_the_sandbox_too(place: Place) -> None:
    place.says(call("bash", command="rm -rf ./*"), reply("I may not."))
    (place.project / "kept.txt").write_text("kept")
    done = place.run("-p", "clean up", "--model", place.model)
    assert done.returncode == 0
    assert "removes everything in ./*" in done.stderr
    assert (place.project / "kept.txt").exists()


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_external_runs_unasked_and_unconfined(
    place: Place, outside: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.says(call("bash", command=f"touch {outside}/made.txt"), reply("Done."))
    words = ("--sandbox", "external") if how == "flag" else ()
    if how == "environment":
        monkeypatch.setenv("OUTLAST_SANDBOX", "external")
    done = place.run("-p", "write it", "--model", place.model, *words)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert (outside / "made.txt").exists()
    [finished] = _results(place)
    assert finished.facts["confined"] is False


@pytest.mark.parametrize("has_landlock", [True, False])
def test_external_lets_no_command_write_in_read_only_mode(
    place: Place, has_landlock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Landlock holds there; where it is missing too, the text of the command decides as without a sandbox."""
    monkeypatch.setenv("OUTLAST_HOME", str(place.home))
    if not has_landlock:
        monkeypatch.setattr(landlock, "available", lambda: landlock.Support(0, "switched off by a test"))
    agent, finished = _agent_of(place, "external", agents.call("bash", command="touch made.txt"))
    assert asyncio.run(agent.run("Write it.")) == "Done."
    [done] = finished()
    assert done.is_error
    assert (done.status == "blocked") is not has_landlock
    assert list(place.project.iterdir()) == []


@pytest.mark.parametrize(
    "line", ['sandbox = "external"', 'sandbox = "none"', 'network = "on"', "sandbox_hidden = []", "[sandbox_limits]"]
)
def test_project_does_not_choose_the_sandbox(place: Place, line: str) -> None:
    (place.project / ".outlast").mkdir()
    (place.project / ".outlast" / "config.toml").write_text(f"{line}\n")
    place.says(call("bash", command="touch made.txt"), reply("Done."))
    with pytest.raises(ConfigError, match=f"a project file may not set '{line.strip('[]').split()[0]}'"):
        load_settings(home=place.home, project_root=place.project)
    done = place.run("-p", "go", "--model", place.model)
    assert done.returncode != 0
    assert "a project file may not set" in done.stderr
    assert not (place.project / "made.txt").exists()


def _agent_of(
    place: Place, sandbox: str, wanted: CompletionResponse
) -> tuple[Agent, Callable[[], list[e.ToolCallFinished]]]:
    settings = load_settings(
        home=place.home, project_root=place.project, sandbox=sandbox, permission_mode="read-only", store="memory://"
    )
    model = ScriptedBackend(completions=[wanted, "Done."])
    store = open_store("memory://")
    agent = Agent(model, AgentConfig(auto_context=False), place.project, store=store, settings=settings)
    return agent, lambda: only(agent, e.ToolCallFinished)


def _results(place: Place) -> list[e.ToolCallFinished]:
    """Return the calls that the only session of this home has finished."""
    with place.store() as store:
        [row] = ConversationSession.list(store=store)
        return kinds_of(store, row.session_id, e.ToolCallFinished)


# --- HTTP


async def test_http_shows_why_a_wall_is_asked_about_and_session_lifts_it(tmp_path: Path, outside: Path) -> None:
    def wall(name: str) -> dict[str, Any]:
        needs = [f"write:{outside}"]
        return call("bash", command=f"touch {outside}/{name}", needs=needs, why="The tool keeps its data there.")

    async with inside(tmp_path, call("bash", command="touch in.txt"), wall("a"), wall("b"), reply("Done.")) as door:
        sid = await door.create()
        await door.post(sid, "go")
        await door.until(lambda detail: detail["approvals"] > 0, sid)
        assert (door.project / "in.txt").exists(), "what stays inside is not asked about"
        [question] = await door.api("GET", f"/api/sessions/{sid}/approvals")
        assert question["arguments"]["needs"] == [f"write:{outside}"]
        assert str(outside) in question["reason"]
        assert "The tool keeps its data there." in question["reason"]
        assert list(outside.iterdir()) == []
        body = {"approval_id": question["approval_id"], "answer": "session"}
        await door.api("POST", f"/api/sessions/{sid}/approvals", json=body)
        messages = await door.until_idle(sid)
        assert messages[-1]["content"] == "Done."
    assert sorted(path.name for path in outside.iterdir()) == ["a", "b"], "the second was not asked about"


# --- the gateway


async def test_read_only_chat_runs_commands_on_a_throw_away_copy(tmp_path: Path) -> None:
    def script(asked: str, request: ModelRequest) -> str | CompletionResponse:
        results = [result for message in request.messages for result in message.tool_results]
        if results:
            return f"result: {results[-1].content}"
        return CompletionResponse(tool_calls=[ToolCall(id="c1", name="bash", arguments={"command": TRIES})])

    async with running(tmp_path, model=Echo(script=script), permission_mode=PermissionMode.READ_ONLY) as world:
        world.room.say("try it")
        await world.room.until(lambda: any("throw-away copy" in text for text in world.room.texts()))
        assert not any("Allow" in one.text for one in world.room.shown)
        [finished] = kinds_of(world.store, world.session(), e.ToolCallFinished)
        assert text_of(finished.parts) == f"kept\n{THROWN_AWAY}"
        assert list(world.line.project.iterdir()) == []


# --- workers


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_worker_runs_commands_in_the_sandbox_as_far_as_its_mode(tmp_path: Path, outside: Path, mode: str) -> None:
    with Fleet(f"sqlite:///{tmp_path}/store.db", tmp_path) as fleet:
        fleet.says(says("", bash(f"{TRIES}; touch {outside}/made.txt")), says("done"))
        session_id = fleet.asked()
        fleet.worker("--permission-mode", mode)
        fleet.until(lambda: fleet.is_answered(session_id))
        [finished] = fleet.events(session_id, e.ToolCallFinished)
        assert text_of(finished.parts).startswith("kept\n")
        assert (THROWN_AWAY in text_of(finished.parts)) is (mode == "read-only")
        assert finished.facts["sandbox"] == "bubblewrap"
        assert (fleet.project / "made.txt").exists() is (mode == "workspace-write")
        assert list(outside.iterdir()) == []


# --- the library


async def test_library_runs_commands_in_the_sandbox_and_asks_its_answerer_at_a_wall(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    asked: list[str | None] = []

    async def once(question: Question) -> str:
        asked.append(question.reason)
        return "once"

    def touch(call_id: str, name: str, *needs: str) -> CompletionResponse:
        return agents.call("bash", call_id, command=f"touch in.txt {outside}/{name}", needs=list(needs))

    wall = f"write:{outside}"
    with open_store("memory://") as store:
        agent = agent_with(
            store, tmp_path / "proj", touch("c1", "a"), touch("c2", "b", wall), touch("c3", "c"), "Done.", answerer=once
        )
        assert await agent.run("Write it.") == "Done."
        first, second, _ = only(agent, e.ToolCallFinished)
    assert (first.is_error, second.is_error) == (True, False)
    assert second.facts["lifted"] == [wall]
    assert [path.name for path in outside.iterdir()] == ["b"]
    assert len(asked) == 1, "an answer for one call lifts nothing for the next"


async def test_library_without_an_answerer_denies_a_wall_and_runs_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    project = tmp_path / "proj"
    project.mkdir()
    replies = [
        agents.call("bash", "c1", command="touch a.txt"),
        agents.call("bash", "c2", command="touch b.txt", needs=["network:example.org"]),
        "Done.",
    ]
    with open_store("memory://") as store:
        agent = Agent(ScriptedBackend(completions=replies), AgentConfig(auto_context=False), project, store=store)
        assert await agent.run("Make both.") == "Done."
        statuses = [finished.status for finished in only(agent, e.ToolCallFinished)]
    assert statuses == ["executed", "blocked"]
    assert [path.name for path in project.iterdir()] == ["a.txt"]
