"""The locks of one commit, taken in one order by everybody, so that nobody waits in a circle.

What a commit will touch is not always known before it is looked at (the tip of a lineage, the forks of a session). When
it turns out, `MoreLocks` is raised: everything is let go and taken again together with what was missing.
"""

from __future__ import annotations

from types import TracebackType

from outlast.core.errors import OutlastError
from outlast.core.ids import is_id
from outlast.store.files import disk
from outlast.store.files.directory import STORE, StoreDirectory
from outlast.store.files.lock import LockOwner, SessionLock, unfinished
from outlast.store.files.scoped_keys import KeyScope
from outlast.store.files.session import SessionFiles


class MoreLocksNeeded(Exception):
    """These are needed too."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.names = set(names)


class LockSet:
    """Enter it to hold the locks. `sessions` are those that exist or are about to; `failed` tells why one cannot be
    used, so that the others can."""

    def __init__(self, folder: StoreDirectory, names: set[str], new: set[str]) -> None:
        self.folder = folder
        self.names = names
        self._new = new
        self.sessions: dict[str, SessionFiles] = {}
        self.scopes: dict[str, KeyScope] = {}
        self.failed: dict[str, OutlastError] = {}
        self._entered: list[SessionLock] = []

    def __enter__(self) -> LockSet:
        try:
            while (left := self._take_all()) is not None:
                self._let_go()
                self.folder.finish(*left)
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def _take_all(self) -> tuple[str, str] | None:
        """None when all are held; else an unfinished commit, and the lock that tells of it."""
        for name in sorted(self.names):
            try:
                found = self._take(name)
            except (OutlastError, OSError) as error:
                self.failed[name] = disk.translation(error, self.folder.path)
                continue
            left = unfinished(found)
            if left is not None:
                return left, name
            self._look(name, found)
        return None

    def _take(self, name: str) -> bytes:
        if is_id(name):
            session = self.folder.take(name)
            self.sessions[name] = session
            with session.mutex:
                if not session.open_lock(create=name in self._new):
                    del self.sessions[name]
                    self.folder.give_back(name)
                    return b""
            lock = session.lock
        elif name == STORE:
            lock = self.folder.store_lock
        else:
            scope = self.scopes[name] = self.folder.scope(name)
            lock = scope.lock
            lock.open(create=True)
        found = lock.enter()
        self._entered.append(lock)
        return found

    def _look(self, name: str, found: bytes) -> None:
        """Learn what others did since we held it last, and sign."""
        mine = LockOwner.mark()
        try:
            session = self.sessions.get(name)
            if session is not None:
                with session.mutex:
                    if found != mine or not session.loaded or not session.untouched():
                        self.folder.check_in_place()
                        session.refresh(exclusive=True, sync=False)
            scope = self.scopes.get(name)
            if scope is not None and (found != mine or not scope.loaded):
                scope.refresh()
            if found != mine and (session or scope or name == STORE):
                self._entered[-1].sign(mine)
        except (OutlastError, OSError) as error:
            self.failed[name] = disk.translation(error, self.folder.path)

    def begin(self, redo: str) -> None:
        """Tell whoever takes one of these locks after us that there may be work left."""
        for lock in self._entered:
            lock.sign(LockOwner.marked(redo))

    def finished(self) -> None:
        for lock in reversed(self._entered):  # the store's last: while it tells nothing, no other does
            lock.sign(LockOwner.mark())

    def sync(self) -> None:
        """Make what others left in these sessions durable."""
        for session in self.sessions.values():
            if session.fd >= 0 and not session.synced:
                disk.sync(session.fd)
                session.synced = True

    def _let_go(self) -> None:
        for lock in reversed(self._entered):
            lock.leave()
        for name in self.sessions:
            self.folder.give_back(name)
        self._entered.clear()
        self.sessions.clear()
        self.scopes.clear()
        self.failed.clear()
