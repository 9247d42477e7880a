"""`ConversationSession`: one durable session as a Python object, over any store.

Promises: what `append` returned for is on disk, and any other process, thread or event loop sees it. The object keeps
no copy of the log: every read goes to the store, checked against the hash chain. A new session exists in the store with
its first write or `persist`; messages given to the constructor are durable with it.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from outlast.app.placement import bound_to, place_for
from outlast.app.stores import default_store
from outlast.core import events as e
from outlast.core.errors import ConflictError, InvalidInput, SessionNotFound
from outlast.core.fold import Row, folded
from outlast.core.header import Header
from outlast.core.ids import ID_LENGTH, id_from
from outlast.core.messages import Message
from outlast.core.record_storage import dump, load, read_list
from outlast.core.state import SessionState
from outlast.core.transcript import transcript
from outlast.core.window import unread, window
from outlast.core.workflow_records import (
    CompletionTraceEntry,
    DefinitionOfDone,
    PromptSnapshot,
    WorkflowLedger,
    WorkflowTimelineEntry,
    completion_trace,
    is_new,
)
from outlast.runtime.history.compaction import (
    KEEP_LAST,
    Compaction,
    CompactionSettings,
    compact_if_due,
    last_compaction,
)
from outlast.runtime.message_events import ACTORS, LIBRARY, appended, message_event, message_events
from outlast.runtime.prompt.project_identity import project_fingerprint, project_key
from outlast.runtime.session_attributes import LoggedAttribute, checked, number, text, texts
from outlast.runtime.turn.turn_stats import totals
from outlast.store.lineage import fork
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Create, NewEvent, Query, Receipt, Write
from outlast.store.read.decode import decode_events, load_state

Messages = list[Message]
Headers = list[Header]
Timeline = list[WorkflowTimelineEntry]
Trace = list[CompletionTraceEntry]
Prompts = list[PromptSnapshot]
Inputs = list[e.InputAdmitted]
Receipts = list[Receipt]

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
        auto_compaction_input_tokens_threshold: int | None = None,
        compaction_keep_last_messages: int = KEEP_LAST,
        **recorded: Any,
    ) -> None:
        """`recorded` are first values of what a session remembers: `permission_mode`, `prompt_format`, ..."""
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
            settings=bound_to(place_for(self.store)),
        )
        self.auto_compaction_input_tokens_threshold = auto_compaction_input_tokens_threshold
        self.compaction_keep_last_messages = compaction_keep_last_messages
        self._first = tuple(messages or ())
        self._recorded = checked(recorded)
        self._exists = False
        self._creating = threading.Lock()
        self._folding = threading.Lock()
        self._state: SessionState | None = None

    # --- what is remembered of the runtime (seed 000)

    permission_mode = text()
    permission_prompting_enabled = LoggedAttribute(False, bool)
    permission_rule_counts = LoggedAttribute[dict[str, int]]({}, dict)
    permission_rules_source = text()
    prompt_format = text()
    prompt_sections = texts()
    current_task = text()
    runtime_owner_type = text()
    runtime_owner_path = text()
    workflow_mode = LoggedAttribute("execute", str)
    active_turn_phase = text()
    workflow_reason_code = text()
    workflow_reason_summary = text()
    workflow_decision_kind = text()
    workflow_ambiguity_score = number()
    workflow_complexity_score = number()
    workflow_scheduled_next_mode = text()
    last_completion_decision_code = text()
    last_completion_decision_summary = text()
    last_turn_transition_summary = text()
    last_turn_transition_kind = text()
    last_turn_transition_reason_code = text()

    @property
    def workflow_timeline(self) -> Timeline:
        """The latest decisions about the work, oldest first."""
        return read_list(WorkflowTimelineEntry, self.state.timeline)

    @property
    def completion_trace(self) -> Trace:
        """Why turns went on or stopped: a view of the timeline; entries written apart count only where it has none."""
        return completion_trace(self.workflow_timeline, read_list(CompletionTraceEntry, self.state.trace))

    @property
    def workflow_ledger(self) -> WorkflowLedger:
        return load(WorkflowLedger, self.state.ledger)

    @property
    def prompt_history(self) -> Prompts:
        return read_list(PromptSnapshot, self.state.prompts)

    @property
    def definition_of_done(self) -> DefinitionOfDone | None:
        found = self.state.definition_of_done
        return None if found is None else load(DefinitionOfDone, found)

    @property
    def usage(self) -> dict[str, int]:
        """Totals of this session: tokens, tool calls, replies (iterations), turns."""
        return totals(self.state.usage)

    def update_runtime_state(self, **changes: Any) -> None:
        """Remember these values; `InvalidInput` for a name that a session does not record."""
        self._write(e.RuntimeStateChanged(changes=checked(changes)))

    def append_workflow_timeline_entry(self, entry: WorkflowTimelineEntry) -> None:
        self._write(e.TimelineRecorded(entry=dump(entry)))

    def append_completion_trace_entry(self, entry: CompletionTraceEntry) -> None:
        self._write(e.TraceRecorded(entry=dump(entry)))

    def update_workflow_ledger(self, ledger: WorkflowLedger) -> None:
        self._write(e.LedgerUpdated(ledger=dump(ledger)))

    def append_prompt_snapshot(self, snapshot: PromptSnapshot) -> None:
        """Remember a prompt, unless nothing but the time differs from the last one."""
        last = self.prompt_history[-1:]
        if is_new(snapshot, last[0] if last else None):
            self._write(e.PromptRecorded(snapshot=dump(snapshot)))

    # --- compaction

    @property
    def compaction(self) -> Compaction | None:
        """What the last compaction did; None when there was none."""
        return last_compaction(self.store, self.session_id, self.state) if self._exists else None

    def maybe_compact(self) -> Compaction | None:
        """Compact if the window has grown past the threshold, without a model; None when it need not be."""
        self.persist()
        settings = CompactionSettings(keep_last=self.compaction_keep_last_messages)
        if self.auto_compaction_input_tokens_threshold is not None:
            threshold = self.auto_compaction_input_tokens_threshold
            settings = msgspec.structs.replace(settings, input_tokens_threshold=threshold)
        done = compact_if_due(self.store, self.session_id, self.state, settings, LIBRARY)
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
        """Headers, newest activity first; with `project_root` only those of that project, wherever it was then.

        A session whose header cannot be read comes last, with the state "damaged" and nothing but its id.
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
        """Store a message; its seq. Durable on return, in any thread, also inside a running event loop.

        The same `key` twice stores it once and returns the first seq. `expect` refuses unless the head is that event.
        """
        if not self._exists:
            self.persist()
        if key is None and expect is None:
            said = appended(message)
            return self.store.append(self.session_id, said, actor=ACTORS[said.role], touch=touch)[0].seq
        return self.store.commit(self._append(message, key, expect, touch))[0].seq

    async def append_async(
        self, message: Message, *, key: str | None = None, expect: int | None = None, touch: bool = True
    ) -> int:
        """The same without blocking the loop. Cancelling it does not withdraw the message."""
        if not self._exists:
            await self._persist_async()
        if key is None and expect is None:
            said = appended(message)
            return (await self.store.append_async(self.session_id, said, actor=ACTORS[said.role], touch=touch))[0].seq
        return (await self.store.commit_async(self._append(message, key, expect, touch)))[0].seq

    def extend(self, messages: Messages, *, key: str | None = None) -> int:
        """Store several messages together, all or none; the last one's seq."""
        if not self._exists:
            self.persist()
        return self.store.commit(Append(session_id=self.session_id, events=message_events(messages), key=key))[0].seq

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

    def commit(self, *writes: Write) -> Receipts:
        """These writes, and the session's creation if it is not in the store yet, in one commit."""
        if self._exists:
            return self.store.commit(*writes)
        with self._creating, self._ours():
            first = () if self._exists else (self._create(),)
            receipts = self.store.commit(*first, *writes)
            self._exists = True
            return receipts[len(first) :]

    async def commit_async(self, *writes: Write) -> Receipts:
        if self._exists:
            return await self.store.commit_async(*writes)
        with self._ours():
            receipts = await self.store.commit_async(self._create(), *writes)
        self._exists = True
        return receipts[1:]

    def record(self, event: e.Event) -> None:
        """Write an event as a door does, without a lease."""
        self._write(event)

    def interrupt(self, reason: str | None = None) -> None:
        """Ask whoever drives the session to stop its turn."""
        self._write(e.InterruptRequested(reason=reason))

    def rename(self, title: str) -> None:
        self._write(e.SessionRenamed(title=title))

    def end(self, reason: str | None = None) -> None:
        """Take no more input; `reopen` undoes it."""
        self._write(e.SessionClosed(reason=reason))

    def reopen(self) -> None:
        self._write(e.SessionReopened())

    def fork(self, *, at: int | None = None) -> ConversationSession:
        """A new session that goes on from event `at` (the newest by default); this one is not touched."""
        self.persist()
        forked = type(self)(store=self.store, project_root=self.project_root, owner_id=self.owner_id)
        header = self.store.head(self.session_id)
        at = header.last_seq if at is None else at
        if not 1 <= at <= header.last_seq:
            raise InvalidInput(f"there is no event {at} to fork at; the session has events 1 to {header.last_seq}")
        if at == header.last_seq and not header.pending_count:
            write = fork(header, forked.session_id, actor=LIBRARY)
        else:
            state = load_state(self.store, self.session_id, upto=at)
            drawn = state.journal[-1].seq if state.journal else 0
            waiting = unread(state)  # nobody will answer them in the fork, but they were said
            write = fork(
                header,
                forked.session_id,
                at=at,
                messages=state.message_count,
                boundary_seq=drawn,
                plan_mode=state.plan_mode,
                actor=LIBRARY,
                events=(NewEvent(event=e.InputPromoted(inputs=waiting), actor=LIBRARY),) if waiting else (),
            )
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
        state = SessionState() if unmoved else load_state(self.store, self.session_id)
        rows: list[Row] = []
        top = before
        while True:
            page = self.store.read(self.session_id, before=top, limit=max(PAGE, limit or PAGE), newest_first=True)
            rows = [*decode_events(self.store, reversed(page)), *rows]
            found = transcript(rows, state, include_archived=include_archived)
            top = page[-1].seq if page else 1
            if top <= 1 or (limit is not None and len(found) >= limit):
                return _last(found, limit)

    @property
    def messages(self) -> Messages:
        """What the model would see: everything since the last boundary, a summary first if there is one."""
        if not self._exists:
            return list(self._first)
        state = load_state(self.store, self.session_id)
        rows = self.store.read(self.session_id, after=state.view.read_from - 1, before=state.last_seq + 1)
        return window(decode_events(self.store, rows), state).messages

    @property
    def state(self) -> SessionState:
        """Everything that is known of the session now: folded from the log, forward from what was known before."""
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
        """Whether it is in the store yet."""
        return self._exists

    def inputs(self, seqs: list[int]) -> Inputs:
        """These inputs, as they were admitted."""
        rows = [row for seq in seqs for row in self.store.read(self.session_id, after=seq - 1, before=seq + 1)]
        return [event for _, event in decode_events(self.store, rows) if isinstance(event, e.InputAdmitted)]

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
        return Append(session_id=self.session_id, events=(message_event(message),), key=key, expect=expect, touch=touch)

    def _write(self, event: e.Event) -> None:
        self.persist()
        self.store.commit(Append(session_id=self.session_id, events=(NewEvent(event=event, actor=LIBRARY),)))

    def _create(self) -> Write:
        header = Header(
            session_id=self.session_id,
            owner_id=self.owner_id,
            project_root=self._created.project_root,
            project_key=self._created.project_key,
            project_fingerprint=project_fingerprint(self.project_root),
            place=self._created.settings.get("place"),
        )
        first: list[e.Event] = [msgspec.structs.replace(self._created, project_fingerprint=header.project_fingerprint)]
        if self._recorded:
            first.append(e.RuntimeStateChanged(changes=self._recorded))
        created = tuple(NewEvent(event=event, actor=LIBRARY) for event in first)
        return Create(
            header=header, events=(*created, *message_events(list(self._first))), key=f"create-{self.session_id}"
        )

    def __repr__(self) -> str:
        return f"<ConversationSession {self.session_id} in {self.store.url}>"


def _last(messages: Messages, limit: int | None) -> Messages:
    return messages if limit is None else messages[-limit:] if limit > 0 else []
