"""Implements `outlast serve`: binds the socket, prints the address and serves. Also gets login links from a running
server."""

from __future__ import annotations

import asyncio
import http.client
import json as json_lines
import socket
import ssl
import sys
from dataclasses import replace
from urllib.parse import urlsplit

import msgspec

from outlast.app.api_token import TokenFile
from outlast.app.models import check_named
from outlast.app.server_registry import RunningServer, forget_running, note_running, running
from outlast.app.settings import Settings
from outlast.app.stores import shown_url
from outlast.app.workers.options import WorkerOptions
from outlast.core.errors import ConfigError, OutlastError
from outlast.doors.http.app import HttpDoor, SideService
from outlast.doors.http.middleware.auth import LOGIN_PATH
from outlast.doors.http.schemas import LoginLink
from outlast.doors.http.server.listen import ListenAddress, check, listening, spelled, tls_context
from outlast.doors.http.server.uvicorn_server import serve
from outlast.runtime.agent_config import AgentConfig

PATIENCE_SECONDS = 10
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 only compared, not bound


def serve_here(
    settings: Settings,
    wanted: ListenAddress,
    working: WorkerOptions | None = None,
    *,
    config: AgentConfig | None = None,
    new_token: bool = False,
    json: bool = False,
    beside: SideService | None = None,
) -> None:
    """Serve until a signal arrives. Invalid flags are reported before anything is opened."""
    warnings, tls, working = check(wanted), tls_context(wanted), (working or WorkerOptions()).checked()
    if working.works:
        check_named(settings)
    if new_token:
        TokenFile(settings).replace()
    listener = listening(wanted)
    port = listener.getsockname()[1] if wanted.unix is None else 0
    if wanted.unix is None and wanted.host not in EVERYWHERE:
        own = f"{spelled(wanted.host)}:{port}"
        settings = replace(settings, allowed_hosts=(*settings.allowed_hosts, own))
    door = HttpDoor(settings, config=config, working=working, public_url=wanted.public_url, beside=beside)
    here = _here(wanted, port)

    def ready() -> None:
        note_running(settings, here)
        _tell(settings, wanted, here, door.secret.code(), warnings, json)

    try:
        asyncio.run(serve(door, listener, tls, ready))
    finally:
        listener.close()
        forget_running(settings)
        if wanted.unix is not None:
            wanted.unix.expanduser().absolute().unlink(missing_ok=True)


def _here(wanted: ListenAddress, port: int) -> RunningServer:
    if wanted.unix is not None:
        path = str(wanted.unix.expanduser().absolute())
        return RunningServer(url=wanted.public_url or "http://localhost", connect=path)
    connect = f"{wanted.scheme}://{spelled(wanted.reached)}:{port}"
    certificate = str(wanted.tls_cert.expanduser().absolute()) if wanted.tls_cert is not None else None
    return RunningServer(url=wanted.url(port), connect=connect, certificate=certificate)


def _tell(
    settings: Settings, wanted: ListenAddress, here: RunningServer, code: str, warnings: list[str], json: bool
) -> None:
    login = f"{here.url}{LOGIN_PATH}?code={code}"
    for warning in warnings:
        print(f"outlast: warning: {warning}", file=sys.stderr, flush=True)
    if json:
        told = {"url": here.url, "login_url": login, "connect": here.connect, "store": shown_url(settings.store)}
        print(json_lines.dumps(told | {"warnings": warnings}), flush=True)
        return
    where = f"the socket {here.connect}" if wanted.unix is not None else here.url
    print(
        f"Outlast is at {where}\n"
        f"Log a browser in: {login}\n"
        "  (works once, for a few minutes; `outlast serve url` prints another)\n"
        f"Sessions are in {shown_url(settings.store)}\n"
        "Ctrl-C stops it: sessions are kept, and turns continue at the next start.",
        flush=True,
    )


# --- the running server ----------------------------------------------------------------------------------------------


def fresh_login(settings: Settings) -> str:
    """Return a new login link from the server that runs with this home."""
    found = running(settings)
    if found is None:
        raise OutlastError("no server runs with this home; start one with `outlast serve`")
    token = TokenFile(settings).token()
    connection = _connection(found)
    try:
        # Every server accepts this host name; `_connection` decided which machine is reached.
        connection.request("POST", "/api/login", headers={"Authorization": f"Bearer {token}", "Host": _host(found)})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise OutlastError(f"the server at {found.connect} does not answer ({error}); start it again") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise ConfigError(
            f"the server at {found.connect} refuses this token; it was started with another OUTLAST_TOKEN"
        )
    return f"{found.url}{msgspec.json.decode(body, type=LoginLink).path}"


def _host(found: RunningServer) -> str:
    if not found.connect.startswith("http"):
        return "localhost"
    return urlsplit(found.connect).netloc


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_SECONDS)
        self.sock.connect(self._path)


def _connection(found: RunningServer) -> http.client.HTTPConnection:
    if not found.connect.startswith("http"):
        return _UnixConnection(found.connect)
    parts = urlsplit(found.connect)
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_SECONDS)
    context = ssl.create_default_context(cafile=found.certificate)
    context.check_hostname = False  # the server is reached by its address; we trust exactly its certificate
    return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=PATIENCE_SECONDS, context=context)
