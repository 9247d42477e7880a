"""The public value types: made as seed 000 makes them, stored, and read back from any version."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.codec import decode, encode
from outlast.core.events import TimelineRecorded
from outlast.core.record_storage import dump, load, read_list
from outlast.core.workflow_records import (
    CompletionTraceEntry,
    DefinitionOfDone,
    EvidenceProvenance,
    EvidenceStatus,
    PromptSnapshot,
    VerificationEvidence,
    VerificationObservation,
    WorkflowLedger,
    WorkflowLedgerItem,
    WorkflowTimelineEntry,
    completion_trace,
    is_new,
)

PROVENANCE = EvidenceProvenance(
    category="verification",
    source="dod.verification_commands",
    summary="verification evidence was still missing for `pytest -q`",
    status="missing",
    subject="pytest -q",
)
ENTRY = WorkflowTimelineEntry(
    timestamp="2026-04-07T12:00:00Z",
    kind="route",
    mode="plan",
    reason_code="task_is_complex",
    summary="plan: workflow pressure favors a persisted plan before execution",
    decision_kind="initial_route",
    route_score=0.72,
    runner_up_mode="clarify",
    runner_up_score=0.61,
    scheduled_next_mode="execute",
    unresolved_questions=["Scope is still broad."],
    evidence_provenance=[PROVENANCE],
    verification_observations=[VerificationObservation(command="pytest -q", status="pending")],
    prompt_format="native",
    prompt_sections=["Runtime Config", "Workflow Context", "Project Context"],
)
LEDGER = WorkflowLedger(
    assumptions=[
        WorkflowLedgerItem(
            text="notes.txt stays out of scope unless clarified otherwise.",
            status="contradicted",
            introduced_phase="clarify",
            updated_phase="recovery",
            evidence=["Clarify scope assumed `notes.txt` stayed out of scope."],
        )
    ]
)
SNAPSHOT = PromptSnapshot(
    timestamp="2026-04-07T14:00:00Z",
    workflow_mode="plan",
    permission_mode="prompt",
    current_task="Tighten Loader workflow behavior",
    prompt_format="native",
    prompt_sections=["Runtime Config", "Workflow Context", "Mode Guidance"],
    content="# Introduction\nplan around planned.txt\n",
)
DONE = DefinitionOfDone(task_statement="Do it", evidence=[VerificationEvidence(command="true", passed=True)])
TRACE = CompletionTraceEntry(
    stage="definition_of_done",
    outcome="continue",
    decision_code="verification_failed_reentry",
    decision_summary="continued",
    evidence_summary=["verification contradiction: pytest still failed"],
)
VALUES: list[msgspec.Struct] = [ENTRY, LEDGER, SNAPSHOT, DONE, TRACE, PROVENANCE]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_was_written_is_read_back(value: msgspec.Struct) -> None:
    assert load(type(value), dump(value)) == value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_fields_of_a_later_version_are_passed_over(value: msgspec.Struct) -> None:
    assert load(type(value), {**dump(value), "of_next_year": {"deep": [1]}}) == value


def test_an_entry_survives_the_log() -> None:
    event = TimelineRecorded(entry=dump(ENTRY))
    stored = encode(event)
    again = decode(stored.kind, stored.v, stored.body, stored.blobs.__getitem__)
    assert isinstance(again, TimelineRecorded)
    assert load(WorkflowTimelineEntry, again.entry) == ENTRY


def test_a_field_that_does_not_fit_keeps_its_default_and_the_rest_is_kept() -> None:
    entry = load(
        WorkflowTimelineEntry,
        {
            **dump(ENTRY),
            "route_score": "high",
            "signals": ["a", 7, None, "b"],
            "evidence_provenance": [3, {"category": "x"}],
        },
    )
    assert entry.route_score is None
    assert entry.signals == ["a", "b"]
    assert entry.evidence_provenance == [EvidenceProvenance(category="x", source="", summary="")]
    assert entry.reason_code == "task_is_complex"


@pytest.mark.parametrize("value", [None, 3, "text", [], {}, {"timestamp": None}])
def test_what_is_no_entry_at_all_is_an_empty_one(value: object) -> None:
    assert load(WorkflowTimelineEntry, value).summary == ""


def test_a_list_keeps_every_object_in_it() -> None:
    assert read_list(CompletionTraceEntry, [dump(TRACE), 5, None, dump(TRACE)]) == [TRACE, TRACE]
    assert read_list(CompletionTraceEntry, "no list") == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    sorted({name for value in VALUES for name in type(value).__struct_fields__} | {"evidence", "unknown"})
)


@given(st.dictionaries(FIELDS, JSON, max_size=8))
def test_nothing_in_a_log_makes_reading_raise(stored: dict[str, Any]) -> None:
    for value in VALUES:
        assert isinstance(load(type(value), stored), type(value))


def completion(kind: str, code: str, summary: str, outcome: str) -> WorkflowTimelineEntry:
    return WorkflowTimelineEntry(
        timestamp="2026-04-09T12:00:00Z",
        kind=kind,
        mode="execute",
        reason_code=code,
        summary=summary,
        decision_kind="forced",
        policy_stage="continuation_check",
        policy_outcome=outcome,
        evidence_summary=["showing the requested work was actually carried out"],
        evidence_provenance=[PROVENANCE],
    )


def test_the_trace_is_projected_from_the_timeline_and_stale_legacy_entries_are_ignored() -> None:
    timeline = [
        ENTRY,
        completion(
            "completion_check", "premature_completion_nudge", "completion: requested one continuation", "continue"
        ),
        completion("completion_finalize", "continuation_budget_exhausted", "completion: stopped", "finalize"),
    ]
    trace = completion_trace(timeline, [TRACE])
    assert [entry.decision_code for entry in trace] == ["premature_completion_nudge", "continuation_budget_exhausted"]
    assert trace[-1].decision_summary == "stopped"
    assert (trace[-1].stage, trace[-1].outcome) == ("continuation_check", "finalize")
    assert trace[-1].evidence_summary == ["showing the requested work was actually carried out"]
    assert [item.summary for item in trace[-1].evidence_provenance] == [PROVENANCE.summary]


def test_legacy_entries_count_where_the_timeline_has_no_completion() -> None:
    assert completion_trace([ENTRY], [TRACE]) == [TRACE]


def test_the_trace_is_bounded() -> None:
    timeline = [completion("completion_check", f"code_{n}", "completion: x", "accept") for n in range(20)]
    assert [entry.decision_code for entry in completion_trace(timeline)] == [f"code_{n}" for n in range(12, 20)]


def test_an_equal_prompt_is_not_stored_twice() -> None:
    later = msgspec.structs.replace(SNAPSHOT, timestamp="2026-04-07T15:00:00Z", current_task="Another")
    assert is_new(SNAPSHOT, None)
    assert not is_new(later, SNAPSHOT)
    assert is_new(msgspec.structs.replace(later, workflow_mode="execute"), SNAPSHOT)


def test_evidence_is_passed_failed_or_skipped() -> None:
    assert VerificationEvidence(command="make", passed=True).status is EvidenceStatus.PASSED
    assert VerificationEvidence(command="make").status is EvidenceStatus.FAILED
    assert VerificationEvidence(command="make", passed=True, skipped=True).status is EvidenceStatus.SKIPPED


def test_only_the_evidence_of_the_active_attempt_counts() -> None:
    old, new = (VerificationEvidence(command="make", attempt_id=name) for name in ("one", "two"))
    record = DefinitionOfDone(task_statement="t", evidence=[old, new], active_verification_attempt_id="two")
    assert record.of_attempt() == [new]
    assert DefinitionOfDone(task_statement="t", evidence=[old]).of_attempt() == []
    assert DefinitionOfDone(task_statement="t", mutating_actions=["write"]).mutated
    assert not record.mutated
