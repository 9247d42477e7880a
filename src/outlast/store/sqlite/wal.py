"""Examines a write-ahead log (WAL) on disk: how much of it SQLite would recover, and what comes after that.

Recovery silently stops at the first frame that does not verify. If later frames of the same WAL still verify against
each other, the WAL was damaged in the middle, and the next open of the database drops acknowledged commits. So examine
it *before* opening. Must only run in a process that has no connection to the database: closing any descriptor of it
would drop that process's locks.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from outlast.core.errors import StoreUnavailable

EXAMINE = (
    "import sys, pathlib, msgspec; from outlast.store.sqlite.wal import examine; "
    "sys.stdout.buffer.write(msgspec.json.encode(examine(pathlib.Path(sys.argv[1]))))"
)
HEADER, FRAME = 32, 24
MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
"""Byte order of the checksums, by the magic number at the start of the file."""

Sums = tuple[int, int]


class Wal(msgspec.Struct, frozen=True, kw_only=True):
    """Frame counts of a WAL. `recovered` frames end with a commit and survive; `open` ones are intact but uncommitted.

    After the first frame that does not verify, `beyond` frames still verify; `lost_commits` of them are commits.
    """

    size: int
    frames: int = 0
    recovered: int = 0
    open: int = 0
    beyond: int = 0
    lost_commits: int = 0


class _Frame(NamedTuple):
    commits: bool
    same_log: bool
    sums: Sums
    summed: bytes


def examine(path: Path) -> Wal:
    """Examine the WAL at this path; a missing file counts as empty."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return _read(file, size)
    except FileNotFoundError:
        return Wal(size=0)


def examine_elsewhere(path: Path) -> Wal:
    """Run `examine` in a child process without connections. Raises `StoreUnavailable` if the WAL cannot be read."""
    words = [sys.executable, "-c", EXAMINE, str(path)]
    done = subprocess.run(words, capture_output=True, check=False, timeout=300)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise StoreUnavailable(f"{path} cannot be read ({' '.join(said)}); check its owner and permissions")
    return msgspec.json.decode(done.stdout, type=Wal)


def _read(file: BinaryIO, size: int) -> Wal:
    head = file.read(HEADER)
    if len(head) < HEADER:
        return Wal(size=size)
    magic, _, page_size, _, *salts, first, second = struct.unpack(">8I", head)
    order = MAGIC.get(magic)
    if order is None or _sums(order, head[:24], (0, 0)) != (first, second):
        return Wal(size=size)  # SQLite treats a WAL with an invalid header as empty
    page_size = 65_536 if page_size == 1 else page_size
    frames = recovered = intact = beyond = lost = 0
    previous, broken = (first, second), False
    while len(data := file.read(FRAME + page_size)) == FRAME + page_size:
        frames += 1
        frame = _frame(data, tuple(salts))
        if not frame.same_log:
            break
        verifies = _sums(order, frame.summed, previous) == frame.sums
        broken = broken or not verifies
        if not broken:
            intact += 1
            recovered = intact if frame.commits else recovered
        elif verifies:
            beyond += 1
            lost += frame.commits
        previous = frame.sums
    return Wal(size=size, frames=frames, recovered=recovered, open=intact - recovered, beyond=beyond, lost_commits=lost)


def recovered_pages(path: Path, page_size: int) -> dict[int, bytes]:
    """Return the newest committed version of each page that recovery would take from the WAL.

    Empty if the WAL has another page size than the database.
    """
    found: dict[int, bytes] = {}
    waiting: dict[int, bytes] = {}
    try:
        with path.open("rb") as file:
            head = file.read(HEADER)
            if len(head) < HEADER:
                return {}
            magic, _, size, _, *salts, first, second = struct.unpack(">8I", head)
            order = MAGIC.get(magic)
            if order is None or _sums(order, head[:24], (0, 0)) != (first, second) or size != page_size:
                return {}
            previous = (first, second)
            while len(data := file.read(FRAME + page_size)) == FRAME + page_size:
                frame = _frame(data, tuple(salts))
                if not frame.same_log or _sums(order, frame.summed, previous) != frame.sums:
                    break
                previous = frame.sums
                waiting[int.from_bytes(data[:4], "big")] = data[FRAME:]
                if frame.commits:
                    found |= waiting
                    waiting.clear()
    except OSError:
        return found
    return found


def _frame(data: bytes, salts: tuple[int, ...]) -> _Frame:
    _, pages, one, two, first, second = struct.unpack(">6I", data[:FRAME])
    return _Frame(pages > 0, (one, two) == salts, (first, second), data[:8] + data[FRAME:])


def _sums(order: str, data: bytes, seed: Sums) -> Sums:
    one, two = seed
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = one + even + two & 0xFFFFFFFF
        two = two + odd + one & 0xFFFFFFFF
    return one, two
