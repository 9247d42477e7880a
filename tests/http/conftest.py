"""One door a test, without a socket; one real server a module, where a socket is needed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.http.inside import Inside, inside
from tests.support.http_server import Server, reply


@pytest.fixture
async def door(tmp_path: Path) -> AsyncGenerator[Inside]:
    """Admits and stores; nothing answers."""
    async with inside(tmp_path) as opened:
        yield opened


@pytest.fixture
async def talking(tmp_path: Path) -> AsyncGenerator[Inside]:
    """Every turn is answered: First, Second, Third, ..."""
    lines = [reply(text, usage={"input_tokens": 10, "output_tokens": 2}) for text in ("First.", "Second.", "Third.")]
    async with inside(tmp_path, *lines) as opened:
        yield opened


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """A real process on a real port, shared by the tests of a module."""
    with Server(tmp_path_factory.mktemp("served")) as started:
        yield started
