"""Gateway status: what a running gateway reports (`$OUTLAST_HOME/state/gateway.json`), and the undelivered items."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from outlast.app.chat.chat_router import ChatRouter
from outlast.app.chat.delivery_log import DeliveryLog
from outlast.app.chat.pairing_code import Pairing
from outlast.app.gateway_settings import GatewaySettings
from outlast.app.settings import Settings, variables
from outlast.core.chat_route import route_prefix
from outlast.core.errors import ConfigError
from outlast.runtime import private_file
from outlast.store import open_to_read, place_of
from outlast.store.process_identity import holder, holder_is_gone


class AccountState(msgspec.Struct, kw_only=True):
    """State of one account: starting, connected, waiting (with the reason in `detail`) or stopped."""

    name: str
    state: str = "starting"
    detail: str | None = None


class GatewayReport(msgspec.Struct, kw_only=True):
    """Current status of one configured gateway. `owed` counts the chats with undelivered items."""

    name: str
    platform: str
    state: str
    detail: str | None
    owners: int
    members: int
    permission_mode: str
    project: str
    credential: bool
    chats: int
    owed: int


class _Noted(msgspec.Struct, kw_only=True):
    holder: str
    lines: list[AccountState]


def note_gateway(settings: Settings, lines: list[AccountState]) -> None:
    """Write the state of this process's accounts. If the home is not writable, only the status is lost."""
    with suppress(OSError):
        private_file.replace(_path(settings), msgspec.json.encode(_Noted(holder=holder(), lines=lines)))


def forget_gateway(settings: Settings) -> None:
    """Remove this process's status file."""
    found = _noted(settings)
    if found is not None and found.holder == holder():
        _path(settings).unlink(missing_ok=True)


def gateway_report(settings: Settings) -> list[GatewayReport]:
    """Status of every configured gateway. Only reads: a missing store is not created."""
    found = _noted(settings)
    alive = {} if found is None or holder_is_gone(found.holder) else {line.name: line for line in found.lines}
    counts = _counts(settings)
    return [
        _report(settings, table, alive.get(table.name), *counts.get(table.name, (0, 0))) for table in settings.gateway
    ]


def named_gateway(settings: Settings, name: str) -> GatewaySettings:
    """The gateway table with that name; the `ConfigError` lists the existing names."""
    for table in settings.gateway:
        if table.name == name:
            return table
    names = ", ".join(table.name for table in settings.gateway)
    have = f"there are {names}" if names else "add a [gateway.NAME] table to config.toml first"
    raise ConfigError(f"there is no gateway '{name}'; {have}")


def _report(
    settings: Settings, table: GatewaySettings, line: AccountState | None, chats: int, owed: int
) -> GatewayReport:
    variable = table.credential.variable
    return GatewayReport(
        name=table.name,
        platform=table.platform,
        state=line.state if line is not None else "stopped",
        detail=line.detail if line is not None else None,
        owners=len(table.owners | Pairing(settings, table.name).owners()),
        members=len(table.members),
        permission_mode=str(table.permission_mode),
        project=str(table.project or settings.project_root),
        credential=variable is None or bool(variables([variable])),
        chats=chats,
        owed=owed,
    )


def _counts(settings: Settings) -> dict[str, tuple[int, int]]:
    """(chats, chats with undelivered items) by gateway."""
    _, path = place_of(settings.store)
    if not settings.gateway or (path is not None and not path.exists()):
        return {}
    store = open_to_read(settings.store)
    try:
        return {table.name: _count(ChatRouter(store), DeliveryLog(store), table) for table in settings.gateway}
    finally:
        store.close()


def _count(chats: ChatRouter, deliveries: DeliveryLog, table: GatewaySettings) -> tuple[int, int]:
    routes = chats.routes(route_prefix(table.platform, table.name))
    owed = {route for route, session_id, _ in routes if deliveries.outbox(route, session_id).items}
    return len({route for route, _, debt in routes if not debt}), len(owed)


def _noted(settings: Settings) -> _Noted | None:
    try:
        return msgspec.json.decode(private_file.read_bytes(_path(settings)) or b"", type=_Noted)
    except (ConfigError, msgspec.MsgspecError):
        return None


def _path(settings: Settings) -> Path:
    return settings.home / "state" / "gateway.json"
