"""Finds and lists sessions for doors: by id prefix, by project, in pages.

Reading never creates a store: a missing store has no sessions. Changes go through `outlast.runtime.service` and are
durable on return.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from outlast.app.settings import Settings, load_settings
from outlast.core.errors import OutlastError, SessionDeleted, SessionEnded, SessionNotFound
from outlast.core.header import ACTIVE, ARCHIVED, Header
from outlast.core.ids import ID_LENGTH, is_id
from outlast.runtime.prompt.project_identity import project_fingerprint, project_key
from outlast.store import open_existing, open_store, open_to_read, place_of
from outlast.store.log_store import LogStore
from outlast.store.port import Page, Query
from outlast.store.read.decode import load_state

# --- opening ---------------------------------------------------------------------------------------------------------


@contextmanager
def open_readonly(url: str | None) -> Generator[LogStore]:
    """Open the store for reading."""
    refuse_no_store(url)
    store = open_to_read(load_settings(store=url).store)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def open_for_change(url: str | None) -> Generator[LogStore]:
    """Open an existing store for writing."""
    refuse_no_store(url)
    store = open_existing(load_settings(store=url).store)
    try:
        yield store
    finally:
        store.close()


def is_there(url: str | None) -> bool:
    """Whether there is a store. A store named by the caller counts as there: a wrong name must not look like an empty
    store."""
    if url is not None:
        return True
    _, path = place_of(load_settings().store)
    return path is None or path.exists()


def refuse_no_store(url: str | None) -> None:
    """Raise `SessionNotFound` if no store has been created yet."""
    if not is_there(url):
        raise SessionNotFound("there are no sessions here yet; `outlast` starts one")


def resolve_session(store: LogStore, session: str) -> str:
    """The session id that starts with `session`. Raises `SessionNotFound`, also for a deleted session, or
    `AmbiguousSession`, which lists the matches."""
    if not is_id(session):
        if len(session) >= ID_LENGTH:
            raise SessionNotFound(f"no session '{session}'; `outlast sessions list` shows the existing ones")
        return store.resolve(session)
    try:
        store.head(session)
    except SessionDeleted as error:
        with store.inspect() as view:
            row = view.header(session)
        if row is None or row.deleted_at is None:
            raise
        when = datetime.fromtimestamp(row.deleted_at / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        raise SessionDeleted(
            f"session {session} was deleted on {when} by {row.deleted_by}; "
            f"{row.last_seq} events, head {row.head_hash.hex()[:16]}"
        ) from error
    return session


def refuse_ended(header: Header) -> None:
    """Raise `SessionEnded` for an ended session; the message says what the user can do instead."""
    if header.rotated_to:
        raise SessionEnded(f"session {header.session_id} has ended; it continues as {header.rotated_to}")
    if header.has_ended:
        name = header.session_id[:6]
        raise SessionEnded(
            f"session {name} has ended; `outlast sessions reopen {name}` reopens it, "
            f"`outlast sessions fork {name}` continues in a copy"
        )


# --- lists -----------------------------------------------------------------------------------------------------------


class SessionRow(msgspec.Struct, kw_only=True):
    """A row of a session list. Times are microseconds since 1970, UTC; `active_stream_id` is the open turn.

    `total_input_tokens` includes an estimate for inputs admitted since the provider's last count.
    """

    id: str
    title: str | None
    state: str
    model: str | None
    persona: str | None
    plan_mode: bool
    project_key: str | None
    project_root: str | None
    parent_session_id: str | None
    depth: int
    total_input_tokens: int
    total_output_tokens: int
    message_count: int
    last_seq: int
    created_at: int
    updated_at: int
    last_message_at: int | None
    pending_user_message: str | None
    pending_started_at: int | None
    active_stream_id: str | None
    rotated_to: str | None
    imported: bool
    activity: str | None
    """`running`, `interrupted` (a turn is open, but no process drives it), `waiting` (an unanswered input), or in
    `listed_in` also `approval`."""


def summary_of(header: Header, store: LogStore | None = None) -> SessionRow:
    """Without `store` an open turn counts as interrupted: only the store knows whether a process drives it."""
    return SessionRow(
        id=header.session_id,
        title=header.title,
        state=header.state,
        model=header.model,
        persona=header.persona,
        plan_mode=header.plan_mode,
        project_key=header.project_key,
        project_root=header.project_root,
        parent_session_id=header.parent_session_id,
        depth=header.depth,
        total_input_tokens=header.input_tokens + header.estimated_tokens,
        total_output_tokens=header.output_tokens,
        message_count=header.message_count,
        last_seq=header.last_seq,
        created_at=header.created_at,
        updated_at=header.updated_at,
        last_message_at=header.last_message_at,
        pending_user_message=header.pending_text,
        pending_started_at=header.pending_at,
        active_stream_id=header.turn,
        rotated_to=header.rotated_to,
        imported=header.imported_seq > 0,
        activity=_activity(header, store),
    )


def damaged_summary(session_id: str) -> SessionRow:
    """The row of a session whose header cannot be read."""
    return msgspec.structs.replace(summary_of(Header(session_id=session_id)), state="damaged")


def _activity(header: Header, store: LogStore | None) -> str | None:
    if header.turn is None:
        return "waiting" if header.pending_count and not header.has_ended else None
    held = store.holder(header.session_id) if store is not None else None
    return "interrupted" if held is None or held.expired else "running"


class SessionListing(msgspec.Struct, kw_only=True):
    sessions: list[SessionRow] = []
    damaged: list[str] = []
    cursor: str | None = None


def listed(
    url: str | None,
    *,
    project: Path | None = None,
    state: str | None = None,
    title: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    owner_id: str = "local",
) -> SessionListing:
    """A page of sessions, newest activity first; with `project` only those of that folder or its repository. Archived
    sessions are left out unless `state` asks for them."""
    if not is_there(url):
        return SessionListing()
    query = Query(owner_id=owner_id, state=state, title=title, limit=limit, cursor=cursor)
    if project is not None:
        query = msgspec.structs.replace(
            query, project_key=project_key(project), project_fingerprint=project_fingerprint(project)
        )
    with open_readonly(url) as store:
        page = store.find(query) if state is not None else _in_sight(store, query)
        rows = [summary_of(row, store) for row in page.headers]
    return SessionListing(sessions=rows, damaged=page.damaged, cursor=page.cursor)


def _in_sight(store: LogStore, query: Query) -> Page:
    """A page without archived sessions; queries the store again until the page is full."""
    headers: list[Header] = []
    damaged: list[str] = []
    cursor = query.cursor
    while True:
        left = query.limit - len(headers)
        page = store.find(msgspec.structs.replace(query, limit=left, cursor=cursor))
        headers += [row for row in page.headers if row.state != ARCHIVED]
        damaged += page.damaged
        cursor = page.cursor
        if cursor is None or len(headers) == query.limit:
            return Page(headers=headers, cursor=cursor, damaged=damaged)


def listed_in(
    store: LogStore,
    *,
    project: str | None = None,
    state: str | None = None,
    title: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    owner_id: str = "local",
) -> SessionListing:
    """Like `listed`, for an open store; `project` is a project_key or the path of a folder."""
    query = Query(owner_id=owner_id, state=state, title=title, limit=limit, cursor=cursor)
    if project is not None and _PROJECT_KEY.fullmatch(project):
        query = msgspec.structs.replace(query, project_key=project)
    elif project is not None:
        root = folder_named(project)
        query = msgspec.structs.replace(
            query, project_key=project_key(root), project_fingerprint=project_fingerprint(root)
        )
    page = store.find(query)
    rows = [_asking(store, summary_of(row, store)) for row in page.headers]
    return SessionListing(sessions=rows, damaged=page.damaged, cursor=page.cursor)


def _asking(store: LogStore, row: SessionRow) -> SessionRow:
    """Set the activity to `approval` if the open turn waits for the user; only its log knows."""
    if row.active_stream_id is None:
        return row
    try:
        asks = bool(load_state(store, row.id).open_approvals)
    except OutlastError:  # deleted or damaged meanwhile: opening it reports the error
        return row
    return msgspec.structs.replace(row, activity="approval") if asks else row


_PROJECT_KEY = re.compile(r"[0-9a-f]{16}")


def folder_named(text: str) -> Path:
    """The path a client named: taken as spelled, relative to `/`, not to this process's directory."""
    return Path("/", text.replace("\0", "\ufffd"))


# --- for commands ----------------------------------------------------------------------------------------------------


def settings_for(url: str | None, header: Header, model: str | None = None) -> Settings:
    """The settings for driving a session: in its project folder, if that still exists."""
    root = Path(header.project_root) if header.project_root else None
    return load_settings(store=url, model=model, project_root=root if root is not None and root.is_dir() else None)


def new_store(url: str | None) -> LogStore:
    """Open the store for importing sessions; creates it if it is missing."""
    return open_store(load_settings(store=url).store)


STATES = (ACTIVE, "ended", ARCHIVED)
