"""Which hosts a command may reach, which are asked about, and which are refused. Pure: the proxy does the rest.

A granted host is a name (`example.org`), a name with everything below it (`*.example.org`), or an address. This machine
is never reached by a granted host, only by a named port (`localhost:5432`).
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Literal

from outlast.runtime.public_address import forbidden
from outlast.runtime.sandbox.network.connection import (
    ConnectionDecision,
    ConnectionRequest,
    is_address,
    is_local_host,
    plain_host,
)

HostVerdict = Literal["allow", "ask", "refuse"]


class NetworkMode(StrEnum):
    """`off`: only hosts that a lifted need names. `ask`: a new host is asked about. `on`: every public host."""

    OFF = "off"
    ASK = "ask"
    ON = "on"


def judge_host(
    mode: NetworkMode,
    host: str,
    port: int,
    granted: Collection[str] = (),
    named_localhost_ports: Collection[int] = (),
) -> HostVerdict:
    """Decide about one host. `on` never reaches a private address that is not granted: it is asked about."""
    host = plain_host(host)
    if not host:
        return "refuse"
    if is_local_host(host):
        return "allow" if port in named_localhost_ports else "refuse"
    if is_granted(host, granted):
        return "allow"
    if mode is NetworkMode.ON:
        return "ask" if is_address(host) and forbidden(host) else "allow"
    return "ask" if mode is NetworkMode.ASK else "refuse"


def is_granted(host: str, granted: Collection[str]) -> bool:
    """Whether a host is one of the granted ones or below one. An address is granted only by itself."""
    for entry in granted:
        name = plain_host(entry.removeprefix("*."))
        if not name:
            continue
        if host == name and not entry.startswith("*."):
            return True
        if entry.startswith("*.") and not is_address(host) and host.endswith(f".{name}"):
            return True
    return False


def decide_connection(
    mode: NetworkMode,
    request: ConnectionRequest,
    granted: Collection[str] = (),
    named_localhost_ports: Collection[int] = (),
) -> ConnectionDecision | None:
    """Return the decision on a request, or None if the user has to be asked; then `allow_host` is the yes."""
    match judge_host(mode, request.host, request.port, granted, named_localhost_ports):
        case "allow":
            return allow_host(request.host, granted)
        case "refuse":
            return ConnectionDecision(allow=False, reason=_refusal(mode, request))
        case "ask":
            return None


def allow_host(host: str, granted: Collection[str] = ()) -> ConnectionDecision:
    """Return the decision that lets a command reach a host which the user or a rule named.

    A private address is reached if it was named itself, or if it is granted beside the name that resolves to it."""
    addresses = frozenset(plain for entry in granted if is_address(plain := plain_host(entry)))
    return ConnectionDecision(allow=True, private=is_address(host) or is_local_host(host), private_addresses=addresses)


def _refusal(mode: NetworkMode, request: ConnectionRequest) -> str:
    if is_local_host(plain_host(request.host)):
        return f'a port of this machine needs needs=["localhost:{request.port}"]'
    if mode is NetworkMode.OFF:
        return f'the network is off; needs=["network:{request.host}"] asks for this host'
    return "it is not a host"
