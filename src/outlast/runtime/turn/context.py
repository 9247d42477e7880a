"""The context of a turn: model, tools, permissions, budgets. `app` creates it, `runtime` uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from outlast.core.messages import ToolCall, Usage
from outlast.core.state import SessionState
from outlast.models.port import Model, ToolSpec
from outlast.runtime.agent_config import AgentConfig, Budgets
from outlast.runtime.clock import Clock, SystemClock
from outlast.runtime.driver import Driver
from outlast.runtime.hooks import Hooks
from outlast.runtime.permissions.decision import Decision, Verdict
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.prompt.environment import EnvironmentFact
from outlast.runtime.prompt.memory_files import MemoryFile
from outlast.runtime.prompt.personas import Persona
from outlast.runtime.prompt.skills import NO_SKILLS, SkillCatalog
from outlast.runtime.sandbox.command_sandbox import CommandSandbox
from outlast.runtime.sandbox.port import Need
from outlast.runtime.tools.port import Tool
from outlast.runtime.turn.approvals import Answerer
from outlast.runtime.turn.observer import NullObserver, TurnObserver
from outlast.runtime.turn.policy import TurnPolicy
from outlast.store.port import LEASE_MS


class ToolRegistry(Protocol):
    """The tools of a turn."""

    def get(self, name: str) -> Tool | None: ...

    def specs(self) -> tuple[ToolSpec, ...]: ...

    def fault(self, name: str, arguments: dict[str, Any]) -> str | None:
        """Return why these arguments do not match the tool's schema, or None if they do."""
        ...


class PermissionPolicy(Protocol):
    """Decides on calls. `mode` is the current permission mode, never above the mode the process was started with."""

    @property
    def mode(self) -> PermissionMode: ...

    def judge(self, call: ToolCall, state: SessionState, hook: Decision | None, cwd: Path | None = None) -> Decision:
        """Decide a call. `cwd` is the folder where a shell command starts; None: the project."""
        ...

    def judge_need(self, need: Need, state: SessionState) -> Verdict:
        """Decide about a wall of the sandbox that a running command meets."""
        ...

    def has_lifted(self, need: Need, state: SessionState) -> bool:
        """Whether a rule or an answer of the user names this wall."""
        ...

    def grant(self, call: ToolCall, cwd: Path | None = None) -> dict[str, Any]:
        """Return the grant to record when the user approves a call for the session."""
        ...

    def always(self, call: ToolCall, cwd: Path | None = None) -> None:
        """Add a permanent rule to the user's own rules that allows calls like this one."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return the values that a session records about the active policy."""
        ...


class RequestSetup(Protocol):
    """Determines the size and the size limit of a request: the model, its tools, and the agent's configuration."""

    @property
    def model(self) -> Model | None: ...

    @property
    def tools(self) -> ToolRegistry: ...

    @property
    def config(self) -> AgentConfig: ...


@dataclass(frozen=True, kw_only=True)
class TurnContext:
    """The context of one turn. `dataclasses.replace` makes a variant. Only `gate`, which holds the permission mode,
    changes while a turn runs. `sub_agent_context` makes a sub-agent's context from this one and a persona's name."""

    model: Model | None
    tools: ToolRegistry
    gate: PermissionPolicy
    hooks: Hooks
    project: Path
    roots: tuple[Path, ...]
    state_dir: Path
    environment: Mapping[str, str]
    persona: Persona
    policy: PolicyFactory
    memory: tuple[MemoryFile, ...] = ()
    skills: SkillCatalog = NO_SKILLS
    sub_agents: tuple[Persona, ...] = ()
    facts: tuple[EnvironmentFact, ...] = ()
    platform: str = ""
    config: AgentConfig = field(default_factory=AgentConfig)
    budgets: Budgets = field(default_factory=Budgets)
    clock: Clock = field(default_factory=SystemClock)
    prompting: bool = False
    answerer: Answerer | None = None
    observer: TurnObserver = field(default_factory=NullObserver)
    price: Callable[[str, Usage], int | None] | None = None
    ttl_ms: int = LEASE_MS
    depth: int = 0
    sub_agent_context: Callable[[TurnContext, str | None], TurnContext] | None = None
    hidden: tuple[Path, ...] = ()
    """Folders whose files a confined command cannot read."""
    sandbox: CommandSandbox | None = None
    """What puts shell commands behind walls; None where there is no sandbox on this machine."""
    external: bool = False
    """Whether the user said that this machine is itself the wall, so that commands are not confined."""


PolicyFactory = Callable[[Driver, TurnContext], TurnPolicy]
"""Creates the policy for a turn of this driver."""
