"""Finds Unix sockets of daemons that a command could reach: a container engine, an ssh agent, a terminal multiplexer.

A network namespace and a read-only mount do not keep a command from connecting a socket that has a path, so bubblewrap
covers those that `reachable_sockets` returns. Landlock does not govern them either, and a system call filter sees no
path: a command in that tier may connect Unix sockets only if none of another program is in its reach. A socket that
appears while a command runs is not known, nor one of a daemon in another network namespace. This module runs in the
supervisor too: it imports only the standard library.
"""

from __future__ import annotations

import os
import stat

RUN = "/run"
MOST = 4096
"""How many entries of /run are looked at; a larger one counts as one with sockets."""


def are_reachable(allowed: list[str], run: str = RUN) -> bool:
    """Return whether this user can connect a socket that does not lie beneath one of the `allowed` folders."""
    inside = [os.path.realpath(path) for path in allowed]
    paths = {*listening(), *_mounted()}
    return any(_is_reachable(path, inside) for path in paths) or _holds_socket(run, inside)


def reachable_sockets(apart: list[str]) -> list[str]:
    """Return the real paths of the sockets that this user can connect, except those below one of these folders."""
    inside = [os.path.realpath(path) for path in apart]
    paths = {*listening(), *_mounted()}
    return sorted({os.path.realpath(path) for path in paths if _is_reachable(path, inside)})


def listening() -> list[str]:
    """Return the paths of the sockets in this network namespace that accept connections or datagrams."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            fields = [line.rstrip("\n").split(None, 7) for line in file]
    except FileNotFoundError:
        return []  # a kernel without Unix sockets, or no /proc: then the filter decides alone
    return [one[7] for one in fields if len(one) == 8 and one[7].startswith("/")]


def _mounted() -> list[str]:
    """Return the mount points: the socket of a container engine outside is mounted as a file of its own."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            points = [line.split()[4] for line in file]
    except FileNotFoundError:
        return []
    return [point.replace("\\040", " ") for point in points]


def _holds_socket(folder: str, inside: list[str]) -> bool:
    seen = 0
    for path, folders, files in os.walk(folder):
        seen += len(folders) + len(files)
        if seen > MOST or any(_is_reachable(os.path.join(path, name), inside) for name in files):
            return True
    return False


def _is_reachable(path: str, inside: list[str]) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False  # it is gone, or behind a folder that is closed to this user
    if not stat.S_ISSOCK(mode) or not os.access(path, os.W_OK):
        return False
    real = os.path.realpath(path)
    return not any(f"{real}/".startswith(f"{folder.rstrip('/')}/") for folder in inside)
