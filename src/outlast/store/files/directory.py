"""One directory in this process, however many stores are open on it: its lock, its sessions, its notes.

A commit holds the lock while it is decided and written; its sync comes after that, so the processes that share the
directory wait for each other's writes and not for each other's disk. Readers need the lock only for a session that
another process may have changed.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from outlast.core.errors import StoreUnavailable
from outlast.store.files import disk, lock, redo_record, setup
from outlast.store.files.header_cache import CachedHeader, HeaderCache
from outlast.store.files.keys import KeyScope
from outlast.store.files.lock import LOCK_SECONDS, NO_REDO, DirectoryLock, LockOwner, counts, unfinished
from outlast.store.files.paths import SessionPaths
from outlast.store.files.rollback_guard import KnownHeads
from outlast.store.files.session import SessionCapture, SessionFiles

MOST_OPEN = 160
LEFTOVER_SECONDS = 3600
STEADY_TRIES = 3

Looked = TypeVar("Looked")
_folders: dict[Path, StoreDirectory] = {}
_mutex = threading.Lock()


def sessions_open() -> int:
    """How many sessions may be kept open: a part of the files that this process may have open at all, which are few on
    some systems (256 on macOS)."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OPEN if most == resource.RLIM_INFINITY else max(8, min(MOST_OPEN, most // 8))


