"""The port of the sandbox: which tier confines commands on this machine, and which walls one command has.

A wall is lifted by name (`Need`): a host of the network, a folder to write to, a port of this machine, a socket. The
permission policy decides on needs before a command starts; the network proxy asks about hosts while it runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec


class SandboxTier(StrEnum):
    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    SEATBELT = "seatbelt"
    EXTERNAL = "external"
    NONE = "none"


class NeedKind(StrEnum):
    NETWORK = "network"
    WRITE = "write"
    READ = "read"
    LOCALHOST = "localhost"
    SOCKET = "socket"


class Lifted(StrEnum):
    """Whether a wall is lifted. `named`: the user named it, so that it may be an address of a private network."""

    NO = "no"
    YES = "yes"
    NAMED = "named"


class Need(msgspec.Struct, frozen=True, order=True):
    """A wall that a command needs lifted, such as `network:pypi.example` or `write:/srv/data`."""

    kind: NeedKind
    value: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"

    def opened(self) -> Need:
        """Return what is really opened. A file that does not exist yet can only be made in an open folder; if that is
        missing too, the outermost missing folder is opened, which the sandbox creates."""
        if self.kind is not NeedKind.WRITE or os.path.lexists(self.value):
            return self
        path, parent = self.value, os.path.dirname(self.value)
        while not os.path.lexists(parent):
            path, parent = parent, os.path.dirname(parent)
        return Need(self.kind, parent if path == self.value else path)

    def reason(self) -> str:
        """Return what the user is asked, in words."""
        match self.kind:
            case NeedKind.NETWORK:
                return f"needs the network: {self.value}"
            case NeedKind.WRITE:
                new = (
                    "" if os.path.lexists(self.value) else f"; it is new, so the folder {self.opened().value} is opened"
                )
                return f"writes to {self.value}, outside the sandbox{new}"
            case NeedKind.READ:
                return f"reads {self.value}, which the sandbox hides"
            case NeedKind.LOCALHOST:
                return f"connects to port {self.value} of this machine"
            case NeedKind.SOCKET:
                return f"connects to the socket {self.value}"


def parse_need(text: str, folder: Path) -> Need:
    """Parse `kind:value`; a relative path starts at `folder`. Raises ValueError with one sentence: cause and remedy."""
    kind, separator, value = text.partition(":")
    value = value.strip()
    if not separator or not value or kind not in tuple(NeedKind) or not value.isprintable():
        kinds = "network:HOST, write:PATH, read:PATH, localhost:PORT or socket:PATH"
        raise ValueError(f"'{text[:200]}' is no need; write {kinds}")
    need = NeedKind(kind)
    if need is NeedKind.NETWORK:
        return Need(need, _host(text, value))
    if need is NeedKind.LOCALHOST:
        if not value.isdecimal() or not 0 < int(value) < 65536:
            raise ValueError(f"'{text}' names no port; write a number from 1 to 65535, such as localhost:5432")
        return Need(need, str(int(value)))
    return Need(need, os.path.realpath(os.path.join(folder, os.path.expanduser(value))))


def _host(text: str, value: str) -> str:
    name = value.lower().rstrip(".")
    if not name or set(name) & set("/@?#*, []"):
        raise ValueError(f"'{text}' names no host; write its name alone, such as network:example.org")
    return name


class SandboxReport(msgspec.Struct, frozen=True, kw_only=True):
    """What confines commands on this machine. `reason` says why no better tier is used; empty for the best one.

    `overlays`: a read-only command may write into a throw-away layer. `shared`: the commands of a session share their
    network, processes and /tmp."""

    tier: SandboxTier
    program: str = ""
    version: str = ""
    overlays: bool = False
    shared: bool = False
    abi: int = 0
    reason: str = ""

    @property
    def holds(self) -> bool:
        """Whether commands may run unasked, because the operating system keeps them inside."""
        return self.tier is not SandboxTier.NONE


class CommandWalls(msgspec.Struct, frozen=True, kw_only=True):
    """What one command may touch. `roots` are writable, or a throw-away layer if `read_only`. `needs` are the walls
    that were lifted for this command. `hidden` paths cannot be read, except those in `shown`."""

    roots: tuple[Path, ...]
    read_only: bool = False
    needs: tuple[Need, ...] = ()
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()

    def granted(self, kind: NeedKind) -> Sequence[str]:
        return tuple(need.value for need in self.needs if need.kind is kind)


class CommandRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A shell command that is about to start. `looking`: it may only look, so nothing that it writes remains. `private`
    is a folder of the session that the command may write to and Outlast reads."""

    session_id: str
    call_id: str
    argv: tuple[str, ...]
    cwd: Path
    project: Path
    roots: tuple[Path, ...]
    environment: Mapping[str, str]
    private: Path
    looking: bool = False
    needs: tuple[Need, ...] = ()
    shown: tuple[Path, ...] = ()
