"""The folded state answers what is open, whether the session plans, and where its shell is."""

import pytest

from outlast.core import events as e
from outlast.core.state import SessionState
from outlast.core.workflow_mode import plan_mode_values
from tests.support.histories import Log, asked, call, finished, replied


def ran(folder: object, name: str = "bash") -> e.ToolCallFinished:
    return e.ToolCallFinished(call_id="c", name=name, parts=(), facts={"cwd": folder})


@pytest.mark.parametrize(
    ("events", "plan", "requested"),
    [
        ([], False, False),
        ([e.SessionCreated(settings={"plan_mode": True})], True, True),
        ([e.RuntimeStateChanged(changes=plan_mode_values(True))], True, True),
        ([e.RuntimeStateChanged(changes=plan_mode_values(False))], False, False),
        ([e.RuntimeStateChanged(changes={"workflow_mode": "plan", "workflow_decision_kind": "handoff"})], True, False),
    ],
)
def test_plan_mode_is_on_by_setting_or_by_request_or_by_the_workflow(
    events: list[e.Event], plan: bool, requested: bool
) -> None:
    log = Log()
    log.add(*events)
    assert (log.state.plan_mode, log.state.asked_to_plan) == (plan, requested)


def test_the_shells_folder_is_that_of_the_last_visible_command() -> None:
    log = Log()
    assert (log.state.shell_folder, log.state.shell_folder_since) == (None, (0, None))
    first = log.add(ran("/a"))
    log.add(ran("/a"), ran("/other", name="read"), ran(3))
    assert log.state.shell_folder_since == (first, "/a")
    second = log.add(ran("/b"))
    assert log.state.shell_folder_since == (second, "/b")
    log.add(e.Rewound(to_seq=second - 1))
    assert log.state.shell_folder == "/a"
    log.add(e.HistoryCleared())
    assert log.state.shell_folder is None


def test_an_approval_is_open_until_it_is_answered_or_its_call_has_ended() -> None:
    log = Log()
    asked(log)
    log.add(replied(call("a"), call("b")))
    for call_id in "ab":
        log.add(e.ApprovalRequested(call_id=call_id, name="bash", call_digest="d"))
    first, second = (one.seq for one in log.state.open_approvals)
    log.add(e.ApprovalAnswered(approval_seq=second, answer="once"))
    assert [one.seq for one in log.state.open_approvals] == [first]
    assert [(one.answer, one.answered_seq) for one in log.state.approvals] == [(None, 0), ("once", second + 1)]
    log.add(e.ApprovalAnswered(approval_seq=second, answer="deny"))
    assert log.state.approvals[1].answer == "once", "the first answer counts"
    log.add(finished("a"))
    assert log.state.open_approvals == []


def test_a_state_with_an_unknown_event_is_not_drivable_and_the_window_starts_at_the_boundary() -> None:
    log = Log()
    log.add(e.SessionCreated())
    assert log.state.drivable
    assert SessionState().window_from == log.state.window_from == 1
    cleared = log.add(e.HistoryCleared())
    assert log.state.window_from == cleared + 1
    log.add(e.Opaque("Unheard", 1, "a newer version wrote it"))
    assert not log.state.drivable


def test_a_planned_handover_to_another_driver_is_no_recovery() -> None:
    log = Log()
    asked(log)
    log.add(e.RuntimeStateChanged(changes={"handed_over": True}))
    log.epoch = 10
    log.add(e.TimelineRecorded(entry={}))
    assert log.state.turn is not None
    assert (log.state.turn.epoch, log.state.turn.recoveries) == (10, 0)
