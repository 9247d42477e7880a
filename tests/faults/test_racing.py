"""Many processes that open a store which does not exist yet, at the same moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = 20
PROGRAM = """
import multiprocessing, sys
from outlast import ConversationSession, Message, Role, open_store

def child(url, start, told):
    start.wait()
    try:
        with open_store(url) as store:
            session = ConversationSession(store=store)
            for number in range(3):
                session.append(Message(role=Role.USER, content=str(number)))
        told.put(None)
    except BaseException as error:
        told.put(repr(error))

context = multiprocessing.get_context("fork")
for number in range(int(sys.argv[2])):
    start, told = context.Barrier(4), context.SimpleQueue()
    url = f"{sys.argv[1]}{number}"
    children = [context.Process(target=child, args=(url, start, told)) for _ in range(4)]
    for process in children:
        process.start()
    for _ in children:
        error = told.get()
        if error:
            print(number, error)
    for process in children:
        process.join()
    with open_store(url) as store:
        found = [len(ConversationSession.load(session_id=h.session_id, store=store).history())
                 for h in ConversationSession.list(store=store)]
    if found != [3, 3, 3, 3]:
        print(number, found)
"""


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_four_processes_that_make_a_store_at_once_all_get_it(kind: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", PROGRAM, f"{kind}:///{tmp_path}/new", str(ROUNDS)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.returncode) == ("", 0), done.stdout + done.stderr
