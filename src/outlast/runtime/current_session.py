"""The session whose turn is running in this context; the facade `outlast.context` tells others."""

from __future__ import annotations

from contextvars import ContextVar

current: ContextVar[str | None] = ContextVar("outlast_session_id", default=None)
