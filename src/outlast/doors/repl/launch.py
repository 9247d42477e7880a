"""Startup of the terminal doors: turns command line options into an agent with its store and session.

`RunningTurn` gives access to the turn that runs in this terminal: its context and the output of its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import msgspec

from outlast.agent import Agent
from outlast.app.placement import placed
from outlast.app.sessions.update import change_running_mode
from outlast.app.settings import Settings, load_settings
from outlast.app.stores import store_at
from outlast.core.errors import SessionEnded, SessionNotFound
from outlast.core.events import Delivery
from outlast.core.header import Header
from outlast.core.messages import Part
from outlast.core.workflow_mode import WorkflowMode, plan_mode_values
from outlast.runtime.agent_config import AgentConfig, ReasoningConfig
from outlast.runtime.service import SessionService
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.observer import ModelWait, NullObserver
from outlast.session import ConversationSession
from outlast.store.log_store import LogStore


class RunningTurn(NullObserver):
    """Keeps the context of the running turn, so that its permission mode can be changed while it runs. `progress`
    receives the output of a running call: call id and next piece. `waits` receives the waits for the model: before a
    retry, or for data.
    """

    def __init__(self) -> None:
        self.context: TurnContext | None = None
        self.progress: Callable[[str, str], None] = lambda call_id, text: None
        self.waits: Callable[[ModelWait | None], None] = lambda wait: None

    def __call__(self, context: TurnContext) -> TurnContext:
        self.context = replace(context, observer=self)
        return self.context

    def model_waits(self, wait: ModelWait | None) -> None:
        self.waits(wait)

    def call_output(self, call_id: str, text: str) -> None:
        self.progress(call_id, text)

    def request(self, mode: str) -> None:
        """Request a permission mode for the running turn; its policy enforces the ceiling."""
        change_running_mode(self.context, mode)


PICK = "?"
NO_MODEL = "none"
REPL, CLI = "repl", "cli"


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the `outlast` command, under the same names. `resume` is a session id, a prefix of one, or `?` to
    choose.
    """

    prompt: str | None = None
    continue_newest: bool = False
    resume: str | None = None
    fork: bool = False
    model: str | None = None
    base_url: str | None = None
    permission_mode: str | None = None
    allow: Sequence[str] | None = None
    add_dir: Sequence[str] | None = None
    max_steps: int | None = None
    plan: bool = False
    workflow: str | None = None
    persona: str | None = None
    effort: str | None = None
    dialect: str | None = None
    sandbox: str | None = None
    network: str | None = None
    store: str | None = None

    @property
    def resumes(self) -> bool:
        return self.continue_newest or self.resume is not None

    def settings(self, project: Path | None = None) -> Settings:
        return load_settings(
            store=self.store,
            model=self.model,
            base_url=self.base_url,
            permission_mode=self.permission_mode,
            dialect=self.dialect,
            sandbox=self.sandbox,
            network=self.network,
            project_root=project,
        )

    def config(self) -> AgentConfig:
        """Agent configuration from the options."""
        return AgentConfig(
            reasoning=ReasoningConfig(effort=self.effort),
            workflow=self.workflow,
            persona=self.persona,
            max_steps=self.max_steps,
            add_dirs=tuple(self.add_dir or ()),
            allow=tuple(self.allow or ()),
        )


class AdmissionOptions(TypedDict, total=False):
    """How an input is admitted: two inputs with the same key are stored once."""

    delivery: Delivery
    key: str | None


class ReplSession(msgspec.Struct):
    """An agent with its current session, and the session service through which the user's input goes."""

    agent: Agent
    service: SessionService
    start: LaunchOptions
    running: RunningTurn
    came_from: str | None = None
    """Sentence for the user about the session that was opened; None for a new session."""
    moved: str | None = None
    """Sentence for the user if the session's own folder is gone or not known here; else None."""
    recorded: bool = False
    """Whether the model named on the command line is already recorded in the session."""
    opened: str | None = None
    """Session that was opened here and does not yet record that this agent continues it."""
    choices: dict[str, Any] = {}
    """Runtime values that the user chose and the session does not record yet: plan mode, workflow."""

    @property
    def session_id(self) -> str:
        return self.agent.session.session_id

    @property
    def model(self) -> str | None:
        """The model that the command line names for the sessions of this process."""
        return None if self.start.model == NO_MODEL else self.start.model

    def value(self, name: str) -> Any:
        """A runtime value of the session, as the user chose it last."""
        return self.choices[name] if name in self.choices else self.agent.session.state.runtime.get(name)

    @property
    def plan_mode(self) -> bool:
        """Whether plan mode is on, or will be with the next message."""
        if "workflow_mode" in self.choices:
            return self.choices["workflow_mode"] == WorkflowMode.PLAN
        return self.agent.session.state.plan_mode

    async def choose(self, values: dict[str, Any]) -> None:
        """Record these runtime values now or, in a session that does not exist yet, with its first message."""
        self.choices = {**self.choices, **values}
        if not self.agent.session.exists:
            return
        await self.service.update_async(self.session_id, runtime=values)
        self.choices = {name: value for name, value in self.choices.items() if values.get(name, self) != value}

    async def admit(self, content: str | tuple[Part, ...], **options: Unpack[AdmissionOptions]) -> int:
        """Store an input durably, together with the values that the session does not record yet; return its seq.
        Follows the session if it was rotated."""
        await self.record_arrival()
        agent, writes, chosen = self.agent, self.service.writes, self.choices
        update = [writes.update(self.session_id, runtime=chosen)] if chosen else []
        admission = writes.admission(self.session_id, content, **options)
        [*_, receipt] = await agent.session.commit_async(*update, admission)
        self.choices = {name: value for name, value in self.choices.items() if chosen.get(name, self) != value}
        if receipt.session_id != self.session_id:
            agent.open_session(receipt.session_id)
        return receipt.seq

    def record_owner(self) -> None:
        """Record once, in a session continued here, which kind of agent continues it. Opening writes nothing."""
        if self.opened == self.session_id:
            self.opened = None
            self.agent.record_owner()

    async def record_arrival(self) -> None:
        """Record once, in a session continued here, the agent and the model if another one was named."""
        self.record_owner()
        model, session = self.model, self.agent.session
        if self.recorded or model is None or not session.exists:
            return
        self.recorded = True
        if session.state.model != model:
            await self.service.update_async(session.session_id, model=model)

    async def take_up(self, found: Header) -> str | None:
        """Switch the agent to that session, in the session's own folder; returns a sentence if that folder is gone.

        Raises, and changes nothing, if the rules or settings of that folder are malformed.
        """
        known = placed(self.agent.store, found)
        last, project = self.agent, folder_of(known, self.agent.project_root)
        if project != last.project_root:
            self.agent = _agent(self.start, last.config, project, last.store, self.running)
            await last.close()
        self.open(found.session_id)
        return gone_folder(known, project)

    def open(self, session_id: str) -> None:
        """Open that session in the agent. Nothing is written before the first input."""
        self.agent.open_session(session_id)
        self.opened, self.choices = self.session_id, {}

    def new_session(self) -> None:
        """Start another session; the previous one stays as it is."""
        agent, self.choices = self.agent, {}
        agent.clear_history()
        if self.model is not None:
            agent.session = ConversationSession(
                project_root=agent.project_root, store=agent.store, model=self.model, persona=self.start.persona
            )
        self.recorded = True


