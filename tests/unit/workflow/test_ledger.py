"""The ledger: what is introduced merges, what drifts is marked."""

from outlast.core.workflow_records import WorkflowLedger, WorkflowLedgerItem
from outlast.workflow.drift import LEDGER_LENGTH, DriftEvidence, EvidenceKind, drifted, introduced
from outlast.workflow.text_signals import best_match, likeness, meaningful, normalised

START = introduced(
    WorkflowLedger(),
    "clarify",
    assumptions=["notes.txt stays out of scope unless clarified otherwise."],
    acceptance_anchors=["notes.txt exists in the workspace root."],
    decision_boundaries=["Escalate before broad UX changes."],
)


def evidence(kind: EvidenceKind, text: str) -> DriftEvidence:
    return DriftEvidence(kind=kind, text=text)


def test_items_start_open_active_and_tracked() -> None:
    assert START.assumptions[0].status == "open"
    assert START.acceptance_anchors[0].status == "active"
    assert START.decision_boundaries[0].status == "tracked"
    assert START.assumptions[0].introduced_phase == "clarify"
    assert START.assumptions[0].updated_phase is None


def test_the_same_text_however_written_is_one_item_and_keeps_its_status() -> None:
    marked = drifted(START, [evidence(EvidenceKind.TASK_BOUNDARY_CHANGE, "Broad UX changes are asked for")], "recovery")
    again = introduced(marked, "plan", decision_boundaries=["  escalate before  broad UX changes", "A new one"])
    assert [item.text for item in again.decision_boundaries] == ["Escalate before broad UX changes.", "A new one"]
    assert [item.status for item in again.decision_boundaries] == ["reopened", "tracked"]
    assert introduced(again, "plan", decision_boundaries=["A new one", " "]) == again


def test_drift_marks_the_best_match_with_evidence_and_phase() -> None:
    text = "Clarify scope assumed `notes.txt` stayed out of scope."
    after = drifted(
        START,
        [
            evidence(EvidenceKind.CONTRADICTED_ASSUMPTION, text),
            evidence(EvidenceKind.ACCEPTANCE_ANCHOR, "notes.txt exists in the docs folder"),
        ],
        "recovery",
    )
    assert after.assumptions[0] == WorkflowLedgerItem(
        text="notes.txt stays out of scope unless clarified otherwise.",
        status="contradicted",
        introduced_phase="clarify",
        updated_phase="recovery",
        evidence=[text],
    )
    assert after.acceptance_anchors[0].status == "changed"
    assert after.decision_boundaries == START.decision_boundaries


def test_the_same_evidence_is_kept_once() -> None:
    found = [evidence(EvidenceKind.CONTRADICTED_ASSUMPTION, "notes.txt is in scope now")]
    once = drifted(START, found, "recovery")
    assert drifted(once, found, "execute") == once
    more = drifted(once, [evidence(EvidenceKind.CONFIRMED_TOUCHPOINT, "notes.txt was changed, scope grew")], "execute")
    assert len(more.assumptions[0].evidence) == 2
    assert more.assumptions[0].updated_phase == "execute"


def test_a_failed_verification_changes_the_anchor_it_is_about() -> None:
    ledger = introduced(WorkflowLedger(), "plan", acceptance_anchors=["`pytest -q` passes for the parser module"])
    text = "Verification with `pytest -q` failed."
    after = drifted(ledger, [evidence(EvidenceKind.VERIFICATION_CONTRADICTION, text)], "verify")
    assert after.acceptance_anchors[0].status == "active"  # one shared word is not enough
    text = "Verification with `pytest -q` failed: parser module"
    after = drifted(ledger, [evidence(EvidenceKind.VERIFICATION_CONTRADICTION, text)], "verify")
    assert after.acceptance_anchors[0].status == "changed"


def test_evidence_without_a_match_changes_nothing() -> None:
    assert drifted(START, [evidence(EvidenceKind.CONTRADICTED_ASSUMPTION, "entirely unrelated words")], "x") == START


def test_the_ledger_is_bounded_and_keeps_what_something_happened_to() -> None:
    ledger = introduced(START, "plan", assumptions=[f"assumption number {n}" for n in range(LEDGER_LENGTH * 2)])
    assert len(ledger.assumptions) == LEDGER_LENGTH
    marked = drifted(START, [evidence(EvidenceKind.CONTRADICTED_ASSUMPTION, "notes.txt scope")], "recovery")
    full = introduced(marked, "plan", assumptions=[f"assumption number {n}" for n in range(LEDGER_LENGTH * 2)])
    assert full.assumptions[0].status == "contradicted"


def test_texts_match_by_containment_or_two_meaningful_words() -> None:
    assert likeness("the tests pass", "All of the tests pass now") > likeness("fast parser tests", "parser tests fast")
    assert likeness("tests pass", "tests fail") == 0
    assert likeness("", "anything") == 0
    assert best_match("parser tests", ["other", "the parser has tests", "parser tests"]) == 2
    assert best_match("nothing", ["at all"]) is None
    assert normalised(" `A`  b. ") == "a b"
    assert meaningful("The file src/a.py is in it") == {"file", "src/a.py"}
