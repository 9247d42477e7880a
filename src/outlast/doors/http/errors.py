"""Maps errors to responses: one table of status codes, one response shape.

A response never contains a traceback. Unexpected errors are logged.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from outlast.core import errors as e

JSON = "application/json"
_log = logging.getLogger("outlast.http")

STATUS: tuple[tuple[type[e.OutlastError], int], ...] = (
    (e.SessionNotFound, 404),
    (e.AmbiguousSession, 409),
    (e.SessionEnded, 409),
    (e.SessionBusy, 409),
    (e.StaleLease, 409),
    (e.ConflictError, 409),
    (e.InvalidInput, 400),
    (e.ConfigError, 400),
    (e.MissingExtra, 400),
    (e.DamagedSession, 503),
    (e.OutcomeUnknown, 503),
    (e.StoreUnavailable, 503),
    (e.ModelError, 503),
    (e.Refused, 409),
    (e.OutlastError, 400),
)
"""The first matching row counts."""


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One sentence: what is wrong and what the client can do. `matches` lists the sessions that match an ambiguous
    prefix."""

    detail: str
    matches: list[str] | None = None
    key: str | None = None
    """The idempotency key under which a write of unknown outcome can be repeated safely."""


def status_of(error: e.OutlastError) -> int:
    return next(status for kind, status in STATUS if isinstance(error, kind))


def foreseen(request: Request[Any, Any, Any], error: e.OutlastError) -> Response[ErrorDetail]:
    matches = error.matches if isinstance(error, e.AmbiguousSession) else None
    key = error.key if isinstance(error, e.OutcomeUnknown) else None
    answer = ErrorDetail(detail=" ".join(str(error).split()), matches=matches, key=key)
    return Response(answer, status_code=status_of(error), media_type=JSON)


def of_framework(request: Request[Any, Any, Any], error: HTTPException) -> Response[ErrorDetail]:
    """Answer a refusal of the router: unknown path, unknown method, invalid query value."""
    headers = {
        name: _without_options(value) for name, value in (error.headers or {}).items() if name.lower() == "allow"
    }
    if error.status_code >= 500:
        _log.error("a request failed: %s", error.detail, exc_info=error)
    return Response(
        ErrorDetail(detail=_sentence(request, error)),
        status_code=error.status_code,
        media_type=JSON,
        headers=headers,
    )


def _without_options(allow: str) -> str:
    return ", ".join(method for method in allow.split(", ") if method != "OPTIONS")


def _sentence(request: Request[Any, Any, Any], error: HTTPException) -> str:
    match error.status_code:
        case 404:
            return "there is nothing at this path; /api/openapi.json lists all paths"
        case 405:
            return "this method is not allowed here; /api/openapi.json lists the allowed ones"
        case status if status >= 500:
            return UNFORESEEN
        case _:
            return _what_does_not_fit(error) or error.detail


def _what_does_not_fit(error: HTTPException) -> str | None:
    if not isinstance(error, ValidationException) or not isinstance(error.extra, list):
        return None
    if any(one.get("key") == "data" for one in error.extra):
        return "the body is missing; send JSON"
    # `of_state` is our parameter for `state`, a name that the framework reserves.
    names = [str(one.get("key", "a value")).removeprefix("of_") for one in error.extra]
    found = [f"{name}: {one.get('message', 'is invalid')}" for name, one in zip(names, error.extra, strict=True)]
    return "; ".join(" ".join(one.split()) for one in found) or None


UNFORESEEN = "the server failed with an unexpected error; its log has the cause, and no stored data is lost"


def unforeseen(request: Request[Any, Any, Any], error: Exception) -> Response[ErrorDetail]:
    _log.error("%s failed", request.method, exc_info=error)
    return Response(ErrorDetail(detail=UNFORESEEN), status_code=500, media_type=JSON)


HANDLERS = {e.OutlastError: foreseen, HTTPException: of_framework, Exception: unforeseen}
