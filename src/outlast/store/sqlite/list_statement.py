"""The SQL of a list of sessions: chosen by the query, so that a list reads no more rows than it has to.

Lists by activity walk an index; sessions with work and sessions by title are found through small tables of their own.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.store.engine.validate import storable
from outlast.store.port import Query

LISTED = (
    "SELECT session_id, listed_at, header, crc FROM sessions INDEXED BY sessions_by_activity "
    "WHERE deleted_at IS NULL AND owner_id = :owner AND (listed_at, session_id) < (:at, :id) "
    "AND (:state IS NULL OR state = :state) AND (:project IS NULL OR project_key = :project "
    "OR (:mark IS NOT NULL AND instr(header, :mark))) AND (:base IS NULL OR base_id = :base) "
    "ORDER BY listed_at DESC, session_id DESC LIMIT :limit"
)
ALL_LISTED = (
    "SELECT session_id, listed_at, header, crc FROM sessions INDEXED BY sessions_by_activity "
    "WHERE deleted_at IS NULL AND owner_id = :owner AND (listed_at, session_id) < (:at, :id) "
    "ORDER BY listed_at DESC, session_id DESC LIMIT :limit"
)
# CROSS JOIN makes SQLite start from the short work table, however many sessions there are.
WITH_WORK = (
    "SELECT s.session_id, s.listed_at, s.header, s.crc FROM work w "
    "CROSS JOIN sessions s ON s.session_id = w.session_id "
    "WHERE w.owner_id = :owner AND s.deleted_at IS NULL AND (s.listed_at, s.session_id) < (:at, :id) "
    "AND (:state IS NULL OR s.state = :state) AND (:project IS NULL OR s.project_key = :project "
    "OR (:mark IS NOT NULL AND instr(s.header, :mark))) AND (:base IS NULL OR s.base_id = :base) "
    "ORDER BY s.listed_at DESC, s.session_id DESC LIMIT :limit"
)
WITH_OLDEST_WORK = (
    "SELECT w.session_id, w.since, s.header, s.crc FROM work w "
    "CROSS JOIN sessions s ON s.session_id = w.session_id "
    "WHERE w.owner_id = :owner AND s.deleted_at IS NULL AND (w.since, w.session_id) > (:at, :id) "
    "AND (:state IS NULL OR s.state = :state) AND (:project IS NULL OR s.project_key = :project "
    "OR (:mark IS NOT NULL AND instr(s.header, :mark))) AND (:base IS NULL OR s.base_id = :base) "
    "ORDER BY w.since, w.session_id LIMIT :limit"
)
# CROSS JOIN makes SQLite start from the small table of titles.
WITH_TITLE = (
    "SELECT s.session_id, s.listed_at, s.header, s.crc FROM titles t CROSS JOIN sessions s ON s.sid = t.sid "
    "WHERE t.owner_id = :owner AND instr(t.folded, :title) AND s.deleted_at IS NULL "
    "AND (s.listed_at, s.session_id) < (:at, :id) "
    "AND (:state IS NULL OR s.state = :state) AND (:project IS NULL OR s.project_key = :project "
    "OR (:mark IS NOT NULL AND instr(s.header, :mark))) AND (:base IS NULL OR s.base_id = :base) "
    "ORDER BY s.listed_at DESC, s.session_id DESC LIMIT :limit"
)


def list_statement(query: Query, position: tuple[int, str], limit: int) -> tuple[str, dict[str, Any]]:
    """The statement for a page of the query's list after this position, and its values."""
    statement = _statement(query)
    values: dict[str, Any] = {"owner": query.owner_id, "at": position[0], "id": position[1], "limit": limit}
    if statement is not ALL_LISTED:
        values |= {"state": query.state, "project": query.project_key, "base": query.base_id}
        repository = query.project_fingerprint  # matched as bytes in the header's JSON, without parsing it
        values["mark"] = repository and b'"project_fingerprint":%b' % msgspec.json.encode(repository)
    if statement is WITH_TITLE and query.title is not None:
        values["title"] = query.title.casefold()
    return statement, values


def _statement(query: Query) -> str:
    if query.pending:
        return WITH_OLDEST_WORK if query.oldest_first else WITH_WORK
    if query.title and storable(query.title):
        return WITH_TITLE
    plain = query.state is None and query.project_key is None and query.base_id is None
    return ALL_LISTED if plain else LISTED
