"""Creates the platform adapter for a gateway table; its library is imported only then."""

from __future__ import annotations

import time
from importlib.util import find_spec

from outlast.app.chat.pairing_code import Pairing, credential_of
from outlast.app.chat.sync_position import SyncPosition
from outlast.app.gateway_settings import GatewaySettings
from outlast.app.settings import Settings
from outlast.core.errors import ConfigError, MissingExtra
from outlast.doors.gateway.identity import Identity, SenderRole
from outlast.doors.gateway.platform import ChatPlatform


def require_gateway(settings: Settings) -> None:
    """Raise, with one sentence, unless chats are configured and their libraries and credentials are available."""
    if not settings.gateway:
        raise ConfigError(
            f"no chats are configured; add a [gateway.NAME] table to {settings.home / 'config.toml'} "
            "(docs/gateway.md shows one)"
        )
    for table in settings.gateway:
        if any(find_spec(name) is None for name in (_LIBRARIES[table.platform], "httpx", "markdown_it")):
            raise MissingExtra("gateway", f"the {table.platform} gateway")
        credential_of(table)


_LIBRARIES = {"telegram": "telegram", "matrix": "nio", "webhook": "uvicorn"}


def platform_for(table: GatewaySettings, settings: Settings) -> ChatPlatform:
    """Create the adapter for this table. Raises ConfigError or MissingExtra with one sentence."""
    credential = credential_of(table)
    try:
        match table.platform:
            case "telegram":
                from outlast.doors.gateway.platforms.telegram import Telegram

                return Telegram(credential, table.api_url)
            case "matrix":
                return _matrix(table, settings, credential)
            case _:
                from outlast.doors.gateway.platforms.webhook import Webhook

                assert table.callback_url is not None
                return Webhook(credential, table.callback_url)
    except ImportError as error:
        raise MissingExtra("gateway", f"the {table.platform} gateway") from error


def _matrix(table: GatewaySettings, settings: Settings, credential: str) -> ChatPlatform:
    from outlast.doors.gateway.platforms.matrix import Matrix

    assert table.homeserver is not None
    assert table.user is not None
    pairing = Pairing(settings, table.name)
    identity = Identity(table, pairing)

    def welcomes(user: str) -> bool:
        """Owners may invite the bot anywhere; while a pairing code is open, any user may, in order to send it."""
        return identity.role(user) is SenderRole.OWNER or pairing.is_open(time.time())

    by_token = table.credential.kind == "token"
    return Matrix(
        table.homeserver,
        table.user,
        token=credential if by_token else None,
        password=None if by_token else credential,
        position=SyncPosition(settings, table.name),
        welcomes=welcomes,
    )
