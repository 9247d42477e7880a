"""macOS: a profile for `sandbox-exec` that keeps a command inside its folders.

The profile denies every write but those to the roots and the temporary folder, reading hidden paths, and the network
except the local port or socket of our proxy. In a profile the last matching rule counts, so the order is: what is
allowed, then what is denied inside it, then the walls that were lifted for this command.

This module only makes text; its tests compare the text. It was not run on macOS.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from outlast.runtime.sandbox.port import CommandWalls, NeedKind

PROGRAM = "/usr/bin/sandbox-exec"
GIT_FILES = ("config", "config.worktree", "info/attributes", "commondir", "gitdir")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/dtracehelper")
"""Devices that programs write to without keeping data."""
_START = """(version 1)
(allow default)
(deny file-write*)
(deny network*)
(deny appleevent-send)
(deny mach-priv-task-port)
(deny process-info*)
(allow process-info* (target same-sandbox))
(deny signal)
(allow signal (target same-sandbox))"""
_BROKERS = ("com.apple.coreservices.launchservicesd", "com.apple.pasteboard.1", "com.apple.SecurityServer")
"""Services that start programs outside the sandbox, hold the clipboard, or give out the user's passwords."""


def profile(
    walls: CommandWalls,
    *,
    temporary: Path,
    proxy_port: int = 0,
    proxy_socket: Path | None = None,
    git_folders: Sequence[Path] = (),
) -> str:
    """Return the profile of a command with these walls. `temporary` is a folder that it may write to; `git_folders` are
    git directories besides the `.git` of each root. Raises ValueError for a path that no profile can hold."""
    lines = [
        _START,
        *(f'(deny mach-lookup (global-name "{name}"))' for name in _BROKERS),
        _rule("allow", "file-write*", [f"(literal {_quoted(path)})" for path in DEVICES]),
        _rule("allow", "file-write*", ['(regex #"^/dev/fd/[0-9]+$")']),
        *_folders(walls, temporary),
        *_protection(walls, git_folders),
        *_network(walls, proxy_port, proxy_socket),
        *_lifted(walls),
    ]
    return "\n".join(line for line in lines if line) + "\n"


def argv(profile_text: str, command: Sequence[str], program: str = PROGRAM) -> list[str]:
    """Return the command line that runs `command` under the profile."""
    return [program, "-p", profile_text, *command]


def _folders(walls: CommandWalls, temporary: Path) -> list[str]:
    """Return a rule per folder, the outermost first: of two nested folders, the inner one counts."""
    both = "file-read* file-write*"
    rules = [(path, 0, f"deny {both}") for path in _real(walls.hidden)]
    rules += [(path, 1, "allow file-read*") for path in _real(walls.shown)]
    rules += [(path, 2, "allow file-read*" if walls.read_only else f"allow {both}") for path in _real(walls.roots)]
    rules += [(path, 3, f"allow {both}") for path in _real([temporary])]
    rules.sort(key=lambda rule: (len(Path(rule[0]).parts), rule[1]))
    return [f"({verdict} (subpath {_quoted(path)}))" for path, _, verdict in rules]


def _protection(walls: CommandWalls, git_folders: Sequence[Path]) -> list[str]:
    """Deny changes to what git and this program obey. A regular expression also covers paths that do not exist yet; a
    git directory itself is neither renamed nor replaced."""
    filters = [_regex(f"^{_escaped(root)}/\\.outlast(/.*)?$") for root in _real(walls.roots)]
    own = [Path(root, ".git") for root in _real(walls.roots) if os.path.lexists(Path(root, ".git"))]
    files = "|".join(name.replace(".", "\\.") for name in GIT_FILES)
    for folder in dict.fromkeys(str(folder) for folder in (*own, *git_folders)):
        filters.append(f"(literal {_quoted(folder)})")
        filters.append(_regex(f"^{_escaped(folder)}/((modules|worktrees)/.+/)?({files}|hooks(/.*)?)$"))
    return [_rule("deny", "file-write*", filters)]


def _network(walls: CommandWalls, proxy_port: int, proxy_socket: Path | None) -> list[str]:
    ports = [*([str(proxy_port)] if proxy_port else []), *walls.granted(NeedKind.LOCALHOST)]
    sockets = [*([proxy_socket] if proxy_socket is not None else []), *map(Path, walls.granted(NeedKind.SOCKET))]
    return [
        _rule("allow", "network-outbound", [f'(remote ip "localhost:{int(port)}")' for port in ports]),
        _rule("allow", "network-outbound", [f"(literal {_quoted(path)})" for path in _real(sockets)]),
    ]


def _lifted(walls: CommandWalls) -> list[str]:
    return [
        _rule("allow", "file-read*", _subpaths(map(Path, walls.granted(NeedKind.READ)))),
        _rule("allow", "file-read* file-write*", _subpaths(map(Path, walls.granted(NeedKind.WRITE)))),
    ]


def _rule(verdict: str, operations: str, filters: Iterable[str]) -> str:
    """Return a rule for these filters; without any, no rule: it would count for everything."""
    found = list(dict.fromkeys(filters))
    return "\n".join((f"({verdict} {operations}", *(f"  {one}" for one in found))) + ")" if found else ""


def _subpaths(paths: Iterable[Path]) -> list[str]:
    return [f"(subpath {_quoted(path)})" for path in _real(paths)]


def _real(paths: Iterable[Path]) -> list[str]:
    """Return the real paths: the kernel compares those, and /tmp and /var are links on macOS."""
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))


def _quoted(path: str) -> str:
    _refuse_control(path)
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _regex(pattern: str) -> str:
    return f'(regex #"{pattern}")'


def _escaped(path: str) -> str:
    """Return a path as a part of a regular expression inside #"...", which a quote would end; a dot matches it."""
    _refuse_control(path)
    return re.sub(r"([\\.^$*+?()\[\]{}|])", r"\\\1", path).replace('"', ".")


def _refuse_control(path: str) -> None:
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise ValueError(f"the path {path!r} holds a control character, which no sandbox profile can hold; rename it")
