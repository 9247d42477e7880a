"""Parses the URL of a PostgreSQL store: libpq parameters, our own options, and a form to display without secrets."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from outlast.core.errors import ConfigError

RETRY_SECONDS = 15.0
SECRET = frozenset(
    {"password", "sslpassword", "passfile", "scram_client_key", "scram_server_key", "oauth_client_secret"}
)

# Timeouts and keepalives tell a dead connection from a slow one. Parameters in the URL override these.
DEFAULTS: dict[str, str] = {
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "application_name": "outlast",
    "client_encoding": "UTF8",
}


class PostgresAddress(NamedTuple):
    """`parameters` are for libpq. `retry_seconds` limits how long reads and commits retry an unreachable server."""

    parameters: dict[str, str]
    shown: str
    retry_seconds: float = RETRY_SECONDS
    allow_unsafe: bool = False

    @classmethod
    def parse(cls, url: str) -> PostgresAddress:
        place, _, query = url.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True)
        ours = {name: value for name, value in pairs if name.startswith("outlast_")}
        theirs = [(name, value) for name, value in pairs if name not in ours]
        shown = _without_secrets(place, theirs)
        return cls(_parameters(place, theirs, shown), shown, *_options(ours))

    @property
    def database(self) -> str:
        return self.parameters.get("dbname") or self.parameters.get("user") or "the user's own"


def _parameters(place: str, pairs: list[tuple[str, str]], shown: str) -> dict[str, str]:
    query = urlencode(pairs, quote_via=quote)
    try:
        found = conninfo_to_dict(f"{place}?{query}" if query else place)
    except psycopg.ProgrammingError:
        # Not chained: the driver's message may contain the password.
        raise ConfigError(
            f"'{shown}' is not a PostgreSQL URL: use postgresql://USER@HOST:PORT/DATABASE or "
            "postgresql://USER@/DATABASE?host=/SOCKET/DIRECTORY, with special characters as %XX"
        ) from None
    return DEFAULTS | {name: str(value) for name, value in found.items() if value is not None}


def _options(ours: dict[str, str]) -> tuple[float, bool]:
    seconds = ours.pop("outlast_retry_seconds", str(RETRY_SECONDS))
    unsafe = ours.pop("outlast_allow_unsafe", "0")
    if ours:
        raise ConfigError(
            f"the store's URL has an unknown parameter '{min(ours)}': "
            "there are outlast_retry_seconds and outlast_allow_unsafe"
        )
    if not re.fullmatch(r"\d{1,5}(\.\d+)?", seconds):
        raise ConfigError("outlast_retry_seconds in the store's URL must be a number of seconds")
    if unsafe not in ("0", "1"):
        raise ConfigError("outlast_allow_unsafe in the store's URL must be 0 or 1")
    return float(seconds), unsafe == "1"


def _without_secrets(place: str, pairs: list[tuple[str, str]]) -> str:
    scheme, separator, rest = place.partition("://")
    user, at, host = rest.rpartition("@")
    if ":" in user:
        user = user.split(":")[0] + ":***"
    public = [(name, "***" if unquote(name).lower() in SECRET else value) for name, value in pairs]
    query = urlencode(public, quote_via=quote, safe="/*,:")
    return f"{scheme}{separator}{user}{at}{host}" + (f"?{query}" if query else "")
