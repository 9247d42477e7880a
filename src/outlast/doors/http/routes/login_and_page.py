"""The web page and its files, login and logout, and the health check."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.exceptions import NotFoundException
from litestar.params import FromPath, QueryParameter

from outlast.doors.http.middleware.auth import CODE_SECONDS, LOGIN_PATH, USED, Authenticator
from outlast.doors.http.parameters import refused
from outlast.doors.http.schemas import Health, LoginLink
from outlast.doors.web.assets import Asset, asset, index_page, login_page


def _sent(found: Asset, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(
        found.body, status_code=status, media_type=found.media_type, headers={**found.headers, **(headers or {})}
    )


@get("/", include_in_schema=False)
async def page() -> Response[bytes]:
    return _sent(index_page())


@get("/static/{path:path}", include_in_schema=False)
async def file(path: FromPath[str]) -> Response[bytes]:
    found = asset(path.lstrip("/"))
    if found is None:
        raise NotFoundException
    return _sent(found)


@get(LOGIN_PATH, include_in_schema=False)
async def login(
    request: Request[Any, Any, Any],
    secret: NamedDependency[Authenticator],
    code: Annotated[str | None, QueryParameter(max_length=200)] = None,
) -> Response[bytes]:
    """Exchange a valid code for a cookie; the code becomes invalid."""
    if code is None:
        return _sent(login_page())
    if not secret.take(code):
        return _sent(login_page(USED), 401)
    return Response(b"", status_code=303, headers={"location": "/", "set-cookie": secret.cookie(request.scope)})


@post(
    "/api/login",
    status_code=200,
    summary="Create a login link",
    operation_id="createLogin",
    tags=["server"],
    responses=refused(),
)
async def new_login(secret: NamedDependency[Authenticator]) -> LoginLink:
    """A path that logs in one browser, once, within the next few minutes."""
    return LoginLink(path=f"{LOGIN_PATH}?code={secret.code()}", expires_in=CODE_SECONDS)


@post(
    "/api/logout",
    status_code=200,
    summary="Log this browser out",
    operation_id="logout",
    tags=["server"],
    responses=refused(),
)
async def logout(request: Request[Any, Any, Any]) -> Response[Health]:
    """Deletes the cookie. Every other browser stays logged in; `outlast serve --new-token` logs them all out."""
    return Response(Health(status="ok"), headers={"set-cookie": Authenticator.no_cookie(request.scope)})


@get("/healthz", summary="Check that the server answers", operation_id="health", tags=["server"], security=[{}])
async def health() -> Health:
    """Reports only that the server answers."""
    return Health(status="ok")
