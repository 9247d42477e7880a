"""Caches of build tools inside the sandbox: an area per project over the user's own caches.

Where overlays work, a user's cache is the read-only lower layer and the area takes what commands download, so that a
project builds offline with what the user has already. Where they do not, or the user has no such cache, a tool's own
variable points into the area. Nothing outside the sandbox uses the area: a command could have put anything there.

Two sessions must not share an overlay's upper layer. Each session locks a slot of the area for as long as its
namespaces live; sessions beyond the last slot go without. The least recently used caches go when an area is too large.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from outlast.runtime.private_file import make_private_folder

SLOTS = 4
LIMIT = 5 << 30
SWEEP_SECONDS = 3600.0
"""A slot is measured at most once in this time."""


class ToolCache(msgspec.Struct, frozen=True):
    """A tool's cache: its folder in the user's home, and the variable that moves it. `value` is the variable's text.
    `marker` is a file of projects that use the tool: the variable is set only there, since other tools mind it."""

    name: str
    folder: str
    variable: str = ""
    value: str = "{}"
    marker: str = ""


TOOLS = (
    ToolCache("cache", ".cache", "XDG_CACHE_HOME"),
    ToolCache("pip", ".cache/pip", "PIP_CACHE_DIR"),
    ToolCache("uv", ".cache/uv", "UV_CACHE_DIR"),
    ToolCache("uv-data", ".local/share/uv"),
    ToolCache("poetry", ".cache/pypoetry", "POETRY_CACHE_DIR"),
    ToolCache("pipenv", ".cache/pipenv", "PIPENV_CACHE_DIR"),
    ToolCache("pre-commit", ".cache/pre-commit", "PRE_COMMIT_HOME"),
    ToolCache("huggingface", ".cache/huggingface", "HF_HOME"),
    ToolCache("conda", ".conda/pkgs", "CONDA_PKGS_DIRS"),
    ToolCache("npm", ".npm", "npm_config_cache"),
    ToolCache("yarn", ".cache/yarn", "YARN_CACHE_FOLDER"),
    ToolCache("yarn-berry", ".yarn/berry", "YARN_GLOBAL_FOLDER"),
    ToolCache("pnpm", ".local/share/pnpm/store", "npm_config_store_dir", marker="pnpm-lock.yaml"),  # npm warns of it
    ToolCache("bun", ".bun/install/cache", "BUN_INSTALL_CACHE_DIR"),
    ToolCache("deno", ".cache/deno", "DENO_DIR"),
    ToolCache("corepack", ".cache/node/corepack", "COREPACK_HOME"),
    ToolCache("playwright", ".cache/ms-playwright", "PLAYWRIGHT_BROWSERS_PATH"),
    ToolCache("cypress", ".cache/Cypress", "CYPRESS_CACHE_FOLDER"),
    ToolCache("cargo", ".cargo", "CARGO_HOME"),  # whole: its programs stay usable, and it locks a file at its top
    ToolCache("rustup", ".rustup"),
    ToolCache("sccache", ".cache/sccache", "SCCACHE_DIR"),
    ToolCache("ccache", ".cache/ccache", "CCACHE_DIR"),
    ToolCache("go-build", ".cache/go-build", "GOCACHE"),
    ToolCache("go-modules", "go/pkg/mod", "GOMODCACHE"),
    ToolCache("gradle", ".gradle", "GRADLE_USER_HOME"),
    ToolCache("maven", ".m2/repository", "MAVEN_ARGS", "-Dmaven.repo.local={}"),
    ToolCache("ivy", ".ivy2"),
    ToolCache("sbt", ".sbt"),
    ToolCache("coursier", ".cache/coursier", "COURSIER_CACHE"),
    ToolCache("nuget", ".nuget/packages", "NUGET_PACKAGES"),
    ToolCache("dotnet", ".dotnet", "DOTNET_CLI_HOME"),
    ToolCache("gem", ".gem"),
    ToolCache("bundler", ".bundle/cache", "BUNDLE_USER_CACHE"),
    ToolCache("composer", ".cache/composer", "COMPOSER_CACHE_DIR"),
    ToolCache("hex", ".hex", "HEX_HOME"),
    ToolCache("mix", ".mix", "MIX_HOME"),
    ToolCache("pub", ".pub-cache", "PUB_CACHE"),
    ToolCache("stack", ".stack", "STACK_ROOT"),
    ToolCache("terraform", ".terraform.d/plugin-cache"),
)
_QUIET = {"UV_LINK_MODE": "copy"}  # a hard link from a cache into the project would cross a mount


class CachePlan(msgspec.Struct, frozen=True, kw_only=True):
    """`layers` go to `session_argv`, `writable` to `command_argv`, `environment` to the command."""

    layers: tuple[tuple[Path, Path, Path], ...] = ()
    writable: tuple[Path, ...] = ()
    environment: Mapping[str, str] = {}


class CacheArea:
    """A locked slot of a project's area. It stays locked until `release`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock

    def release(self) -> None:
        """Unlock the slot; call it after the session's namespaces have ended. May be repeated."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def plan(
        self, *, user_home: Path, environ: Mapping[str, str], apart: Sequence[Path] = (), overlays: bool = True
    ) -> CachePlan:
        """Decide for each tool between a layer and a variable, and create the folders.

        `apart` are folders that must stay as they are, such as the roots and the session's own: a cache around one of
        them, or inside it, gets no layer."""
        apart = [Path(os.path.realpath(path)) for path in (*apart, self.folder)]
        lowers: dict[Path, str] = {}
        variables: dict[str, str] = {}
        for tool in TOOLS:
            lower = Path(os.path.realpath(_own_folder(tool, user_home, environ)))
            if any(lower.is_relative_to(one) for one in lowers):
                continue
            if overlays and lower.is_dir() and not any(_touch(lower, one) for one in apart):
                lowers[lower] = tool.name
            elif tool.variable and (not tool.marker or any((one / tool.marker).exists() for one in apart)):
                folder = self.folder / "plain" / tool.name
                make_private_folder(folder)
                variables[tool.variable] = tool.value.format(folder)
        return CachePlan(
            layers=tuple((lower, *self._layer(name)) for lower, name in lowers.items()),
            writable=(*lowers, *((self.folder / "plain",) if variables else ())),
            environment={**variables, **_QUIET},
        )

    def _layer(self, name: str) -> tuple[Path, Path]:
        upper, work = self.folder / "upper" / name, self.folder / "work" / name
        for folder in (upper, work):
            make_private_folder(folder)
        return upper, work

    def sweep(self, limit: int = LIMIT, now: Callable[[], float] = time.time) -> int:
        """Remove caches, least recently used first, until the slot is within the limit; return the bytes freed.

        Call it before the namespaces start. A cache goes as a whole: tools do not notice single files that vanish."""
        stamp = self.folder / "measured"
        if stamp.exists() and now() - stamp.stat().st_mtime < SWEEP_SECONDS:
            return 0
        units = sorted((_measure(path), path) for path in self._units())
        surplus = sum(size for (_, size), _ in units) - limit
        freed = 0
        for (_, size), path in units:
            if freed >= surplus:
                break
            _remove(path)
            freed += size
        stamp.touch()
        os.utime(stamp, (now(), now()))
        return freed

    def _units(self) -> list[Path]:
        """Return what is removed as a whole: a tool's cache, and in the user's general cache each of its folders."""
        uppers = _children(self.folder / "upper")
        general = [child for upper in uppers if upper.name == "cache" for child in _children(upper)]
        return [*(upper for upper in uppers if upper.name != "cache"), *general, *_children(self.folder / "plain")]


def open_cache_area(home: Path, project_key: str) -> CacheArea | None:
    """Lock a free slot of the project's area; None if other sessions use them all."""
    for number in range(SLOTS):
        folder = _caches(home) / project_key / f"{number}"
        make_private_folder(folder)
        lock = _locked(folder)
        if lock is not None:
            return CacheArea(folder, lock)
    return None


