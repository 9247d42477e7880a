"""`Agent`: runs turns in a project folder. Its session is durable and outlives the object.

Everything the agent does is in the session's log before anything depends on it; the object itself only remembers the
current session. It holds the session's lease only while a turn runs, so another process may continue the same session
between turns, and this agent sees the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from outlast.app.permissions import permitted_mode
from outlast.app.placement import binding
from outlast.app.settings import Settings, load_settings
from outlast.app.stores import default_store
from outlast.app.turn_host import TurnHost
from outlast.app.turn_setup import TurnSetup, build_turn_context, read_turn_setup
from outlast.core.errors import InvalidInput
from outlast.core.events import Delivery
from outlast.core.messages import Message, Part, text_of
from outlast.core.state import SessionState
from outlast.core.workflow_mode import WorkflowMode
from outlast.models.port import Model, ModelEvent
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.driver import Driver
from outlast.runtime.imported_trust import trusted_state
from outlast.runtime.service import SessionService
from outlast.runtime.turn.approvals import Answerer
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.observer import ModelEventObserver
from outlast.runtime.turn.turn_stats import TurnSummary, last_turn
from outlast.session import ConversationSession
from outlast.store.log_store import LogStore


class Agent:
    """An agent that works on one session. `backend` is any model (`outlast.testing.ScriptedBackend` in tests); the
    default is the model from the settings. `answerer` decides calls that need approval; without it they are denied."""

    def __init__(
        self,
        backend: Model | None = None,
        config: AgentConfig | None = None,
        project_root: str | Path | None = None,
        *,
        store: LogStore | None = None,
        settings: Settings | None = None,
        answerer: Answerer | None = None,
        on_event: Callable[[ModelEvent], None] | None = None,
        context: Callable[[TurnContext], TurnContext] | None = None,
    ) -> None:
        self.config = config or AgentConfig()
        self.settings = settings or load_settings(project_root=project_root)
        self.project_root = Path(project_root if project_root is not None else self.settings.project_root).resolve()
        self.store = store if store is not None else default_store()
        self.backend = backend
        self.answerer = answerer
        self.on_event = on_event
        self._changed_context = context
        self._made: dict[str | None, Model | None] = {}
        self.session = self._new_session()
        self.service = SessionService(self.store)
        self._running = False
        self._imported = False
        self._driver: Driver | None = None
        self._host = TurnHost(self.store)
        self.turn_setup()  # reject a malformed rule file or an unknown persona here, not in the middle of a turn

    # --- running

    async def run(self, task: str | tuple[Part, ...], *, key: str | None = None) -> str:
        """Admit the task (a text, or parts with images and files), run its turn to the end, and return the answer.

        The input is durable before any work starts. Raises `ModelError` if the model did not answer: the turn then
        ended as failed, and is in the log. After a cancellation every call is answered and the session is usable.
        """
        admission = self.service.writes.admission(self.session.session_id, task, key=key)
        [*_, receipt] = await self.session.commit_async(admission)
        self._follow(receipt.session_id)
        return await self.resume()

    async def resume(self) -> str:
        """Continue all pending work of the session, an interrupted turn first, and return the last answer."""
        if self._running:
            raise InvalidInput("this agent is already running a turn; queue_steering_message reaches it")
        self._running = True
        last, self._driver = self._driver, None
        try:
            outcome = await self._host.run(self.session.session_id, self._build_context, last=last)
        finally:
            self._running = False
        self._driver = outcome.driver
        self._follow(outcome.driver.session_id)
        if outcome.error is not None:
            raise outcome.error
        return outcome.answer

    def leave(self) -> bool:
        """Leave the running turn to the next process, as a killed process would: nothing of it is closed, its questions
        stay open, and `resume` returns. False if no turn runs. No further turn starts in this agent."""
        self._host.close()
        for runner in self._host.runners.values():
            runner.leave()
        return bool(self._host.runners)

    def run_sync(self, task: str | tuple[Part, ...]) -> str:
        """`run` for callers without an event loop. Closes its connections, which belong to the temporary loop."""

        async def once() -> str:
            try:
                return await self.run(task)
            finally:
                await self.close()

        return asyncio.run(once())

    async def close(self) -> None:
        """Close the models that this agent created itself; it creates them again when needed."""
        made, self._made = self._made, {}
        for model in made.values():
            if model is not None:
                await model.close()

    @property
    def is_running(self) -> bool:
        return self._running

    def turn_setup(self) -> TurnSetup:
        """Return the setup of the next turn from the current settings, project and session; raise if one is invalid."""
        state = trusted_state(self.store, self.session.session_id) if self._imported else self.session.state
        return read_turn_setup(
            self.settings, self.config, self.project_root, state, backend=self.backend, made=self._made
        )

    def interrupt(self) -> None:
        """Ask the running turn to stop. The request is durable, so it also reaches a driver in another process."""
        self.session.interrupt()

    def queue_steering_message(self, text: str) -> None:
        """Send a message to the running turn, or to the next one; durable on return."""
        self.session.commit(self.service.writes.admission(self.session.session_id, text, delivery=Delivery.STEER))

    def drain_steering_messages(self) -> list[str]:
        """Withdraw the steering messages that no turn has read yet, and return their texts, oldest first."""
        if not self.session.exists:
            return []
        waiting = [item for item in self.session.state.inbox.inputs if item.delivery is Delivery.STEER]
        unread = [item.seq for item in waiting if not item.promoted]
        if not unread:
            return []
        texts = [text_of(event.parts) for event in self.session.inputs(unread)]
        self.session.commit(self.service.writes.withdrawal(self.session.session_id, unread, "drained"))
        return texts

    # --- the session

    def resume_session(self, session_id: str) -> bool:
        """Switch to that session (to its newest successor, if it was rotated); False if it does not exist.

        Raises `DamagedSession` if it is damaged. Its permission mode applies only as far as this process allows.
        Writes one event if another kind of agent used the session last.
        """
        if not self.open_session(session_id):
            return False
        self.record_owner()
        return True

    def open_session(self, session_id: str) -> bool:
        """Switch to that session as `resume_session` does, but write nothing."""
        found = ConversationSession.load(project_root=self.project_root, session_id=session_id, store=self.store)
        if found is None:
            return False
        self.session = found
        self._follow(self.store.tip(found.session_id))
        self._imported = self.store.head(self.session.session_id).imported_seq > 0
        return True

    def record_owner(self) -> None:
        """Record in the session that this kind of agent uses it, and the folder of an imported one, unless that is
        recorded already."""
        owner = type(self).__name__
        changes = {} if self.session.runtime_owner_type == owner else {"runtime_owner_type": owner}
        header = self.store.head(self.session.session_id) if self._imported else None
        bound = binding(header, self.session.state, self.project_root) if header is not None else {}
        if bound:
            self.service.update(self.session.session_id, runtime={**changes, **bound})
        elif changes:
            self.session.update_runtime_state(**changes)

    def clear_history(self) -> None:
        """Start a new session; the old one is not changed."""
        self.session, self._imported = self._new_session(), False

    @property
    def messages(self) -> list[Message]:
        """The messages the model would see."""
        return self.session.messages

    @property
    def last_turn_summary(self) -> TurnSummary | None:
        return last_turn(self.session.session_id, self.session.state)

    # --- runtime values of the session, as attributes of the agent

    @property
    def current_task(self) -> str | None:
        return self.session.current_task

    @current_task.setter
    def current_task(self, task: str | None) -> None:
        self.session.update_runtime_state(current_task=task)

    _current_task = current_task

    @property
    def prompt_format(self) -> str | None:
        return self.session.prompt_format

    @prompt_format.setter
    def prompt_format(self, name: str | None) -> None:
        self.session.update_runtime_state(prompt_format=name)

    @property
    def prompt_sections(self) -> list[str]:
        return self.session.prompt_sections

    @prompt_sections.setter
    def prompt_sections(self, names: list[str]) -> None:
        self.session.update_runtime_state(prompt_sections=names)

    @property
    def workflow_mode(self) -> str:
        return self.session.workflow_mode

    def set_workflow_mode(self, mode: str) -> None:
        if mode not in set(WorkflowMode):
            raise InvalidInput(f"'{mode}' is not a workflow mode; use one of {', '.join(WorkflowMode)}")
        self.session.update_runtime_state(workflow_mode=mode, workflow_decision_kind="requested")

    @property
    def active_permission_mode(self) -> str:
        """The mode in force: the session's mode, limited to what this process was started with."""
        return str(permitted_mode(self.settings, self.config, self.session.state))

    # --- inside

    def _new_session(self) -> ConversationSession:
        return ConversationSession(
            project_root=self.project_root,
            store=self.store,
            model=self.backend.name if self.backend is not None else None,
            persona=self.config.persona,
            runtime_owner_type=type(self).__name__,
        )

    def _follow(self, session_id: str) -> None:
        """Switch to the session under which the work continues (a rotation changes the id)."""
        if session_id != self.session.session_id:
            found = ConversationSession.load(project_root=self.project_root, session_id=session_id, store=self.store)
            assert found is not None
            self.session = found

    async def _build_context(self, driver: Driver) -> TurnContext:
        return self._turn_context(driver.state)

    def _turn_context(self, state: SessionState | None = None) -> TurnContext:
        context = build_turn_context(
            self.settings,
            self.config,
            self.project_root,
            state if state is not None else self.session.state,
            backend=self.backend,
            answerer=self.answerer,
            observer=ModelEventObserver(self.on_event) if self.on_event is not None else None,
            made=self._made,
        )
        return self._changed_context(context) if self._changed_context is not None else context

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at session {self.session.session_id}>"


class RuntimeHandle(Agent):
    """`Agent` under another name, for programs that host it; a session records which of the two classes drove it."""
