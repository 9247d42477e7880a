"""The environment of a shell command: the user's, without secrets and without variables that run other code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache

from outlast.runtime.shell_variables import MEDDLING, QUIET, SECRET, SOCKETS

SEALED = frozenset(
    {"PATH", "IFS", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "EXECIGNORE", *MEDDLING}
) - {"BASH_FUNC_*"}
"""Variables that a command which runs unasked may not set, whether or not they are in its environment."""
_SET_BY_BASH = frozenset({"PWD", "OLDPWD", "SHLVL", "_", "COLUMNS", "LINES"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PASSWORD_IN_URL = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


def clean_environment(environ: Mapping[str, str], session_id: str = "") -> dict[str, str]:
    """Return what a command may see of `environ`: no keys, tokens or passwords, not even inside a URL."""
    kept = {name: value for name, value in environ.items() if _harmless(name) and not _PASSWORD_IN_URL.search(value)}
    kept.update(QUIET)
    if "PATH" in kept:  # an empty element is the current folder: the project could put its own `ls` there
        kept["PATH"] = ":".join(filter(None, kept["PATH"].split(":")))
    if not _is_read_bytewise(kept):
        kept["LC_ALL"] = "C.UTF-8"
    if session_id:
        kept["OUTLAST_SESSION_ID"] = session_id
    return kept


def sealed(command: str, environment: Mapping[str, str]) -> str:
    """Return bash text that runs the command with every variable of its environment read-only.

    The judge found no assignment in a command that runs unasked. If it overlooked one, the program that the shell
    looks up is still the one that was judged.
    """
    names = {name for name in environment if _NAME.fullmatch(name)} | SEALED
    return f"readonly {' '.join(sorted(names - _SET_BY_BASH))}; {command}"


def _is_read_bytewise(environ: Mapping[str, str]) -> bool:
    """Whether a shell finds the same ASCII characters in a text as we do. In GBK, Big5 and Shift-JIS the second byte
    of a character may be a backslash or a quote."""
    name = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    codeset = name.partition(".")[2].partition("@")[0].replace("-", "").lower()
    return codeset == "utf8" or name in {"C", "POSIX"}


@cache
def _harmless(name: str) -> bool:
    return not any(fnmatchcase(name.upper(), pattern) for pattern in (*SECRET, *MEDDLING, *SOCKETS))
