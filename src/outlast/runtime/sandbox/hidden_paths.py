"""The paths that no sandboxed command can read: keys, tokens, logins, histories, sockets, and our own home.

The patterns are data (`hidden_paths.txt` next to this file); a user adds more by a setting or in `hidden-paths.txt` in
the Outlast home. Only paths that exist are returned: a missing one needs no mount, since commands cannot create it.
Folders are listed at most once and to a limit, because this runs before every command.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from outlast.core.errors import ConfigError

USER_FILE = "hidden-paths.txt"
SKILLS = "skills"
LISTED = 2000
"""Names that are compared with a pattern in one folder."""
HOMES = 8
"""Homes of other users that an agent with root's rights hides."""
READ_LIMIT = 64 * 1024

_XDG = {
    "XDG_CONFIG_HOME": "~/.config",
    "XDG_DATA_HOME": "~/.local/share",
    "XDG_STATE_HOME": "~/.local/state",
    "XDG_CACHE_HOME": "~/.cache",
}
_CROWDED = frozenset({".config", ".local", "share"})
"""Folders in which many patterns look."""
_VARIABLE = re.compile(r"\$([A-Z_]+)|\$\{([A-Z_]+)\}")
_CREDENTIAL = re.compile(
    rb"_auth|authToken|_password|password\s*[=:]|passw(?:or)?d>|token\s*[=:]|npmAuth|secret|://[^/\s:@]+:[^/\s@]+@"
    rb"|ClearTextPassword|api[-_]?key|credential",
    re.IGNORECASE,
)


def hidden_paths(
    *, user_home: Path, outlast_home: Path, extra: Sequence[str] = (), environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """Return the paths to hide that exist now, with links resolved. Raises ConfigError for a pattern of the user's that
    is no absolute path."""
    folders = _Folders()
    found = {os.path.realpath(outlast_home)} if outlast_home.exists() else set[str]()
    own = (*_checked(extra, "sandbox_hidden"), *_user_patterns(outlast_home))
    named = tuple((name, value) for name, value in environ.items() if name.startswith("XDG_"))
    homes = [(str(user_home), (*_prepared(_patterns(), str(user_home), named), *_own(own, user_home, environ)))]
    homes += [(home, _prepared(_home_patterns(), home, ())) for home in _other_homes(user_home)]
    for home, patterns in homes:
        for pattern in patterns:
            found.update(_matches(pattern, home, folders))
    keep = os.path.realpath(user_home)
    return tuple(Path(path) for path in sorted(found) if not _is_around(path, keep))


def check_patterns(outlast_home: Path, extra: Sequence[str] = ()) -> None:
    """Raise ConfigError, as `hidden_paths` would before every command, for a pattern of the user's that is no path."""
    _checked(extra, "sandbox_hidden")
    _user_patterns(outlast_home)


def shown_paths(outlast_home: Path) -> tuple[Path, ...]:
    """Return what stays visible of the Outlast home: the user's skills, whose scripts commands may run."""
    skills = outlast_home / SKILLS
    return (Path(os.path.realpath(skills)),) if skills.is_dir() else ()


@cache
def _patterns() -> tuple[str, ...]:
    return tuple(_lines(Path(__file__).with_name("hidden_paths.txt").read_text("utf-8")))


@cache
def _home_patterns() -> tuple[str, ...]:
    return tuple(pattern for pattern in _patterns() if "~" in pattern or "$XDG" in pattern)


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


def _user_patterns(outlast_home: Path) -> list[str]:
    path = outlast_home / USER_FILE
    try:
        with path.open("rb") as file:
            data = file.read(READ_LIMIT + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): make it readable, or remove it") from error
    if len(data) > READ_LIMIT:
        raise ConfigError(f"{path} is longer than 64 kB: shorten it")
    return _checked(_lines(data.decode("utf-8", "surrogateescape")), str(path))


def _checked(patterns: Iterable[str], source: str) -> list[str]:
    checked: list[str] = []
    for pattern in patterns:
        if not pattern.removeprefix("? ").lstrip().startswith(("/", "~/", "$")) or "\0" in pattern:
            raise ConfigError(f"'{pattern}' in {source} is no absolute path: begin it with / or ~/")
        checked.append(pattern)
    return checked


class _Folders:
    """Lists a folder once."""

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str]] = {}

    def names(self, folder: str) -> frozenset[str]:
        if folder not in self._names:
            try:
                with os.scandir(folder) as entries:
                    names = frozenset(entry.name for entry, _ in zip(entries, range(LISTED), strict=False))
            except OSError:  # absent, or unreadable for the command too
                names = frozenset[str]()
            self._names[folder] = names
        return self._names[folder]

    def lacks(self, home: str, path: str) -> bool:
        """Whether the home has no such path, as its listing shows without a look at the path itself."""
        if not path.startswith(f"{home}/"):
            return False
        names, name = self.names(home), path[len(home) + 1 :].partition("/")[0]
        if name in names and name in _CROWDED:
            return self.lacks(f"{home}/{name}", path)
        return name not in names and 0 < len(names) < LISTED


