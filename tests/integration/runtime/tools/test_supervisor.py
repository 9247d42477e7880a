"""The supervisor's parts: what it keeps of the output, and what it costs to start."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.runtime.sandbox import supervisor
from outlast.runtime.tools.process.shell_command import CommandSpec, begin
from tests.unit.runtime.tools.setting import PATH


def kept(pieces: list[bytes], limit: int, tail: int, log: int) -> supervisor.Sink:
    before, supervisor.LOG = supervisor.LOG, log
    try:
        sink = supervisor.Sink(limit, tail)
        for piece in pieces:
            sink.put(piece)
        sink.finish()
    finally:
        supervisor.LOG = before
    return sink


@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(1, 30), st.integers(1, 30))
def test_sink_keeps_the_first_and_the_last_bytes(pieces: list[bytes], head: int, tail: int) -> None:
    log = os.memfd_create("log")
    try:
        sink = kept(pieces, head + tail, tail, log)
        stored = os.pread(log, 1000, 0)
    finally:
        os.close(log)
    whole = b"".join(pieces)
    assert sink.total == len(whole)
    assert sink.stored == len(stored) <= head + tail
    if len(whole) <= head + tail:
        assert stored == whole
    else:
        assert stored == whole[:head] + whole[-tail:]


def test_full_disk_is_survived_and_counted() -> None:
    log = os.open("/dev/full", os.O_WRONLY)
    try:
        sink = kept([b"x" * 100] * 50, 1000, 10, log)
    finally:
        os.close(log)
    assert (sink.total, sink.stored) == (5000, 0)


@pytest.mark.parametrize("told", [True, False])
def test_command_that_is_stopped_before_it_runs_never_runs(tmp_path: Path, told: bool) -> None:
    order = CommandSpec(argv=("touch", "ran"), cwd=tmp_path, environment={"PATH": PATH}, log=tmp_path / "log")
    command = begin(order)
    command.stop()
    if told:
        command.stop()  # a second time changes nothing
    assert command.ended.result(30).reason == "lost"
    assert not (tmp_path / "ran").exists()
