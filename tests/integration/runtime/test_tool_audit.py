"""The tool audit is a projection of the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast import open_store
from outlast.runtime.tool_audit import audit
from outlast.runtime.turn.approvals import Question
from outlast.store.read.decode import decode_events
from tests.support.agents import agent_with, call


@pytest.mark.usefixtures("asks_first")
async def test_every_call_is_audited_with_its_approval_and_what_came_of_it(tmp_path: Path) -> None:
    async def answerer(question: Question) -> str:
        return "once"

    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        (tmp_path / "p").mkdir()
        (tmp_path / "p" / "a.txt").write_text("hello")
        agent = agent_with(
            store,
            tmp_path / "p",
            call("read", "r", file_path="a.txt"),
            call("bash", "b", command="python3 -c 'raise SystemExit(3)'"),
            call("nothing", "n"),
            "It failed, and I say so.",
            answerer=answerer,
        )
        await agent.run("What happens?")
        found = audit(decode_events(store, store.read(agent.session.session_id)))
    assert [(one.call_id, one.status, one.approval, one.exit_code) for one in found] == [
        ("r", "executed", None, None),
        ("b", "failed", "once", 3),
        ("n", "unknown_tool", None, None),
    ]
    assert found[0].effect == "R"
    assert found[2].started_seq is None
