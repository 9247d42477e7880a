"""The session whose turn is running in this context; `outlast.context` is the public way to read it."""

from __future__ import annotations

from contextvars import ContextVar

current: ContextVar[str | None] = ContextVar("outlast_session_id", default=None)
