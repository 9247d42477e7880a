"""Group commit: who leads, and what one commit's misfortune means for the others."""

from __future__ import annotations

import asyncio
import linecache
import sys
import threading
from collections.abc import Callable

import pytest

from outlast.core.errors import OutcomeUnknown
from outlast.core.events import MessageAppended
from outlast.core.ids import id_from
from outlast.core.messages import Role, TextPart
from outlast.store.engine.encode import EncodedCommit, seal
from outlast.store.group_commit import GroupCommit, PendingCommit
from outlast.store.port import Append, NewEvent, Receipt

SESSION = id_from(bytes(16))


def commit(text: str = "x") -> EncodedCommit:
    new = NewEvent(event=MessageAppended(role=Role.USER, parts=(TextPart(text),)))
    return seal((Append(session_id=SESSION, events=(new,)),), compress=False)


class Disk:
    """Runs batches. The first one waits until `go_on`, so that others queue up behind it."""

    def __init__(self) -> None:
        self.ran: list[list[EncodedCommit]] = []
        self.reruns: list[EncodedCommit] = []
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.trouble: Callable[[list[PendingCommit]], None] = lambda _: None

    def run(self, batch: list[PendingCommit]) -> None:
        self.ran.append([entry.commit for entry in batch])
        self.reruns += [entry.commit for entry in batch if entry.commit.rerun]
        if len(self.ran) == 1:
            self.inside.set()
            assert self.go_on.wait(10)
        self.trouble(batch)
        for entry in batch:
            entry.receipts = [Receipt(session_id=SESSION, seq=len(self.ran))]


class Caller(threading.Thread):
    """A thread that commits, and what came of it."""

    def __init__(self, group: GroupCommit, mine: EncodedCommit) -> None:
        super().__init__()
        self.mine, self._group = mine, group
        self.outcome: list[Receipt] | BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self._group.submit(self.mine)
        except BaseException as error:  # noqa: BLE001 - what it is, is what is asked
            self.outcome = error

    def told(self) -> list[Receipt] | BaseException | None:
        self.join(10)
        assert not self.is_alive(), "it was never told"
        return self.outcome


def queued(group: GroupCommit, count: int) -> None:
    while len(group._queue) < count:
        threading.Event().wait(0.001)


def together(disk: Disk, count: int) -> tuple[GroupCommit, list[Caller]]:
    """One commit that is being run, and `count` more that will be one batch."""
    group = GroupCommit(disk.run)
    callers = [Caller(group, commit("first"))]
    assert disk.inside.wait(10)
    for number in range(count):
        callers.append(Caller(group, commit(str(number))))
        queued(group, number + 1)
    return group, callers


def line_of(frame: object) -> int:
    return getattr(frame, "f_lineno", 0)


def test_a_fault_that_nobody_foresaw_is_one_commits_own() -> None:
    disk = Disk()
    group, callers = together(disk, 4)
    bad = callers[2].mine

    def trouble(batch: list[PendingCommit]) -> None:
        if any(entry.commit is bad for entry in batch):
            raise ZeroDivisionError("a bug")

    disk.trouble = trouble
    disk.go_on.set()
    outcomes = [caller.told() for caller in callers]
    assert isinstance(outcomes.pop(2), OutcomeUnknown)
    assert all(isinstance(outcome, list) for outcome in outcomes)
    assert [len(batch) for batch in disk.ran] == [1, 4, 1, 1, 1, 1]
    assert len(disk.reruns) == 4, "what is run again must be looked up by its key"
    group.close()


def test_the_unknown_outcome_tells_its_cause_and_its_key() -> None:
    disk = Disk()
    disk.go_on.set()
    group, mine = GroupCommit(disk.run), commit()

    def trouble(_: list[PendingCommit]) -> None:
        raise ZeroDivisionError("a bug")

    disk.trouble = trouble
    with pytest.raises(OutcomeUnknown, match="ZeroDivisionError: a bug") as caught:
        group.submit(mine)
    assert caught.value.key == mine.key
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    disk.trouble = lambda _: None
    assert group.submit(commit())
    group.close()


async def test_async_neighbours_of_a_fault_succeed_too() -> None:
    disk = Disk()
    group, bad = GroupCommit(disk.run), commit("bad")

    def trouble(batch: list[PendingCommit]) -> None:
        if any(entry.commit is bad for entry in batch):
            raise ZeroDivisionError("a bug")

    disk.trouble = trouble
    tasks = [asyncio.create_task(group.submit_async(one)) for one in (commit("first"), commit("a"), bad, commit("b"))]
    await asyncio.to_thread(disk.inside.wait, 10)
    disk.go_on.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [list, list, OutcomeUnknown, list]
    await asyncio.to_thread(group.close)


def test_an_interrupted_leader_leaves_the_others_their_commits() -> None:
    disk = Disk()
    group, callers = together(disk, 3)
    interrupted: list[EncodedCommit] = []

    def trouble(batch: list[PendingCommit]) -> None:
        if not interrupted and len(batch) == 3:
            interrupted.append(batch[0].commit)
            raise KeyboardInterrupt

    disk.trouble = trouble
    disk.go_on.set()
    outcomes = {caller.mine: caller.told() for caller in callers}
    assert isinstance(outcomes.pop(interrupted[0]), KeyboardInterrupt)
    assert all(isinstance(outcome, list) for outcome in outcomes.values())
    group.close()


@pytest.mark.parametrize("where", range(1, 90))
@pytest.mark.parametrize("before", [0, 1], ids=["leads", "follows"])
def test_an_interrupt_at_any_line_loses_neither_the_lead_nor_a_caller(where: int, before: int) -> None:
    """Ctrl-C between any two lines: others are told an outcome, and the next commit goes through."""
    disk = Disk()
    group, callers = together(disk, before)
    told: list[BaseException | list[Receipt]] = []

    def interrupting() -> None:
        lines = 0

        def trace(frame: object, event: str, _: object) -> object:
            nonlocal lines
            code = getattr(frame, "f_code", None)
            if code is None or not code.co_filename.endswith("group.py"):
                return None
            # Python takes no signal between the end of a `with` and the release of its lock; a tracer would.
            if event == "line" and not linecache.getline(code.co_filename, line_of(frame)).lstrip().startswith("with"):
                lines += 1
                if lines == where:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return trace

        sys.settrace(trace)  # pyright: ignore[reportArgumentType]
        try:
            told.append(group.submit(commit("interrupted")))
        except BaseException as error:  # noqa: BLE001 - what it is, is what is asked
            told.append(error)
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=interrupting)
    thread.start()
    threading.Event().wait(0.01)
    callers.append(Caller(group, commit("behind")))
    threading.Event().wait(0.005)
    disk.go_on.set()
    for caller in callers:
        assert isinstance(caller.told(), list | OutcomeUnknown)
    thread.join(10)
    assert told
    assert isinstance(Caller(group, commit("afterwards")).told(), list)
    closing = threading.Thread(target=group.close)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()
