"""Address of the running server of this home, for local programs: `$OUTLAST_HOME/state/serve.json`, mode 0600."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from outlast.app.settings import Settings
from outlast.core.errors import ConfigError
from outlast.runtime import private_file
from outlast.store.process_identity import holder, holder_is_gone


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is for a browser; `connect` is for programs on this machine: a URL, or the path of a Unix socket.
    `certificate` is the server's TLS certificate, if any; `holder` is its process."""

    url: str
    connect: str
    certificate: str | None = None
    holder: str = msgspec.field(default_factory=holder)


def note_running(settings: Settings, running: RunningServer) -> None:
    """Register this server. The newest server of a home replaces earlier entries."""
    path = _path(settings.home)
    try:
        private_file.replace(path, msgspec.json.encode(running))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}); correct its permissions") from error


def running(settings: Settings) -> RunningServer | None:
    """The server that runs with this home; None if there is none, or if the registered process is gone."""
    found = _noted(settings.home)
    return None if found is None or holder_is_gone(found.holder) else found


def server_ports(home: Path) -> tuple[int, ...]:
    """The TCP port of the server that runs with this home, if there is one."""
    found = _noted(home)
    if found is None or holder_is_gone(found.holder):
        return ()
    ports = {urlsplit(address).port for address in (found.url, found.connect) if "://" in address}
    return tuple(port for port in ports if port is not None)


def forget_running(settings: Settings) -> None:
    """Remove this server's entry. An entry that another server wrote meanwhile stays."""
    found = _noted(settings.home)
    if found is not None and found.holder == holder():
        _path(settings.home).unlink(missing_ok=True)


def _noted(home: Path) -> RunningServer | None:
    try:
        return msgspec.json.decode(private_file.read_bytes(_path(home)) or b"", type=RunningServer)
    except (ConfigError, msgspec.MsgspecError):
        return None


def _path(home: Path) -> Path:
    return home / "state" / "serve.json"
