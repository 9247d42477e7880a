"""Pages of a session's messages and events.

Messages are newest last and are read backwards, so a page costs the same in a log of any length. Event pages are
bounded in number and in size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from outlast.app.streams.event_feed import body_json
from outlast.core import events as e
from outlast.core.event_row import Actor, StoredEvent
from outlast.core.fold import Row, folded
from outlast.core.header import Header
from outlast.core.messages import Message, Role
from outlast.core.state import SessionState
from outlast.core.transcript import transcript
from outlast.runtime.history.window_tokens import message_tokens
from outlast.store.log_store import LogStore
from outlast.store.read.decode import decode_events, load_state

PAGE = 64
LARGEST_PAGE = 2048
AHEAD = 64
SHORT = 256
_TELLS = frozenset({"TurnStarted", "InputPromoted", "ModelRequested", "TurnEnded"})
"""Events that affect how a message is shown and may come after its page."""
TRIES = 3


class MessageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message with its id, which is the same in every fork, and its token count: the provider's, or an estimate.

    A tool result also has `status` and `facts`: whether the tool ran, and what it changed.
    """

    message: Message
    message_id: str
    token_count: int
    status: str | None = None
    facts: dict[str, Any] | None = None


class OpenDraft(msgspec.Struct, frozen=True, kw_only=True):
    """The reply being written: the first `n` chunks of `attempt`, by part."""

    attempt: int
    n: int
    text: str = ""
    reasoning: str = ""
    calls: dict[str, str] = {}


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A session as of event `header.last_seq`."""

    header: Header
    state: SessionState
    said: list[MessageRow]
    draft: OpenDraft | None


def opened(
    store: LogStore, header: Header, *, limit: int = 200, before: int | None = None, include_archived: bool = False
) -> SessionPage:
    """The newest messages (before event `before`) and the draft, as of one moment: that of `header`, or a later one if
    the log grew while a reply was being written. Callers follow the session from `last_seq`."""
    session_id, tries = header.session_id, 0
    while True:
        tries += 1
        rows, state = _folded(store, header)
        until = header.last_seq + 1 if before is None else min(before, header.last_seq + 1)
        said = said_before(store, session_id, until, state, limit=limit, include_archived=include_archived, rows=rows)
        if state.attempt is None:  # no reply is being written
            return SessionPage(header=header, state=state, said=said, draft=None)
        batch = next(store.follow(session_id, after=header.last_seq, timeout=0), None)
        if batch is None or not batch.events:
            break
        if tries == TRIES:
            return SessionPage(header=header, state=state, said=said, draft=None)
        header = store.head(session_id)
    chunks = batch.chunks if batch is not None else ()
    draft = draft_of([(c.attempt_seq, c.n, c.part, c.data) for c in chunks])
    return SessionPage(header=header, state=state, said=said, draft=draft)


def _folded(store: LogStore, header: Header) -> tuple[list[Row] | None, SessionState]:
    """The state and, for a short log, all its rows, so that the log is not read twice."""
    if header.last_seq > SHORT:
        return None, load_state(store, header.session_id, upto=header.last_seq)
    rows = decode_events(store, store.read(header.session_id, before=header.last_seq + 1))
    return rows, folded(rows)


def draft_of(chunks: Sequence[tuple[int, int, str, bytes]]) -> OpenDraft | None:
    """The draft made of these chunks: those of the newest attempt, in order."""
    if not chunks:
        return None
    attempt, n, _, _ = chunks[-1]
    parts: dict[str, bytes] = {}
    for of, _, part, data in chunks:
        if of == attempt:
            parts[part] = parts.get(part, b"") + data
    texts = {part: data.decode("utf-8", "replace") for part, data in parts.items()}
    text, reasoning = texts.pop("text", ""), texts.pop("reasoning", "")
    return OpenDraft(attempt=attempt, n=n, text=text, reasoning=reasoning, calls=texts)


def said_before(
    store: LogStore,
    session_id: str,
    before: int,
    state: SessionState,
    *,
    limit: int,
    include_archived: bool,
    rows: list[Row] | None = None,
) -> list[MessageRow]:
    """The last `limit` messages before event `before`, with summaries and without system prompts. A caller that has
    already read the whole log passes it as `rows`."""
    known = rows is not None
    rows = rows if rows is not None else _behind(store, session_id, before)
    lowest = 1 if include_archived else _first_in_sight(state)
    size, top = max(PAGE, min(limit, LARGEST_PAGE)), before
    while True:
        page = [] if known else store.read(session_id, before=top, limit=size, newest_first=True)
        rows = [*decode_events(store, reversed(page)), *rows]
        told = transcript(rows, state, include_archived=include_archived, summaries=True)
        by_seq = {stored.seq: (stored, event) for stored, event in rows}
        shown = [
            one
            for one in told
            if (one.seq or 0) < before and not (one.role is Role.SYSTEM and _is_prompt(one, by_seq[one.seq or 0]))
        ]
        top = page[-1].seq if page else 1
        if top <= lowest or len(shown) >= limit:
            return [_said(one, by_seq[one.seq or 0]) for one in shown[-limit:]] if limit else []
        size = min(2 * size, LARGEST_PAGE)


def last_input(store: LogStore, session_id: str) -> Message | None:
    """The user's newest visible message."""
    header = store.head(session_id)
    state = load_state(store, session_id, upto=header.last_seq)
    before = header.last_seq + 1
    while before > 1:
        page = said_before(store, session_id, before, state, limit=PAGE, include_archived=False)
        found = next((one.message for one in reversed(page) if one.message.role is Role.USER), None)
        if found is not None or not page:
            return found
        before = page[0].message.seq or 1
    return None


