"""`ConversationSession`: one durable session as a Python object, over any store.

Promises: once `append` returns, the message is on disk and visible to every process, thread and event loop. The object
keeps no copy of the log: every read goes to the store and is checked against the hash chain. The first write or
`persist` creates the session in the store, together with the messages given to the constructor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from outlast.app.placement import place_for, placed
from outlast.app.stores import default_store
from outlast.core import events as e
from outlast.core.errors import ConflictError, InvalidInput, SessionNotFound
from outlast.core.event_row import StoredEvent
from outlast.core.fold import Row, folded
from outlast.core.header import Header
from outlast.core.ids import ID_LENGTH
from outlast.core.messages import Message
from outlast.core.state import SessionState
from outlast.core.transcript import transcript
from outlast.core.window import window
from outlast.runtime.history.compaction import Compaction, compact_if_due, last_compaction
from outlast.runtime.history.window_tokens import KEEP_LAST, CompactionSettings
from outlast.runtime.prompt.project_identity import project_fingerprint, project_key
from outlast.runtime.runtime_record import RuntimeRecord, checked
from outlast.runtime.session_writes import SPEAKERS, SessionWrites, appended, new_session_id
from outlast.store.log_store import LogStore
from outlast.store.port import Query, Receipt, Write
from outlast.store.read.decode import decode_events, load_state

CHECKED_ON_LOAD = 100
PAGE = 64


class ConversationSession(RuntimeRecord):
    """A session. `store` defaults to the default store; pass `session_id` only to choose the id of a new session."""

    def __init__(
        self,
        *,
        project_root: str | Path | None = None,
        store: LogStore | None = None,
        session_id: str | None = None,
        messages: list[Message] | None = None,
        title: str | None = None,
        model: str | None = None,
        persona: str | None = None,
        owner_id: str = "local",
        rotate_after_bytes: int | None = None,
        system_message_factory: Callable[[], Message] | None = None,
        few_shot_factory: Callable[[], list[Message]] | None = None,
        auto_compaction_input_tokens_threshold: int | None = None,
        compaction_keep_last_messages: int = KEEP_LAST,
        **recorded: Any,
    ) -> None:
        """`recorded` holds initial runtime values of the session: `permission_mode`, `prompt_format`, ..."""
        self.store = store if store is not None else default_store()
        self.session_id = session_id or new_session_id()
        self.project_root = Path(project_root).resolve() if project_root is not None else Path.cwd()
        self.owner_id = owner_id
        self.system_message_factory = system_message_factory
        self.few_shot_factory = few_shot_factory
        if rotate_after_bytes is not None:
            self.store.rotate_after_bytes = rotate_after_bytes
        self._named = (title, model, persona)
        self.auto_compaction_input_tokens_threshold = auto_compaction_input_tokens_threshold
        self.compaction_keep_last_messages = compaction_keep_last_messages
        self._first = tuple(messages or ())
        self._recorded = checked(recorded)
        self._exists = False
        self._newest: list[StoredEvent] = []
        """The rows that `load` checked, newest first, until `history` uses them."""
        self._creating = threading.Lock()
        self._folding = threading.Lock()
        self._writes = SessionWrites()
        self._state: SessionState | None = None

    # --- compaction

    @property
    def compaction(self) -> Compaction | None:
        """The result of the last compaction; None if there was none."""
        return last_compaction(self.store, self.session_id, self.state) if self._exists else None

    def maybe_compact(self) -> Compaction | None:
        """Compact without a model if the window is over the threshold; None if no compaction is needed."""
        self.persist()
        settings = CompactionSettings(keep_last=self.compaction_keep_last_messages)
        if self.auto_compaction_input_tokens_threshold is not None:
            threshold = self.auto_compaction_input_tokens_threshold
            settings = msgspec.structs.replace(settings, input_tokens_threshold=threshold)
        done = compact_if_due(self.store, self.session_id, self.state, settings, self._writes.actor)
        return self.compaction if done else None

    # --- finding sessions

    @classmethod
    def load(
        cls,
        *,
        session_id: str,
        project_root: str | Path | None = None,
        store: LogStore | None = None,
        system_message_factory: Callable[[], Message] | None = None,
        few_shot_factory: Callable[[], list[Message]] | None = None,
    ) -> ConversationSession | None:
        """Open the session with this id or id prefix; None if it does not exist.

        Raises `DamagedSession` if it is damaged: the newest events are checked here, all others when they are read.
        """
        store = store if store is not None else default_store()
        try:
            name = session_id if len(session_id) == ID_LENGTH else store.resolve(session_id)
            header = store.head(name)
        except SessionNotFound:
            return None
        newest = store.read(name, limit=CHECKED_ON_LOAD, newest_first=True)
        root = project_root if project_root is not None else placed(store, header).project_root
        session = cls(
            store=store,
            session_id=name,
            project_root=root,
            owner_id=header.owner_id,
            system_message_factory=system_message_factory,
            few_shot_factory=few_shot_factory,
        )
        session._exists, session._newest = True, newest
        return session

    @classmethod
    def resume(cls, prefix: str, *, store: LogStore | None = None) -> ConversationSession:
        """Open the session with this id prefix, or its newest successor if it was rotated. Raises `SessionNotFound`
        or `AmbiguousSession` if the prefix matches no session or several."""
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
    ) -> list[Header]:
        """Return headers, newest activity first; with `project_root` only those of that project, even if it has moved.

        A session whose header cannot be read comes last: its header has the state "damaged" and only its id.
        """
        store = store if store is not None else default_store()
        query = Query(owner_id=owner_id, state=state, limit=limit)
        if project_root is not None:
            root = Path(project_root)
            query = msgspec.structs.replace(
                query, project_key=project_key(root), project_fingerprint=project_fingerprint(root)
            )
        page = store.find(query)
        return page.headers + [Header(session_id=name, state="damaged") for name in page.damaged]

    # --- writing

    def append(self, message: Message, *, key: str | None = None, expect: int | None = None, touch: bool = True) -> int:
        """Store a message and return its seq. Durable on return, in any thread, also inside a running event loop.

        A repeated `key` stores the message once and returns the first seq. With `expect`, the write is refused unless
        the head is that event.
        """
        if not self._exists:
            self.persist()
        if key is None and expect is None:
            said = appended(message)
            return self.store.append(self.session_id, said, actor=SPEAKERS[said.role], touch=touch)[0].seq
        write = self._writes.messages(self.session_id, [message], key=key, expect=expect, touch=touch)
        return self.store.commit(write)[0].seq

    async def append_async(
        self, message: Message, *, key: str | None = None, expect: int | None = None, touch: bool = True
    ) -> int:
        """`append` without blocking the event loop. Cancelling it does not withdraw the message."""
        if not self._exists:
            await self._persist_async()
        if key is None and expect is None:
            said = appended(message)
            return (await self.store.append_async(self.session_id, said, actor=SPEAKERS[said.role], touch=touch))[0].seq
        write = self._writes.messages(self.session_id, [message], key=key, expect=expect, touch=touch)
        return (await self.store.commit_async(write))[0].seq

    def extend(self, messages: list[Message], *, key: str | None = None) -> int:
        """Store several messages atomically, and return the seq of the last one."""
        if not self._exists:
            self.persist()
        return self.store.commit(self._writes.messages(self.session_id, messages, key=key))[0].seq

    def persist(self) -> None:
        """Create the session in the store, with the messages given to the constructor."""
        with self._creating:
            if not self._exists:
                with self._ours():
                    self.store.commit(self._creation())
                self._exists = True

    async def _persist_async(self) -> None:
        with self._ours():
            await self.store.commit_async(self._creation())
        self._exists = True

    @contextmanager
    def _ours(self) -> Generator[None]:
        """Creating the session twice from this object is idempotent; an id that another writer took is refused."""
        try:
            yield
        except ConflictError as error:
            remedy = "ConversationSession.load opens it"
            raise ConflictError(f"session {self.session_id} already exists; {remedy}") from error

    def commit(self, *writes: Write) -> list[Receipt]:
        """Commit these writes, together with the session's creation if it is not in the store yet."""
        if self._exists:
            return self.store.commit(*writes)
        with self._creating, self._ours():
            first = () if self._exists else (self._creation(),)
            receipts = self.store.commit(*first, *writes)
            self._exists = True
            return receipts[len(first) :]

    async def commit_async(self, *writes: Write) -> list[Receipt]:
        if self._exists:
            return await self.store.commit_async(*writes)
        with self._ours():
            receipts = await self.store.commit_async(self._creation(), *writes)
        self._exists = True
        return receipts[1:]

    def record(self, event: e.Event) -> None:
        """Write an event without a lease, as a door does."""
        self._write(self._writes.append(self.session_id, event))

    def interrupt(self, reason: str | None = None) -> None:
        """Ask the driver of the session to stop its turn."""
        self._write(self._writes.interruption(self.session_id, reason))

    def rename(self, title: str) -> None:
        self._write(self._writes.update(self.session_id, title=title))

    def end(self, reason: str | None = None) -> None:
        """End the session: it takes no more input until `reopen`."""
        self._write(self._writes.closing(self.session_id, reason))

    def reopen(self) -> None:
        self._write(self._writes.reopening(self.session_id))

    def fork(self, *, at: int | None = None) -> ConversationSession:
        """Create a session that continues from event `at` (the newest by default); this session is not changed."""
        self.persist()
        forked = type(self)(store=self.store, project_root=self.project_root, owner_id=self.owner_id)
        self.store.commit(self._writes.fork(self.store, self.session_id, forked.session_id, at=at))
        forked._exists = True
        return forked

    # --- reading

    def history(
        self, limit: int | None = 50, before: int | None = None, *, include_archived: bool = False
    ) -> list[Message]:
        """Return the newest `limit` messages (before event `before`), newest last, including compacted originals."""
        if limit is not None and limit < 0:
            raise InvalidInput("limit must not be negative; None gives all messages")
        if not self._exists:
            return [] if before is not None else _last(list(self._first), limit)
        header = self.store.head(self.session_id)
        unmoved = header.boundary_seq == 0 and header.turn is None
        state = SessionState() if unmoved else load_state(self.store, self.session_id)
        rows: list[Row] = []
        top = before
        while True:
            page = self._newest_page(header, max(PAGE, limit or PAGE)) if top is None else []
            if not page:
                page = self.store.read(self.session_id, before=top, limit=max(PAGE, limit or PAGE), newest_first=True)
            rows = [*decode_events(self.store, reversed(page)), *rows]
            found = transcript(rows, state, include_archived=include_archived)
            top = page[-1].seq if page else 1
            if top <= 1 or (limit is not None and len(found) >= limit):
                return _last(found, limit)

    def _newest_page(self, header: Header, limit: int) -> list[StoredEvent]:
        """The newest events as `load` read them; none if there are newer ones, or `load` did not read so many."""
        newest, self._newest = self._newest, []
        current = bool(newest) and (newest[0].seq, newest[0].hash) == (header.last_seq, header.head_hash)
        return newest[:limit] if current and (len(newest) >= limit or newest[-1].seq == 1) else []

    @property
    def messages(self) -> list[Message]:
        """The messages the model would see: all since the last boundary, after the summary if there is one."""
        if not self._exists:
            return list(self._first)
        state = load_state(self.store, self.session_id)
        rows = self.store.read(self.session_id, after=state.view.read_from - 1, before=state.last_seq + 1)
        return window(decode_events(self.store, rows), state).messages

    @property
    def state(self) -> SessionState:
        """The current state, folded from the log; newer events are folded into the last known state."""
        if not self._exists:
            return SessionState(runtime=dict(self._recorded))
        with self._folding:
            last = self.store.head(self.session_id).last_seq
            known = self._state
            if known is None or last - known.last_seq > PAGE or last < known.last_seq:
                known = self._state = load_state(self.store, self.session_id)
            elif known.last_seq < last:
                folded(decode_events(self.store, self.store.read(self.session_id, after=known.last_seq)), known)
            return known

    @property
    def exists(self) -> bool:
        """Whether the session is in the store yet."""
        return self._exists

    def inputs(self, seqs: list[int]) -> list[e.InputAdmitted]:
        """Return the `InputAdmitted` events with these seqs."""
        rows = [row for seq in seqs for row in self.store.read(self.session_id, after=seq - 1, before=seq + 1)]
        return [event for _, event in decode_events(self.store, rows) if isinstance(event, e.InputAdmitted)]

    @property
    def header(self) -> Header:
        """The session's current header, as shown in lists."""
        return self.store.head(self.session_id)

    @property
    def storage_path(self) -> Path | None:
        """The file with the newest events: live segment (files), database (SQLite), None (PostgreSQL)."""
        return self.store.storage_path(self.session_id)

    # --- inside

    def _write(self, write: Write) -> None:
        self.persist()
        self.store.commit(write)

    def _creation(self) -> Write:
        title, model, persona = self._named
        return self._writes.creation(
            self.session_id,
            root=self.project_root,
            title=title,
            model=model,
            persona=persona,
            owner_id=self.owner_id,
            place=place_for(self.store),
            runtime=self._recorded,
            messages=self._first,
        )

    def __repr__(self) -> str:
        return f"<ConversationSession {self.session_id} in {self.store.url}>"


def _last(messages: list[Message], limit: int | None) -> list[Message]:
    return messages if limit is None else messages[-limit:] if limit > 0 else []
