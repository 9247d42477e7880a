"""The command lines of bubblewrap: one for the namespaces of a session, one for the mounts of each command.

Mounts are sorted by path, so that a mount never covers one inside it: a hidden home may hold a visible project, and a
project may hold a hidden folder. Paths that do not exist need no mount: the file system of a command is read-only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from outlast.runtime.sandbox.port import CommandWalls, NeedKind

SECCOMP = "@seccomp@"
"""Replaced by the supervisor with the descriptor of the system call filter."""
KERNEL_PATHS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/kcore", "/proc/keys", "/proc/acpi")
"""Read-only for every command: where the agent runs as root, the kernel would let its commands write there."""
SMALL = 16 << 20
"""Bytes that fit into /run and the like, which hold mount points and a socket or two."""
REPLACED = ("/run", "/tmp", "/var/tmp")  # noqa: S108
"""Folders of the machine that no command sees: it has an empty one, or the session's own, in their place."""
SYSTEM_PROFILES = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers")
"""Where NixOS keeps its programs: links into a store that is read-only, not sockets."""


PROTECTED = 7
"""The rank of a read-only path in a writable git directory or root."""


class Mount(msgspec.Struct, frozen=True, order=True):
    """A mount at `path`. Of two mounts at the same path, the one with the higher `rank` stays visible."""

    path: str
    rank: int
    options: tuple[str, ...]


class SessionPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Folders of a session's sandbox. `temporary` is a bounded tmpfs that the session's namespaces mount there. All
    but the `writable` folders and the caches is read-only in these namespaces already: a command that exchanges a
    folder for a link while bubblewrap mounts the folders of the next command leads that mount to another place of the
    machine, but cannot make the place writable."""

    temporary: Path
    writable: tuple[Path, ...] = ()

    @property
    def shared(self) -> Path:
        """What commands see as /tmp."""
        return self.temporary / "tmp"

    @property
    def memory(self) -> Path:
        """What commands see as /dev/shm."""
        return self.temporary / "shm"

    @property
    def empty_folder(self) -> Path:
        return self.temporary / "empty"

    @property
    def empty_file(self) -> Path:
        return self.temporary / "nothing"

    @property
    def ignored_folder(self) -> Path:
        """A folder that git ignores, since all it holds is a `.gitignore` for everything."""
        return self.temporary / "ignored"

    @property
    def layers(self) -> Path:
        """Where throw-away layers of read-only commands lie."""
        return self.temporary / "layers"

    @property
    def machine(self) -> Path:
        """The machine's files, writable, for what a command may write outside the roots. No command sees this."""
        return self.temporary / "machine"


def session_argv(
    program: str,
    places: SessionPlaces,
    tmp_size: int,
    overlays: Iterable[tuple[Path, Path, Path]] = (),
) -> list[str]:
    """Return the start of the command line that creates the namespaces of a session; the init's own follows it.

    `tmp_size` bounds all that commands write to memory; 0: the kernel's own bound, half of the memory. `overlays` are
    caches as (the user's own folder, upper layer, work folder)."""
    argv = [program, "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL"]
    argv += ["--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"]
    argv += ["--size", str(tmp_size)] if tmp_size else []
    argv += ["--perms", "0700", "--tmpfs", str(places.temporary)]
    argv += ["--bind", "/", str(places.machine)]
    for path in sorted({os.path.realpath(path) for path in places.writable}):
        argv += ["--bind", path, path]
    for lower, upper, work in overlays:
        argv += ["--overlay-src", str(lower), "--overlay", str(upper), str(work), str(lower)]
    return [*argv, "--as-pid-1", "--new-session", "--die-with-parent", "--"]


