"""The lineage of a session: the sessions it was forked or rotated from, its descendants, and all their sub-agents."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from outlast.core.errors import SessionNotFound
from outlast.core.header import Header
from outlast.store.log_store import LogStore
from outlast.store.port import Query

MOST_SEEN = 5_000
MOST_MEMBERS = 1_000
PAGE = 500


class LineageMember(msgspec.Struct, frozen=True, kw_only=True):
    """A session and its origin: `relation` is root, fork, rotation or task (a sub-agent of `parent_id`).

    `base_seq` is the last event that a fork shares with its parent; 0 for others.
    """

    id: str
    parent_id: str | None
    relation: str
    base_seq: int
    title: str | None
    state: str
    depth: int
    message_count: int
    is_running: bool
    created_at: int
    updated_at: int


class LineageTree(msgspec.Struct, frozen=True, kw_only=True):
    """All members, each after its parent. `complete` is False if there were too many to read."""

    root_id: str
    members: list[LineageMember]
    complete: bool


def family_of(store: LogStore, session_id: str) -> LineageTree:
    header = store.head(session_id)
    root = _oldest(store, header)
    known, complete = _of_project(store, root)
    known |= {one.session_id: one for one in (root, header)}
    children: dict[str, list[Header]] = {}
    for one in known.values():
        children.setdefault(_above(one) or "", []).append(one)
    members: list[LineageMember] = []
    for one in _walk(root, children):
        if len(members) == MOST_MEMBERS:
            complete = False
            break
        members.append(_member(one, known))
    return LineageTree(root_id=root.session_id, members=members, complete=complete)


def _above(header: Header) -> str | None:
    return header.base_id or header.parent_session_id


def _oldest(store: LogStore, header: Header) -> Header:
    """The oldest ancestor that still exists."""
    seen = {header.session_id}
    while (above := _above(header)) is not None and above not in seen:
        seen.add(above)
        try:
            header = store.head(above)
        except SessionNotFound:
            break  # deleted: its child is the oldest now
    return header


def _of_project(store: LogStore, root: Header) -> tuple[dict[str, Header], bool]:
    """All sessions of the root's project: forks and sub-agents stay in the project of their parent."""
    query = Query(owner_id=root.owner_id, project_key=root.project_key, limit=PAGE)
    known: dict[str, Header] = {}
    while True:
        page = store.find(query)
        known |= {header.session_id: header for header in page.headers}
        if page.cursor is None or len(known) >= MOST_SEEN:
            return known, page.cursor is None
        query = msgspec.structs.replace(query, cursor=page.cursor)


def _walk(header: Header, children: dict[str, list[Header]]) -> Iterator[Header]:
    waiting, seen = [header], set[str]()
    while waiting:
        one = waiting.pop()
        if one.session_id in seen:
            continue
        seen.add(one.session_id)
        yield one
        below = sorted(children.get(one.session_id, ()), key=lambda child: child.created_at, reverse=True)
        waiting.extend(below)


def _member(header: Header, known: dict[str, Header]) -> LineageMember:
    above = _above(header)
    parent = known.get(above or "")
    if parent is None:
        relation = "root"
    elif parent.rotated_to == header.session_id:
        relation = "rotation"
    else:
        relation = "fork" if header.base_id else "task"
    return LineageMember(
        id=header.session_id,
        parent_id=above if parent is not None else None,
        relation=relation,
        base_seq=header.base_seq if parent is not None else 0,
        title=header.title,
        state=header.state,
        depth=header.depth,
        message_count=header.message_count,
        is_running=header.turn is not None,
        created_at=header.created_at,
        updated_at=header.updated_at,
    )
