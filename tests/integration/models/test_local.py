"""The provider path end to end, against a real llama.cpp server with a real model. No network, no key.

One server serves all of these tests; the machine may be busy, so texts are short.
"""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast import open_store
from outlast.core import events as e
from outlast.core.errors import ContextOverflow, ModelUnavailable
from outlast.core.messages import Message, Role, text_of
from outlast.models import local
from outlast.models.local import LocalModel
from outlast.models.port import Finished, ModelEvent, ModelRequest, TextDelta
from outlast.runtime.tools.registry import BuiltinRegistry
from outlast.runtime.turn.context import TurnContext
from tests.conftest import everything_is_required
from tests.support.agents import agent_with, only

pytestmark = [
    pytest.mark.xdist_group("local-model"),
    pytest.mark.skipif(not local.installed() and not everything_is_required(), reason="needs outlast[local]"),
]


def demo_server() -> local.LlamaServer:
    return local._server_of(local.LocalFile(local.model_file(), local.WINDOW, demo=True))


@pytest.fixture
async def model() -> AsyncGenerator[LocalModel]:
    model = LocalModel()
    yield model
    await model.close()


@pytest.fixture(scope="module", autouse=True)
def _one_server() -> Any:
    """Held by a user of its own, so that it is started once and stopped at the end."""
    server = demo_server()
    server.use()
    yield
    server.leave()
    assert server._running is None


def user(text: str) -> Message:
    return Message(role=Role.USER, content=text)


def request(*messages: Message, most: int = 24) -> ModelRequest:
    return ModelRequest(system="Be brief.", messages=list(messages), max_output_tokens=most, temperature=0.0)


async def heard(model: LocalModel, *messages: Message, most: int = 24) -> tuple[list[ModelEvent], Finished]:
    events = [event async for event in model.stream(request(*messages, most=most))]
    assert isinstance(events[-1], Finished)
    return events, events[-1]


async def test_a_reply_streams_and_is_counted(model: LocalModel) -> None:
    events, whole = await heard(model, user("Say hello."))
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 2
    assert "".join(deltas) == text_of(whole.parts)
    assert whole.usage.input_tokens > 5
    assert 2 < whole.usage.output_tokens <= 24
    assert (whole.model, model.name) == ("local", "local")


async def test_what_was_said_before_is_remembered(model: LocalModel) -> None:
    first = user("Remember this number: 4217.")
    _, answer = await heard(model, first, most=16)
    said = Message(role=Role.ASSISTANT, parts=answer.parts)
    for question in ("Which number did I ask you to remember?", "Repeat the number.", "What did I say first?"):
        _, whole = await heard(model, first, said, user(question), most=32)
        assert whole.usage.input_tokens > answer.usage.input_tokens + answer.usage.output_tokens
        assert whole.usage.cache_read_tokens > 0  # the prefix was the same, byte for byte
        if "4217" in text_of(whole.parts):
            return  # so small a model does not hear every question
    pytest.fail("the model does not know what it was told")


async def test_closing_the_iterator_stops_the_work_and_the_next_request_works(model: LocalModel) -> None:
    stream = model.stream(request(user("Write a long story about the sea."), most=500))
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    await stream.aclose()
    await _idle()
    _, whole = await heard(model, user("Say hello."), most=8)
    assert whole.usage.output_tokens <= 8


async def test_cancelling_the_task_stops_the_work(model: LocalModel) -> None:
    began = asyncio.Event()

    async def ask() -> None:
        async for _ in model.stream(request(user("Write a long story about a mountain."), most=500)):
            began.set()

    task = asyncio.create_task(ask())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _idle()


async def test_a_window_too_large_is_an_overflow(model: LocalModel) -> None:
    with pytest.raises(ContextOverflow, match="larger than local accepts"):
        await heard(model, user("word " * 9000))


async def test_a_server_that_died_is_started_again(model: LocalModel) -> None:
    await heard(model, user("Say hello."), most=4)
    running = demo_server()._running
    assert running is not None
    running.process.kill()
    running.process.wait()
    await heard(model, user("Say hello."), most=4)
    assert demo_server()._running is not running


async def test_strangers_on_this_machine_are_not_answered() -> None:
    running = await asyncio.to_thread(demo_server().running)
    assert await asyncio.to_thread(_get, running, "/slots", "someone") == 401
    assert await asyncio.to_thread(_get, running, "/slots", running.key) != 401


def test_the_server_ends_with_us_even_when_we_are_killed() -> None:
    program = (
        "import sys, time\n"
        "from outlast.models import local\n"
        "served = local.LocalFile(local.model_file(), local.WINDOW, demo=True)\n"
        "print(local._server_of(served).running().process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    ours = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert ours.stdout is not None
    with ours.stdout as out:
        theirs = int(out.readline())
        assert _alive(theirs)
        ours.send_signal(signal.SIGKILL)
        ours.wait()
    until = time.monotonic() + 10
    while _alive(theirs) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _alive(theirs)


async def test_a_server_that_cannot_start_is_one_sentence(tmp_path: Path) -> None:
    fresh = local.LlamaServer(local.LocalFile(tmp_path / "no-such-model.gguf", 1024, demo=True))
    with pytest.raises(ModelUnavailable, match=r"did not start .*no-such-model.gguf is missing.*--model") as caught:
        await asyncio.to_thread(fresh.running)
    assert "\n" not in str(caught.value)


async def _idle() -> None:
    """Until the server generates no more. There is no event for it: it is asked."""
    running = await asyncio.to_thread(demo_server().running)
    for _ in range(100):
        slots = await asyncio.to_thread(_get, running, "/slots", running.key)
        if not any(slot["is_processing"] for slot in slots):
            return
        await asyncio.sleep(0.05)
    pytest.fail("the server went on after its client was gone")


def _get(running: local.RunningLlama, path: str, key: str) -> Any:
    """What it answers, or the status when that is not 200."""
    link = http.client.HTTPConnection(running.url.removeprefix("http://"), timeout=20)
    try:
        link.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        answer = link.getresponse()
        body = answer.read()
    finally:
        link.close()
    return json.loads(body) if answer.status == 200 else answer.status


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as stat:  # one that nobody waited for is dead as well
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return sys.platform != "linux"


@pytest.mark.timeout(240)
async def test_a_gguf_file_given_by_its_path_runs_with_tools_as_text(tmp_path: Path) -> None:
    """The bundled file as a user's own: no demo persona, tools in the prompt, calls and results as text."""
    path = tmp_path / "mine.gguf"
    path.symlink_to(local.model_file())
    own = LocalModel(path)
    assert not own.abilities.chat_profile
    assert (own.abilities.tools, own.abilities.context_window) == (False, 8192)
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        agent = agent_with(store, tmp_path / "p", backend=own, context=_only_read, max_output_tokens=16, max_steps=1)
        await agent.run("Say hello.")
        [snapshot] = agent.session.prompt_history
        assert snapshot.prompt_format == "react"
        assert "Action Input:" in snapshot.content
        [replied, *_] = only(agent, e.AssistantReplied)
        assert replied.model == "local"
        assert replied.usage.input_tokens > 300
    await own.close()


def _only_read(context: TurnContext) -> TurnContext:
    """One tool keeps the prompt short: a processor reads it."""
    return replace(context, tools=BuiltinRegistry().only(("read",)))
