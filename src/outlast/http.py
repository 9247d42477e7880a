"""The HTTP API as an ASGI application: `create_app(load_settings(...))`, for any server or in-process client."""

from outlast.core.errors import MissingExtra

try:
    import litestar as _litestar  # noqa: F401  # pyright: ignore[reportUnusedImport]
except ImportError as error:
    raise MissingExtra("http", "the HTTP door") from error

from outlast.doors.http.app import HttpDoor, create_app

__all__ = ["HttpDoor", "create_app"]
