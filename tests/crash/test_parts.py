"""The laboratory's own parts: a schedule to be repeated, a model that is a function, a proxy that obeys."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
from collections import Counter
from typing import Any

import httpx
import pytest

from outlast.app.logging_setup import TEXT, LogLineFormatter
from tests.crash.laboratory import UNFORESEEN
from tests.crash.model import FAULTS, ModelServer, malformed, streamed
from tests.crash.oracle import Job, job_in, made_job, saying
from tests.crash.plan import LEASE_SECONDS, WEIGHTS, schedule
from tests.crash.proxy import Proxy, to_port


@pytest.mark.parametrize("store", sorted(WEIGHTS))
def test_the_same_seed_is_the_same_schedule_and_another_one_is_not(store: str) -> None:
    assert schedule(7, store, 200, 300) == schedule(7, store, 200, 300)
    assert schedule(7, store, 200, 300) != schedule(8, store, 200, 300)


@pytest.mark.parametrize("store", sorted(WEIGHTS))
def test_a_thousand_faults_are_of_every_kind_and_some_outlast_the_lease(store: str) -> None:
    plan = schedule(1, store, 1_000, 2_000)
    kinds = Counter(fault.kind for fault in plan)
    assert set(kinds) == set(WEIGHTS[store])
    assert min(kinds.values()) >= 10
    assert sum(fault.seconds > LEASE_SECONDS for fault in plan if fault.kind == "pause") >= 20


def test_a_schedule_fits_into_the_time_that_it_is_given() -> None:
    plan = schedule(3, "postgres", 100, seconds=60)
    assert 45 < plan[-1].at < 75
    assert [fault.at for fault in plan] == sorted(fault.at for fault in plan)


def test_a_job_is_all_in_its_text() -> None:
    dice = random.Random(4)
    for n in range(200):
        job = made_job(f"u1m{n}", dice)
        assert job_in(job.text) == job
        calls = list(job.all_calls())
        assert len({call.name for call in calls}) == len(calls) == sum(map(len, job.groups))
        first = next((call.step for call in calls if call.step in "VR"), "V")
        assert first == "V", "what is read was written before"


def test_the_model_says_the_next_step_then_the_answer_however_often_it_is_asked() -> None:
    job = Job("a1", ("N", "VN"))
    messages: list[dict[str, Any]] = [{"role": "user", "content": job.text}]
    assert saying(messages) == saying(messages)
    assert [call.name for call in saying(messages).calls] == ["a1_0"]
    messages += [{"role": "assistant", "content": ""}, {"role": "tool", "content": "unknown", "tool_call_id": "x"}]
    assert [call.name for call in saying(messages).calls] == ["a1_1", "a1_2"]
    messages += [{"role": "tool", "content": ""}, {"role": "tool", "content": ""}]
    assert saying(messages).text == job.answer
    messages.append({"role": "user", "content": [{"type": "text", "text": Job("a2", ()).text}]})
    assert saying(messages).text == Job("a2", ()).answer


async def test_the_model_server_streams_what_the_oracle_says_and_breaks_as_often_as_it_is_told() -> None:
    server = ModelServer(1, unreliability=0.0)
    server.hang_seconds = 0.1
    url = f"http://127.0.0.1:{await server.start()}/v1/chat/completions"
    body = {"messages": [{"role": "user", "content": Job("a1", ()).text}], "stream": True}
    async with httpx.AsyncClient(trust_env=False, timeout=10) as http:
        answer = await http.post(url, json=body)
        chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        said = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"])
        assert said == Job("a1", ()).answer
        server.unreliability = 1.0
        for _ in range(8):
            asking = http.post(url, json=body)
            await asyncio.wait_for(asyncio.gather(asking, return_exceptions=True), 8)
    assert server.faults.total() == 8
    assert set(server.faults) <= set(FAULTS)
    await server.close()


def test_a_malformed_reply_is_malformed_for_everybody_who_reads_it() -> None:
    """Now and then it was a whole one that lacked a piece, and the checker called the answer wrong (seed 7)."""
    body = streamed(saying([{"role": "user", "content": Job("a1", ()).text}]))
    for seed in range(500):
        lines = malformed(body, random.Random(seed)).decode().splitlines()
        told = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert any(not _is_json(one) for one in told if one != "[DONE]"), f"seed {seed}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_an_error_that_nobody_foresaw_is_found_in_the_log_that_hides_its_words() -> None:
    def line(event: str, *, raised: bool) -> str:
        trace = sys.exc_info() if raised else None
        return LogLineFormatter(TEXT, "w").format(
            logging.LogRecord("outlast.workers", logging.ERROR, "", 1, event, (), trace)
        )

    try:
        raise KeyError("secret")
    except KeyError:
        assert UNFORESEEN.search(line("turn.broke", raised=True))
        assert UNFORESEEN.search(line("claim.failed", raised=True))
    assert not UNFORESEEN.search(line("claim.failed", raised=False)), "the store was away, and it is said so"


class Echo:
    """Something to speak to through a proxy."""

    def __init__(self) -> None:
        self.server: asyncio.Server | None = None

    async def start(self) -> int:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1024):
                writer.write(data)
        finally:
            writer.close()

    async def close(self) -> None:
        assert self.server is not None
        self.server.close()
        await asyncio.sleep(0)


async def test_a_proxy_passes_everything_cuts_at_a_byte_falls_silent_and_heals() -> None:
    echo = Echo()
    proxy = Proxy(to_port(await echo.start()))
    port = await proxy.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    proxy.silence()
    writer.write(b"later")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readexactly(5), 0.1)
    proxy.heal()
    assert await asyncio.wait_for(reader.readexactly(5), 2) == b"later"
    proxy.cut(after=3)
    writer.write(b"never")
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await asyncio.wait_for(reader.readexactly(5), 2)
    again, speaking = await asyncio.open_connection("127.0.0.1", port)
    speaking.write(b"again")
    assert await asyncio.wait_for(again.readexactly(5), 2) == b"again"
    for end in (writer, speaking):
        end.close()
    await proxy.close()
    await echo.close()
