"""A terminal that is gone without a signal: the process leaves, and what was said is kept."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast.store.port import Query
from tests.support.terminal import Place, reply

PATIENCE = 30.0


@pytest.mark.parametrize("said", ["", "tell me something long"])
def test_a_terminal_that_is_gone_ends_the_process_and_loses_nothing(tmp_path: Path, said: str) -> None:
    place = Place(tmp_path)
    place.says(reply("word " * 400, delay_ms=60_000))
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "outlast", "--model", place.model],
        cwd=place.project,
        env=place.environment() | {"TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,  # no signal tells it
    )
    os.close(slave)
    _read_until(master, "─")
    if said:
        os.write(master, said.encode() + b"\r")
        _read_until(master, "word")
    os.close(master)
    try:
        assert process.wait(PATIENCE) == 129
    finally:
        process.kill()
    with place.store() as store:
        [*rows] = store.find(Query()).headers
    assert [row.title for row in rows] == ([said] if said else [])
    assert all(row.turn is None for row in rows), "the turn is closed"


def _read_until(master: int, text: str) -> None:
    seen = b""
    until = time.monotonic() + PATIENCE
    while text.encode() not in seen:
        assert time.monotonic() < until, seen
        if select.select([master], [], [], 0.2)[0]:
            seen += os.read(master, 65536)
