"""The ProxyCommand of ssh inside a sandbox: connects to HOST PORT through the proxy, and relays stdin and stdout.

`python -I -S ssh_connect.py RELAY_PORT TOKEN HOST PORT`. `nc` may be missing, and many versions of it cannot
authenticate with a proxy. Standard library only.
"""

from __future__ import annotations

import base64
import os
import select
import socket
import sys

CHUNK = 65_536
HEAD_LIMIT = 65_536


def main(argv: list[str]) -> int:
    if len(argv) != 4:
        os.write(2, b"usage: ssh_connect.py RELAY_PORT TOKEN HOST PORT\n")
        return 2
    relay_port, token, host, port = argv
    try:
        with socket.create_connection(("127.0.0.1", int(relay_port))) as proxy:
            rest = handshake(proxy, token, host, port)
            if rest is None:
                return 1
            relay(proxy, rest)
    except OSError as error:
        os.write(2, f"the proxy of the sandbox could not be used: {error}\n".encode())
        return 1
    return 0


def handshake(proxy: socket.socket, token: str, host: str, port: str) -> bytes | None:
    """Return the first bytes of the host; None if the proxy refused, after printing why."""
    name = f"[{host}]" if ":" in host else host
    authorization = base64.b64encode(f"{token}:x".encode()).decode()
    lines = (
        f"CONNECT {name}:{port} HTTP/1.1", f"Host: {name}:{port}", f"Proxy-Authorization: Basic {authorization}", "", ""
    )  # fmt: skip
    proxy.sendall("\r\n".join(lines).encode())
    data = b""
    while b"\r\n\r\n" not in data and len(data) <= HEAD_LIMIT:
        more = proxy.recv(CHUNK)
        if not more:
            break
        data += more
    head, separator, rest = data.partition(b"\r\n\r\n")
    if separator and head.split(b" ", 2)[1:2] == [b"200"]:
        return rest
    while len(rest) <= HEAD_LIMIT and (more := proxy.recv(CHUNK)):
        rest += more
    os.write(2, rest.strip() + b"\n" if rest.strip() else b"the proxy of the sandbox closed the connection\n")
    return None


def relay(proxy: socket.socket, first: bytes) -> None:
    """Copy until the host ends its stream; the end of stdin is passed on."""
    write_all(first)
    sources = [proxy.fileno(), 0]
    while proxy.fileno() in sources:
        ready, _, _ = select.select(sources, [], [])
        if proxy.fileno() in ready:
            data = proxy.recv(CHUNK)
            if not data:
                return
            write_all(data)
        if 0 in ready:
            data = os.read(0, CHUNK)
            if data:
                proxy.sendall(data)
            else:
                sources.remove(0)
                proxy.shutdown(socket.SHUT_WR)


def write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
