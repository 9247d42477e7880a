"""Mounts that keep commands from changing what git, or this program, obeys: `.outlast/`, `.git/config`, hooks and more.

A git directory is itself a mount point, so that it cannot be renamed and replaced; inside it, everything but the
protected paths is writable, so that add, commit, switch, stash, rebase and gc work. `modules/` is read-only except for
the submodules that exist: a new one needs `.git/config` anyway.

A protected path that does not exist gets a placeholder while a command runs (`placeholders`). The alternatives fail:
an overlay with the git directory as its upper layer is undefined once another program changes the directory, needs a
work folder beside it, and leaves attributes on its folders; Landlock and seccomp cannot refuse a single name; a copy
that is written back shares no locks with the user's own git; and a removal afterwards leaves time to be obeyed.

Two limits. If another program outside replaces a protected file while a command runs (`git config` of the user), the
kernel drops that command's mount on it. A symbolic link cannot be a mount point: a git directory with a link in place
of a protected path is read-only as a whole, and named.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from outlast.runtime.git_repository import is_harmless_setting, setting_names
from outlast.runtime.safe_open import open_folder
from outlast.runtime.sandbox.bubblewrap import PROTECTED, Mount, SessionPlaces
from outlast.runtime.sandbox.git_layout import (
    GitDirectory,
    common_directory,
    git_directory,
    is_bare,
    named_directory,
    names_in,
)
from outlast.runtime.sandbox.placeholders import COMMONDIR, Placeholder, PlaceholderLease

GIT_SETTINGS = {"branch.autoSetupMerge": "false"}
"""Set by environment for every command: otherwise `git switch` of a remote branch writes `.git/config`."""
DIRECTORY_LIMIT = 64
"""Git directories that get mounts of their own; further ones are read-only."""
SET_ASIDE = ".outlast-set-aside"
OWN_FOLDER = ".outlast"
POINT, SEALED = PROTECTED - 1, PROTECTED + 1
"""Ranks of mounts besides PROTECTED: a writable mount point, and a whole directory that is read-only."""

_MAIN: tuple[tuple[str, str | None], ...] = (
    ("config", ""),
    ("config.worktree", ""),
    ("hooks", None),
    ("info", None),
    ("info/attributes", ""),
    ("commondir", COMMONDIR),
    ("gitdir", ""),
    ("modules", None),
)
_LINKED: tuple[tuple[str, str | None], ...] = (
    ("config.worktree", ""), ("commondir", COMMONDIR), ("gitdir", ""), ("modules", None)
)  # fmt: skip
_WRITABLE = frozenset({"info"})


class GitProtection(msgspec.Struct, frozen=True, kw_only=True):
    """`mounts` are complete except for `placeholders`, which must be in place first: see `guard_mounts`.

    `writable` are the git directories outside the roots that commands may write; they are in `mounts` already.
    `directories` are those that are protected.
    `notes` name git directories that commands cannot change. `separate` is `known` of the next call."""

    mounts: tuple[Mount, ...] = ()
    writable: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    placeholders: tuple[Placeholder, ...] = ()
    directories: frozenset[Path] = frozenset()
    separate: frozenset[Path] = frozenset()


def protected_mounts(
    roots: Sequence[Path],
    places: SessionPlaces,
    *,
    nested: Iterable[Path] = (),
    known: frozenset[Path] = frozenset(),
) -> GitProtection:
    """Return what protects the git directories of the roots and `.outlast/` in them.

    `nested` are further git directories inside the roots, as `find_git_directories` returns them."""
    assembly = _Assembly([Path(os.path.realpath(root)) for root in roots], known)
    for root in assembly.roots:
        assembly.add_folder(root / OWN_FOLDER, root)
        assembly.add_root(root)
    for place in nested:
        assembly.add_nested(place)
    return assembly.protection()


def guard_mounts(protection: GitProtection, lease: PlaceholderLease, places: SessionPlaces) -> tuple[Mount, ...]:
    """Return all mounts, now that the placeholders are in place. Where one failed, its directory is read-only.

    In place of `.outlast` a command sees a folder that git ignores: `git stash -u` and `git clean -d` would fail to
    remove an empty one."""
    mounts = [
        Mount(str(path), _rank(path), (_option(path), str(places.ignored_folder if path.name == OWN_FOLDER else path)))
        for path in lease.paths
    ]
    sealed = [Mount(str(one.owner), SEALED, ("--ro-bind", str(one.owner))) for one in lease.failed]
    return (*protection.mounts, *mounts, *sealed)


def _rank(path: Path) -> int:
    return POINT if path.name in _WRITABLE else PROTECTED


def _option(path: Path) -> str:
    return "--bind" if path.name in _WRITABLE else "--ro-bind"


class _Assembly:
    """Collects the mounts of one command."""

    def __init__(self, roots: list[Path], known: frozenset[Path]) -> None:
        self.roots = roots
        self.known = known
        self.mounts: dict[tuple[str, int], Mount] = {}
        self.placeholders: dict[Path, Placeholder] = {}
        self.outside: list[Path] = []
        self.notes: list[str] = []
        self.separate: set[Path] = set()
        self.done: set[Path] = set()

    def protection(self) -> GitProtection:
        return GitProtection(
            mounts=tuple(self.mounts.values()),
            writable=tuple(self.outside),
            notes=tuple(dict.fromkeys(self.notes)),
            placeholders=tuple(self.placeholders.values()),
            directories=frozenset(self.done),
            separate=frozenset(self.separate),
        )

    def add_root(self, root: Path) -> None:
        match git_directory(root, self.roots, self.known):
            case GitDirectory() as directory:
                self._add(directory, may_leave=True)
            case str() as note:
                self._refuse(root / ".git", note)
            case None:
                self._name_above(root)

    def add_nested(self, place: Path) -> None:
        if place.name != ".git":  # a bare repository
            self._add(GitDirectory(top=place, folder=place, common=place), may_leave=False)
            return
        match git_directory(place.parent, self.roots):
            case GitDirectory() as directory:
                self._add(directory, may_leave=False)
            case str() as note:
                self._refuse(place, note)
            case None:
                return

    def _add(self, directory: GitDirectory, may_leave: bool) -> None:
        inside = self._is_inside(directory.common)
        if not inside and not may_leave:
            self._refuse(
                directory.top / ".git", f"{directory.folder} lies outside the project: commands can only read it"
            )
            return
        if not inside:
            self.outside.append(directory.common)
        if directory.pointer is not None:
            self._mount(directory.pointer, PROTECTED, "--ro-bind")
            if directory.folder == directory.common:
                self.separate.add(directory.folder)
        self._add_main(directory.common)

    def _is_inside(self, folder: Path) -> bool:
        return any(folder.is_relative_to(root) for root in (*self.roots, *self.outside))

    def _add_main(self, folder: Path) -> None:
        if not self._protect(folder, _MAIN):
            return
        for child in _git_directories(folder / "modules"):
            self._add_main(child)
        if (folder / "worktrees").is_dir():
            self._mount(folder / "worktrees", POINT, "--bind")
        for linked in _folders(folder / "worktrees"):
            if self._protect(linked, _LINKED):
                for child in _git_directories(linked / "modules"):
                    self._add_main(child)

    def _protect(self, folder: Path, entries: tuple[tuple[str, str | None], ...]) -> bool:
        """Protect the entries of a git directory; return whether anything else in it is writable."""
        if folder in self.done:
            return True
        links = [folder / name for name, _ in entries if (folder / name).is_symlink()]
        if links or folder.is_symlink() or len(self.done) >= DIRECTORY_LIMIT:
            reason = f"{links[0].name} in it is a symbolic link" if links else "there are too many git directories"
            self._refuse(folder, f"commands can read {folder} but not change it: {reason}")
            for link in links:
                self._protect_target(link)
            return False
        self.done.add(folder)
        self._mount(folder, POINT, "--bind")
        for name, content in entries:
            placeholder = Placeholder(path=folder / name, content=content, owner=folder)
            if not os.path.lexists(placeholder.path) or placeholder.is_in_place():
                self.placeholders[placeholder.path] = placeholder
            else:
                self._mount(placeholder.path, _rank(placeholder.path), _option(placeholder.path))
        return True

    def _protect_target(self, link: Path) -> None:
        """Make the target of a link read-only, where it lies inside a root."""
        target = Path(os.path.realpath(link))
        if target.exists() and self._is_inside(target) and target not in self.roots:
            self._mount(target, PROTECTED, "--ro-bind")

    def _refuse(self, path: Path, note: str) -> None:
        self.notes.append(note)
        if not path.is_symlink():
            self._mount(path, SEALED, "--ro-bind")
            return
        target = Path(os.path.realpath(path))
        if self._is_inside(target) and is_bare(target):
            self._add_main(target)

    def add_folder(self, folder: Path, root: Path) -> None:
        if folder.is_symlink():
            self.notes.append(f"{folder} is a symbolic link, which the sandbox cannot protect")
            self._protect_target(folder)
            return
        placeholder = Placeholder(path=folder, content=None, owner=root)
        if not os.path.lexists(folder) or placeholder.is_in_place():
            self.placeholders[folder] = placeholder
        else:
            self._mount(folder, PROTECTED, "--ro-bind")

    def _name_above(self, root: Path) -> None:
        for parent in root.parents:
            if os.path.lexists(parent / ".git"):
                self.notes.append(f"{parent / '.git'} belongs to a folder above {root}: commands can only read it")
                return

    def _mount(self, path: Path, rank: int, option: str) -> None:
        self.mounts[str(path), rank] = Mount(str(path), rank, (option, str(path)))


def _folders(parent: Path) -> list[Path]:
    if parent.is_symlink() or not parent.is_dir():
        return []
    children = [parent / name for name in names_in(parent)]
    return sorted(child for child in children if child.is_dir() and not child.is_symlink())


def _git_directories(parent: Path, depth: int = 4) -> Iterator[Path]:
    """Yield the git directories of submodules; a submodule's name may hold slashes."""
    for child in _folders(parent):
        if (child / "HEAD").exists():
            yield child
        elif depth:
            yield from _git_directories(child, depth - 1)


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that add `GIT_SETTINGS` to those that the environment sets already."""
    count = int(environ.get("GIT_CONFIG_COUNT") or 0)
    settings = {"GIT_CONFIG_COUNT": str(count + len(GIT_SETTINGS))}
    for number, (key, value) in enumerate(GIT_SETTINGS.items(), count):
        settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return settings


def can_run_program(place: Path, own: frozenset[Path] = frozenset()) -> bool:
    """Whether git, run in this repository, could start a program that the repository names.

    For a git directory, or a `.git` file or link, that a command has created. Only settings known to be harmless count
    as such. `own` are git directories that commands could not change: what those name is the user's choice."""
    if place.is_dir() and not place.is_symlink():
        return _runs(place)
    named = Path(os.path.realpath(place)) if place.is_symlink() else named_directory(place)
    if named is None or named in own:
        return False
    common = common_directory(named)
    if common is None or (named != common and named.parent != common / "worktrees"):
        return True
    if named == common:
        return _runs(named)
    return _sets_program(named, "config.worktree") or (common not in own and _runs(common))


