"""Commits over several files, killed at every single operation on the disk; run in a process of its own.

    python -m tests.integration.files.steps FOLDER

A process that has opened no store forks: one child commits and dies at operation number n, another looks at what is
left, does the commit again and looks once more. Prints a JSON object: operations tried, and every problem.
"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from outlast.core import events as e
from outlast.core.errors import OutlastError
from outlast.core.header import Header
from outlast.store import lineage
from outlast.store.files import FilesStore, disk
from outlast.store.port import Append, Create, Delete, NewEvent, PutRoute, Query, Redact, Write
from tests.integration.files.builders import append, begin, said, texts

A, B, C, D = ("a" * 26, "b" * 26, "c" * 26, "d" * 26)
OPERATIONS = ("write", "write_at", "sync", "truncate", "create", "rename", "unlink", "sync_folder", "make_folder")
MOST = 200


class Report(msgspec.Struct):
    operations: dict[str, int] = {}
    problems: list[str] = []


def prepare(folder: Path) -> None:
    """A with a fork C and a route, and B beside them."""
    with FilesStore(folder, rotate_after_bytes=900) as store:
        begin(store, "secret one", "secret two", "kept", session_id=A)
        begin(store, "beside", session_id=B)
        append(store, A, "large " * 20_000)
        store.commit(lineage.fork(store.head(A), C, at=3, messages=2))
        append(store, C, "in the fork")
        store.commit(PutRoute(route="r", session_id=A))


def both(store: FilesStore) -> tuple[Write, ...]:
    return (
        Append(session_id=A, events=(said("x"), said("y")), key="both"),
        Append(session_id=B, events=(said("z"),)),
        PutRoute(route="r", session_id=B),
    )


def rotation(store: FilesStore) -> tuple[Write, ...]:
    return lineage.rotate(store.head(A), D, token="t", holder="h", key="rotate")


def redaction(store: FilesStore) -> tuple[Write, ...]:
    return (Redact(session_id=A, seq=2, actor="user"),)


def deletion(store: FilesStore) -> tuple[Write, ...]:
    return (Delete(session_id=A, actor="user"),)


def deletion_of_all(store: FilesStore) -> tuple[Write, ...]:
    return (Delete(session_id=A, actor="user", with_forks=True),)


def creation(store: FilesStore) -> tuple[Write, ...]:
    first = NewEvent(event=e.SessionCreated())
    return (Create(header=Header(session_id=D), events=(first, said("first")), key="create"),)


def scoped(store: FilesStore) -> tuple[Write, ...]:
    return (Append(session_id=B, events=(said("from a chat"),), key="7", scope="telegram:1"),)


def spilled(store: FilesStore) -> tuple[Write, ...]:
    return (Append(session_id=B, events=(said("other " * 20_000),), key="spilled"),)


COMMITS: dict[str, Callable[[FilesStore], tuple[Write, ...]]] = {
    commit.__name__: commit
    for commit in (both, rotation, redaction, deletion, deletion_of_all, creation, scoped, spilled)
}


def seen(folder: Path) -> Any:
    """All that a reader can see, in a fresh process."""
    with FilesStore(folder) as store:
        found: dict[str, object] = {"route": store.route("r")}
        for session_id in (A, B, C, D):
            try:
                head = store.head(session_id)
            except OutlastError as error:
                found[session_id] = type(error).__name__
                continue
            rows = store.read(session_id)
            shown = (head.state, head.last_seq, head.message_count, head.title, head.rotated_to, store.tip(session_id))
            said_there = [text[:20] for text in texts(store, session_id)]
            found[session_id] = [*shown, [(row.seq, row.kind, row.redacted) for row in rows], said_there]
        page = store.find(Query())
        found["list"] = sorted(header.session_id for header in page.headers)
        found["damaged"] = page.damaged
    return msgspec.to_builtins(found)


def dies_at(number: int) -> None:
    """End this process, as if killed, at the so-manieth operation; half of a write is done."""
    count = 0
    honest_write = disk.write

    def counted(name: str, honest: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                if name == "write":
                    honest_write(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os._exit(9)
            return honest(*arguments)

        return operation

    for name in OPERATIONS:
        setattr(disk, name, counted(name, getattr(disk, name)))


def in_child(work: Callable[[], object], answer: Path) -> tuple[int, Any]:
    answer.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            answer.write_bytes(msgspec.json.encode(work()))
            code = 0
        except OutlastError as error:
            answer.write_bytes(msgspec.json.encode(f"{type(error).__name__}: {error}"))
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, msgspec.json.decode(answer.read_bytes()) if answer.exists() else None


def carry_out(folder: Path, name: str, number: int | None) -> None:
    store = FilesStore(folder, rotate_after_bytes=900)
    writes = COMMITS[name](store)
    if number is not None:
        dies_at(number)
    store.commit(*writes)


def again(folder: Path, name: str) -> None:
    """The same commit once more; what was done is refused or recognised."""
    with FilesStore(folder, rotate_after_bytes=900) as store:
        try:
            store.commit(*COMMITS[name](store))
        except OutlastError:
            return


def rounds(place: Path, name: str, report: Report) -> None:
    start, work, answer = place / "start", place / "work", place / "answer"
    in_child(lambda: prepare(start), answer)
    before = in_child(lambda: seen(start), answer)[1]
    shutil.copytree(start, place / "done")
    in_child(lambda: carry_out(place / "done", name, None), answer)
    after = in_child(lambda: seen(place / "done"), answer)[1]
    number = 0
    while number < MOST:
        number += 1
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(start, work)
        status, _ = in_child(lambda n=number: carry_out(work, name, n), answer)
        found = in_child(lambda: seen(work), answer)[1]
        if found not in (before, after):
            report.problems.append(f"{name} killed at {number}: {found}")
        if status == 0:
            break
        in_child(lambda: again(work, name), answer)
        finished = in_child(lambda: seen(work), answer)[1]
        if finished != after:
            report.problems.append(f"{name} killed at {number} and repeated: {finished} instead of {after}")
        if list((work / "txn").glob("*.json")):
            report.problems.append(f"{name} killed at {number}: a record is left")
    report.operations[name] = number
    if name in ("redaction", "deletion_of_all"):
        _nothing_left(place / "work", name, report)


def _nothing_left(work: Path, name: str, report: Report) -> None:
    """What was taken away stands nowhere any more."""
    word = b"secret one" if name == "redaction" else b"secret"
    for path in work.rglob("*"):
        if path.is_file() and word in path.read_bytes():
            report.problems.append(f"{name}: {path.name} still says it")


def main(place: Path) -> Report:
    report = Report()
    for name in COMMITS:
        folder = place / name
        folder.mkdir()
        rounds(folder, name, report)
    return report


if __name__ == "__main__":
    os.write(1, msgspec.json.encode(main(Path(sys.argv[1]))))
