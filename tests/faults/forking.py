"""What happens to a store when its process forks; run in a process of its own, because forking is all it does.

    python -m tests.faults.forking STORE PLACE FOLDER

Prints a JSON object of facts.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from outlast.core.errors import OutlastError
from outlast.store import open_store
from outlast.store.log_store import LogStore
from outlast.store.port import Write
from tests.faults.kernel import locks_of
from tests.faults.stores import url_in
from tests.faults.witness import Try, new_id, writes_of


class Facts(msgspec.Struct, kw_only=True):
    read_in_child: str = ""
    commit_in_child: str = ""
    opened_again_in_child: str = ""
    child_ended: int = -1
    parent_seq: int = 0
    locks_kept: bool = False
    gate_is_free: bool = False


def said_by(action: Callable[[], object]) -> str:
    try:
        action()
    except OutlastError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


class Forked:
    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._answers, self._session_id = url, folder / "answers", new_id()
        self.facts = Facts()

    def run(self) -> Facts:
        store = open_store(self._url)
        store.commit(*writes_of(Try(mark="a", kind="create", session_id=self._session_id)))
        store.read(self._session_id)
        before = locks_of(os.getpid())
        pid = os.fork()
        if pid == 0:
            self._child(store)
            sys.exit(0)  # as a child would that knows nothing: everything is collected and closed
        self.facts.child_ended = os.waitpid(pid, 0)[1]
        ended = self.facts.child_ended
        self.facts = msgspec.json.decode(self._answers.read_bytes(), type=Facts)
        self.facts.child_ended = ended
        self.facts.parent_seq = store.commit(*self._append("b"))[0].seq
        store.read(self._session_id)
        # The same locks again, though perhaps on a new -shm file: the child's may have been the last connection.
        self.facts.locks_kept = [held[2:] for held in locks_of(os.getpid())] == [held[2:] for held in before]
        store.close()
        self._killed_beside_a_child()
        return self.facts

    def _append(self, mark: str) -> tuple[Write, ...]:
        return writes_of(Try(mark=mark, kind="append", session_id=self._session_id))

    def _child(self, store: LogStore) -> None:
        facts = Facts(read_in_child=said_by(lambda: store.read(self._session_id)))
        facts.commit_in_child = said_by(lambda: store.commit(*self._append("never")))
        facts.opened_again_in_child = said_by(lambda: open_store(self._url).commit(*self._append("child")))
        store.close()
        self._answers.write_bytes(msgspec.json.encode(facts))

    def _killed_beside_a_child(self) -> None:
        """A process forks in the middle of a commit and is killed; its child lives on and must not be in the way."""
        ready = self._answers.with_name("ready")
        middle = os.fork()
        if middle == 0:
            os.setpgid(0, 0)
            store = open_store(self._url)
            database = getattr(store, "_database", None)

            def fork_and_sleep() -> None:
                if os.fork():
                    ready.touch()
                time.sleep(30)
                os._exit(0)

            if database is not None:
                database.gate.pass_through(fork_and_sleep)
            fork_and_sleep()
        while not ready.exists():
            time.sleep(0.002)
        os.kill(middle, signal.SIGKILL)
        os.waitpid(middle, 0)
        with open_store(self._url) as store:
            began = time.monotonic()
            store.commit(*self._append("c"))
            self.facts.gate_is_free = time.monotonic() - began < 5
        os.killpg(middle, signal.SIGKILL)


if __name__ == "__main__":
    here = Path(sys.argv[3])
    os.write(1, msgspec.json.encode(Forked(url_in(sys.argv[1], sys.argv[2], here), here).run()))
