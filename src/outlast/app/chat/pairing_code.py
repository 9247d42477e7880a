"""Pairing: makes a chat user an owner without looking up the user's id.

The user runs `outlast gateway pair NAME`, which prints a code, and sends the code to the bot in a private chat. A code
works once, for ten minutes, and is void after a few wrong tries by any user. Owners are stored in the Outlast home,
never in the store: write access to sessions must not grant the right to speak.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from outlast.app.gateway_settings import SECRET_LENGTH, GatewaySettings
from outlast.app.settings import Settings, variables
from outlast.core.errors import ConfigError
from outlast.runtime.private_file import Table, read_json, update_locked

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
CODE_LENGTH = 8
CODE_SECONDS = 600
MOST_TRIES = 5


def credential_of(table: GatewaySettings) -> str:
    """The secret a gateway authenticates with; raises `ConfigError` if its environment variable is not set."""
    given = table.credential
    if given.value is not None:
        return given.value
    assert given.variable is not None
    found = variables([given.variable]).get(given.variable)
    if found is None:
        raise ConfigError(f"gateway.{table.name}: the environment variable {given.variable} is not set; set it")
    if table.platform == "webhook" and len(found) < SECRET_LENGTH:
        raise ConfigError(
            f"gateway.{table.name}: {given.variable} must have at least {SECRET_LENGTH} characters; use a longer one"
        )
    return found


class Pairing:
    """The paired owners of one gateway, in `$OUTLAST_HOME/gateway/NAME.json`. `now` is the clock in seconds."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.path = settings.home / "gateway" / f"{name}.json"
        self._known: tuple[tuple[int, int] | None, frozenset[str]] = (None, frozenset())

    def owners(self) -> frozenset[str]:
        """The paired users; changes by other processes are visible at once."""
        stamp = _stamp(self.path)
        if stamp is None:
            return frozenset()
        if self._known[0] != stamp:
            self._known = (stamp, frozenset(_object(read_json(self.path) or {}, "owners")))
        return self._known[1]

    def issue(self, now: float) -> str:
        """Create a new code, which replaces any earlier one; durable on return."""
        code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
        salt = secrets.token_hex(16)
        entry = {"salt": salt, "digest": _digest(salt, code), "until": now + CODE_SECONDS, "tries": 0}
        update_locked(self.path, lambda table: {**table, "code": entry})
        return f"{code[:4]}-{code[4:]}"

    def pair(self, user: str, text: str, now: float) -> bool:
        """If `text` is the code, make the user an owner durably, use up the code and return True."""
        if not self.is_open(now):
            return False  # without a valid code, a try writes nothing
        paired = False

        def tried(table: Table) -> Table:
            nonlocal paired
            code = _object(table, "code")
            rest = {key: value for key, value in table.items() if key != "code"}
            if not _is_valid(code, now):
                return rest
            given = "".join(text.upper().split()).replace("-", "")
            if hmac.compare_digest(str(code.get("digest")), _digest(str(code.get("salt")), given)):
                paired = True
                return {**rest, "owners": {**_object(table, "owners"), user: {"at": int(now)}}}
            tries = _number(code, "tries") + 1
            return {**rest, "code": {**code, "tries": tries}} if tries < MOST_TRIES else rest

        update_locked(self.path, tried)
        return paired

    def unpair(self, user: str) -> bool:
        """Remove an owner; return whether the user was one."""
        there = user in self.owners()
        if there:
            update_locked(self.path, lambda table: {**table, "owners": _without(_object(table, "owners"), user)})
        return there

    def is_open(self, now: float) -> bool:
        """Whether there is a valid code."""
        return _is_valid(_object(read_json(self.path) or {}, "code"), now)


def _is_valid(code: Mapping[str, object], now: float) -> bool:
    return bool(code) and now < _number(code, "until") and _number(code, "tries") < MOST_TRIES


def _digest(salt: str, code: str) -> str:
    return hashlib.sha256(f"{salt} {code}".encode("utf-8", "surrogatepass")).hexdigest()


def _object(table: Mapping[str, object], key: str) -> dict[str, object]:
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise ConfigError(f"the pairing file's '{key}' must be an object; correct it or remove the file")
    return cast("dict[str, object]", found)


def _number(table: Mapping[str, object], key: str) -> float:
    found = table.get(key, 0)
    return found if isinstance(found, int | float) else 0


def _without(table: Mapping[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in table.items() if name != key}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
