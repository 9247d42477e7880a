"""Where a server of this home listens, for those who want to reach it: `$OUTLAST_HOME/state/serve.json`, mode 0600."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from outlast.app.settings import Settings
from outlast.core.errors import ConfigError
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
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            partial.unlink()
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(running))
        partial.replace(path)
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
        return msgspec.json.decode(_path(settings).read_bytes(), type=RunningServer)
    except (OSError, msgspec.MsgspecError):
        return None


def _path(settings: Settings) -> Path:
    return settings.home / "state" / "serve.json"
