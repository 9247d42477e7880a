"""`[gateway.NAME]` tables of `config.toml` in the Outlast home: the configured chats and their rights.

    [gateway.home]
    platform = "telegram"
    token_env = "TELEGRAM_TOKEN"
    owners = ["1001"]
    project = "~/srv/shop"

They are not allowed in a project's file: a cloned repository must not decide who may talk to the agent, or with what
rights. An error is one sentence that names the table and the key. Defaults are cautious: no owners, no write access,
and in groups the agent answers only when it is addressed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from outlast.core.errors import ConfigError
from outlast.core.events import Delivery
from outlast.runtime.permissions.mode import PermissionMode

PLATFORMS = ("telegram", "matrix", "webhook")
GROUPS = ("addressed", "always", "never")
COMPACTIONS = ("in_place", "rotate")
EDIT_SECONDS = {"telegram": 1.5, "matrix": 5.0, "webhook": 0.0}
SECRET_LENGTH = 32
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A secret as configured: the value, or the environment variable that holds it. `kind` is its type."""

    kind: str
    value: str | None = field(default=None, repr=False)
    variable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """One table. `owners` and `members` are the platform's immutable user ids: owners may do everything the chat may,
    members may only talk. In shared groups, `per_user` gives each user a session. `chats` overrides the permission mode
    of single chats."""

    name: str
    platform: str
    credential: Credential
    owners: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    project: Path | None = None
    permission_mode: PermissionMode = PermissionMode.READ_ONLY
    chats: Mapping[str, PermissionMode] = field(default_factory=dict[str, PermissionMode])
    model: str | None = None
    persona: str | None = None
    busy: Delivery = Delivery.QUEUE
    groups: str = "addressed"
    per_user: bool = True
    per_thread: bool = True
    edit_seconds: float = 1.5
    compaction: str = "in_place"
    compact_at_tokens: int | None = None
    api_url: str | None = None
    homeserver: str | None = None
    user: str | None = None
    callback_url: str | None = None

    def mode_of(self, chat: str) -> PermissionMode:
        """The permission mode of that chat."""
        return self.chats.get(chat, self.permission_mode)

    def mode_for(self, chats: Iterable[str]) -> PermissionMode:
        """The permission mode of a session that all these chats lead to: the lowest of their modes, or read-only if
        none of them is at most all others."""
        modes = {self.mode_of(chat) for chat in chats}
        least = (mode for mode in modes if all(mode.is_at_most(other) for other in modes))
        return next(least, PermissionMode.READ_ONLY)


def gateway_tables(where: str, key: str, value: object) -> tuple[GatewaySettings, ...]:
    """All `[gateway.NAME]` tables of a file, sorted by name."""
    tables = _table(where, "gateway", value, "[gateway.NAME] tables")
    return tuple(_gateway(f"{where}: gateway.{name}", name, tables[name]) for name in sorted(tables))


def _gateway(where: str, name: str, value: object) -> GatewaySettings:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: the name must be at most 32 of a-z, 0-9, _ and -, like [gateway.home]")
    table = _table(where, name, value, f"a table, [gateway.{name}]")
    platform = table.get("platform")
    if platform not in PLATFORMS:
        raise ConfigError(f"{where}: platform must be one of {', '.join(PLATFORMS)}")
    known = {**_EVERYWHERE, **_OF_PLATFORM[platform]}
    secrets = _SECRETS[platform]
    allowed = {*known, *secrets, *(f"{secret}_env" for secret in secrets), "platform"}
    for key in table:
        if key not in allowed:
            raise ConfigError(f"{where}: unknown key '{key}'; known keys are {', '.join(sorted(allowed))}")
    for key in _NEEDED[platform]:
        if key not in table:
            raise ConfigError(f"{where}: {key} is missing; {platform} needs it")
    values = {key: check(where, key, table[key]) for key, check in known.items() if key in table}
    values.setdefault("edit_seconds", EDIT_SECONDS[platform])
    return GatewaySettings(
        name=name, platform=platform, credential=_credential(where, platform, table), **cast("dict[str, Any]", values)
    )


