"""Disks that fail, as SQLite VFSes around the real one: `Recorder` remembers what was synced, `Faulty` says no.

`Recorder` keeps the order of every write, sync, truncation and deletion. `survivors` then answers what a disk may hold
after the power went at any point of it: all that was synced, and of the rest any subset of 512-byte sectors, the last
ones perhaps torn. A sync that failed is worse than none, as on Linux: its pages count as clean from then on, so what
they held is on the disk only after it was written once more. The shared-memory file is no part of all this: it does not
outlive the power.
"""

import random
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from outlast.store.sqlite import setup

SECTOR = 512
PAGE = 4096


@contextmanager
def disk(vfs: apsw.VFS, name: str) -> Generator[None]:
    """Every connection of the SQLite store goes through this VFS meanwhile."""
    setup.VFS_NAME = name
    try:
        yield
    finally:
        setup.VFS_NAME = None
        vfs.unregister()


class Done(NamedTuple):
    """What happened to a file: write, sync, failed (sync), truncate, delete; or (no file) a note that was made."""

    what: str
    name: str = ""
    offset: int = 0
    data: bytes = b""


class _RecordedFile(apsw.VFSFile):
    def __init__(self, disk: "Recorder", name: str, filename: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__("", filename, flags)
        self._disk, self._name = disk, name

    def xWrite(self, data: Any, offset: int) -> None:
        self._disk.trace.append(Done("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        if self._disk.sync_fails():
            self._disk.trace.append(Done("failed", self._name))
            raise apsw.IOError("the disk said no")
        super().xSync(flags)
        self._disk.trace.append(Done("sync", self._name))

    def xTruncate(self, newsize: int) -> None:
        self._disk.trace.append(Done("truncate", self._name, newsize))
        super().xTruncate(newsize)


class Recorder(apsw.VFS):
    """The real disk, and what was done to it in which order. `sync_fails` decides each sync."""

    def __init__(self, name: str, sync_fails: Callable[[], bool] = lambda: False) -> None:
        super().__init__(name, "")
        self.trace: list[Done] = []
        self.sync_fails = sync_fails

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        assert name is not None, "the store keeps temporary tables in memory"
        text = name.filename() if isinstance(name, apsw.URIFilename) else name
        return _RecordedFile(self, Path(text).name, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.trace.append(Done("delete", Path(filename).name))

    def note(self, data: bytes) -> None:
        self.trace.append(Done("note", data=data))


class _Survivor:
    """One file: the bytes that are safe, what was done since the last sync, and what a program sees of it all."""

    def __init__(self) -> None:
        self.safe: bytearray | None = None
        self.since: list[Done] = []
        self.seen: bytearray | None = None
        self.forgotten: set[int] = set()  # pages that count as clean, although the disk never got them

    def add(self, done: Done) -> None:
        if done.what == "sync":
            for outstanding in self.since:
                self.safe = _applied(self.safe, outstanding)
            self.since = []
        elif done.what == "failed":
            self.forgotten |= {page for outstanding in self.since for page in _pages(outstanding)}
            self.since = [outstanding for outstanding in self.since if outstanding.what != "write"]
        else:
            self.seen = _applied(self.seen, done)
            self.since.append(done)
            if done.what == "write":
                self._remember(_pages(done))
            else:
                self.forgotten = {page for page in self.forgotten if page * PAGE < len(self.seen or b"")}

    def _remember(self, touched: range) -> None:
        """A page that is written to is dirty as a whole, also the part of it that was forgotten."""
        for page in self.forgotten.intersection(touched):
            self.forgotten.remove(page)
            if self.seen is not None:
                data = bytes(self.seen[page * PAGE : (page + 1) * PAGE])
                self.since.append(Done("write", offset=page * PAGE, data=data))

    @property
    def is_new(self) -> bool:
        return self.safe is None or any(done.what == "delete" for done in self.since)

    def folder_synced(self) -> None:
        """A deletion that was not yet safe is safe now."""
        for number in range(len(self.since), 0, -1):
            if self.since[number - 1].what == "delete":
                self.safe, self.since = None, self.since[number:]
                return

    def cut(self, chance: random.Random) -> bytearray | None:
        """What is left when the power goes: sectors come through singly, in any order, some of them torn."""
        likely = chance.choice((0.0, 0.3, 0.7, 1.0))
        content = None if self.safe is None else bytearray(self.safe)
        for piece in (piece for done in self.since for piece in _sectors(done)):
            if chance.random() < likely:
                torn = piece.what == "write" and chance.random() < 0.1
                content = _applied(content, piece._replace(data=_torn(piece.data, chance)) if torn else piece)
            elif piece.what == "delete":
                break  # the old file is still under this name, so the next one of that name never was
        return content


def _pages(done: Done) -> range:
    return range(done.offset // PAGE, (done.offset + max(len(done.data), 1) - 1) // PAGE + 1)


def _sectors(done: Done) -> Iterator[Done]:
    if done.what != "write":
        yield done
        return
    at = done.offset
    end = done.offset + len(done.data)
    while at < end:
        upto = min(end, (at // SECTOR + 1) * SECTOR)
        yield done._replace(offset=at, data=done.data[at - done.offset : upto - done.offset])
        at = upto


def _torn(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _applied(content: bytearray | None, done: Done) -> bytearray | None:
    if done.what == "delete":
        return None
    content = bytearray() if content is None else content
    if done.what == "truncate":
        del content[done.offset :]
    elif done.what == "write":
        if len(content) < done.offset:
            content.extend(bytes(done.offset - len(content)))
        content[done.offset : done.offset + len(done.data)] = done.data
    return content


def survivors(
    trace: list[Done], cuts: list[int], chance: random.Random
) -> Iterator[tuple[dict[str, bytes], list[bytes]]]:
    """For a power cut before each of these operations: the files that may be found, and the notes made by then."""
    files: dict[str, _Survivor] = {}
    notes: list[bytes] = []
    done = 0
    for at in sorted(cuts):
        for operation in trace[done:at]:
            if operation.what == "note":
                notes.append(operation.data)
            else:
                file = files.setdefault(operation.name, _Survivor())
                if operation.what == "sync" and file.is_new:  # SQLite then syncs the folder too
                    for other in files.values():
                        other.folder_synced()
                file.add(operation)
        done = at
        left = {name: file.cut(chance) for name, file in files.items()}
        yield {name: bytes(content) for name, content in left.items() if content is not None}, list(notes)


# --- a disk that says no --------------------------------------------------------------------------------------------


class _FaultyFile(apsw.VFSFile):
    def __init__(self, ask: Callable[[str], None], filename: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__("", filename, flags)
        self._ask = ask

    def xWrite(self, data: Any, offset: int) -> None:
        self._ask("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._ask("sync")
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:
        self._ask("truncate")
        super().xTruncate(newsize)


class Faulty(apsw.VFS):
    """Fails the n-th of some operations, that one only or all from there on, until it is mended."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self._operations: frozenset[str] = frozenset()
        self._error: Callable[[], Exception] = apsw.IOError
        self._countdown, self._for_good, self.failures = 0, False, 0

    def fail(self, operations: str, error: Callable[[], Exception], *, at: int, for_good: bool) -> None:
        self._operations, self._error = frozenset(operations.split()), error
        self._countdown, self._for_good, self.failures = at, for_good, 0

    def mend(self) -> None:
        self._countdown = 0

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        assert name is not None, "the store keeps temporary tables in memory"
        return _FaultyFile(self._ask, name, flags)

    def _ask(self, operation: str) -> None:
        if self._countdown <= 0 or operation not in self._operations:
            return
        self._countdown -= 1
        if self._countdown == 0:
            self.failures += 1
            self._countdown = 1 if self._for_good else 0
            raise self._error()
