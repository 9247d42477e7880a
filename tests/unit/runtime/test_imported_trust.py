"""An imported log is history: it gives no rights and has no effects."""

from __future__ import annotations

from outlast.core.events import EffectClass
from outlast.core.state import Approval, BoundaryRequest, OpenCall, SessionState
from outlast.runtime.imported_trust import strip_imported_grants


def state() -> SessionState:
    return SessionState(
        runtime={"grants": [{"tool": "bash"}], "restoring": {"undo": False}, "permission_mode": "allow"},
        runtime_at={"grants": 5, "restoring": 6, "permission_mode": 7},
        approvals=[Approval(seq=4, call_id="a", name="bash", call_digest="d", answer="session", answered_seq=5)],
        requests=[BoundaryRequest(seq=8, what="rewind", arguments={"files": True})],
        calls=[
            OpenCall(call_id="w", name="write", requested_seq=2, started_seq=3, effect=EffectClass.VERIFIABLE),
            OpenCall(call_id="b", name="bash", requested_seq=2, started_seq=3, effect=EffectClass.OTHER),
        ],
    )


def test_grants_answers_and_requests_of_an_import_do_not_count() -> None:
    found = state()
    strip_imported_grants(found, 10)
    assert set(found.runtime) == {"permission_mode"}
    assert (found.approvals, found.requests) == ([], [])


def test_the_system_prompt_and_the_dialect_of_an_import_do_not_count() -> None:
    pinning = ("prompt_key", "prompt_memory", "memory_files", "dialect")
    found = state()
    found.runtime |= dict.fromkeys(pinning, "x")
    found.runtime_at |= dict.fromkeys(pinning, 9)
    strip_imported_grants(found, 10)
    assert not set(pinning) & set(found.runtime)


def test_a_begun_write_is_judged_anew_and_a_begun_command_stays_unknown() -> None:
    found = state()
    strip_imported_grants(found, 10)
    assert [call.started_seq for call in found.calls] == [0, 3]


def test_what_was_said_here_after_the_import_counts() -> None:
    found = state()
    strip_imported_grants(found, 2)
    assert found == state()