def _credential(where: str, platform: str, table: Mapping[str, object]) -> Credential:
    from outlast.runtime.tools.process.environment import clean_environment  # imported only if a gateway is configured

    secrets = _SECRETS[platform]
    given = [key for key in (*secrets, *(f"{secret}_env" for secret in secrets)) if key in table]
    if len(given) != 1:
        either = " or ".join(f"{secret} (or {secret}_env)" for secret in secrets)
        raise ConfigError(f"{where}: give exactly one of {either}")
    text = _text(where, given[0], table[given[0]])
    kind = given[0].removesuffix("_env")
    if kind != given[0]:
        if text in clean_environment({text: "x"}):
            raise ConfigError(f"{where}: tools would see the variable {text}; use a name with {kind.upper()} in it")
        return Credential(kind=kind, variable=text)
    if platform == "webhook" and len(text) < SECRET_LENGTH:
        raise ConfigError(f"{where}: {given[0]} must have at least {SECRET_LENGTH} characters; use a longer random one")
    return Credential(kind=kind, value=text)


# ---- validation -----------------------------------------------------------------------------------------------------


def _table(where: str, key: str, value: object, wanted: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: {key} must be {wanted}")
    return cast("dict[str, object]", value)


def _text(where: str, key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: {key} must be text that is not empty")
    return value


def _ids(where: str, key: str, value: object) -> frozenset[str]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f'{where}: {key} must be a list of user ids, like ["1001"]')
    found = cast("Sequence[object]", value)
    for one in found:
        if isinstance(one, bool) or not isinstance(one, str | int) or not str(one).strip():
            raise ConfigError(f'{where}: {key} must be a list of user ids, like ["1001"]')
        if isinstance(one, str) and re.fullmatch(r"@\w{4,32}", one):
            raise ConfigError(
                f"{where}: {key} has the user name {one}, which another person can take over; "
                "use the id, which `outlast gateway pair` finds for you"
            )
    return frozenset(str(one) for one in found)


def _folder(where: str, key: str, value: object) -> Path:
    folder = Path(os.path.abspath(os.path.expanduser(_text(where, key, value))))
    if not folder.is_dir():
        raise ConfigError(f"{where}: {key} {folder} is not a folder; correct it or make it first")
    return folder


def _mode(where: str, key: str, value: object) -> PermissionMode:
    return PermissionMode(_one_of(*PermissionMode)(where, key, value))


def _chats(where: str, key: str, value: object) -> dict[str, PermissionMode]:
    table = _table(where, key, value, 'a table of chat ids and their modes, like "-1001" = "workspace-write"')
    return {chat: _mode(where, f"{key}.{chat}", mode) for chat, mode in table.items()}


def _busy(where: str, key: str, value: object) -> Delivery:
    return Delivery(_one_of(*Delivery)(where, key, value))


def _one_of(*choices: str) -> Callable[[str, str, object], str]:
    def check(where: str, key: str, value: object) -> str:
        if value not in choices:
            raise ConfigError(f"{where}: {key} must be one of {', '.join(choices)}")
        return str(value)

    return check


def _flag(where: str, key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: {key} must be true or false")
    return value


def _seconds(where: str, key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 3600:
        raise ConfigError(f"{where}: {key} must be a number of seconds, 0 to 3600; 0 shows only whole replies")
    return float(value)


def _tokens(where: str, key: str, value: object) -> int:
    if type(value) is not int or not 1_000 <= value <= 100_000_000:
        raise ConfigError(f"{where}: {key} must be a number of tokens, at least 1000")
    return value


def _url(where: str, key: str, value: object) -> str:
    url = _text(where, key, value).rstrip("/")
    if not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", url):
        raise ConfigError(f"{where}: {key} must be an address that starts with https:// (or http:// on this machine)")
    return url


def _matrix_id(where: str, key: str, value: object) -> str:
    user = _text(where, key, value)
    if not re.fullmatch(r"@[^:\s]+:\S+", user):
        raise ConfigError(f"{where}: {key} must be a Matrix id, like @outlast:example.org")
    return user


_Check = Callable[[str, str, object], object]
_EVERYWHERE: Mapping[str, _Check] = {
    "owners": _ids,
    "members": _ids,
    "project": _folder,
    "permission_mode": _mode,
    "chats": _chats,
    "model": _text,
    "persona": _text,
    "busy": _busy,
    "groups": _one_of(*GROUPS),
    "per_user": _flag,
    "per_thread": _flag,
    "edit_seconds": _seconds,
    "compaction": _one_of(*COMPACTIONS),
    "compact_at_tokens": _tokens,
}
_OF_PLATFORM: Mapping[str, Mapping[str, _Check]] = {
    "telegram": {"api_url": _url},
    "matrix": {"homeserver": _url, "user": _matrix_id},
    "webhook": {"callback_url": _url},
}
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "telegram": (),
    "matrix": ("homeserver", "user"),
    "webhook": ("callback_url",),
}
_SECRETS: Mapping[str, tuple[str, ...]] = {
    "telegram": ("token",),
    "matrix": ("token", "password"),
    "webhook": ("secret",),
}
