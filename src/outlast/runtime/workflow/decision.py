"""A verdict of the completion policy, and what it leaves in the timeline."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from outlast.core.messages import ToolCall
from outlast.runtime.workflow.codes import CODES, REMARKS, Outcome, Stage
from outlast.runtime.workflow.done import DefinitionOfDone
from outlast.runtime.workflow.evidence import EvidenceProvenance, VerificationObservation
from outlast.runtime.workflow.mode import DecisionKind, Mode
from outlast.runtime.workflow.timeline import EntryKind, WorkflowTimelineEntry
from outlast.runtime.workflow.trace import PREFIX


class Action(StrEnum):
    """What the turn does next."""

    ASK = "ask"
    CALL = "call"
    VERIFY = "verify"
    END = "end"


class CompletionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict. `before` are the stages that were passed on the way to it, `remarks` what the timeline gets besides.

    `nudge` goes to the model (never as a user's words), `suffix` to the end of the answer, `done` into the log.
    """

    stage: Stage
    outcome: Outcome
    code: str
    summary: str
    action: Action
    done: DefinitionOfDone
    evidence: tuple[str, ...] = ()
    provenance: tuple[EvidenceProvenance, ...] = ()
    nudge: str | None = None
    calls: tuple[ToolCall, ...] = ()
    suffix: str = ""
    before: tuple[CompletionDecision, ...] = ()
    remarks: tuple[str, ...] = ()
    observations: tuple[VerificationObservation, ...] = ()

    def entries(self, timestamp: str, mode: Mode) -> list[WorkflowTimelineEntry]:
        """The timeline of this decision, oldest first: stages passed, remarks, verdict."""
        passed_stages = [decision._entry(timestamp, mode) for decision in self.before]
        remarks = [self._remark(code, timestamp) for code in self.remarks]
        return [*passed_stages, *remarks, self._entry(timestamp, mode)]

    def changes(self) -> dict[str, Any]:
        """What a session remembers of it."""
        return {"last_completion_decision_code": self.code, "last_completion_decision_summary": self.summary}

    def _entry(self, timestamp: str, mode: Mode) -> WorkflowTimelineEntry:
        return WorkflowTimelineEntry(
            timestamp=timestamp,
            kind=str(CODES[self.code].kind),
            mode=str(mode),
            reason_code=self.code,
            summary=f"{PREFIX}{self.summary}",
            decision_kind=str(DecisionKind.FORCED),
            evidence_summary=list(self.evidence),
            evidence_provenance=list(self.provenance),
            verification_observations=list(self.observations),
            policy_stage=str(self.stage),
            policy_outcome=str(self.outcome),
        )

    def _remark(self, code: str, timestamp: str) -> WorkflowTimelineEntry:
        kind, summary = REMARKS[code]
        return WorkflowTimelineEntry(
            timestamp=timestamp,
            kind=str(kind),
            mode=str(Mode.EXECUTE if kind is EntryKind.REENTRY or code == "execute_completed" else Mode.VERIFY),
            reason_code=code,
            summary=f"verify: {summary}",
            decision_kind=str(DecisionKind.REENTRY if kind is EntryKind.REENTRY else DecisionKind.FORCED),
            verification_observations=list(self.observations) if kind is not EntryKind.HANDOFF else [],
        )


def verdict(code: str, done: DefinitionOfDone, action: Action, which: str = "", /, **told: Any) -> CompletionDecision:
    """The decision of this code; `which` completes its summary, `told` are more of its fields."""
    meaning = CODES[code]
    decision = CompletionDecision(
        stage=meaning.stage,
        outcome=meaning.outcome,
        code=code,
        summary=meaning.summary.format(which=which),
        action=action,
        done=done,
    )
    return msgspec.structs.replace(decision, **told)