def command_argv(
    program: str,
    walls: CommandWalls,
    places: SessionPlaces,
    *,
    cwd: Path,
    layer: Path | None = None,
    writable: Sequence[Path] = (),
    protection: Sequence[Mount] = (),
) -> list[str]:
    """Return the start of the command line that runs one command inside the session's namespaces.

    `writable` are folders besides the roots, such as caches; they are visible even inside a hidden folder. `layer` is
    the folder for the throw-away layers of a read-only command; without it the roots are read-only. `protection` keeps
    git's own files from being changed."""
    argv = [program, "--unshare-user", "--uid", str(os.getuid()), "--gid", str(os.getgid()), "--ro-bind", "/", "/"]
    argv += ["--dev", "/dev", "--bind", str(places.memory), "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108
    argv += ["--bind", "/proc", "/proc"]
    for path in KERNEL_PATHS:
        argv += ["--ro-bind-try", path, path]
    visible = [os.path.realpath(path) for path in (*walls.shown, *walls.roots, *writable)]
    lifted = walls.granted(NeedKind.WRITE)
    kept = () if walls.read_only else [mount for mount in protection if not _is_below(mount.path, lifted)]
    mounts = [
        *_places(places),
        *_hidden(walls, places, visible),
        *(Mount(os.path.realpath(path), 4, ("--bind", str(path))) for path in writable),
        *(_writable(mount, places) for mount in (*_roots(walls, layer), *kept)),
    ]
    mounts += [_writable(mount, places) for mount in _lifted(walls, mounts, places)]
    for mount in sorted(mounts, key=lambda one: (Path(one.path).parts, one.rank)):
        if mount.options == ("--tmpfs",):
            argv += ["--size", str(SMALL), *mount.options, mount.path, "--chmod", "0755", mount.path]
        else:
            argv += [*mount.options, mount.path]
    argv += _sealed(walls, visible)
    return [
        *argv, "--cap-drop", "ALL", "--new-session", "--chdir", str(cwd), "--seccomp", SECCOMP, "--"
    ]  # fmt: skip


def _places(places: SessionPlaces) -> list[Mount]:
    """Return the mounts that every command has: an empty /run, and the session's own /tmp."""
    mounts = [Mount("/run", 0, ("--tmpfs",)), Mount("/tmp", 0, ("--bind", str(places.shared)))]  # noqa: S108
    if not os.path.islink("/var/tmp"):  # noqa: S108
        mounts.append(Mount("/var/tmp", 0, ("--bind", str(places.shared))))  # noqa: S108
    return [*mounts, *(Mount(path, 0, ("--ro-bind-try", path)) for path in SYSTEM_PROFILES if os.path.exists(path))]


def _hidden(walls: CommandWalls, places: SessionPlaces, visible: Sequence[str]) -> list[Mount]:
    mounts: list[Mount] = []
    for path in {os.path.realpath(path) for path in walls.hidden}:
        holds_visible = any(_is_inside(one, path) for one in visible)
        if path in visible or (_is_replaced(path) and not holds_visible and not _is_below(path, visible)):
            continue
        if not os.path.isdir(path):
            mounts.append(Mount(path, 1, ("--ro-bind-try", str(places.empty_file))))
        elif holds_visible:
            mounts.append(Mount(path, 1, ("--tmpfs",)))
        else:
            mounts.append(Mount(path, 1, ("--ro-bind-try", str(places.empty_folder))))
    covered = [one for one in visible if _is_replaced(one) or _is_below(one, [mount.path for mount in mounts])]
    return [*mounts, *(Mount(one, 2, ("--ro-bind-try", one)) for one in covered)]


def _is_inside(path: str, folder: str) -> bool:
    return path != folder and path.startswith(folder.rstrip("/") + "/")


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or _is_inside(path, folder) for folder in folders)


def _is_replaced(path: str) -> bool:
    return _is_below(path, REPLACED)


def _sealed(walls: CommandWalls, visible: Sequence[str]) -> list[str]:
    """Return options that make the hidden folders with visible ones inside read-only, after all mounts are made."""
    paths = {os.path.realpath(path) for path in walls.hidden if os.path.isdir(path)} - set(visible)
    around = [path for path in paths if any(_is_inside(one, path) for one in visible)]
    return [word for path in sorted(around) for word in ("--remount-ro", path)]


def _roots(walls: CommandWalls, layer: Path | None) -> list[Mount]:
    roots = [os.path.realpath(root) for root in walls.roots]
    if not walls.read_only:
        return [Mount(root, 5, ("--bind", root)) for root in roots]
    if layer is None:
        return [Mount(root, 5, ("--ro-bind", root)) for root in roots]
    outer = [root for root in roots if not any(Path(root).is_relative_to(one) for one in roots if one != root)]
    return [
        Mount(root, 5, ("--overlay-src", root, "--overlay", str(layer / f"{at}"), str(layer / f"{at}.work")))
        for at, root in enumerate(outer)
    ]


def _writable(mount: Mount, places: SessionPlaces) -> Mount:
    """Return the mount with a source that is writable in the session's namespaces, if it shall be writable."""
    option = mount.options[0]
    if option not in ("--bind", "--bind-try"):
        return mount
    if _is_below(mount.path, [os.path.realpath(path) for path in places.writable]):
        return mount
    return Mount(mount.path, mount.rank, (option, f"{places.machine}{mount.path}"))


def _lifted(walls: CommandWalls, mounts: Sequence[Mount], places: SessionPlaces) -> list[Mount]:
    """Return the mounts of lifted walls. What is writable without a mount of its own gets none: programs replace a
    file by renaming another one to its name, which fails on a mount point."""
    written = [path for path in walls.granted(NeedKind.WRITE) if not _is_written(path, mounts, places)]
    read = [Mount(path, 9, ("--ro-bind-try", path)) for path in walls.granted(NeedKind.READ)]
    return [*read, *(Mount(path, 9, ("--bind-try", path)) for path in (*written, *walls.granted(NeedKind.SOCKET)))]


def _is_written(path: str, mounts: Sequence[Mount], places: SessionPlaces) -> bool:
    """Whether the innermost mount around a path shows the machine's own files there, and is writable."""
    around = [mount for mount in mounts if _is_below(path, [mount.path])]
    inner = max(around, key=lambda one: (len(Path(one.path).parts), one.rank), default=None)
    if inner is None:
        return False
    return inner.options in (("--bind", inner.path), ("--bind", f"{places.machine}{inner.path}"))
