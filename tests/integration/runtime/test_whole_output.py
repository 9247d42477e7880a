"""The whole output of a command is kept beside its result."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest

from outlast import open_store
from outlast.core import events as e
from outlast.runtime.tools.port import StoredOutput
from outlast.runtime.turn import whole_output as storage
from outlast.runtime.turn.whole_output import find_output, stored_facts, whole_output
from outlast.store.port import Append, NewEvent
from outlast.store.read.decode import load_state
from tests.support.agents import agent_with, call, only


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


LONG = "yes 0123456789 | head -n 20000; echo the end"


async def test_the_model_reads_a_cut_output_whole_by_the_reference_in_its_text(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        read = call("read", "r1", file_path="output:b1", offset=19_999)
        agent = agent_with(store, tmp_path / "p", call("bash", "b1", command=LONG), read, "Read.", allow=("bash",))
        await agent.run("What does it say?")
        cut, whole = only(agent, e.ToolCallFinished)
    assert "left out; read output:b1 shows them]" in cut.parts[0].text
    assert whole.parts[0].text == " 19999\t0123456789\n 20000\t0123456789\n 20001\tthe end"


async def test_an_output_is_found_behind_a_compaction_and_in_a_fork_but_not_behind_a_clear(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        agent = agent_with(store, tmp_path / "p", call("bash", "b1", command=LONG), "Read.", allow=("bash",))
        await agent.run("What does it say?")
        session = agent.session
        found = find_output(store, session.session_id, load_state(store, session.session_id).view, "b1")
        assert found is not None
        assert found.data.endswith(b"the end\n")
        fork = session.fork()
        assert find_output(store, fork.session_id, load_state(store, fork.session_id).view, "b1") == found
        last = load_state(store, fork.session_id).last_seq
        compacted = e.Compacted(summary="s", first_kept_seq=last, tokens_before=9, tokens_after=1)
        store.commit(Append(session_id=fork.session_id, events=(NewEvent(event=compacted, actor="system:test"),)))
        assert find_output(store, fork.session_id, load_state(store, fork.session_id).view, "b1") == found
        store.commit(
            Append(session_id=fork.session_id, events=(NewEvent(event=e.HistoryCleared(), actor="system:test"),))
        )
        assert find_output(store, fork.session_id, load_state(store, fork.session_id).view, "b1") is None
        assert find_output(store, session.session_id, load_state(store, session.session_id).view, "b2") is None


async def test_the_newest_of_several_calls_with_one_id_is_found_and_a_short_output_is_its_text(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        replies = [call("bash", "b1", command=f"echo {word}") for word in ("first", "second")]
        agent = agent_with(store, tmp_path / "p", *replies, "Done.", allow=("bash",))
        await agent.run("Say both.")
        session_id = agent.session.session_id
        found = find_output(store, session_id, load_state(store, session_id).view, "b1")
    assert found == StoredOutput(data=b"second")


@pytest.mark.parametrize("mode", ["read-only", "prompt", "workspace-write"])
async def test_reading_a_stored_output_is_allowed_in_every_mode(tmp_path: Path, mode: str) -> None:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        replies = [call("glob", "g1", pattern="*"), call("read", "r1", file_path="output:g1"), "Done."]
        agent = agent_with(store, tmp_path / "p", *replies, permission_mode=mode, allow=("glob",))
        await agent.run("Look.")
        _, whole = only(agent, e.ToolCallFinished)
    assert (whole.status, whole.parts[0].text) == ("executed", "     1\tNo file matches *.")


def test_l7_a_bomb_in_the_facts_is_unpacked_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zlib.compress(bytes(50_000_000))
    monkeypatch.setattr(storage, "UNPACKED_LIMIT", 1_000_000)
    unpacked = whole_output({"whole": bomb, "whole_encoding": "zlib"})
    assert unpacked is not None
    assert len(unpacked) == 1_000_000
