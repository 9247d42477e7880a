"""Writes of file tools, and the commands of other sessions that see them happen."""

from __future__ import annotations

from pathlib import Path

from outlast.runtime.changes.change_set import ChangedFile, FileState
from outlast.runtime.changes.file_tool_writes import FileToolWrites
from outlast.runtime.tools.port import Target

PROJECT = Path("project")


def target(path: str, digest: str) -> Target:
    return Target(path=path, digest_before="absent", digest_after=digest)


def changed(path: str, digest: str) -> ChangedFile:
    return ChangedFile(path=path, after=FileState(digest=digest))


def test_a_write_that_goes_on_during_a_command_belongs_to_its_own_session() -> None:
    writes = FileToolWrites()
    with writes.announced("other", PROJECT, [target("a.txt", "1")]):
        mark = writes.now()
        assert writes.by_others("own", mark, PROJECT, [changed("a.txt", "1"), changed("b.txt", "1")]) == {"a.txt"}
    assert writes.by_others("own", mark, PROJECT, [changed("a.txt", "1")]) == {"a.txt"}


def test_a_write_that_ended_before_the_command_is_not_meant() -> None:
    writes = FileToolWrites()
    with writes.announced("other", PROJECT, [target("a.txt", "1")]):
        pass
    assert writes.by_others("own", writes.now(), PROJECT, [changed("a.txt", "1")]) == set()


def test_a_file_that_the_command_changed_after_the_write_stays_with_the_command() -> None:
    writes, mark = FileToolWrites(), 0
    with writes.announced("other", PROJECT, [target("a.txt", "1")]):
        pass
    assert writes.by_others("own", mark, PROJECT, [changed("a.txt", "2")]) == set()


def test_a_write_of_the_same_session_is_not_left_out() -> None:
    writes = FileToolWrites()
    with writes.announced("own", PROJECT, [target("a.txt", "1")]):
        assert writes.by_others("own", 0, PROJECT, [changed("a.txt", "1")]) == set()
