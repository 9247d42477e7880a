"""The token of the HTTP door: the user's own (`OUTLAST_TOKEN`), or 256 random bits created once and kept in the home.

The token survives restarts, so a page open in a browser keeps working. Replacing it takes effect at once, also in a
running server: `TokenFile` checks on every call whether the file changed.
"""

from __future__ import annotations

import os
import secrets

from outlast.app.settings import TOKEN_MIN_CHARS, Settings
from outlast.core.errors import ConfigError
from outlast.runtime import private_file

LONGEST = 4096


class TokenFile:
    """The current token of these settings. Created on first use."""

    def __init__(self, settings: Settings) -> None:
        self._given = settings.token
        self.path = settings.home / "state" / "token"
        self._known = ("", (0, 0, 0))

    @property
    def is_given(self) -> bool:
        """Whether the user set the token; it is then not stored in a file and cannot be replaced here."""
        return self._given is not None

    def token(self) -> str:
        """The current token. Raises `ConfigError` if the file cannot be read or written, or holds no token."""
        if self._given is not None:
            return self._given
        stamp = self._stamp()
        if stamp is None:
            self._make()
            stamp = self._stamp()
        if stamp is not None and self._known[1] == stamp:
            return self._known[0]
        self._known = (self._read(), stamp or (0, 0, 0))
        return self._known[0]

    def replace(self) -> None:
        """Create a new token. Everything signed with the old one becomes invalid."""
        if self._given is not None:
            raise ConfigError("the token is set by you (OUTLAST_TOKEN or the setting `token`); change it there")
        try:
            private_file.replace(self.path, _new_token())
        except OSError as error:
            raise self._not_kept(error) from error

    def _make(self) -> None:
        """Create the file atomically: two servers that start at once must agree on one token."""
        try:
            private_file.create(self.path, _new_token())
        except OSError as error:
            raise self._not_kept(error) from error

    def _not_kept(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"the token cannot be saved to {self.path} ({error.strerror}); set OUTLAST_TOKEN or OUTLAST_HOME"
        )

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> str:
        try:
            token = (private_file.read_bytes(self.path) or b"")[:LONGEST].decode("ascii").strip()
        except (ConfigError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.path} cannot be read; remove it, and Outlast creates a new token") from error
        if len(token) < TOKEN_MIN_CHARS:
            raise ConfigError(f"{self.path} contains no token; remove it, and Outlast creates a new one")
        return token


def _new_token() -> bytes:
    return f"{secrets.token_urlsafe(32)}\n".encode()
