"""The folded state of a session: everything a driver needs to continue it, however long the log is.

A state is bounded: it holds open work (turn, attempt, calls, approvals, inputs) and the latest timeline, trace and
prompt records, never the messages. So it can be stored as a snapshot, and resuming a huge session costs as much as a
small one. `outlast.core.fold` defines how an event changes it.

Snapshots are a cache: `state_from_bytes` returns None for one it cannot use, and the caller folds the log again.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from outlast.core.boundaries import Boundary, BoundaryView
from outlast.core.codec import from_json, to_json
from outlast.core.events import EffectClass
from outlast.core.header import ACTIVE, PLAN
from outlast.core.inbox import Inbox
from outlast.core.usage import UsageTotals
from outlast.core.workflow_mode import DecisionKind

FOLD_VERSION = 5
"""Increment it when an event changes the state in another way than before: snapshots of other versions are ignored."""


class OpenTurn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A turn that has not ended. `recoveries` counts the drivers that died since the last progress and were replaced,
    `counted` those of them whose death counts against the turn (`runtime.turn.recovery`), and `wait_until` is the time
    before which the driver does not go on; 0 once it has.

    `at` is its start time, `replies` and `tokens` are what it has used of its budgets, `attempts` counts the requests
    for the reply that is still missing, `nudges` counts how often the runtime asked the model to continue.
    """

    turn: str
    seq: int
    inputs: list[int] = []
    model: str | None = None
    mode: str | None = None
    epoch: int | None = None
    recoveries: int = 0
    counted: int = 0
    wait_until: int = 0
    decided: str | None = None
    code: str | None = None
    at: int = 0
    replies: int = 0
    tokens: int = 0
    attempts: int = 0
    nudges: int = 0


class TakeoverRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a driver records when it replaces a dead one: the values that `OpenTurn` then has."""

    number: int = 0
    counted: int = 0
    wait_until: int = 0


def takeover_record(value: Any) -> TakeoverRecord:
    """Return the record in a log; zeros for a value that no version of Outlast writes."""
    try:
        return msgspec.convert(value, TakeoverRecord)
    except msgspec.ValidationError:
        return TakeoverRecord()


class OpenCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A tool call of the newest reply, or one that was started without a reply (a verification command).

    `arguments` is None if they are larger than 16 KiB: read them from event `requested_seq` (or `started_seq`).
    """

    call_id: str
    name: str
    arguments: dict[str, Any] | None = None
    malformed: bool = False
    requested_seq: int = 0
    started_seq: int = 0
    finished_seq: int = 0
    effect: EffectClass | None = None
    digest_before: str | None = None
    digest_after: str | None = None
    pid: int | None = None
    pid_started: str | None = None
    host: str | None = None
    status: str | None = None


class Approval(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A request to approve a call. The first answer counts."""

    seq: int
    call_id: str
    name: str
    call_digest: str
    reason: str | None = None
    mode: str | None = None
    answer: str | None = None
    answered_seq: int = 0


class BoundaryRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    seq: int
    what: str
    arguments: dict[str, Any] = {}


class UnknownEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    seq: int
    kind: str
    v: int
    why: str


class CompactionCounters(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Counters over all compactions. `futile` counts consecutive ones that saved less than a tenth."""

    count: int = 0
    undone: int = 0
    last_seq: int = 0
    last_at: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    futile: int = 0
    turns_since: int = 0


class SessionState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The state of a session after event `last_seq`.

    `attempt` is the seq of the open model request, `reads` the latest pairs (input, event where a turn read it), `view`
    the combined effect of the boundaries in `journal`. `runtime` belongs to the runtime; it grows with its keys, not
    with the log, and `runtime_at` holds the event that last set each key. `shell_folders` holds the folders in which
    shell commands ended, each with the event of the command that changed into it.
    """

    last_seq: int = 0
    life: str = ACTIVE
    was_ended: bool = False
    title: str | None = None
    model: str | None = None
    persona: str | None = None
    settings: dict[str, Any] = {}
    rotated_to: str | None = None
    message_count: int = 0

    unknown: list[UnknownEvent] = []
    unknown_count: int = 0

    turn: OpenTurn | None = None
    attempt: int | None = None
    calls: list[OpenCall] = []
    approvals: list[Approval] = []
    reads: list[tuple[int, int]] = []
    inbox: Inbox = msgspec.field(default_factory=Inbox)
    interrupt: int | None = None
    requests: list[BoundaryRequest] = []

    view: BoundaryView = BoundaryView()
    view_start: BoundaryView = BoundaryView()
    journal: list[Boundary] = []
    compactions: CompactionCounters = msgspec.field(default_factory=CompactionCounters)

    runtime: dict[str, Any] = {}
    runtime_at: dict[str, int] = {}
    shell_folders: list[tuple[int, str]] = []
    timeline: list[dict[str, Any]] = []
    trace: list[dict[str, Any]] = []
    prompts: list[dict[str, Any]] = []
    ledger: dict[str, Any] = {}
    definition_of_done: dict[str, Any] | None = None
    usage: UsageTotals = msgspec.field(default_factory=UsageTotals)

    @property
    def drivable(self) -> bool:
        """False if the log has an event that this version does not know: the session may then only be read."""
        return self.unknown_count == 0

    @property
    def plan_mode(self) -> bool:
        """Whether the session may only read and plan; equal to the header's `plan_mode`."""
        if "workflow_mode" in self.runtime:
            return self.runtime["workflow_mode"] == PLAN
        return self.settings.get("plan_mode") is True

    @property
    def asked_to_plan(self) -> bool:
        """Whether the user or the model switched plan mode on; False in a plan lane that the guided workflow chose."""
        return self.plan_mode and self.runtime.get("workflow_decision_kind") in (None, DecisionKind.REQUESTED)

    @property
    def unanswered(self) -> list[int]:
        return self.inbox.seqs()

    @property
    def open_calls(self) -> list[OpenCall]:
        return [call for call in self.calls if not call.finished_seq]

    @property
    def open_approvals(self) -> list[Approval]:
        """Questions that wait for an answer. A call that has ended, such as after a crash, waits for none."""
        ended = {call.call_id for call in self.calls if call.finished_seq}
        return [one for one in self.approvals if one.answer is None and one.call_id not in ended]

    @property
    def shell_folder(self) -> str | None:
        """The folder in which the last visible shell command ended; None if no command has recorded one. A rewind
        restores the earlier folder, and a clear forgets it."""
        return self.shell_folder_since[1]

    @property
    def shell_folder_since(self) -> tuple[int, str | None]:
        """The event of the command that changed into the shell's folder, and this folder."""
        visible = (entry for entry in reversed(self.shell_folders) if not self.view.archives(entry[0]))
        return next(visible, (0, None))

    @property
    def window_from(self) -> int:
        """The first event that the model sees in its original form."""
        return self.view.window_from

    @property
    def read_from(self) -> int:
        """The first event that `outlast.core.window.window` needs."""
        return self.view.read_from


def state_to_bytes(state: SessionState) -> bytes:
    return to_json({"fold_version": FOLD_VERSION, "state": state})


def state_from_bytes(data: bytes) -> SessionState | None:
    """Decode a state; None if another fold version wrote it or the bytes are invalid."""
    try:
        found = from_json(data)
        if not isinstance(found, dict) or cast("dict[str, Any]", found).get("fold_version") != FOLD_VERSION:
            return None
        return msgspec.convert(found["state"], SessionState, builtin_types=(bytes,))
    except (ValueError, KeyError, msgspec.ValidationError):
        return None
