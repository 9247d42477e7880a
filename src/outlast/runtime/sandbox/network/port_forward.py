"""A port of the session's loopback that leads to the same port of this machine, through the proxy and its decisions.

Programs such as database clients know no proxies. For a command that was given `localhost:5432`, `session_init` runs
this in a process of its own until the command's token is withdrawn or another command needs the port. Standard library
only.
"""

from __future__ import annotations

import socket
import threading

from . import relay, ssh_connect  # noqa: TID252 - runs as the top-level package `network`, without outlast

MOST_CONNECTIONS = 64


def listen(port: int) -> list[socket.socket]:
    """Return listeners on this port of the loopback. Raises OSError if a program of the session uses it."""
    relay.bring_up_loopback()
    listeners = [relay.listener(socket.AF_INET, "127.0.0.1", port)]
    try:
        listeners.append(relay.listener(socket.AF_INET6, "::1", port))
    except OSError:
        return listeners  # there is no IPv6 here
    return listeners


def serve(listeners: list[socket.socket], unix_path: str, port: int, token: str) -> None:
    """Forward connections for ever, at most `MOST_CONNECTIONS` at a time."""
    free = threading.Semaphore(MOST_CONNECTIONS)
    threads = [
        threading.Thread(target=_accept, args=(listener, free, unix_path, port, token), daemon=True)
        for listener in listeners
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _accept(listener: socket.socket, free: threading.Semaphore, unix_path: str, port: int, token: str) -> None:
    listener.setblocking(True)
    while True:
        free.acquire()
        client, _ = listener.accept()
        threading.Thread(target=_attend, args=(client, free, unix_path, port, token), daemon=True).start()


def _attend(client: socket.socket, free: threading.Semaphore, unix_path: str, port: int, token: str) -> None:
    try:
        with client, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as proxy:
            proxy.connect(unix_path)
            first = ssh_connect.handshake(proxy, token, "127.0.0.1", str(port))
            if first is not None:
                client.sendall(first)
                back = threading.Thread(target=_copy, args=(proxy, client), daemon=True)
                back.start()
                _copy(client, proxy)
                back.join()
    except OSError:
        return  # one of the two is gone; the client sees a closed connection
    finally:
        free.release()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(relay.CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other direction ends with it