def measured_areas(home: Path) -> dict[str, int]:
    """Return how many bytes the area of each project takes, by project key."""
    return {project.name: sum(_measure(slot)[1] for slot in _children(project)) for project in _children(_caches(home))}


def clear_cache(home: Path, project_key: str | None = None) -> int:
    """Remove the area of a project, or of all; return the bytes freed. Slots that a session uses stay."""
    projects = _children(_caches(home)) if project_key is None else [_caches(home) / project_key]
    freed = 0
    for slot in (slot for project in projects for slot in _children(project)):
        lock = _locked(slot)
        if lock is None:
            continue
        try:
            for path in (path for part in ("upper", "plain", "work") for path in _children(slot / part)):
                freed += _measure(path)[1]
                _remove(path)
        finally:
            os.close(lock)
    return freed


def _caches(home: Path) -> Path:
    return home / "sandbox" / "caches"


def _own_folder(tool: ToolCache, user_home: Path, environ: Mapping[str, str]) -> Path:
    """Return where the tool keeps its cache outside the sandbox."""
    own = environ.get(tool.variable, "") if tool.value == "{}" else ""
    if own.startswith("/"):
        return Path(own)
    general = environ.get("XDG_CACHE_HOME", "")
    if tool.folder.startswith(".cache/") and general.startswith("/"):
        return Path(general, tool.folder.removeprefix(".cache/"))
    return user_home / tool.folder


def _touch(first: Path, second: Path) -> bool:
    return first.is_relative_to(second) or second.is_relative_to(first)


def _locked(folder: Path) -> int | None:
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _children(folder: Path) -> list[Path]:
    return (
        sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()) if folder.is_dir() else []
    )


def _measure(path: Path) -> tuple[float, int]:
    """Return when anything below the path was last changed, and how many bytes it takes."""
    newest, size = 0.0, 0
    for parent, folders, files in os.walk(path):
        for name in (*folders, *files, "."):
            try:
                status = os.lstat(os.path.join(parent, name))
            except OSError:  # a folder of the kernel's that only root may enter
                continue
            newest, size = max(newest, status.st_mtime), size + status.st_blocks * 512
    return newest, size


def _remove(path: Path) -> None:
    """Remove a tree whose folders may be read-only, as Go's are, or closed, as the work folder of an overlay is."""
    os.chmod(path, stat.S_IRWXU)
    for parent, folders, _ in os.walk(path):
        for name in folders:
            whole = os.path.join(parent, name)
            if not os.path.islink(whole):
                os.chmod(whole, stat.S_IRWXU)
    shutil.rmtree(path)
