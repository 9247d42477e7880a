"""Search and indexing take bounded memory, however long a message is: measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MOST_MB = 64
CHILD = """
import json, random, sys
from contextlib import closing
from outlast.app.sessions.search import search
from outlast.core.messages import Message, Role
from outlast.session import ConversationSession
from outlast.store import open_store

def peak():
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024

url, size = sys.argv[1], int(sys.argv[2]) * 2**20
with closing(open_store(url)) as store:
    if sys.argv[3] == "write" or url == "memory://":
        dice = random.Random(3)
        words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(2, 9))) for _ in range(5000)]
        text = " ".join(dice.choices(words, k=size // 6))[: size - 20] + " The NeeDle"
        ConversationSession(store=store).append(Message(role=Role.USER, content=text))
        del text
    if sys.argv[3] == "search":
        open("/proc/self/clear_refs", "w").write("5")
        idle = peak()
        page = search(store, "nEEdle", wait=None)
        matches = [hit.snippet.match for hit in page.hits]
        print(json.dumps([peak() - idle, matches, page.indexed.events, page.indexed.of]))
"""


def run_child(url: str, size: int, step: str) -> str:
    words = [sys.executable, "-c", CHILD, url, str(size), step]
    return subprocess.run(words, capture_output=True, text=True, timeout=1800, check=True).stdout


@pytest.mark.parametrize("kind", ["sqlite", "files", "postgres", "memory"])
@pytest.mark.parametrize("size", [16, pytest.param(64, marks=pytest.mark.soak)])
def test_a_long_message_is_searched_in_bounded_memory(
    kind: str, size: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    urls = {"sqlite": f"sqlite:///{tmp_path}/s.db", "files": f"files:///{tmp_path}/files", "memory": "memory://"}
    url = urls.get(kind) or request.getfixturevalue("pg_url")
    if kind != "memory":
        run_child(url, size, "write")
    above, found, events, of = json.loads(run_child(url, size, "search"))
    assert (found, events, of) == (["NeeDle"], 2, 2)
    assert above <= MOST_MB
