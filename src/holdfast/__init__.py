"""Holdfast: a coding agent and session engine whose conversations cannot be lost.

Public names load on first use, so that `import holdfast` costs next to nothing: no driver, no SDK, no framework.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from holdfast._version import __version__

if TYPE_CHECKING:
    from holdfast.agent import Agent, RuntimeHandle
    from holdfast.app import load_settings
    from holdfast.core.errors import (
        AmbiguousSession,
        ConflictError,
        DamagedSession,
        HoldfastError,
        OutcomeUnknown,
        SessionBusy,
        SessionEnded,
        SessionNotFound,
        StaleLease,
        StoreUnavailable,
    )
    from holdfast.core.messages import Message, Role, ToolCall
    from holdfast.models.port import CompletionResponse
    from holdfast.runtime.config import AgentConfig, ReasoningConfig
    from holdfast.runtime.workflow.evidence import EvidenceProvenance
    from holdfast.runtime.workflow.ledger import WorkflowLedger, WorkflowLedgerItem
    from holdfast.runtime.workflow.prompt_history import PromptSnapshot
    from holdfast.runtime.workflow.timeline import WorkflowTimelineEntry
    from holdfast.runtime.workflow.trace import CompletionTraceEntry
    from holdfast.session import ConversationSession
    from holdfast.store import open_store

__all__ = [
    "Agent",
    "AgentConfig",
    "AmbiguousSession",
    "CompletionResponse",
    "CompletionTraceEntry",
    "ConflictError",
    "ConversationSession",
    "DamagedSession",
    "EvidenceProvenance",
    "HoldfastError",
    "Message",
    "OutcomeUnknown",
    "PromptSnapshot",
    "ReasoningConfig",
    "Role",
    "RuntimeHandle",
    "SessionBusy",
    "SessionEnded",
    "SessionNotFound",
    "StaleLease",
    "StoreUnavailable",
    "ToolCall",
    "WorkflowLedger",
    "WorkflowLedgerItem",
    "WorkflowTimelineEntry",
    "__version__",
    "load_settings",
    "open_store",
]

_HOME_OF = {
    "WorkflowTimelineEntry": "holdfast.runtime.workflow.timeline",
    "WorkflowLedgerItem": "holdfast.runtime.workflow.ledger",
    "WorkflowLedger": "holdfast.runtime.workflow.ledger",
    "PromptSnapshot": "holdfast.runtime.workflow.prompt_history",
    "EvidenceProvenance": "holdfast.runtime.workflow.evidence",
    "CompletionTraceEntry": "holdfast.runtime.workflow.trace",
    "CompletionResponse": "holdfast.models.port",
    "ReasoningConfig": "holdfast.runtime.config",
    "AgentConfig": "holdfast.runtime.config",
    "RuntimeHandle": "holdfast.agent",
    "Agent": "holdfast.agent",
    "ConversationSession": "holdfast.session",
    "Message": "holdfast.core.messages",
    "Role": "holdfast.core.messages",
    "ToolCall": "holdfast.core.messages",
    "load_settings": "holdfast.app",
    "open_store": "holdfast.store",
}


if not TYPE_CHECKING:  # a type checker that saw this would believe in any name

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
        value = getattr(import_module(_HOME_OF.get(name, "holdfast.core.errors")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
