"""A rewind goes to a message, closes what is open, parts nothing, and takes the files along."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from outlast.core import events as e
from outlast.core.errors import InvalidInput
from outlast.core.messages import Message, Role, TextPart
from outlast.core.transcript import transcript
from outlast.core.window import window
from outlast.runtime.changes.file_change import digest_of
from outlast.runtime.clock import SystemClock
from outlast.runtime.driver import Driver
from outlast.runtime.history.rewind import RESTORING, finish_restoring, rewind, rewind_events, rewind_point, unrewind
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.prompt.skills import NO_SKILLS
from outlast.runtime.turn.context import TurnContext
from outlast.session import ConversationSession
from outlast.store import open_store
from tests.support.agents import agent_with, only
from tests.support.agents import call as call_of
from tests.support.histories import Log, admitted, appended, asked, call, ended, finished, replied, whole_turn


def seen(log: Log) -> list[str]:
    return [message.content for message in window(log.rows, log.state).messages]


def shown(log: Log) -> list[str]:
    return [message.content for message in transcript(log.rows, log.state)]


def rewound(log: Log, seq: int, *, keep: bool = True) -> Log:
    log.add(*rewind_events(log.state, rewind_point(log.rows, log.state, seq, keep=keep)))
    return log


def three_turns() -> Log:
    log = Log()
    for n in range(3):
        whole_turn(log, f"question {n}", f"answer {n}")
    return log


def seq_of(log: Log, content: str) -> int:
    return next(message.seq or 0 for message in transcript(log.rows, log.state) if message.content == content)


def test_after_a_rewind_the_message_is_the_last_thing_said() -> None:
    log = three_turns()
    assert seen(rewound(log, seq_of(log, "question 1"))) == ["question 0", "answer 0", "question 1"]
    assert shown(log) == ["question 0", "answer 0", "question 1"]
    assert not log.state.unanswered


def test_a_rewind_to_before_the_message_takes_it_away_too() -> None:
    log = three_turns()
    assert seen(rewound(log, seq_of(log, "question 1"), keep=False)) == ["question 0", "answer 0"]
    assert shown(log) == ["question 0", "answer 0"]


def test_an_input_that_waited_counts_from_where_it_was_read() -> None:
    log = Log()
    asked(log, "first")
    waiting = log.add(admitted("second"))
    log.add(replied(TextPart("1")))
    ended(log)
    log.add(e.TurnStarted(inputs=[waiting]), replied(TextPart("2")))
    ended(log)
    kept = rewound(log.fork("b" * 26), waiting)
    assert seen(kept) == ["first", "1", "second"]
    assert shown(kept) == ["first", "second", "1"]
    gone = rewound(log, waiting, keep=False)
    assert seen(gone) == ["first", "1"]
    assert shown(gone) == ["first", "1"]


def test_an_input_that_waited_while_everything_was_cleared_can_be_rewound_to() -> None:
    """It is shown where it was said, before the clear, and was read after it: the clear stays."""
    log = Log()
    asked(log, "first")
    waiting = log.add(admitted("second"))
    ended(log)
    log.add(e.HistoryCleared(), e.TurnStarted(inputs=[waiting]), replied(TextPart("2")))
    ended(log)
    fork = log.fork("c" * 26)
    assert shown(fork) == ["second", "2"]
    kept = rewound(log.fork("b" * 26), waiting)
    assert (seen(kept), shown(kept)) == (["second"], ["second"])
    for gone in (rewound(fork, waiting, keep=False), rewound(log, waiting, keep=False)):
        assert (seen(gone), shown(gone), gone.state.unanswered) == ([], [], [])


def test_a_reply_brings_its_results_along() -> None:
    log = Log()
    asked(log)
    reply = log.add(replied(TextPart("I look."), call("c1"), call("c2")))
    result = log.add(e.ToolCallStarted(call_id="c1", name="bash"), finished("c1", "one"))
    log.add(appended(Role.USER, "by the way"), finished("c2", "two"), replied(TextPart("done")))
    for seq in (reply, result):
        assert seen(rewound(log.fork("b" * 26), seq)) == ["do it", "I look.", "one", "two", "by the way"]
    assert seen(rewound(log.fork("b" * 26), result, keep=False)) == ["do it"]


def test_an_open_turn_is_closed_and_what_was_said_later_does_not_wait_any_more() -> None:
    log = three_turns()
    asked(log, "running")
    log.add(replied(call("c1"), call("c2")), e.ToolCallStarted(call_id="c1", name="bash"))
    log.add(e.ModelRequested(model="m"), admitted("later"))
    rewound(log, seq_of(log, "question 2"))
    kinds = [type(event).__name__ for _, event in log.rows[-7:]]
    assert kinds[:3] == ["ReplyInterrupted", "ToolCallFinished", "ToolCallFinished"]
    assert kinds[-3:] == ["TurnEnded", "InputWithdrawn", "Rewound"]
    assert (log.state.turn, log.state.attempt, log.state.unanswered, log.state.open_calls) == (None, None, [], [])
    assert seen(log)[-1] == "question 2"


def test_an_input_that_waited_before_the_message_still_waits() -> None:
    log = Log()
    asked(log, "first")
    waiting = log.add(admitted("second"))
    steered = log.add(admitted("rather so", e.Delivery.STEER))
    log.add(e.InputPromoted(inputs=[steered]), replied(TextPart("1")))
    ended(log)
    rewound(log, steered)
    assert log.state.unanswered == [waiting]


@pytest.mark.parametrize("seq", [0, 2, 999])
def test_what_is_not_a_message_in_sight_cannot_be_rewound_to(seq: int) -> None:
    log = three_turns()
    with pytest.raises(InvalidInput, match="not a message"):
        rewind_point(log.rows, log.state, seq)
    rewound(log, 1)
    with pytest.raises(InvalidInput, match="not a message"):
        rewind_point(log.rows, log.state, 9)


# --- by a driver, with files ---------------------------------------------------------------------------------------


def context_of(project: Path, mode: PermissionMode = PermissionMode.WORKSPACE_WRITE) -> TurnContext:
    gate = SimpleNamespace(mode=mode)
    context = SimpleNamespace(
        project=project,
        roots=(project,),
        state_dir=project / ".outlast",
        environment={},
        gate=gate,
        skills=NO_SKILLS,
        hidden=(),
        sandbox=None,
        external=False,
    )
    return cast("TurnContext", context)


async def driving(tmp_path: Path) -> Driver:
    store = open_store(f"sqlite:///{tmp_path}/x.db")
    session = ConversationSession(project_root=tmp_path, store=store)
    session.append(Message(role=Role.USER, content="write it"))
    driver = await Driver.open(store, session.session_id, SystemClock())
    await driver.claim()
    return driver


async def write(driver: Driver, project: Path, name: str, data: bytes, recorded: str | None = None) -> None:
    path = project / name
    before = path.read_bytes() if path.exists() else None
    await driver.write(
        e.ToolCallStarted(
            call_id=name,
            name="write",
            target_digest_before=digest_of(before),
            target_digest_after=digest_of(data),
            facts={"path": recorded or name, "before": before},
        )
    )
    path.write_bytes(data)
    await driver.write(e.ToolCallFinished(call_id=name, name="write", parts=(TextPart("ok"),)))


async def test_the_files_go_back_with_the_session_and_come_back_with_it(tmp_path: Path) -> None:
    driver, project = await driving(tmp_path), tmp_path
    (project / "old.py").write_bytes(b"old")
    await write(driver, project, "old.py", b"new" * 50_000)
    await write(driver, project, "made.py", b"made")
    context = context_of(project)
    assert await rewind(driver, context, 2, files=True) == []
    assert (project / "old.py").read_bytes() == b"old"
    assert not (project / "made.py").exists()
    assert await unrewind(driver, context) == []
    assert (project / "old.py").read_bytes() == b"new" * 50_000
    assert (project / "made.py").read_bytes() == b"made"
    assert driver.state.runtime[RESTORING] is None
    with pytest.raises(InvalidInput, match="nothing to undo"):
        await unrewind(driver, context)
    driver.store.close()


async def test_files_stay_when_only_the_session_is_rewound(tmp_path: Path) -> None:
    driver = await driving(tmp_path)
    await write(driver, tmp_path, "made.py", b"made")
    assert await rewind(driver, context_of(tmp_path), 2) == []
    assert (tmp_path / "made.py").exists()
    assert await unrewind(driver, context_of(tmp_path)) == []
    driver.store.close()


async def test_a_process_that_died_before_the_files_were_written_is_replaced(tmp_path: Path) -> None:
    driver, context = await driving(tmp_path), context_of(tmp_path)
    await write(driver, tmp_path, "made.py", b"made")
    assert await rewind(driver, context, 2, files=True) == []
    (tmp_path / "made.py").write_bytes(b"made")  # as if it had died in between
    await driver.write(e.RuntimeStateChanged(changes={RESTORING: {"undo": False}}))
    assert await finish_restoring(driver, context_of(tmp_path, PermissionMode.READ_ONLY)) == []
    assert (tmp_path / "made.py").exists()
    assert await finish_restoring(driver, context) == []
    assert not (tmp_path / "made.py").exists()
    assert await finish_restoring(driver, context) == []
    driver.store.close()


async def test_nothing_is_restored_outside_the_project_or_read_only(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    driver = await driving(tmp_path)
    await write(driver, tmp_path, "outside.py", b"x", recorded=str(tmp_path / "outside.py"))
    [left] = await rewind(driver, context_of(project), 2, files=True)
    assert "outside the project" in (left.problem or "")
    assert (tmp_path / "outside.py").exists()
    assert await unrewind(driver, context_of(project)) == []
    with pytest.raises(InvalidInput, match="read-only"):
        await rewind(driver, context_of(project, PermissionMode.READ_ONLY), 2, files=True)
    driver.store.close()


async def test_every_file_of_a_patch_goes_back_and_comes_back(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    (project / "big.txt").write_text("x" * 200_000)
    (project / "run.sh").write_text("#!/bin/sh\n")
    patch = (
        "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** Add File: new.txt\n+new\n"
        "*** Delete File: big.txt\n*** Update File: run.sh\n*** Move to: bin/run.sh\n*** End Patch"
    )
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        replies = [call_of("apply_patch", "p1", patch=patch), "Done."]
        agent = agent_with(store, project, *replies, apply_patch=True)
        await agent.run("Change it.")
        [finished_call] = only(agent, e.ToolCallFinished)
        assert finished_call.status == "executed"
        after = {path.name for path in project.rglob("*") if path.is_file()}
        assert after == {"a.txt", "new.txt", "run.sh"}
        driver = await Driver.open(store, agent.session.session_id, SystemClock())
        await driver.claim()
        [asked_at] = [row.seq for row in store.read(agent.session.session_id, kinds=frozenset({"InputAdmitted"}))]
        assert await rewind(driver, context_of(project), asked_at, files=True) == []
        assert (project / "a.txt").read_text() == "one\n"
        assert (project / "big.txt").read_text() == "x" * 200_000
        assert (project / "run.sh").exists()
        assert not (project / "new.txt").exists()
        assert await unrewind(driver, context_of(project)) == []
        assert {path.name for path in project.rglob("*") if path.is_file()} == after
        assert (project / "bin/run.sh").exists()
