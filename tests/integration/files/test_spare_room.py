"""A busy live file is filled up with newlines, over which the next lines are written: nobody else may notice."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.errors import DamagedSession
from holdfast.store.files import FilesStore
from holdfast.store.port import Query
from tests.conftest import ROOT
from tests.integration.files.builders import append, begin, live, texts, without_cache

SECTOR = 512


def busy(store: FilesStore) -> str:
    return begin(store, *(f"{n} " * 100 for n in range(40)))


def test_a_busy_file_has_room_and_a_closed_one_has_none(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = busy(store)
        data = live(folder, session_id).read_bytes()
        assert data.endswith(b"\n" * 100)
        size = len(data)
        append(store, session_id, "over the newlines")
        assert len(live(folder, session_id).read_bytes()) == size
    data = live(folder, session_id).read_bytes()
    assert data.endswith(b"}\n")
    assert not data.endswith(b"\n\n")


def test_a_store_that_was_killed_leaves_room_that_the_next_one_uses(folder: Path, memory: Path) -> None:
    with FilesStore(folder) as store:
        session_id = busy(store)
        shutil.copytree(folder, memory / "killed")
    for cached in (True, False):
        if not cached:
            without_cache(memory / "killed")
        with FilesStore(memory / "killed") as store:
            said = texts(store, session_id)
            assert store.find(Query()).damaged == []
            append(store, session_id, "next")
            assert texts(store, session_id) == [*said, "next"]
    assert not list((memory / "killed").glob("*.torn.*"))


def torn_lines(chance: random.Random, spare: bytes, line: bytes, start: int) -> list[bytes]:
    """What may stand there when the power goes while `line` is written over newlines at `start`: any of its sectors."""
    found: list[bytes] = []
    for _ in range(60):
        data = bytearray(spare)
        first, last = start // SECTOR, (start + len(line) - 1) // SECTOR
        for sector in range(first, last + 1):
            if chance.random() < 0.5:
                low, high = max(start, sector * SECTOR), min(start + len(line), (sector + 1) * SECTOR)
                data[low:high] = line[low - start : high - start]
        found.append(bytes(data))
    return found


def test_a_line_of_which_only_some_sectors_arrived_is_whole_or_torn_and_never_damage(folder: Path) -> None:
    chance = random.Random(3)
    with FilesStore(folder) as store:
        session_id = busy(store)
        spare = live(folder, session_id).read_bytes()
        start = len(spare.rstrip(b"\n")) + 1
        before = texts(store, session_id)
        append(store, session_id, "torn " * 300)
        line = live(folder, session_id).read_bytes().rstrip(b"\n")[start:] + b"\n"
    for data in torn_lines(chance, spare, line, start):
        live(folder, session_id).write_bytes(data)
        without_cache(folder)
        with FilesStore(folder) as store:
            there = texts(store, session_id)
            assert there in (before, [*before, "torn " * 300])
            append(store, session_id, "next")
            assert texts(store, session_id) == [*there, "next"]


def test_a_flipped_bit_in_the_last_line_of_a_busy_file_is_damage(folder: Path, memory: Path) -> None:
    chance = random.Random(5)
    with FilesStore(folder) as store:
        session_id = busy(store)
        shutil.copytree(folder, memory / "killed")
    whole = live(memory / "killed", session_id).read_bytes()
    end = len(whole.rstrip(b"\n"))
    start = whole.rindex(b"\n", 0, end) + 1
    for _ in range(60):
        flipped = bytearray(whole)
        flipped[chance.randrange(start, end + 1)] ^= 1 << chance.randrange(8)
        live(memory / "killed", session_id).write_bytes(flipped)
        with FilesStore(memory / "killed") as store:
            with pytest.raises(DamagedSession):
                store.read(session_id)
            with pytest.raises(DamagedSession):
                append(store, session_id, "next")


def test_a_list_sees_lines_of_another_process_that_change_neither_size_nor_time(folder: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from holdfast.store.files import FilesStore\n"
        "from tests.integration.files.builders import append\n"
        "store = FilesStore(Path(sys.argv[1])); append(store, sys.argv[2], 'from elsewhere'); os._exit(0)\n"
    )
    with FilesStore(folder) as store:
        session_id = busy(store)
        [before] = store.find(Query()).headers
        found = live(folder, session_id).stat()
        subprocess.run([sys.executable, "-c", program, str(folder), session_id], cwd=ROOT, check=True)
        os.utime(live(folder, session_id), ns=(found.st_atime_ns, found.st_mtime_ns))
        assert live(folder, session_id).stat().st_size == found.st_size
        [after] = store.find(Query()).headers
        assert after.last_seq == before.last_seq + 1
        assert texts(store, session_id)[-1] == "from elsewhere"


def test_several_lines_at_once_are_not_written_over_newlines(folder: Path) -> None:
    """Else the second could be on the disk without the first, and would look like damage."""
    with FilesStore(folder) as store:
        session_id = busy(store)
        size = live(folder, session_id).stat().st_size
        append(store, session_id, "one", "two", "three")
        assert live(folder, session_id).stat().st_size != size
        assert texts(store, session_id)[-3:] == ["one", "two", "three"]