class StoreDirectory:
    """Use `shared`; the constructor opens, checks and finishes what a dead process left. `read_only` is for processes
    that may not write: nothing is created, finished or noted."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.most_open = sessions_open()
        self.users = 0
        self.forked = False
        self.commits = 0
        self.writing = threading.RLock()
        self.index = HeaderCache(path)
        self.heads = KnownHeads()
        self.changing: frozenset[str] = frozenset()
        """The sessions whose files a commit of this process is changing."""
        self._mutex = threading.Lock()
        self._sessions: OrderedDict[str, SessionFiles] = OrderedDict()
        self._in_use: dict[str, int] = {}
        self._scopes: OrderedDict[str, KeyScope] = OrderedDict()
        self._lock = DirectoryLock(path / lock.NAME, LOCK_SECONDS)
        self._mark = b""
        self._redo = NO_REDO
        self._commits = self._several = 0
        self._run = 0
        """Which unbroken run of this process's own commits this is: another one begins behind a foreign commit."""
        if read_only:
            setup.check(path)
        else:
            setup.prepare(path)
        try:
            self._inode = os.stat(path).st_ino
            if not read_only:
                self._lock.open()
                self._finish_all()
        except OSError as error:
            raise disk.translation(error, path) from error

    @classmethod
    def shared(cls, path: Path) -> StoreDirectory:
        real = path.resolve()
        with _mutex:
            folder = _folders.get(real)
            if folder is None:
                folder = _folders[real] = cls(real)
            folder.users += 1
            return folder

    def let_go(self) -> None:
        if self.forked:
            return
        with _mutex:
            self.users -= 1
            if self.users > 0:
                return
            if _folders.get(self.path) is self:
                del _folders[self.path]
        with self.writing:
            self.note_all()
            self._close_files()

    def _close_files(self) -> None:
        with self._mutex:
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()
            self._scopes.clear()
            self._lock.close()

    def abandon(self) -> None:
        """After a fork, in the child: close the parent's files without waiting for any thread."""
        self.forked = True
        for session in self._sessions.values():
            if session.fd >= 0:
                os.close(session.fd)
        self._lock.close()

    # --- the lock

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """This process writes, one thread at a time. What a dead process left unfinished is done first."""
        with self.writing:
            self.enter()
            try:
                yield
            finally:
                self.leave()

    def enter(self) -> None:
        """`exclusive` until `leave`; `writing` is held."""
        found = self._lock.enter()
        try:
            if found == self._mark and self._redo == NO_REDO:
                self._announce()
                return
            self._run += 1
            self._commits, self._several = counts(found)
            left = unfinished(found)
            self._announce(left or NO_REDO)
            if left is not None:
                self.check_in_place()
                self._carry_out(left)
        except BaseException:
            self._lock.leave()
            raise

    def leave(self) -> None:
        self._lock.leave()

    def _announce(self, redo: str = NO_REDO) -> None:
        """Sign the lock, before anything is written: whoever polls looks, and looking waits for the lock."""
        self._commits += 1
        self._redo = redo
        self._mark = LockOwner.mark(self._commits, self._several, redo)
        self._lock.sign(self._mark)

    def begin(self, redo: str) -> None:
        """Note in the lock that this commit over several files may have to be finished."""
        self._several += 1
        self._announce(redo)

    def finished(self) -> None:
        self._announce()

    def _carry_out(self, redo: str) -> None:
        """Finish what a dead process wrote down and did not do; the lock is held."""
        record = redo_record.load(self.path, redo)
        if record is not None:
            redo_record.carry_out(self.path, record, self.index)
        self._run += 1
        self.finished()

    def _finish_all(self) -> None:
        if redo_record.outstanding(self.path):
            with self.exclusive():  # and with the lock no live process has one
                for left in redo_record.outstanding(self.path):
                    self._carry_out(left)
        for name in os.listdir(self.path / redo_record.FOLDER):
            path = self.path / redo_record.FOLDER / name
            try:
                if not name.endswith(".json") and time.time() - path.lstat().st_mtime > LEFTOVER_SECONDS:
                    disk.unlink(path)
            except FileNotFoundError:
                continue

    @contextmanager
    def quiet(self) -> Generator[bytes]:
        """No process writes meanwhile, and no commit is unfinished. Yields the last writer's mark."""
        if self.read_only:
            with self._lock.shared_if_there():
                yield b""
            return
        while True:
            with self._lock.shared() as mark:
                if unfinished(mark) is None:
                    yield mark
                    return
            with self.exclusive():
                pass  # entering finishes it

    def steadily(self, look: Callable[[], Looked]) -> Looked:
        """What `look` returns, if no commit over several files happened meanwhile; it is called again otherwise."""
        if not self.read_only:
            for _ in range(STEADY_TRIES):
                before = self._lock.peek()
                if unfinished(before) is not None:
                    with self.quiet() as before:
                        pass
                found = look()
                if counts(self._lock.peek())[1] == counts(before)[1]:
                    return found
        with self.quiet():
            return look()

    def look(self) -> bytes:
        """A token that changes with every commit of any process; without meaning if this process may not write."""
        return b"" if self.read_only else self._lock.peek()

    def check_in_place(self) -> None:
        """Refuse to write into a directory that is not under its name any more."""
        try:
            same = os.stat(self.path).st_ino == self._inode
        except OSError:
            same = False
        if not same:
            raise StoreUnavailable(
                f"{self.path} was moved, deleted or replaced while it was open; "
                "close this process and open the store again"
            )

    # --- sessions

    @contextmanager
    def using(self, session_id: str) -> Generator[SessionFiles]:
        """The one object for a session; its file stays open while it is used, and some time longer."""
        session = self.take(session_id)
        try:
            yield session
        finally:
            self.give_back(session_id)

    def take(self, session_id: str) -> SessionFiles:
        with self._mutex:
            session = self._sessions.get(session_id)
            if session is None:
                place = SessionPaths(self.path, session_id)
                session = SessionFiles(place, self.index, self.heads, read_only=self.read_only)
                self._sessions[session_id] = session
                self._make_room()
            else:
                self._sessions.move_to_end(session_id)
            self._in_use[session_id] = self._in_use.get(session_id, 0) + 1
            return session

    def give_back(self, session_id: str) -> None:
        with self._mutex:
            users = self._in_use.pop(session_id) - 1
            if users:
                self._in_use[session_id] = users

    def _make_room(self) -> None:
        for session_id in list(self._sessions):
            if len(self._sessions) <= self.most_open:
                return
            if session_id not in self._in_use:
                session = self._sessions.pop(session_id)
                self.note([session])
                session.close()

    def current(self, session: SessionFiles) -> None:
        """Bring what is known of a session up to date; the lock is held for writing."""
        with session.mutex:
            if session.seen != self._run or not session.untouched():
                self.check_in_place()
                session.refresh(exclusive=True)
                session.seen = self._run

    def scope(self, name: str) -> KeyScope:
        """The keys of a scope, up to date; the lock is held for writing."""
        scope = self._scopes.get(name)
        if scope is None:
            if len(self._scopes) >= self.most_open:
                self._scopes.popitem(last=False)
            scope = self._scopes[name] = KeyScope(self.path, name)
        scope.refresh()
        return scope

    def capture(self, session_id: str, *, sync: bool = True) -> SessionCapture:
        """A session as of now; waits for a commit that is being written. With `sync`, what it holds is durable."""
        with self.using(session_id) as session:
            if not self.read_only:
                seen = self._token(self._lock.peek())
                with session.mutex:
                    if session.seen == seen and session.in_place() and (session.synced or not sync):
                        return session.captured()
            with self.quiet() as mark, session.mutex:
                session.refresh(exclusive=False)
                session.seen = None if self.read_only else self._token(mark)
                capture = session.captured()
            if sync and not self.read_only:
                session.make_durable(capture)
            return capture

    def _token(self, mark: bytes) -> bytes | int:
        """What `SessionFiles.seen` must be for a session to be known as of this mark."""
        return self._run if mark == self._mark else mark

    # --- notes

    def note_all(self) -> None:
        """Leave notes of everything that changed in the index."""
        with self._mutex:
            sessions = list(self._sessions.values())
        self.note(sessions)

    def note(self, sessions: Iterable[SessionFiles]) -> None:
        """A disk that cannot take them loses nothing."""
        if self.read_only:
            return
        notes = [note for session in sessions if (note := self._note(session)) is not None]
        if notes:
            self.index.put(notes)

    def _note(self, session: SessionFiles) -> CachedHeader | None:
        with session.mutex, suppress(OSError):
            # What others have taken away since must not come back by a note.
            if session.seen is not None and session.untouched():
                return session.note(settled=session.seen == self._token(self._lock.peek()))
        return None


def _after_fork_in_child() -> None:
    """A child must not use its parent's files; closing them here frees no lock that the parent holds."""
    global _mutex
    _mutex = threading.Lock()  # another thread may have held it when the process was forked
    for folder in _folders.values():
        folder.abandon()
    _folders.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
