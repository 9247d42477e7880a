"""Process log of a gateway: names, ids and numbers, never message texts or secrets.

A platform's error is logged in its own words: they are about addresses, limits and blocked chats, and the adapter makes
sure that they contain no token.
"""

from __future__ import annotations

import logging
from typing import Any

from outlast.app.logging_setup import error_fields, log_event
from outlast.core.errors import OutlastError
from outlast.doors.gateway.platform import PlatformError

_log = logging.getLogger("outlast.gateway")


def noted(event: str, **facts: Any) -> None:
    """Log a normal event."""
    log_event(_log, logging.INFO, event, **facts)


def warned(event: str, error: OutlastError | None = None, **facts: Any) -> None:
    """Log an event that may need attention."""
    told = {} if error is None else _why(error)
    log_event(_log, logging.WARNING, event, **facts, **told)


def broke(event: str) -> None:
    """Log an unexpected exception with its traceback."""
    _log.exception(event)


def _why(error: OutlastError) -> dict[str, str]:
    if isinstance(error, PlatformError):
        return {"error": type(error).__name__, "why": str(error)}
    return error_fields(error)
