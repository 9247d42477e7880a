"""The public surface: names, and what it costs to import them."""

import json
import subprocess
import sys
import time

import pytest

import outlast

PUBLIC = {
    "WorkflowTimelineEntry",
    "WorkflowLedgerItem",
    "WorkflowLedger",
    "RuntimeHandle",
    "ReasoningConfig",
    "PromptSnapshot",
    "EvidenceProvenance",
    "CompletionTraceEntry",
    "CompletionResponse",
    "AgentConfig",
    "Agent",
    "AmbiguousSession",
    "ConflictError",
    "ConversationSession",
    "DamagedSession",
    "OutlastError",
    "Message",
    "OutcomeUnknown",
    "Role",
    "SessionBusy",
    "SessionEnded",
    "SessionNotFound",
    "StaleLease",
    "StoreUnavailable",
    "ToolCall",
    "__version__",
    "load_settings",
    "open_store",
}
HEAVY = {"msgspec", "apsw", "psycopg", "asyncpg", "typer", "rich", "zstandard", "asyncio", "pydantic", "litestar"}


def test_public_names_are_pinned() -> None:
    assert set(outlast.__all__) == PUBLIC
    assert len(outlast.__all__) == len(PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_name_can_be_had(name: str) -> None:
    assert getattr(outlast, name) is getattr(outlast, name)
    assert name in dir(outlast)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = outlast.no_such_name  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def test_import_loads_nothing_heavy() -> None:
    program = "import json, sys, outlast; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=30)
    loaded = set(json.loads(done.stdout))
    assert loaded & HEAVY == set()
    assert {name for name in loaded if name.startswith("outlast.")} == {"outlast._version"}


def test_import_costs_at_most_twice_that_of_msgspec() -> None:
    def seconds(statement: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True, timeout=30)
        return time.perf_counter() - began

    rounds = [(seconds("import outlast"), seconds("import msgspec")) for _ in range(7)]
    ours, theirs = min(a for a, _ in rounds), min(b for _, b in rounds)  # least = least disturbed by other tests
    assert ours <= 2 * theirs
