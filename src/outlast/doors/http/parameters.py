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
Limit = Annotated[int, QueryParameter(ge=1, le=MOST_ROWS, description="Maximum number of rows.")]
BeforeSeq = Annotated[int | None, QueryParameter(ge=1, le=LARGEST_SEQ, description="Only rows before this event.")]
AfterSeq = Annotated[int, QueryParameter(ge=0, le=LARGEST_SEQ, description="Only rows after this event.")]


def refused(*more: int) -> dict[int, ResponseSpec]:
    """Return the error responses of a route: 400, 401, 403 and 503, which every route has, and `more`."""
    told = {
        400: "The request is invalid; the detail names the field.",
        401: "The token is missing, wrong or has expired.",
        403: "The host, origin or site is not allowed.",
        404: "There is no such session.",
        405: "Method not allowed.",
        408: "The body did not arrive in time.",
        409: "Conflict with the stored state: ended, busy, ambiguous, or other content under the same key.",
        413: "The body is too large.",
        415: "The body is not JSON.",
        503: "Unavailable: the store cannot be reached, the session is damaged, or there are too many requests.",
    }
    wanted = (400, 401, 403, 503, *more)
    return {code: ResponseSpec(ErrorDetail, description=told[code], generate_examples=False) for code in wanted}


SESSION = refused(404, 409)
CHANGING = refused(404, 408, 409, 413, 415)
