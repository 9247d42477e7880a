"""What a provider really receives over HTTP: one request for each prompt that is answered in text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, AgentConfig, load_settings
from outlast.store import open_store
from tests.acceptance.chat_server import ChatServer
from tests.workflow.prompts import GROUPS
from tests.workflow.provider import ENVIRONMENT

TEXT_ONLY = [group for group in GROUPS if not group.calls]


def texts(body: dict[str, Any], role: str) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == role]


@pytest.mark.parametrize("workflow", ["plain", "guided"])
async def test_a_prompt_answered_in_text_is_one_request(
    workflow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    said = {group.prompts[n]: group.answers[n] for group in TEXT_ONLY for n in (0, 4)}  # English and Chinese

    def answer(body: dict[str, Any]) -> str:
        return said[texts(body, "user")[-1]]

    with ChatServer(answer) as server:
        settings = load_settings(home=tmp_path / "home", project_root=tmp_path, model="openai:m", base_url=server.url)
        config = AgentConfig(workflow=workflow, auto_context=False, context_window=200_000)
        for prompt, expected in said.items():
            agent = Agent(None, config, tmp_path, store=open_store("memory://"), settings=settings)
            assert await agent.run(prompt) == expected
            await agent.close()
    assert len(server.bodies) == len(said)
    assert len({texts(body, "system")[0] for body in server.bodies}) == 1
    for body, prompt in zip(server.bodies, said, strict=True):
        [told, asked] = texts(body, "user")
        assert ENVIRONMENT in told
        assert asked == prompt
