"""Several processes on one directory."""

import subprocess
import sys
from pathlib import Path

import pytest

from outlast.store.files import FilesStore
from outlast.store.port import Redact
from tests.conftest import ROOT
from tests.integration.files.builders import append, begin, texts

WRITER = """
import sys
from pathlib import Path
from outlast.store.files import FilesStore
from tests.integration.files.builders import append
with FilesStore(Path(sys.argv[1]), rotate_after_bytes=int(sys.argv[4])) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(int(sys.argv[5])):
        print(append(store, sys.argv[2], f"{sys.argv[3]} {n}", key=f"{sys.argv[3]} {n}"), flush=True)
"""


def writer(folder: Path, session_id: str, name: str, rotate: int, count: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", WRITER, str(folder), session_id, name, str(rotate), str(count)]
    process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("rotate", [1_000, 10**9])
def test_processes_that_append_to_one_session_leave_no_gap_and_lose_nothing(folder: Path, rotate: int) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store)
    writers = [writer(folder, session_id, name, rotate, 60) for name in "abc"]
    acknowledged: list[int] = []
    for one in writers:
        assert one.stdin is not None
        one.stdin.write(b"go\n")
        one.stdin.flush()
    with FilesStore(folder, rotate_after_bytes=rotate) as store:
        for n in range(60):
            acknowledged.append(append(store, session_id, f"here {n}"))
        for one in writers:
            acknowledged += map(int, one.communicate()[0].split())
            assert one.returncode == 0
        assert sorted(acknowledged) == list(range(2, 242))
        said = texts(store, session_id)
    assert len(said) == 240
    for name in ("a", "b", "c", "here"):
        assert [text for text in said if text.startswith(f"{name} ")] == [f"{name} {n}" for n in range(60)]


def test_a_process_sees_what_another_sealed_and_redacted(folder: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from outlast.store.files import FilesStore\n"
        "from outlast.store.port import Redact\n"
        "with FilesStore(Path(sys.argv[1]), rotate_after_bytes=1) as store:\n"
        "    store.commit(Redact(session_id=sys.argv[2], seq=2, actor='user'))\n"
    )
    with FilesStore(folder, rotate_after_bytes=300) as store:
        session_id = begin(store, "swordfish", "two", "three")
        assert store.head(session_id).title == "swordfish"
        subprocess.run([sys.executable, "-c", program, str(folder), session_id], cwd=ROOT, check=True)
        assert store.head(session_id).title == "[redacted]"
        assert texts(store, session_id) == ["two", "three"]
        append(store, session_id, "four")
        store.commit(Redact(session_id=session_id, seq=3, actor="user"))
        assert texts(store, session_id) == ["three", "four"]
        assert [row.seq for row in store.read(session_id)] == list(range(1, 8))
    left = [path.name for path in folder.rglob("*") if path.is_file() and b"swordfish" in path.read_bytes()]
    assert left == []
