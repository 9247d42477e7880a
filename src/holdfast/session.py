"""`ConversationSession`: one durable session as a Python object, over any store.

Promises: what `append` returned for is on disk, and any other process, thread or event loop sees it. The object keeps
no copy of the log: every read goes to the store, checked against the hash chain. A new session exists in the store with
its first write or `persist`; messages given to the constructor are durable with it.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from holdfast.app.stores import default_store
from holdfast.core import events as e
from holdfast.core.errors import ConflictError, InvalidInput, SessionNotFound
from holdfast.core.fold import Row
from holdfast.core.header import Header
from holdfast.core.ids import ID_LENGTH, id_from
from holdfast.core.log import Actor
from holdfast.core.messages import Message, Role
from holdfast.core.state import SessionState
from holdfast.core.transcript import transcript
from holdfast.core.window import window
from holdfast.store.lineage import fork
from holdfast.store.log_store import LogStore
from holdfast.store.port import Append, Create, NewEvent, Query, Write
from holdfast.store.reading import decoded, folded_state

Messages = list[Message]
Headers = list[Header]

CHECKED_ON_LOAD = 100
PAGE = 64


class ConversationSession:
    """A session. Give `store`, or the default store is used; give `session_id` only to choose the id of a new one."""

    def __init__(
        self,
        *,
        project_root: str | Path | None = None,
        store: LogStore | None = None,
        session_id: str | None = None,
        messages: Messages | None = None,
        title: str | None = None,
        model: str | None = None,
        persona: str | None = None,
        owner_id: str = "local",
        rotate_after_bytes: int | None = None,
        system_message_factory: Callable[[], Message] | None = None,
        few_shot_factory: Callable[[], Messages] | None = None,
    ) -> None:
        self.store = store if store is not None else default_store()
        self.session_id = session_id or id_from(secrets.token_bytes(16))
        self.project_root = Path(project_root).resolve() if project_root is not None else Path.cwd()
        self.owner_id = owner_id
        self.system_message_factory = system_message_factory
        self.few_shot_factory = few_shot_factory
        if rotate_after_bytes is not None:
            self.store.rotate_after_bytes = rotate_after_bytes
        self._created = e.SessionCreated(
            title=title,
            model=model,
            persona=persona,
            project_root=str(self.project_root),
            project_key=project_key(self.project_root),
        )
        self._first = tuple(messages or ())
        self._exists = False
        self._creating = threading.Lock()

    # --- finding sessions

    @classmethod
    def load(
        cls,
        *,
        session_id: str,
        project_root: str | Path | None = None,
        store: LogStore | None = None,
        system_message_factory: Callable[[], Message] | None = None,
        few_shot_factory: Callable[[], Messages] | None = None,
    ) -> ConversationSession | None:
        """The session with this id (or with an id that begins so); None when there is none.

        A damaged one raises `DamagedSession`: its newest events are checked here, all others when they are read.
        """
        store = store if store is not None else default_store()
        try:
            name = session_id if len(session_id) == ID_LENGTH else store.resolve(session_id)
            header = store.head(name)
        except SessionNotFound:
            return None
        store.read(name, limit=CHECKED_ON_LOAD, newest_first=True)
        root = project_root if project_root is not None else header.project_root
        session = cls(
            store=store,
            session_id=name,
            project_root=root,
            owner_id=header.owner_id,
            system_message_factory=system_message_factory,
            few_shot_factory=few_shot_factory,
        )
        session._exists = True
        return session

    @classmethod
    def resume(cls, prefix: str, *, store: LogStore | None = None) -> ConversationSession:
        """The session whose id begins so, or the one it goes on as. `SessionNotFound` and `AmbiguousSession` say why
        there is no such one."""
        store = store if store is not None else default_store()
        name = store.tip(store.resolve(prefix))
        session = cls.load(session_id=name, store=store)
        if session is None:
            raise SessionNotFound(f"no session {name}")
        return session

    @classmethod
    def list(
        cls,
        *,
        project_root: str | Path | None = None,
        store: LogStore | None = None,
        limit: int = 50,
        state: str | None = None,
        owner_id: str = "local",
    ) -> Headers:
        """Headers, newest activity first; with `project_root` only those of that project.

        A session whose header cannot be read comes last, with the state "damaged" and nothing but its id.
        """
        store = store if store is not None else default_store()
        key = project_key(Path(project_root)) if project_root is not None else None
        page = store.find(Query(owner_id=owner_id, project_key=key, state=state, limit=limit))
        return page.headers + [Header(session_id=name, state="damaged") for name in page.damaged]

    # --- writing

    def append(self, message: Message, *, key: str | None = None, expect: int | None = None, touch: bool = True) -> int:
        """Store a message; its seq. Durable on return, in any thread, also inside a running event loop.

        The same `key` twice stores it once and returns the first seq. `expect` refuses unless the head is that event.
        """
        if not self._exists:
            self.persist()
        return self.store.commit(self._append(message, key, expect, touch))[0].seq

    async def append_async(
        self, message: Message, *, key: str | None = None, expect: int | None = None, touch: bool = True
    ) -> int:
        """The same without blocking the loop. Cancelling it does not withdraw the message."""
        if not self._exists:
            await self._persist_async()
        return (await self.store.commit_async(self._append(message, key, expect, touch)))[0].seq

    def extend(self, messages: Messages, *, key: str | None = None) -> int:
        """Store several messages together, all or none; the last one's seq."""
        if not self._exists:
            self.persist()
        return self.store.commit(Append(session_id=self.session_id, events=_events(messages), key=key))[0].seq

    def persist(self) -> None:
        """Make the session exist in the store, with the messages it was constructed with."""
        with self._creating:
            if not self._exists:
                with self._ours():
                    self.store.commit(self._create())
                self._exists = True

    async def _persist_async(self) -> None:
        with self._ours():
            await self.store.commit_async(self._create())
        self._exists = True

    @contextmanager
    def _ours(self) -> Generator[None]:
        """Creating twice from this object is one session; another session under the same id is somebody else's."""
        try:
            yield
        except ConflictError as error:
            remedy = "ConversationSession.load opens it"
            raise ConflictError(f"session {self.session_id} exists already; {remedy}") from error

    def rename(self, title: str) -> None:
        self._write(e.SessionRenamed(title=title))

    def end(self, reason: str | None = None) -> None:
        """Take no more input; `reopen` undoes it."""
        self._write(e.SessionEnded(reason=reason))

    def reopen(self) -> None:
        self._write(e.SessionReopened())

    def fork(self, *, at: int | None = None) -> ConversationSession:
        """A new session that goes on from event `at` (the newest by default); this one is not touched."""
        self.persist()
        forked = type(self)(store=self.store, project_root=self.project_root, owner_id=self.owner_id)
        header = self.store.head(self.session_id)
        if at is None or at == header.last_seq:
            write = fork(header, forked.session_id, actor=LIBRARY)
        else:
            state = folded_state(self.store, self.session_id, upto=at)
            drawn = state.journal[-1].seq if state.journal else 0
            counted = state.message_count
            write = fork(header, forked.session_id, at=at, messages=counted, boundary_seq=drawn, actor=LIBRARY)
        self.store.commit(write)
        forked._exists = True
        return forked

    # --- reading

    def history(self, limit: int | None = 50, before: int | None = None, *, include_archived: bool = False) -> Messages:
        """The newest `limit` messages (before event `before`), newest last; originals behind a compaction included."""
        if limit is not None and limit < 0:
            raise InvalidInput("limit must not be negative; None gives all messages")
        if not self._exists:
            return [] if before is not None else _last(list(self._first), limit)
        header = self.store.head(self.session_id)
        unmoved = header.boundary_seq == 0 and header.turn is None
        state = SessionState() if unmoved else folded_state(self.store, self.session_id)
        rows: list[Row] = []
        top = before
        while True:
            page = self.store.read(self.session_id, before=top, limit=max(PAGE, limit or PAGE), newest_first=True)
            rows = [*decoded(self.store, reversed(page)), *rows]
            found = transcript(rows, state, include_archived=include_archived)
            top = page[-1].seq if page else 1
            if top <= 1 or (limit is not None and len(found) >= limit):
                return _last(found, limit)

    @property
    def messages(self) -> Messages:
        """What the model would see: everything since the last boundary, a summary first if there is one."""
        if not self._exists:
            return list(self._first)
        state = folded_state(self.store, self.session_id)
        rows = self.store.read(self.session_id, after=state.view.read_from - 1, before=state.last_seq + 1)
        return window(decoded(self.store, rows), state).messages

    @property
    def header(self) -> Header:
        """What a list shows of the session, as of now."""
        return self.store.head(self.session_id)

    @property
    def storage_path(self) -> Path | None:
        """The file with the newest events: live segment (files), database (SQLite), None (PostgreSQL)."""
        return self.store.storage_path(self.session_id)

    # --- inside

    def _append(self, message: Message, key: str | None, expect: int | None, touch: bool) -> Append:
        return Append(session_id=self.session_id, events=(_event(message),), key=key, expect=expect, touch=touch)

    def _write(self, event: e.Event) -> None:
        self.persist()
        self.store.commit(Append(session_id=self.session_id, events=(NewEvent(event=event, actor=LIBRARY),)))

    def _create(self) -> Write:
        header = Header(
            session_id=self.session_id,
            owner_id=self.owner_id,
            project_root=self._created.project_root,
            project_key=self._created.project_key,
        )
        created = NewEvent(event=self._created, actor=LIBRARY)
        return Create(header=header, events=(created, *_events(list(self._first))), key=f"create-{self.session_id}")

    def __repr__(self) -> str:
        return f"<ConversationSession {self.session_id} in {self.store.url.split('@')[-1]}>"


LIBRARY = Actor("user", "library").text()
_ACTORS = {
    Role.USER: LIBRARY,
    Role.ASSISTANT: Actor("model", "library").text(),
    Role.TOOL: Actor("tool", "library").text(),
    Role.SYSTEM: Actor("system", "library").text(),
}


def _event(message: Message) -> NewEvent:
    if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] callers are not all checked
        raise InvalidInput(
            f"a session takes Message objects, not {type(message).__name__}: Message(role=..., content=...)"
        )
    return NewEvent(event=e.MessageAppended(role=message.role, parts=message.parts), actor=_ACTORS[message.role])


def _events(messages: Messages) -> tuple[NewEvent, ...]:
    return tuple(_event(message) for message in messages)


def _last(messages: Messages, limit: int | None) -> Messages:
    return messages if limit is None else messages[-limit:] if limit > 0 else []


def project_key(root: Path) -> str:
    """Names a project folder by its real path."""
    return hashlib.sha256(str(root.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
