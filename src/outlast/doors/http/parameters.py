"""Parameters and error responses that many routes share."""

from __future__ import annotations

from typing import Annotated

from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import PathParameter, QueryParameter

from outlast.doors.http.errors import ErrorDetail
from outlast.doors.http.schemas import LARGEST_SEQ
from outlast.doors.http.server_state import ServerState

MOST_ROWS = 1000

OpenServer = NamedDependency[ServerState]

SessionId = Annotated[
    str,
    PathParameter(
        description="The id of a session, or its first 6 or more characters.",
        schema_extra={"pattern": "^[a-z2-7]{6,26}$"},
    ),
]
Limit = Annotated[int, QueryParameter(ge=1, le=MOST_ROWS, description="At most so many.")]
BeforeSeq = Annotated[int | None, QueryParameter(ge=1, le=LARGEST_SEQ, description="Only what is before this event.")]
AfterSeq = Annotated[int, QueryParameter(ge=0, le=LARGEST_SEQ, description="Only what is after this event.")]


def refused(*more: int) -> dict[int, ResponseSpec]:
    """Return the error responses of a route: 400, 401, 403 and 503, which every route has, and `more`."""
    told = {
        400: "Something that was sent does not fit; the detail names it.",
        401: "The token is missing, wrong or has expired.",
        403: "Not from this host, origin or site.",
        404: "There is no such session.",
        405: "Not possible here.",
        408: "The body did not come in time.",
        409: "It conflicts with what is stored: ended, busy, ambiguous, or another content under the same key.",
        413: "The body is too large.",
        415: "The body is not JSON.",
        503: "Not now: the store cannot be reached, the session is damaged, or there are too many requests.",
    }
    wanted = (400, 401, 403, 503, *more)
    return {code: ResponseSpec(ErrorDetail, description=told[code], generate_examples=False) for code in wanted}


SESSION = refused(404, 409)
CHANGING = refused(404, 408, 409, 413, 415)
