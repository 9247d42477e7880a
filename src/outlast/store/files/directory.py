"""One directory in this process, however many stores are open on it: sessions, locks, unfinished commits."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections import OrderedDict
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from outlast.core.errors import StoreUnavailable
from outlast.core.ids import is_id
from outlast.store.files import disk, redo_record, setup
from outlast.store.files.change_counter import ChangeCounter
from outlast.store.files.header_cache import CachedHeader, HeaderCache
from outlast.store.files.lock import LOCK_SECONDS, LockOwner, SessionLock, unfinished
from outlast.store.files.paths import SessionPaths
from outlast.store.files.scoped_keys import KeyScope
from outlast.store.files.session import SessionCapture, SessionFiles

STORE = ""
"""The name of the lock over everything that is not one session's: taken first, by commits over several files."""

MOST_OPEN = 160
LEFTOVER_SECONDS = 3600

_folders: dict[Path, StoreDirectory] = {}
_mutex = threading.Lock()


def sessions_open() -> int:
    """How many sessions may be kept open, at two files each: a part of what this process may have open at all, which
    is little on some systems (256 on macOS)."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OPEN if most == resource.RLIM_INFINITY else max(8, min(MOST_OPEN, most // 8))


class StoreDirectory:
    """Use `shared`; the constructor opens, checks and finishes what a dead process left. `read_only` is for those who
    may not write: nothing is made, finished or noted."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.most_open = sessions_open()
        self.users = 0
        self.forked = False
        self.commits = 0
        self.writing = threading.RLock()
        self.index = HeaderCache(path)
        self._mutex = threading.Lock()
        self._sessions: OrderedDict[str, SessionFiles] = OrderedDict()
        self._in_use: dict[str, int] = {}
        self._scopes: OrderedDict[str, KeyScope] = OrderedDict()
        self.store_lock = SessionLock(path / "store.lock", LOCK_SECONDS)
        self.change_counter: ChangeCounter | None = None
        if read_only:
            setup.check(path)
        else:
            setup.prepare(path)
        try:
            self._inode = os.stat(path).st_ino
            if not read_only:
                self.change_counter = ChangeCounter(path / "pulse")
                self.store_lock.open(create=True)
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
            self.close_files()

    def close_files(self) -> None:
        with self._mutex:
            for session in self._sessions.values():
                session.close()
            for scope in self._scopes.values():
                scope.lock.close()
            self._sessions.clear()
            self._scopes.clear()
            self.store_lock.close()
            if self.change_counter is not None:
                self.change_counter.close()

    def abandon(self) -> None:
        """After a fork, in the child: let go of the parent's files without waiting for anybody."""
        self.forked = True
        locks = [self.store_lock, *(scope.lock for scope in self._scopes.values())]
        for session in self._sessions.values():
            locks.append(session.lock)
            if session.fd >= 0:
                os.close(session.fd)
        for lock in locks:
            lock.close()
        if self.change_counter is not None:
            self.change_counter.close()

    def beat(self) -> None:
        """Announce a commit to the other processes."""
        if self.change_counter is not None:
            self.change_counter.beat()

    def look(self) -> bytes:
        """Something that is another thing whenever somebody has committed; of no use to those who may not write."""
        return b"" if self.change_counter is None else self.change_counter.look()

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

    def exists(self, session_id: str) -> bool:
        return is_id(session_id) and (session_id in self._sessions or self._session(session_id).exists())

    def _session(self, session_id: str) -> SessionFiles:
        return SessionFiles(SessionPaths(self.path, session_id), self.index, read_only=self.read_only)

    @contextmanager
    def using(self, session_id: str) -> Generator[SessionFiles]:
        """The one object for a session; its files stay open while it is used, and some time longer."""
        session = self.take(session_id)
        try:
            yield session
        finally:
            self.give_back(session_id)

    def take(self, session_id: str) -> SessionFiles:
        with self._mutex:
            session = self._sessions.get(session_id)
            if session is None:
                session = self._sessions[session_id] = self._session(session_id)
                self._make_room()
            else:
                self._sessions.move_to_end(session_id)
            self._in_use[session_id] = self._in_use.get(session_id, 0) + 1
            return session

    def take_open(self, session_id: str) -> SessionFiles | None:
        """The same, if its files are open and known."""
        with self._mutex:
            session = self._sessions.get(session_id)
            if session is None or not session.loaded:
                return None
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

    def scope(self, name: str) -> KeyScope:
        scope = self._scopes.get(name)
        if scope is None:
            if len(self._scopes) >= self.most_open:
                self._scopes.popitem(last=False)[1].lock.close()
            scope = self._scopes[name] = KeyScope(self.path, name)
        return scope

    # --- reading

    def capture(self, session_id: str, *, sync: bool = True) -> SessionCapture:
        """A session as of now; waits for a commit that is being written."""
        with self.using(session_id) as session:
            if self.read_only:
                with session.mutex, session.lock.shared_if_there():
                    session.refresh(exclusive=False, sync=False)
                    return session.captured()
            with session.mutex:
                if not session.open_lock(create=False):
                    return SessionCapture(None)
                capture = session.capture()
            while capture is None:
                with session.lock.shared() as found:
                    left = unfinished(found)
                    if left is None:
                        with session.mutex:
                            session.refresh(exclusive=False, sync=sync)
                            return session.captured()
                self.finish(left, session_id)
            return capture

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """No commit over several sessions happens meanwhile."""
        if self.read_only:
            with self.store_lock.shared_if_there():
                yield
            return
        while True:
            with self.store_lock.shared() as found:
                left = unfinished(found)
                if left is None:
                    yield
                    return
            self.finish(left, STORE)

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
        notes: list[CachedHeader | None] = []
        for session in sessions:
            with session.mutex, suppress(OSError):
                # What others have written since is not ours to note.
                if session.loaded and session.lock.peek() == LockOwner.mark():
                    notes.append(session.note())
        if any(notes):
            self.index.put([note for note in notes if note is not None])

    # --- unfinished commits

    def finish(self, left: str, name: str) -> None:
        """Carry out what a dead process wrote down and did not do. `name` is the lock that told of it."""
        with self.writing, ExitStack() as stack:
            record = redo_record.load(self.path, left)
            names = {name, STORE, *record.locks} if record else {name}
            entered = [self._enter(stack, one) for one in sorted(names)]
            record = redo_record.load(self.path, left)
            if record is not None:
                self.beat()
                redo_record.carry_out(self.path, record, self.index)
            for lock, session in entered:
                if unfinished(lock.peek()) == left:
                    lock.sign(LockOwner.mark())
                if session is not None:
                    with session.mutex:
                        session.forget()

    def _enter(self, stack: ExitStack, name: str) -> tuple[SessionLock, SessionFiles | None]:
        session = stack.enter_context(self.using(name)) if is_id(name) else None
        if session is not None:
            with session.mutex:
                session.lock.open(create=True)
            lock = session.lock
        elif name == STORE:
            lock = self.store_lock
        else:
            lock = self.scope(name).lock
            lock.open(create=True)
        lock.enter()
        stack.callback(lock.leave)
        return lock, session

    def _finish_all(self) -> None:
        for left in redo_record.outstanding(self.path):
            self.finish(left, STORE)
        for name in os.listdir(self.path / redo_record.FOLDER):
            path = self.path / redo_record.FOLDER / name
            try:
                if not name.endswith(".json") and time.time() - path.lstat().st_mtime > LEFTOVER_SECONDS:
                    disk.unlink(path)
            except FileNotFoundError:
                continue


def _after_fork_in_child() -> None:
    """A child must not use its parent's files; closing them here frees no lock that the parent holds."""
    global _mutex
    _mutex = threading.Lock()  # another thread may have held it when the process was forked
    for folder in _folders.values():
        folder.abandon()
    _folders.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