def open_repl_session(start: LaunchOptions, door: str) -> ReplSession:
    """Open the store, find or create the session, and open it in an agent. Raises every user error."""
    settings = start.settings()
    config = msgspec.structs.replace(start.config(), prompting=door == REPL)
    running = RunningTurn()
    store = store_at(start.store)
    try:
        found = _found(start, settings, store)
        known = placed(store, found) if found is not None else None
        project = settings.project_root if known is None else folder_of(known, settings.project_root)
        agent = _agent(start, config, project, store, running)
        repl_session = ReplSession(agent, SessionService(store, door), start, running)
        if known is not None:
            repl_session.came_from = _taken_up(repl_session, known, start)
            repl_session.moved = gone_folder(known, project)
        else:
            repl_session.new_session()
        if start.plan:
            repl_session.choices = plan_mode_values(True)
    except BaseException:
        store.close()
        raise
    return repl_session


def _found(start: LaunchOptions, settings: Settings, store: LogStore) -> Header | None:
    if start.resume is not None:
        return ConversationSession.resume(start.resume, store=store).header
    if not start.continue_newest:
        return None
    newest = newest_here(settings.project_root, store)
    if newest is None:
        raise SessionNotFound(
            f"there is no session of {settings.project_root} to continue; start one with `outlast`, "
            "or choose one of another project with `outlast --resume`"
        )
    return newest


def newest_here(project: Path, store: LogStore) -> Header | None:
    """The newest active session of a project, without the sessions of sub-agents. What was imported belongs to a
    project only once it was continued there: the file does not choose."""
    rows = ConversationSession.list(project_root=project, store=store, limit=50, state="active")
    return next((row for row in rows if row.depth == 0 and _belongs(row, project, store)), None)


def _belongs(found: Header, project: Path, store: LogStore) -> bool:
    return not found.imported_seq or placed(store, found).project_root == str(project.resolve())


def _agent(start: LaunchOptions, config: AgentConfig, project: Path, store: LogStore, running: RunningTurn) -> Agent:
    return Agent(None, config, project, store=store, settings=start.settings(project), context=running)


def folder_of(found: Header, here: Path) -> Path:
    """The folder to continue a session in: its own, or `here` if its own is gone."""
    if found.project_root is None or not Path(found.project_root).is_dir():
        return here
    return Path(found.project_root).resolve()


def gone_folder(found: Header, project: Path) -> str | None:
    """Sentence for the user if the session's own folder is gone, or if an imported session has none here; else None."""
    if found.imported_seq and found.project_root is None:
        return f"It was imported, so it uses the folder you continue it in: {project}."
    if found.project_root is None or Path(found.project_root).is_dir():
        return None
    return f"Its folder {found.project_root} is gone; it continues in {project}."


def _taken_up(repl_session: ReplSession, found: Header, start: LaunchOptions) -> str:
    name = found.session_id
    title = f' "{found.title}"' if found.title else ""
    if start.fork:
        source = ConversationSession.load(session_id=name, store=repl_session.agent.store)
        if source is None:
            raise SessionNotFound(f"no session {name}")
        repl_session.open(source.fork().session_id)
        return f"Forked from {name[:8]}{title}, which does not change."
    if found.has_ended:
        raise SessionEnded(
            f"session {name} has ended; `outlast sessions reopen {name[:8]}` reopens it, "
            f"`outlast --resume {name[:8]} --fork` continues in a fork"
        )
    repl_session.open(name)
    return f"Session {name[:8]}{title}."
