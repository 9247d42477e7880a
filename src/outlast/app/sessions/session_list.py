"""Sessions as doors find them: by their beginnings, listed by project.

A store is never created by looking at it: one that is not there yet has no sessions. What a verb does is durable before
it returns (`outlast.runtime.service`).
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
    """The store for those who only look."""
    refuse_no_store(url)
    store = open_to_read(load_settings(store=url).store)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def open_for_change(url: str | None) -> Generator[LogStore]:
    """The store for those who write to sessions that are there."""
    refuse_no_store(url)
    store = open_existing(load_settings(store=url).store)
    try:
        yield store
    finally:
        store.close()


def is_there(url: str | None) -> bool:
    """Whether there is a store. One that was named must be: a wrong name must not look like an empty store."""
    if url is not None:
        return True
    _, path = place_of(load_settings().store)
    return path is None or path.exists()


def refuse_no_store(url: str | None) -> None:
    """For those who look for a session: where no store was made yet, none can be found."""
    if not is_there(url):
        raise SessionNotFound("there are no sessions here yet; `outlast` begins one")


def resolve_session(store: LogStore, session: str) -> str:
    """The id that begins so. `SessionNotFound`, also when it was deleted; `AmbiguousSession` names the matches."""
    if not is_id(session):
        if len(session) >= ID_LENGTH:
            raise SessionNotFound(f"no session '{session}'; `outlast sessions list` shows those there are")
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
    """For what an ended session does not take; says what can be done instead."""
    if header.rotated_to:
        raise SessionEnded(f"session {header.session_id} has ended; it goes on as {header.rotated_to}")
    if header.has_ended:
        name = header.session_id[:6]
        raise SessionEnded(
            f"session {name} has ended; `outlast sessions reopen {name}` takes it up again, "
            f"`outlast sessions fork {name}` goes on in a copy"
        )


# --- lists -----------------------------------------------------------------------------------------------------------


class SessionRow(msgspec.Struct, kw_only=True):
    """A row of a list. Times are microseconds since 1970, UTC; `active_stream_id` names the turn that is open.

    `total_input_tokens` holds an estimate of what was admitted since a provider last counted.
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
    """`running`, `interrupted` (a turn is open and nobody is at it), `waiting` (an input nobody has answered)."""


def summary_of(header: Header, store: LogStore | None = None) -> SessionRow:
    """Whether an open turn is at work, only the store knows."""
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
    ones are out of sight unless that `state` is asked for."""
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
    """A page without what was archived: the store is asked again for as many as that leaves out."""
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
    """The same from a store that is open; `project` is a project_key, or the path of a folder."""
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
    """A turn that waits for the user's word is told apart from one that works; only its log knows."""
    if row.active_stream_id is None:
        return row
    try:
        asks = bool(load_state(store, row.id).open_approvals)
    except OutlastError:  # deleted or damaged meanwhile: whoever opens it is told
        return row
    return msgspec.structs.replace(row, activity="approval") if asks else row


_PROJECT_KEY = re.compile(r"[0-9a-f]{16}")


def folder_named(text: str) -> Path:
    """The folder that somebody names from elsewhere: as it is spelled, relative to nothing of ours."""
    return Path("/", text.replace("\0", "\ufffd"))


# --- what the verbs need ---------------------------------------------------------------------------------------------


def settings_for(url: str | None, header: Header, model: str | None = None) -> Settings:
    """The settings for driving a session: in the folder it belongs to, if that is still there."""
    root = Path(header.project_root) if header.project_root else None
    return load_settings(store=url, model=model, project_root=root if root is not None and root.is_dir() else None)


def new_store(url: str | None) -> LogStore:
    """The store for those who bring sessions along; made if it is not there."""
    return open_store(load_settings(store=url).store)


STATES = (ACTIVE, "ended", ARCHIVED)
