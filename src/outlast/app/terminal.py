"""What a terminal needs of the layers below it, besides the agent: modes, personas, consents, the size of a window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from outlast.app.settings import Settings, whole_environment
from outlast.core.messages import Message, Role
from outlast.core.state import SessionState
from outlast.core.text import show_invisible, text_tokens
from outlast.runtime.history.boundaries import settings_of, window_of
from outlast.runtime.history.compaction import limits, message_tokens, request_tokens
from outlast.runtime.hooks import load_hooks
from outlast.runtime.permissions.consent import Consents
from outlast.runtime.permissions.decision import effective_mode
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.rule_files import PendingConsent, load_rules
from outlast.runtime.permissions.session_policy import SessionPolicy
from outlast.runtime.prompt.personas import Persona, load_personas
from outlast.runtime.prompt.project_identity import project_key
from outlast.runtime.turn.context import RequestSetup, TurnContext
from outlast.runtime.turn.observer import NullObserver
from outlast.runtime.turn.subagents import child_of as sub_agent_of
from outlast.store.port import Store
from outlast.store.process_identity import holder, holder_is_gone, holder_pid

__all__ = [
    "ContextUsage",
    "PendingConsent",
    "RunningTurn",
    "TurnContext",
    "breaks_lines_anew",
    "consent",
    "context_use",
    "is_driven",
    "modes_under",
    "pending_consents",
    "personas_here",
    "project_key",
    "show_invisible",
    "sub_agent_of",
    "wants_colours",
]


def modes_under(ceiling: PermissionMode) -> list[PermissionMode]:
    """The modes that a user may choose here, from the one that permits least; never more than `ceiling`."""
    return [mode for mode in _ORDER if effective_mode(mode, ceiling) is mode]


_ORDER = (
    PermissionMode.READ_ONLY,
    PermissionMode.PROMPT,
    PermissionMode.WORKSPACE_WRITE,
    PermissionMode.DANGER_FULL_ACCESS,
    PermissionMode.ALLOW,
)


class RunningTurn(NullObserver):
    """Remembers what the running turn works with, so that its mode can be changed while it runs. `progress` is told
    what a running call puts out: the call's id, and the next piece."""

    def __init__(self) -> None:
        self.context: TurnContext | None = None
        self.progress: Callable[[str, str], None] = lambda call_id, text: None

    def __call__(self, context: TurnContext) -> TurnContext:
        self.context = replace(context, observer=self)
        return self.context

    def call_output(self, call_id: str, text: str) -> None:
        self.progress(call_id, text)

    def request(self, mode: str) -> None:
        """Ask for a mode in the turn that runs; the gate keeps to its ceiling."""
        gate = self.context.gate if self.context is not None else None
        if isinstance(gate, SessionPolicy):
            gate.request(PermissionMode(mode))


def is_driven(store: Store, session_id: str) -> str | None:
    """Who drives the session right now, in words; None when nobody does, or nobody who is still alive."""
    held = store.holder(session_id)
    if held is None or held.expired or holder_is_gone(held.holder) or held.holder == holder():
        return None
    return holder_pid(held.holder)


def personas_here(settings: Settings) -> list[Persona]:
    return load_personas(settings.home, settings.project_root).all()


def pending_consents(settings: Settings) -> list[PendingConsent]:
    """What the project brings along and the user has not consented to yet: its allow rules, its hooks."""
    project = settings.project_root
    rules = load_rules(home=settings.home, project=project, project_key=project_key(project)).pending
    hooks = load_hooks(home=settings.home, project=project, environment={}).pending
    return [one for one in (rules, hooks) if one is not None]


def consent(settings: Settings, pending: PendingConsent) -> None:
    """The user saw this content and wants it to count; durable on return."""
    Consents(settings.home).give(pending.path, pending.digest)


def breaks_lines_anew() -> bool:
    """Whether this terminal breaks long lines into several when it gets narrower. Nearly all do; these only cut."""
    found = whole_environment()
    return found.get("TERM") != "linux" and "XTERM_VERSION" not in found and "STY" not in found


def wants_colours() -> bool:
    """Not where `NO_COLOR` is set to anything: https://no-color.org."""
    return not whole_environment().get("NO_COLOR")


class ContextUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How full the window is, estimated; `compacts_at` is where older messages are summarised."""

    window: int
    used: int
    compacts_at: int
    system: int
    tools: int
    by_role: dict[str, tuple[int, int]]


def context_use(setup: RequestSetup | None, messages: list[Message], state: SessionState) -> ContextUsage:
    """What the next request would hold. Without a model the window is unknown: 0."""
    system, tools = _system_tokens(state), 0
    window = compacts_at = 0
    if setup is not None and setup.model is not None:
        window = window_of(setup)
        compacts_at = limits(settings_of(setup), window, setup.config.max_output_tokens or 0).threshold
        if setup.model.abilities.tools:
            tools = request_tokens((), "", setup.tools.specs())
    by_role: dict[str, tuple[int, int]] = {}
    for message in messages:
        count, tokens = by_role.get(_kind(message), (0, 0))
        by_role[_kind(message)] = (count + 1, tokens + message_tokens(message))
    used = system + tools + sum(tokens for _, tokens in by_role.values())
    return ContextUsage(window=window, used=used, compacts_at=compacts_at, system=system, tools=tools, by_role=by_role)


def _kind(message: Message) -> str:
    return "summary" if message.is_summary else str(message.role) if message.role is not Role.TOOL else "tool results"


def _system_tokens(state: SessionState) -> int:
    last: dict[str, Any] = state.prompts[-1] if state.prompts else {}
    return text_tokens(str(last.get("content", "")))