def _behind(store: LogStore, session_id: str, before: int) -> list[Row]:
    """Events after the page that affect its messages: whether a reply was requested again, and where a turn read an
    input."""
    return decode_events(store, store.read(session_id, after=before - 1, kinds=_TELLS, limit=AHEAD))


def _first_in_sight(state: SessionState) -> int:
    """The first event whose message can be shown; everything before it was cleared."""
    view = state.view
    if not view.cleared_at:
        return 1
    read_since = [seq for seq, at in state.reads if at > view.cleared_at]
    return max(1, min([view.cleared_at, view.needs or view.cleared_at, *view.carried, *read_since]))


def _is_prompt(message: Message, row: Row) -> bool:
    """Whether a program set this system message as its prompt. Messages of the runtime belong to the transcript."""
    return not message.is_summary and Actor.parse(row[0].actor).door == "library"


def _said(message: Message, row: Row) -> MessageRow:
    stored, event = row
    if type(event) is e.MessageAppended:  # this kind has no other details
        said_as = message_id_of(stored.session_id, stored.seq)
        return MessageRow(message=message, message_id=said_as, token_count=message_tokens(message))
    given = event.message_id if isinstance(event, e.InputAdmitted) else None
    counted = event.usage.output_tokens if isinstance(event, e.AssistantReplied) else 0
    result = event if isinstance(event, e.ToolCallFinished) and not stored.redacted else None
    return MessageRow(
        message=message,
        message_id=given or message_id_of(stored.session_id, stored.seq),
        token_count=counted or message_tokens(message),
        status=result.status if result is not None else None,
        facts=result.facts if result is not None else None,
    )


def message_id_of(session_id: str, seq: int) -> str:
    """The id of the message stored at event `seq`; a fork shares the event and therefore the id."""
    return f"{session_id}-{seq}"


STEP = 64
MOST_BYTES = 8 * 1024 * 1024


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Rows with their bodies as JSON; `next_after` leads to the next page, None on the last one."""

    rows: list[tuple[StoredEvent, msgspec.Raw]]
    next_after: int | None


def event_page(
    store: LogStore,
    session_id: str,
    *,
    after: int = 0,
    before: int | None = None,
    limit: int = 200,
    kinds: frozenset[str] | None = None,
) -> EventPage:
    """Events with `after < seq < before`, oldest first. Returns at least one if there is one, however large."""
    rows: list[tuple[StoredEvent, msgspec.Raw]] = []
    size = 0
    while True:
        found = store.read(session_id, after=after, before=before, limit=STEP, kinds=kinds)
        for stored in found:
            if rows and (len(rows) == limit or size > MOST_BYTES):
                return EventPage(rows=rows, next_after=rows[-1][0].seq)
            body = body_json(store, stored)
            rows.append((stored, body))
            size += len(bytes(body))
        if len(found) < STEP:
            return EventPage(rows=rows, next_after=None)
        after = found[-1].seq
