"""The OpenAPI document: generated from the routes and their types, then completed with facts the framework lacks.

It is generated on the first request for it, so it does not delay the start of the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from litestar import Router
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import (
    Components,
    OpenAPI,
    OpenAPIFormat,
    OpenAPIHeader,
    OpenAPIMediaType,
    OpenAPIResponse,
    OpenAPIType,
    Operation,
    RequestBody,
    Schema,
    SecurityScheme,
)
from litestar.routes import BaseRoute
from litestar.types import ControllerRouterHandler

from outlast._version import __version__
from outlast.doors.http.schemas import Body

DOCUMENT = "/openapi.json"
TEXT = Schema(type=OpenAPIType.STRING)
BYTES = Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY)
CURSOR = Schema(type=OpenAPIType.STRING, description="Cursor of the next page; absent on the last page.")
CONTENTS: dict[str, dict[str, Schema | None]] = {
    "streamSession": {"text/event-stream": None},  # each frame is a separate JSON document
    "exportSession": {"application/x-ndjson": TEXT, "text/markdown": TEXT, "text/html": TEXT},
    "metrics": {"text/plain": TEXT},
    "attachmentOfSession": dict.fromkeys(
        ("application/octet-stream", "image/png", "image/jpeg", "image/gif", "image/webp"), BYTES
    ),
}
PAGED = frozenset({"listSessions", "eventsOfSession"})


@dataclass
class OpenApiDocument(OpenAPI):
    def to_schema(self) -> dict[str, Any]:
        complete(self)
        return super().to_schema()


@dataclass
class _Config(OpenAPIConfig):
    def to_openapi_schema(self) -> OpenAPI:
        made = super().to_openapi_schema()
        return OpenApiDocument(**{one.name: getattr(made, one.name) for one in fields(made)})


class _OnlyTheDocument(Router):
    """Serves only the document, without the HTML page that the framework sends for unknown paths next to it."""

    def register(self, value: ControllerRouterHandler) -> list[BaseRoute]:
        return super().register(value) if DOCUMENT in getattr(value, "paths", ()) else []


def openapi_config() -> OpenAPIConfig:
    schemes = {
        "bearer": SecurityScheme(
            type="http", scheme="bearer", description="OUTLAST_TOKEN, or state/token in the home."
        ),
        "cookie": SecurityScheme(
            type="apiKey", name="outlast-PORT", security_scheme_in="cookie", description="Set by the login link."
        ),
    }
    return _Config(
        title="Outlast",
        version=__version__,
        description="Sessions that cannot be lost, over HTTP. docs/http.md describes its guarantees.",
        openapi_router=_OnlyTheDocument("/api", route_handlers=[], include_in_schema=False),
        render_plugins=[JsonRenderPlugin(path=DOCUMENT)],
        use_handler_docstrings=True,
        components=Components(security_schemes=schemes),  # pyright: ignore[reportArgumentType]
        security=[{"bearer": []}, {"cookie": []}],
    )


def complete(document: OpenAPI) -> None:
    """Add what the framework cannot know: bodies that refuse unknown fields, optional bodies, non-JSON responses."""
    schemas = document.components.schemas
    for kind in Body.__subclasses__():
        if kind.__name__ in schemas:
            schemas[kind.__name__].additional_properties = False
    if "Attachment" in schemas and (properties := schemas["Attachment"].properties):
        data = properties["data"]
        if isinstance(data, Schema):
            data.content_encoding = "base64"
            data.format = "byte"  # pyright: ignore[reportAttributeAccessIssue] the type allows only some formats
    for operation in _operations(document):
        _complete_operation(operation)


def _operations(document: OpenAPI) -> Iterator[Operation]:
    for item in (document.paths or {}).values():
        for operation in (item.get, item.post, item.patch, item.delete):
            if operation is not None:
                yield operation


def _complete_operation(operation: Operation) -> None:
    body = operation.request_body
    if isinstance(body, RequestBody):
        may_be_null = any(_allows_null(media.schema) for media in body.content.values())
        body.required = not may_be_null
    answer = (operation.responses or {}).get("200")
    if not isinstance(answer, OpenAPIResponse):
        return
    contents = CONTENTS.get(operation.operation_id or "")
    if contents is not None:
        answer.content = {name: OpenAPIMediaType(schema=schema) for name, schema in contents.items()}
    if operation.operation_id in PAGED:
        answer.headers = {**(answer.headers or {}), "X-Next-Cursor": OpenAPIHeader(schema=CURSOR, required=False)}


def _allows_null(schema: object) -> bool:
    options = schema.one_of if isinstance(schema, Schema) else None
    return any(isinstance(one, Schema) and one.type == OpenAPIType.NULL for one in options or ())