class _Pattern(msgspec.Struct, frozen=True):
    """A pattern without `~` and variables. `conditional`: it hides a file only while that holds a credential."""

    path: str
    conditional: bool
    is_glob: bool


def _own(patterns: Sequence[str], home: Path, environ: Mapping[str, str]) -> tuple[_Pattern, ...]:
    return _prepared(tuple(patterns), str(home), tuple(environ.items())) if patterns else ()


@lru_cache(maxsize=64)
def _prepared(patterns: tuple[str, ...], home: str, environ: tuple[tuple[str, str], ...]) -> tuple[_Pattern, ...]:
    prepared: list[_Pattern] = []
    for pattern in patterns:
        conditional = pattern.startswith("? ")
        path = _expanded(pattern[2:].lstrip() if conditional else pattern, home, dict(environ))
        if path is not None:
            prepared.append(_Pattern(path, conditional, "*" in path or "?" in path))
    return tuple(dict.fromkeys(prepared))


def _matches(pattern: _Pattern, home: str, folders: _Folders) -> Iterator[str]:
    if not pattern.is_glob and folders.lacks(home, pattern.path):
        return
    for path in _globbed(pattern.path, folders) if pattern.is_glob else (pattern.path,):
        try:
            mode = os.stat(path).st_mode
        except OSError:  # absent, or a link that leads nowhere
            continue
        if not pattern.conditional or not stat.S_ISREG(mode) or _holds_credential(path):
            yield os.path.realpath(path)


def _expanded(pattern: str, home: str, environ: Mapping[str, str]) -> str | None:
    """Return the pattern as a path; None if it names a variable that is not set, or is no absolute path then."""
    for match in _VARIABLE.finditer(pattern):
        name = match[1] or match[2]
        value = environ.get(name) or _XDG.get(name)
        if value is None:
            return None
        pattern = pattern.replace(match[0], value)
    if pattern == "~" or pattern.startswith("~/"):
        pattern = home + pattern[1:]
    return pattern if pattern.startswith("/") and "\0" not in pattern else None


def _globbed(pattern: str, folders: _Folders) -> list[str]:
    paths = ["/"]
    for part in pattern.strip("/").split("/"):
        if "*" in part or "?" in part:
            paths = [os.path.join(path, name) for path in paths for name in folders.names(path) if _fits(name, part)]
        else:
            paths = [os.path.join(path, part) for path in paths]
    return paths


def _fits(name: str, part: str) -> bool:
    return fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))


def _holds_credential(path: str) -> bool:
    """Whether a settings file holds a token. One that cannot be read, or is too long to be searched, counts as such."""
    try:
        with open(path, "rb") as file:
            data = file.read(READ_LIMIT + 1)
    except OSError:
        return True
    return len(data) > READ_LIMIT or _CREDENTIAL.search(data) is not None


def _other_homes(user_home: Path) -> list[str]:
    if os.geteuid() != 0:
        return []  # the kernel guards them already
    try:
        names = sorted(os.listdir("/home"))[:HOMES]
    except OSError:
        return []
    return [home for home in (f"/home/{name}" for name in names) if Path(home) != user_home]


def _is_around(path: str, home: str) -> bool:
    """Whether hiding the path would hide the user's whole home, as /root does where root is the user."""
    return path == "/" or Path(home).is_relative_to(path)
