"""Where a server of this home listens, for programs that look for it: `$OUTLAST_HOME/state/serve.json`, mode 0600."""

from __future__ import annotations

from pathlib import Path

import msgspec

from outlast.app.settings import Settings
from outlast.core.errors import ConfigError
from outlast.runtime import private_file
from outlast.store.process_identity import holder, holder_is_gone


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is what a browser opens; `connect` where a program of this machine connects: a URL, or the path of a Unix
    socket. `certificate` is what the server shows when it speaks TLS, `holder` the process."""

    url: str
    connect: str
    certificate: str | None = None
    holder: str = msgspec.field(default_factory=holder)


def note_running(settings: Settings, running: RunningServer) -> None:
    """Say where this server is. The newest one of a home is the one that is found."""
    path = _path(settings)
    try:
        private_file.replace(path, msgspec.json.encode(running))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}); correct its permissions") from error


def running(settings: Settings) -> RunningServer | None:
    """The server that runs with this home; None when there is none, or when the one that was noted is gone."""
    found = _noted(settings)
    return None if found is None or holder_is_gone(found.holder) else found


def forget_running(settings: Settings) -> None:
    """This server leaves. What another one noted meanwhile stays."""
    found = _noted(settings)
    if found is not None and found.holder == holder():
        _path(settings).unlink(missing_ok=True)


def _noted(settings: Settings) -> RunningServer | None:
    try:
        return msgspec.json.decode(private_file.read_bytes(_path(settings)) or b"", type=RunningServer)
    except (ConfigError, msgspec.MsgspecError):
        return None


def _path(settings: Settings) -> Path:
    return settings.home / "state" / "serve.json"