def _runs(git_dir: Path) -> bool:
    if os.path.lexists(git_dir / "commondir") or _has_hooks(git_dir / "hooks"):
        return True
    return _sets_program(git_dir, "config") or _sets_program(git_dir, "config.worktree")


def _sets_program(git_dir: Path, name: str) -> bool:
    if not os.path.lexists(git_dir / name):
        return False
    settings = setting_names(git_dir, name)
    return settings is None or not all(_is_harmless(setting) for setting in settings)


_ALSO_HARMLESS = ("core.worktree", "extensions.partialclone", "extensions.refstorage", "maintenance.auto")


def _is_harmless(setting: str) -> bool:
    if setting == "core.hookspath":
        return False  # harmless only where we run git ourselves
    if setting.startswith("remote.") and setting.endswith((".promisor", ".partialclonefilter")):
        return True
    return setting in _ALSO_HARMLESS or is_harmless_setting(setting)


def _has_hooks(hooks: Path) -> bool:
    if hooks.is_symlink():
        return True
    return hooks.is_dir() and any(not name.endswith(".sample") for name in names_in(hooks))


def set_aside(git_dir: Path) -> str:
    """Rename what could run a program in a repository that a command has created; return a sentence that names it.

    No link on the way is followed: another command may exchange a folder for a link at this moment. Raises OSError if
    something cannot be renamed."""
    parent = open_folder(git_dir.parent)
    try:
        if git_dir.is_symlink() or not git_dir.is_dir():
            new = _renamed(parent, git_dir.name)
            return f"{git_dir} was created by a command and names a repository that can run programs: it is now {new}"
        inside = os.open(git_dir.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    finally:
        os.close(parent)
    try:
        names = [name for name in ("config", "config.worktree", "hooks", "commondir") if _exists(inside, name)]
        renamed = ", ".join([_renamed(inside, name) for name in names])
    finally:
        os.close(inside)
    return f"{git_dir} was created by a command and can run programs: its settings were set aside as {renamed}"


def _renamed(folder: int, name: str) -> str:
    new, number = name + SET_ASIDE, 1
    while _exists(folder, new):
        number += 1
        new = f"{name}{SET_ASIDE}-{number}"
    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
    return new


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
