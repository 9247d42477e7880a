"""Run under `strace` that does something to the n-th system call: forks children that each meet it one call later.

    strace -f -e inject=pwrite64:signal=KILL:when=400 python -m tests.faults.syscalls PLAN

The counter is each process's own, so a child that first makes 400 - k idle calls is hit at the k-th call of its work.
Prints a JSON report like the factory's.
"""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Event

import msgspec

from outlast.core.errors import OutcomeUnknown, OutlastError, StoreUnavailable
from outlast.store import open_store
from outlast.store.log_store import LogStore
from tests.faults.factory import Era, Report, in_child
from tests.faults.stores import in_memory, load, smaller
from tests.faults.witness import Ack, Failed, Notebook, Try, Writer, notes_in

NOWHERE = "/nonexistent/a"
SCRATCH = tempfile.gettempdir()  # found out here, because it writes a file to find out


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`old`: the store has something in it already. `last` 0: until a child got through its work unharmed; the report's
    rounds are then one more than there were calls. `recovers`: the fault passes, and writing must go on after it."""

    kind: str
    syscall: str
    offset: int
    old: bool = True
    last: int = 0
    stride: int = 1
    recovers: bool = False


def _idle(syscall: str) -> Callable[[], object]:
    """The same system call with no effect."""
    scratch = os.open(SCRATCH, os.O_TMPFILE | os.O_RDWR)
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: os.write(scratch, b""),
        "pwrite64": lambda: os.pwrite(scratch, b"x", 0),
        "fdatasync": lambda: os.fdatasync(scratch),
        "fsync": lambda: os.fsync(scratch),
        "ftruncate": lambda: os.ftruncate(scratch, 0),
        "unlink": lambda: os.unlink(NOWHERE),
        "rename": lambda: os.rename(NOWHERE, NOWHERE),
        "openat": lambda: os.open(NOWHERE, os.O_RDONLY),
    }
    return calls[syscall]


def _consume(syscall: str, count: int) -> None:
    call = _idle(syscall)
    for _ in range(count):
        with contextlib.suppress(FileNotFoundError):
            call()


def one_cycle(store: LogStore, notebook: Notebook) -> Writer:
    """Some of everything; after an error that it was told about it goes on."""
    writer = Writer(store, notebook, [], "s", 1)
    for step in (writer.step, writer.append, writer.drive, writer.fork, writer.append):
        with contextlib.suppress(OutcomeUnknown, StoreUnavailable):
            (step if writer.sessions else writer.step)()
    return writer


def goes_on(writer: Writer) -> bool:
    """The fault is one call, so of two writes one at least must come through."""
    for _ in range(2):
        with contextlib.suppress(OutcomeUnknown, StoreUnavailable):
            writer.step()
            return True
    return False


class Case:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._template = _made(plan.kind) if plan.old else None

    def run(self, k: int, report: Report) -> bool:
        """Whether the child came to its end; a store that it left behind must be as it promised."""
        folder = Path(tempfile.mkdtemp(prefix="outlast-strace-", dir=in_memory()))
        if self._template is not None:
            shutil.copytree(self._template, folder, dirs_exist_ok=True)
        era = Era(self._plan.kind, "", folder, k)
        _, status = os.waitpid(in_child(lambda: self._work(era, k)), 0)
        found = era.problems()
        if status not in (0, signal.SIGKILL):
            found.append(f"ended with status {status}")
        notes = notes_in(era.notes)
        report.rounds += 1
        report.tried += sum(isinstance(note, Try) for note in notes)
        report.acknowledged += sum(isinstance(note, Ack) for note in notes)
        report.problems += [f"{self._plan.syscall} {k} in {folder}: {text}" for text in found]
        if not found:
            shutil.rmtree(folder)
        return status == 0

    def _work(self, era: Era, k: int) -> None:
        smaller()
        notebook = Notebook.at(era.notes)
        _consume(self._plan.syscall, self._plan.offset - k)
        try:
            store = open_store(era.url)
        except OutlastError:
            if not self._plan.recovers:
                return
            store = open_store(era.url)
        writer = one_cycle(store, notebook)
        if self._plan.recovers and not goes_on(writer):
            notebook.write(Failed(error="it did not work again after the fault"))
        store.close()

    def close(self) -> None:
        if self._template is not None:
            shutil.rmtree(self._template)


def _made(kind: str) -> Path:
    """A store that has something in it already, as somebody left it who was killed."""
    folder = Path(tempfile.mkdtemp(prefix="outlast-strace-", dir=in_memory()))
    era = Era(kind, "", folder, 0)
    work = in_child(lambda: Writer(open_store(era.url), Notebook.at(era.notes), [], "old", 7).run(Event(), 4))
    os.waitpid(work, 0)
    return folder


def main(plan: Plan) -> Report:
    load(plan.kind)
    report, case = Report(), Case(plan)
    for k in range(1, (plan.last or plan.offset - 1) + 1, plan.stride):
        through = case.run(k, report)
        if report.problems or (through and not plan.last):
            break
    else:
        report.problems += [] if plan.last else [f"more than {plan.offset} calls"]
    case.close()
    return report


if __name__ == "__main__":
    os.writev(1, [msgspec.json.encode(main(msgspec.json.decode(sys.argv[1], type=Plan)))])
