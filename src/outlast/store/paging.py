"""Pages of a list, and the cursors that lead from one to the next."""

from __future__ import annotations

import base64
import binascii

import msgspec

from outlast.core.errors import InvalidInput
from outlast.core.header import Header
from outlast.store.port import Page, Query
from outlast.store.view import Listed, public


def page_of(rows: list[Listed], limit: int, damaged: list[str]) -> Page:
    """All of these rows that a page holds."""
    headers = [row if type(row) is Header else public(row) for _, _, row in rows[:limit] if row is not None]
    more = rows[limit - 1] if len(rows) > limit else None
    return Page(headers=headers, cursor=more and cursor_at(more.at, more.session_id), damaged=damaged)


def wanted(row: Header, query: Query) -> bool:
    """Whether the conditions hold that no store looks at by itself."""
    if query.title is not None and query.title.casefold() not in (row.title or "").casefold():
        return False
    if query.prefix is not None and not row.session_id.startswith(query.prefix):
        return False
    return query.pending is None or query.pending == row.has_work


FIRST = (2**63 - 1, "~")
"""Before everything in a list that begins with the newest."""
FIRST_OF_OLDEST = (-(2**63), "")


def cursor_at(updated_at: int, session_id: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([updated_at, session_id])).decode("ascii").rstrip("=")


def position_in(cursor: str | None, *, oldest_first: bool = False) -> tuple[int, str]:
    if cursor is None:
        return FIRST_OF_OLDEST if oldest_first else FIRST
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=tuple[int, str])
    except (binascii.Error, UnicodeEncodeError, msgspec.DecodeError):
        raise InvalidInput("the cursor is not one that this store gave out; start from the first page") from None
