"""What a gateway says in the log of its process: names, ids and numbers, never what was said, nor a secret.

A platform's trouble is told in its own words: they are about addresses, limits and blocked chats, and an adapter takes
care that no token is among them.
"""

from __future__ import annotations

import logging
from typing import Any

from outlast.app.logging_setup import error_fields, log_event
from outlast.core.errors import OutlastError
from outlast.doors.gateway.platform import PlatformError

_log = logging.getLogger("outlast.gateway")


def noted(event: str, **facts: Any) -> None:
    """Something that is as it should be."""
    log_event(_log, logging.INFO, event, **facts)


def warned(event: str, error: OutlastError | None = None, **facts: Any) -> None:
    """Something that somebody may have to look at."""
    told = {} if error is None else _why(error)
    log_event(_log, logging.WARNING, event, **facts, **told)


def broke(event: str) -> None:
    """Something that nobody foresaw, with where it was raised."""
    _log.exception(event)


def _why(error: OutlastError) -> dict[str, str]:
    if isinstance(error, PlatformError):
        return {"error": type(error).__name__, "why": str(error)}
    return error_fields(error)
