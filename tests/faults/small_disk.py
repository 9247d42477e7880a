"""A store on a real file system of 3 MiB, in a mount namespace of its own: filled up, freed, made read-only and back.

    unshare --mount python -m tests.faults.small_disk STORE FOLDER

Prints a JSON list of what went wrong.
"""

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from outlast.core.errors import OutcomeUnknown, OutlastError, StoreUnavailable
from outlast.store import open_store
from outlast.store.log_store import LogStore
from tests.faults.stores import url_in
from tests.faults.witness import Ack, Note, Try, new_id, problems, writes_of

ENOUGH = 20_000


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


class Tiny:
    def __init__(self, kind: str, folder: Path) -> None:
        self.folder, self.url = folder, url_in(kind, "", folder)
        self.notes: list[Note] = []
        self.session_id = new_id()
        self.wrong: list[str] = []

    def run(self) -> list[str]:
        mount("-t", "tmpfs", "-o", "size=3m", "tmpfs", str(self.folder))
        ballast = self.folder / "ballast"
        ballast.write_bytes(bytes(1024 * 1024))
        self.fill(ballast)
        self.read_only()
        with open_store(self.url) as store:
            self.wrong += problems(store, self.notes)
        return self.wrong

    def fill(self, ballast: Path) -> None:
        with open_store(self.url) as store:
            self.put(store, Try(mark="first", kind="create", session_id=self.session_id))
            failed: list[Try] = []
            for number in range(ENOUGH):
                key = f"k{number}"
                tried = Try(mark=f"m{number}", kind="append", session_id=self.session_id, key=key, size=3_000)
                try:
                    self.put(store, tried)
                except (OutcomeUnknown, StoreUnavailable) as error:
                    failed.append(tried)
                    if len(failed) == 5:
                        self.expect("full" in str(error) or "No space" in str(error), f"it does not say full: {error}")
                        break
            self.expect(len(failed) == 5, "the disk was never full")
            self.expect(len(store.read(self.session_id)) >= len(self.notes), "what was acknowledged cannot be read")
            ballast.unlink()
            for tried in failed:
                self.put(store, tried)
            self.wrong += problems(store, self.notes)

    def read_only(self) -> None:
        mount("-o", "remount,ro", str(self.folder))
        try:
            with open_store(self.url) as store:
                tried = Try(mark="never", kind="append", session_id=self.session_id)
                self.expect(len(store.read(self.session_id)) >= len(self.notes), "it cannot be read")
                store.commit(*writes_of(tried))
            self.wrong.append("a read-only disk was written to")
        except OutlastError as error:
            self.expect("ermission" in str(error) or "ead-only" in str(error), f"it does not say why: {error}")
        mount("-o", "remount,rw", str(self.folder))

    def put(self, store: LogStore, tried: Try) -> None:
        [receipt] = store.commit(*writes_of(tried))
        first = receipt.seq - tried.count + 1
        self.notes.append(Ack(mark=tried.mark, session_id=self.session_id, first_seq=first, seq=receipt.seq))

    def expect(self, fact: bool, otherwise: str) -> None:
        self.wrong += [] if fact else [otherwise]


if __name__ == "__main__":
    os.write(1, msgspec.json.encode(Tiny(sys.argv[1], Path(sys.argv[2])).run()))
