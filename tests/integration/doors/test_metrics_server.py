"""The port for Prometheus: two paths, this machine only, and nothing for a page in a browser."""

from __future__ import annotations

import asyncio

import pytest

from outlast.core.errors import ConfigError
from outlast.doors.worker.metrics_server import MetricsServer


async def asked(port: int, request: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()


async def the_text() -> str:
    return "outlast_up 1\n"


async def test_who_may_ask_what() -> None:
    scrape = MetricsServer(the_text)
    await scrape.open(0)
    try:
        host = f"Host: 127.0.0.1:{scrape.port}\r\n"
        for request, status in (
            (f"GET /metrics HTTP/1.1\r\n{host}\r\n", 200),
            ("GET /metrics?x=1 HTTP/1.1\r\nhost: localhost\r\n\r\n", 200),
            (f"GET /healthz HTTP/1.1\r\n{host}\r\n", 200),
            (f"GET / HTTP/1.1\r\n{host}\r\n", 404),
            (f"POST /metrics HTTP/1.1\r\n{host}\r\n", 405),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
            ("GET /metrics HTTP/1.1\r\n\r\n", 403),
            (f"GET /metrics HTTP/1.1\r\n{host}{host}\r\n", 403),
            (f"GET /metrics HTTP/1.1\r\n{host}Origin: http://127.0.0.1\r\n\r\n", 403),
        ):
            answer = await asked(scrape.port, request)
            assert answer.startswith(f"HTTP/1.1 {status} "), (request, answer)
            assert ("outlast_up 1" in answer) is (status == 200 and "/metrics" in request)
        assert await asked(scrape.port, "x" * 20_000) == "", "whoever sends too much is cut off"
    finally:
        await scrape.close()


async def test_a_port_that_is_taken_is_told_in_one_sentence() -> None:
    first, second = MetricsServer(the_text), MetricsServer(the_text)
    await first.open(0)
    try:
        with pytest.raises(ConfigError, match=f"--metrics-port {first.port} cannot be used"):
            await second.open(first.port)
    finally:
        await first.close()
        await second.close()
