"""Search and statistics over all sessions, Markdown parsing, server information and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter

from outlast._version import __version__
from outlast.app.permissions import modes_under
from outlast.app.sessions.search import search
from outlast.app.sessions.session_list import folder_named
from outlast.app.sessions.statistics import UsageStatistics
from outlast.app.turn_setup import personas_here
from outlast.app.workers.metrics import CONTENT_TYPE
from outlast.doors.http.parameters import OpenServer, refused
from outlast.doors.http.request_metrics import RequestMetrics
from outlast.doors.http.schemas import MarkdownRequest, PersonaInfo, SearchResults, ServerInfo
from outlast.doors.http.server_state import OWNER
from outlast.doors.web.markdown import trees
from outlast.runtime.prompt.project_identity import project_key

Folder = Annotated[str | None, QueryParameter(max_length=4096, description="The path of a folder on the server.")]


@get(
    "/api/search",
    summary="Find words in all sessions",
    operation_id="search",
    tags=["projections"],
    responses=refused(),
)
async def search_sessions(
    server: OpenServer,
    q: Annotated[str, QueryParameter(min_length=1, max_length=1000, description="A word, or a part of one.")],
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 20,
    project: Folder = None,
) -> SearchResults:
    """Always up to date, works in any script, and returns the newest match of each lineage."""
    found = await server.read(search, server.store, q, owner_id=OWNER, limit=limit, project=_folder(project))
    return msgspec.convert(found, SearchResults, from_attributes=True)


@get(
    "/api/stats",
    summary="Sessions, turns, tokens and cost",
    operation_id="stats",
    tags=["projections"],
    responses=refused(),
)
async def stats(server: OpenServer, project: Folder = None) -> UsageStatistics:
    """By model, project and day. Unknown costs are not estimated: `unpriced` counts the replies without a cost. The
    first calls on a large store leave sessions out, as many as `uncounted`, until all are counted in the background."""
    return await server.statistics(_folder(project))


def _folder(path: str | None) -> Path | None:
    return folder_named(path) if path else None


@post(
    "/api/markdown",
    status_code=200,
    summary="Markdown as trees to draw",
    operation_id="markdown",
    tags=["server"],
    responses=refused(408, 413, 415),
)
async def markdown(server: OpenServer, data: JSONBody[MarkdownRequest]) -> list[list[Any]]:
    """Returns one list of nodes for each text. A node is a text, or has a `tag` and `nodes`; raw HTML is text."""
    return await server.read(trees, data.texts)


@get("/api/info", summary="What this server is", operation_id="info", tags=["server"], responses=refused())
async def info(server: OpenServer) -> ServerInfo:
    settings = server.settings
    personas = await server.read(personas_here, settings)
    return ServerInfo(
        version=__version__,
        store=settings.store.partition("://")[0],
        project_root=str(settings.project_root),
        project_key=project_key(settings.project_root),
        model=settings.model,
        answers=server.pool.answers,
        permission_mode=str(settings.permission_mode),
        permission_modes=[str(mode) for mode in modes_under(settings.permission_mode)],
        personas=[PersonaInfo(name=one.name, description=one.description, source=one.source) for one in personas],
    )


@get(
    "/metrics",
    summary="For Prometheus",
    operation_id="metrics",
    tags=["server"],
    responses=refused(),
    media_type="text/plain",
)
async def metrics(server: OpenServer, request_metrics: NamedDependency[RequestMetrics]) -> Response[str]:
    return Response(await request_metrics.text(server), media_type="text/plain", headers={"content-type": CONTENT_TYPE})
