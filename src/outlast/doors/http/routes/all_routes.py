"""The list of all route handlers."""

from __future__ import annotations

from typing import Any

from outlast.doors.http import event_stream
from outlast.doors.http.routes import (
    approvals,
    export,
    login_and_page,
    messages,
    server_info,
    session_actions,
    session_views,
    sessions,
)

ROUTES: tuple[Any, ...] = (
    login_and_page.page,
    login_and_page.file,
    login_and_page.login,
    login_and_page.new_login,
    login_and_page.logout,
    login_and_page.health,
    sessions.list_sessions,
    sessions.create_session,
    sessions.get_session,
    session_actions.change_session,
    session_actions.delete_session,
    messages.post_message,
    event_stream.stream_session,
    session_actions.end,
    session_actions.reopen,
    session_actions.archive,
    session_actions.unarchive,
    session_actions.fork,
    session_actions.interrupt,
    session_actions.go_on,
    session_actions.retry,
    session_actions.clear,
    session_actions.rewind,
    session_actions.unrewind,
    session_actions.compact,
    session_actions.uncompact,
    approvals.list_approvals,
    approvals.answer_approval,
    session_views.events,
    session_views.timeline,
    session_views.ledger,
    session_views.prompts,
    session_views.tree,
    session_views.usage,
    export.export,
    export.attachment,
    server_info.search_sessions,
    server_info.stats,
    server_info.markdown,
    server_info.info,
    server_info.metrics,
)
