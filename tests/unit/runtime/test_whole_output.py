"""The whole output of a command is kept beside its result."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from outlast import open_store
from outlast.core import events as e
from outlast.runtime.turn import whole_output as storage
from outlast.runtime.turn.whole_output import stored_facts, whole_output
from tests.agents import agent_with, call, only


def test_a_file_is_kept_compressed_and_then_gone(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"line of output\n" * 300_000)
    facts = stored_facts(path)
    assert whole_output(facts) == b"line of output\n" * 300_000
    assert len(facts["whole"]) < 100_000
    assert not path.exists()


def test_what_does_not_fit_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "STORED_LIMIT", 1000)
    path = tmp_path / "out"
    data = random.Random(7).randbytes(3_000_000)
    path.write_bytes(data)
    facts = stored_facts(path)
    assert facts["whole_bytes"] + facts["whole_cut_bytes"] == len(data)
    assert whole_output(facts) == data[: facts["whole_bytes"]]


def test_a_log_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "No such file" in stored_facts(tmp_path / "gone")["whole_missing"]


async def test_three_megabytes_of_output_are_in_the_log_and_an_excerpt_in_the_window(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        command = "yes 0123456789 | head -n 300000"
        agent = agent_with(store, tmp_path / "p", call("bash", command=command), "That was long.", allow=("bash",))
        await agent.run("What does it say?")
        [finished] = only(agent, e.ToolCallFinished)
    assert whole_output(finished.facts) == b"0123456789\n" * 300_000
    assert len(finished.parts[0].text) < 100_000
