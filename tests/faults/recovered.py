"""A new process at a session that a dead one left, and the calls that such a session may have open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outlast import Agent, ToolCall
from outlast.app.settings import load_settings
from outlast.core import events as e
from outlast.runtime.agent_config import AgentConfig, ReasoningConfig
from outlast.store.read.decode import decode_events
from outlast.store.verify import verify
from outlast.testing import ScriptedBackend
from outlast.testing.validity import rejections
from tests.faults.ledger import turn_problems
from tests.faults.old_events import Past
from tests.support.agents import Reply, only

READ = ToolCall(id="r", name="read", arguments={"file_path": "a.txt"})
WRITE = ToolCall(id="w", name="write", arguments={"file_path": "b.txt", "content": "new\n"})
EDIT = ToolCall(id="e", name="edit", arguments={"file_path": "b.txt", "old_string": "old", "new_string": "new"})
BASH = ToolCall(id="n", name="bash", arguments={"command": "echo ran >> witness.txt"})
ASKED = ToolCall(
    id="q", name="bash", arguments={"command": "echo ran >> witness.txt", "needs": ["network:example.org"]}
)
"""A command that is asked about, because it needs a wall of the sandbox lifted."""
QUESTION = ToolCall(id="u", name="ask_user", arguments={"question": "Which colour?"})
TASK = ToolCall(id="s", name="task", arguments={"prompt": "Count."})


class Recovered:
    """A new process at a session that a dead one left."""

    def __init__(
        self,
        past: Past,
        project: Path,
        *replies: Reply,
        mode: str | None = None,
        apply_patch: bool = False,
        **more: Any,
    ) -> None:
        self.backend = ScriptedBackend(completions=list(replies))
        settings = load_settings(home=project.parent / "home", project_root=project, permission_mode=mode)
        config = AgentConfig(
            auto_context=False,
            workflow_mode="execute",
            reasoning=ReasoningConfig(completion_check=False),
            apply_patch=apply_patch,
        )
        self.agent = Agent(self.backend, config, project, store=past.store, settings=settings, **more)
        assert self.agent.resume_session(past.session_id)
        self.project = project

    def said(self) -> list[str]:
        """The messages of the first request, without what the runtime told about the environment."""
        texts = [message.content for message in self.backend.requests[0].messages]
        return [text for text in texts if not text.startswith("[Outlast runtime] Your environment:")]

    async def end(self) -> str:
        """Go on to the end of the turn; the answer. The log is as it must always be."""
        answer = await self.agent.resume()
        self.check()
        return answer

    def check(self) -> None:
        session_id, store = self.agent.session.session_id, self.agent.store
        assert turn_problems(decode_events(store, store.read(session_id))) == []
        assert verify(store).findings == []
        assert store.holder(session_id) is None
        for request in self.backend.requests:
            assert rejections(request.messages) == []

    def result(self, call: ToolCall) -> e.ToolCallFinished:
        [found] = [event for event in only(self.agent, e.ToolCallFinished) if event.call_id == call.id]
        return found

    @property
    def witnessed(self) -> str:
        witness = self.project / "witness.txt"
        return witness.read_text() if witness.exists() else ""
