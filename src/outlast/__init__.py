"""Outlast: a coding agent and session engine whose conversations cannot be lost.

Public names are imported on first use, so `import outlast` is cheap: it loads no driver, no SDK and no framework.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from outlast._version import __version__

if TYPE_CHECKING:
    from outlast.agent import Agent, RuntimeHandle
    from outlast.app import load_settings
    from outlast.core.errors import (
        AmbiguousSession,
        ConflictError,
        DamagedSession,
        OutcomeUnknown,
        OutlastError,
        SessionBusy,
        SessionEnded,
        SessionNotFound,
        StaleLease,
        StoreUnavailable,
    )
    from outlast.core.messages import Message, Role, ToolCall
    from outlast.core.workflow_records import (
        CompletionTraceEntry,
        EvidenceProvenance,
        PromptSnapshot,
        WorkflowLedger,
        WorkflowLedgerItem,
        WorkflowTimelineEntry,
    )
    from outlast.models.port import CompletionResponse
    from outlast.runtime.agent_config import AgentConfig, ReasoningConfig
    from outlast.session import ConversationSession
    from outlast.store import open_store

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
    "Message",
    "OutcomeUnknown",
    "OutlastError",
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
    "WorkflowTimelineEntry": "outlast.core.workflow_records",
    "WorkflowLedgerItem": "outlast.core.workflow_records",
    "WorkflowLedger": "outlast.core.workflow_records",
    "PromptSnapshot": "outlast.core.workflow_records",
    "EvidenceProvenance": "outlast.core.workflow_records",
    "CompletionTraceEntry": "outlast.core.workflow_records",
    "CompletionResponse": "outlast.models.port",
    "ReasoningConfig": "outlast.runtime.agent_config",
    "AgentConfig": "outlast.runtime.agent_config",
    "RuntimeHandle": "outlast.agent",
    "Agent": "outlast.agent",
    "ConversationSession": "outlast.session",
    "Message": "outlast.core.messages",
    "Role": "outlast.core.messages",
    "ToolCall": "outlast.core.messages",
    "load_settings": "outlast.app",
    "open_store": "outlast.store",
}


if not TYPE_CHECKING:  # with this function visible, a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'outlast' has no attribute {name!r}")
        value = getattr(import_module(_HOME_OF.get(name, "outlast.core.errors")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
