"""Builds the turn context of a session: model, tools, permissions, hooks and persona of this process."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from outlast.app.models import NONE as NO_MODEL
from outlast.app.models import ModelName, has_price, model_for, model_name, price_for
from outlast.app.permissions import permitted_mode
from outlast.app.sandbox import command_sandbox, read_only_holds, sandbox_report
from outlast.app.settings import PROJECT, Settings, user_home, whole_environment
from outlast.core.errors import ConfigError
from outlast.core.state import SessionState
from outlast.core.workflow_mode import Workflow
from outlast.models.port import Model
from outlast.runtime.agent_config import AgentConfig, Budgets
from outlast.runtime.hooks import Hooks, load_hooks
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.rule_files import load_rules
from outlast.runtime.permissions.rules import RuleSet
from outlast.runtime.permissions.session_policy import SessionPolicy
from outlast.runtime.permissions.shell.git import GIT_ENVIRONMENT
from outlast.runtime.prompt.environment import EnvironmentFact
from outlast.runtime.prompt.memory_files import MemoryFile, read_memory
from outlast.runtime.prompt.personas import Persona, load_personas
from outlast.runtime.prompt.project_identity import project_key
from outlast.runtime.prompt.skills import NO_SKILLS, load_skills
from outlast.runtime.sandbox.port import SandboxTier
from outlast.runtime.tools.process.background_jobs import Jobs
from outlast.runtime.tools.process.environment import clean_environment
from outlast.runtime.tools.registry import BuiltinRegistry
from outlast.runtime.turn.approvals import Answerer
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.dialect import checked_dialect
from outlast.runtime.turn.observer import NullObserver, TurnObserver, WithoutModelEvents
from outlast.runtime.turn.plain_policy import PlainPolicy
from outlast.workflow.guided_policy import GuidedPolicy

MANIFESTS = ("Cargo.toml", "Makefile", "go.mod", "package.json", "pyproject.toml", "setup.cfg", "tox.ini")

_jobs = Jobs()
"""Background jobs live as long as the process, whichever agent started them."""


@cache
def _tools() -> BuiltinRegistry:
    return BuiltinRegistry(jobs=_jobs)


@dataclass(frozen=True, kw_only=True)
class TurnSetup:
    """Everything settings, configuration, project folder and session determine for the next turn, read and validated.
    Turn contexts are built from it; the terminal shows its model and measures the context window with it."""

    settings: Settings
    config: AgentConfig
    project: Path
    roots: tuple[Path, ...]
    persona: Persona
    mode: PermissionMode
    rules: RuleSet
    hooks: Hooks
    environment: Mapping[str, str]
    model: Model | None
    tools: BuiltinRegistry
    model_note: str | None = None
    """Who chose the model, if the project did."""
    workflow: Workflow


def read_turn_setup(
    settings: Settings,
    config: AgentConfig,
    project: Path,
    state: SessionState,
    *,
    backend: Model | None = None,
    made: dict[str | None, Model | None] | None = None,
) -> TurnSetup:
    """Read the setup of the session's next turn. A malformed rule file, hook file or persona raises here, with a
    one-sentence message, before anything runs. `made` caches created models by name for the next call; its owner closes
    them."""
    config = msgspec.structs.replace(
        config,
        dialect=checked_dialect(config.dialect or settings.dialect),
        first_token_timeout=config.first_token_timeout or settings.first_token_timeout,
        stream_idle_timeout=config.stream_idle_timeout or settings.stream_idle_timeout,
        verify_commands=config.verify_commands or settings.verify_commands,
    )
    persona = persona_for(settings, config, project, state)
    mode = permitted_mode(settings, config, state, persona)
    roots = (project, *_more_roots(config))
    key = project_key(project)
    rules = load_rules(home=settings.home, project=project, project_key=key, flags=config.allow).rules
    environment = {**clean_environment(whole_environment()), **GIT_ENVIRONMENT}
    named = model_name(settings, state.model, persona) if backend is None else ModelName()
    model = backend if backend is not None else _model(settings, named.name, made)
    return TurnSetup(
        settings=settings,
        config=config,
        project=project,
        roots=roots,
        persona=persona,
        mode=mode,
        rules=rules,
        model=model,
        tools=_offered_tools(persona, model, config),
        model_note=named.note,
        hooks=load_hooks(home=settings.home, project=project, environment=environment),
        environment=environment,
        workflow=workflow_for(settings, config, persona, state),
    )


def _offered_tools(persona: Persona, model: Model | None, config: AgentConfig) -> BuiltinRegistry:
    """The tools that the persona names, or all for this model."""
    if persona.tools is not None:
        return _tools().only(persona.tools)
    return _tools().for_model(model.name if model is not None else None, config.apply_patch)


def build_turn_context(
    settings: Settings,
    config: AgentConfig,
    project: Path,
    state: SessionState,
    *,
    backend: Model | None = None,
    answerer: Answerer | None = None,
    observer: TurnObserver | None = None,
    made: dict[str | None, Model | None] | None = None,
) -> TurnContext:
    """Build the turn context for a driver of this session from `read_turn_setup`."""
    setup = read_turn_setup(settings, config, project, state, backend=backend, made=made)
    config = setup.config
    prompting = config.prompting or answerer is not None
    told = observer if observer is not None else NullObserver()
    config = msgspec.structs.replace(config, parallel_calls=config.parallel_calls or settings.parallel_calls)
    return TurnContext(
        model=setup.model,
        tools=setup.tools,
        gate=_gate(setup, prompting),
        hooks=setup.hooks,
        project=project,
        roots=setup.roots,
        state_dir=settings.home / "state",
        hidden=(settings.home,),
        sandbox=command_sandbox(settings),
        external=sandbox_report(settings).tier is SandboxTier.EXTERNAL,
        environment=setup.environment,
        persona=setup.persona,
        policy=GuidedPolicy if setup.workflow is Workflow.GUIDED else PlainPolicy,
        memory=_memory(settings, config, project, state),
        skills=load_skills(project, settings.home, user_home()) if config.auto_context else NO_SKILLS,
        sub_agents=tuple(load_personas(settings.home, project).all()) if config.auto_context else (),
        facts=_project_facts(project) if config.auto_context else (),
        platform=platform.system(),
        config=config,
        budgets=Budgets(max_steps=config.max_steps, max_tokens=config.max_tokens, max_seconds=config.max_seconds),
        prompting=prompting,
        answerer=answerer,
        observer=told if config.stream else WithoutModelEvents(told),
        price=price_for(settings) if backend is None or has_price(backend.name) else None,
        sub_agent_context=lambda parent, name: _sub_agent_context(settings, project, parent, name),
    )


def _memory(settings: Settings, config: AgentConfig, project: Path, state: SessionState) -> tuple[MemoryFile, ...]:
    """Read the memory files for a session that has not taken them yet; later its recorded prompt holds them."""
    if not config.auto_context or "prompt_memory" in state.runtime:
        return ()
    return read_memory(project, settings.home, user_home())


def _gate(setup: TurnSetup, prompting: bool) -> SessionPolicy:
    gate = SessionPolicy(
        ceiling=setup.settings.permission_mode,
        rules=setup.rules,
        home=setup.settings.home,
        project=setup.project,
        project_key=project_key(setup.project),
        roots=setup.roots,
        prompting=prompting,
        search_path=setup.environment.get("PATH", ""),
        sandboxed=sandbox_report(setup.settings).holds,
        read_only_holds=read_only_holds(setup.settings),
        network=setup.settings.network,
    )
    gate.request(setup.mode)
    return gate


def _model(settings: Settings, name: str | None, made: dict[str | None, Model | None] | None) -> Model | None:
    if settings.model == NO_MODEL and settings.model_source != PROJECT:
        return None  # this process only admits inputs, whatever model the session names
    if made is None:
        return model_for(settings, name)
    if name not in made:
        made[name] = model_for(settings, name)
    return made[name]


def personas_here(settings: Settings) -> list[Persona]:
    return load_personas(settings.home, settings.project_root).all()


def persona_for(settings: Settings, config: AgentConfig, project: Path, state: SessionState) -> Persona:
    return load_personas(settings.home, project).get(config.persona or state.persona or settings.persona)


class InstructionFiles(NamedTuple):
    """What a new session takes: one line that names its files, and a sentence for each skill that is left out."""

    text: str
    warnings: tuple[str, ...]


def instruction_files(settings: Settings, config: AgentConfig, project: Path) -> InstructionFiles:
    """Look at the instruction files that a session started now would take."""
    if not config.auto_context:
        return InstructionFiles("", ())
    names = [file.name for file in read_memory(project, settings.home, user_home())]
    catalog = load_skills(project, settings.home, user_home())
    count = len(catalog.skills)
    said = [f"instructions from {', '.join(names)}"] if names else []
    said += [f"{count} skill{'s' if count > 1 else ''}"] if count else []
    return InstructionFiles("; ".join(said), catalog.warnings)


def workflow_for(settings: Settings, config: AgentConfig, persona: Persona, state: SessionState) -> Workflow:
    """Return the workflow of the next turn: the session's own choice (`/workflow`), else that of the caller, of the
    persona, of the settings; plain by default."""
    chosen: object = state.runtime.get("workflow")
    if chosen in set(Workflow):
        return Workflow(cast("str", chosen))
    named = config.workflow or persona.workflow or settings.workflow or Workflow.PLAIN
    if named not in set(Workflow):
        raise ConfigError(f"workflow '{named}' is unknown; use one of {', '.join(Workflow)}")
    return Workflow(named)


def _project_facts(project: Path) -> tuple[EnvironmentFact, ...]:
    """Name the project's manifest files."""
    found = [name for name in MANIFESTS if (project / name).is_file()]
    return (EnvironmentFact(name="manifests", text=f"The project has {', '.join(found)}.", once=True),) if found else ()


def _more_roots(config: AgentConfig) -> tuple[Path, ...]:
    roots = tuple(Path(name).expanduser().resolve() for name in config.add_dirs)
    for root in roots:
        if not root.is_dir():
            raise ConfigError(f"{root} is not a folder; correct --add-dir or make it first")
    return roots


def _sub_agent_context(settings: Settings, project: Path, parent: TurnContext, name: str | None) -> TurnContext:
    """The turn context of a sub-agent: its own persona, the same user to ask, the same rights or fewer."""
    persona = load_personas(settings.home, project).get(name) if name else parent.persona
    tools = parent.tools if persona.tools is None else _tools().only(_tools_below(parent, persona))
    prompting = parent.prompting and parent.config.sub_agents_ask
    return replace(
        parent,
        persona=persona,
        tools=tools,
        depth=parent.depth + 1,
        observer=WithoutModelEvents(parent.observer),
        prompting=prompting,
    )


def _tools_below(parent: TurnContext, persona: Persona) -> tuple[str, ...]:
    """The tools of a sub-agent. A persona of the project gives it no tool that its parent does not have."""
    named = persona.tools or ()
    return tuple(name for name in named if parent.tools.get(name) is not None) if persona.source == PROJECT else named
