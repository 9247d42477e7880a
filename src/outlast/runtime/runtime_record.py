"""The runtime record of a session: named values, and a record of the runtime's decisions.

Both are folded from the session's own events alone, so they are the same in every process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from outlast.core import events as e
from outlast.core.errors import InvalidInput
from outlast.core.record_storage import dump, load, read_list
from outlast.core.state import SessionState
from outlast.core.workflow_records import (
    CompletionTraceEntry,
    DefinitionOfDone,
    PromptSnapshot,
    WorkflowLedger,
    WorkflowTimelineEntry,
    completion_trace,
    is_new,
)
from outlast.runtime.turn.turn_stats import totals

T = TypeVar("T")


class HasState(Protocol):
    @property
    def state(self) -> SessionState: ...


class LoggedAttribute(Generic[T]):
    """Attribute that is folded from the log. A stored value of a type other than `kind` reads as the default."""

    def __init__(self, default: T, kind: type | tuple[type, ...]) -> None:
        self.default = default
        self.kind = kind
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        NAMES[name] = self.kind

    @overload
    def __get__(self, obj: None, owner: type) -> Self: ...

    @overload
    def __get__(self, obj: HasState, owner: type) -> T: ...

    def __get__(self, obj: HasState | None, owner: type) -> T | Self:
        if obj is None:
            return self
        value = obj.state.runtime.get(self.name)
        if not isinstance(value, self.kind):
            value = self.default
        return list(value) if isinstance(value, list) else value  # pyright: ignore[reportReturnType, reportUnknownVariableType, reportUnknownArgumentType]


NAMES: dict[str, type | tuple[type, ...]] = {}
"""Every name that a session records, and the types of its value apart from None."""


def text() -> LoggedAttribute[str | None]:
    return LoggedAttribute[str | None](None, str)


def number() -> LoggedAttribute[float | None]:
    return LoggedAttribute[float | None](None, (float, int))


def texts() -> LoggedAttribute[list[str]]:
    return LoggedAttribute[list[str]]([], list)


class RuntimeRecord(ABC):
    """The record as attributes. A subclass provides the folded state and the method that writes an event."""

    @property
    @abstractmethod
    def state(self) -> SessionState: ...

    @abstractmethod
    def record(self, event: e.Event) -> None:
        """Write an event into the session."""

    permission_mode = text()
    permission_prompting_enabled = LoggedAttribute(False, bool)
    permission_rule_counts = LoggedAttribute[dict[str, int]]({}, dict)
    permission_rules_source = text()
    prompt_format = text()
    prompt_sections = texts()
    current_task = text()
    runtime_owner_type = text()
    runtime_owner_path = text()
    workflow_mode = LoggedAttribute("execute", str)
    active_turn_phase = text()
    workflow_reason_code = text()
    workflow_reason_summary = text()
    workflow_decision_kind = text()
    workflow_ambiguity_score = number()
    workflow_complexity_score = number()
    workflow_scheduled_next_mode = text()
    last_completion_decision_code = text()
    last_completion_decision_summary = text()
    last_turn_transition_summary = text()
    last_turn_transition_kind = text()
    last_turn_transition_reason_code = text()

    @property
    def workflow_timeline(self) -> list[WorkflowTimelineEntry]:
        """The latest workflow decisions, oldest first."""
        return read_list(WorkflowTimelineEntry, self.state.timeline)

    @property
    def completion_trace(self) -> list[CompletionTraceEntry]:
        """Why turns continued or stopped, from the timeline; separate trace entries count only if it has none."""
        return completion_trace(self.workflow_timeline, read_list(CompletionTraceEntry, self.state.trace))

    @property
    def workflow_ledger(self) -> WorkflowLedger:
        return load(WorkflowLedger, self.state.ledger)

    @property
    def prompt_history(self) -> list[PromptSnapshot]:
        return read_list(PromptSnapshot, self.state.prompts)

    @property
    def definition_of_done(self) -> DefinitionOfDone | None:
        found = self.state.definition_of_done
        return None if found is None else load(DefinitionOfDone, found)

    @property
    def usage(self) -> dict[str, int]:
        """Session totals: tokens, tool calls, replies (iterations), turns."""
        return totals(self.state.usage)

    def update_runtime_state(self, **changes: Any) -> None:
        """Record these values. Raises `InvalidInput` for a name that a session does not record."""
        self.record(e.RuntimeStateChanged(changes=checked(changes)))

    def append_workflow_timeline_entry(self, entry: WorkflowTimelineEntry) -> None:
        self.record(e.TimelineRecorded(entry=dump(entry)))

    def append_completion_trace_entry(self, entry: CompletionTraceEntry) -> None:
        self.record(e.TraceRecorded(entry=dump(entry)))

    def update_workflow_ledger(self, ledger: WorkflowLedger) -> None:
        self.record(e.LedgerUpdated(ledger=dump(ledger)))

    def append_prompt_snapshot(self, snapshot: PromptSnapshot) -> None:
        """Record a prompt, unless it differs from the last one only in its time."""
        last = self.prompt_history[-1:]
        if is_new(snapshot, last[0] if last else None):
            self.record(e.PromptRecorded(snapshot=dump(snapshot)))


def checked(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the validated changes. Raises `InvalidInput` for the first name or value that a session cannot record."""
    for name, value in changes.items():
        kind = NAMES.get(name)
        if kind is None:
            raise InvalidInput(f"a session records no '{name}'; it records {', '.join(sorted(NAMES))}")
        if value is not None and not isinstance(value, kind):
            raise InvalidInput(f"'{name}' cannot be {type(value).__name__} {value!r}")
    owner = changes.get("runtime_owner_type")
    if isinstance(owner, str) and "runtime_owner_path" not in changes:
        changes = {**changes, "runtime_owner_path": owner_path(owner)}
    return changes


def owner_path(owner_type: str) -> str:
    """Convert `RuntimeHandle` to `runtime-handle`."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in owner_type).lstrip("-")
