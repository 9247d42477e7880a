"""Keeps git's own files from being changed while one command runs, and looks at the repositories it leaves.

A command may create repositories. From the next command on they are protected like the project's own. One whose
configuration could run a program is set aside at once and named: the next `git status` of the user would run it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from outlast.runtime.safe_open import read_inside
from outlast.runtime.sandbox.bubblewrap import Mount, SessionPlaces
from outlast.runtime.sandbox.git_layout import (
    TEXT_LIMIT,
    FolderListings,
    GitDirectory,
    find_git_directories,
    git_directory,
)
from outlast.runtime.sandbox.git_protection import can_run_program, guard_mounts, protected_mounts, set_aside
from outlast.runtime.sandbox.placeholders import COMMONDIR, PlaceholderLease


class KnownRepositories:
    """What a session knows of the repositories in its folders. `told` are sentences that were said once.

    A look lists only folders whose change time differs from the last look; a command cannot set that time."""

    def __init__(self) -> None:
        self.separate: frozenset[Path] = frozenset()
        self.told: set[str] = set()
        self._listings: FolderListings = {}

    def find(self, roots: Sequence[Path]) -> list[Path]:
        listings: FolderListings = {}
        found = [place for root in roots for place in find_git_directories(root, known=self._listings, seen=listings)]
        self._listings = listings
        return found


class GitGuard:
    """The protection of one command. `end` must be called when the command has ended. `lifted` are paths that the
    command may write to although git obeys them.

    Mounts are made by path, so a command that runs at the same time can lead one of them astray: by exchanging the
    folder around a nested repository for another. What such a repository obeys is therefore compared afterwards."""

    def __init__(
        self,
        roots: Sequence[Path],
        places: SessionPlaces,
        state_dir: Path,
        known: KnownRepositories,
        lifted: Sequence[Path] = (),
    ) -> None:
        self._roots = roots
        self._known = known
        self._lifted = lifted
        places_before = known.find(roots)
        tops = {Path(os.path.realpath(root)) for root in roots}
        self._before = {_identity(place): None if place.parent in tops else _obeyed(place) for place in places_before}
        protection = protected_mounts(roots, places, nested=places_before, known=known.separate)
        self._own = protection.directories
        self._lease = PlaceholderLease(protection.placeholders, state_dir)
        self._notes = protection.notes
        known.separate = protection.separate
        self.mounts: tuple[Mount, ...] = guard_mounts(protection, self._lease, places)

    def end(self) -> tuple[str, ...]:
        """Remove what protected missing paths; return sentences about repositories for the model and the user."""
        self._lease.release()
        changed = [place for place in self._known.find(self._roots) if self._is_changed(place)]
        hostile = [_set_aside(place) for place in changed if can_run_program(place, self._own)]
        notes = tuple(note for note in self._notes if note not in self._known.told)
        self._known.told.update(notes)
        return (*notes, *hostile)

    def _is_changed(self, place: Path) -> bool:
        """Whether the repository is new, or obeys other settings than before the command."""
        identity = _identity(place)
        if identity not in self._before:
            return True
        before = self._before[identity]
        if before is None or any(path.is_relative_to(place) for path in self._lifted):
            return False
        return _obeyed(place) != before


class NewRepositories:
    """Finds the repositories that one command creates, where no mount protects the others (Landlock)."""

    def __init__(self, roots: Sequence[Path], known: KnownRepositories) -> None:
        self._roots = roots
        self._known = known
        self.places = places = known.find(roots)
        self._before = {_identity(place) for place in places}
        tops = [*roots, *(place.parent for place in places if place.name == ".git")]
        found = [git_directory(top, tuple(roots)) for top in tops]
        folders = [(one.folder, one.common) for one in found if isinstance(one, GitDirectory)]
        self._own = frozenset(folder for pair in folders for folder in pair)

    def end(self) -> tuple[str, ...]:
        """Set aside new repositories that can run a program; return a sentence for each."""
        new = [place for place in self._known.find(self._roots) if _identity(place) not in self._before]
        return tuple(_set_aside(place) for place in new if can_run_program(place, self._own))


def _set_aside(place: Path) -> str:
    try:
        return set_aside(place)
    except OSError as error:
        return f"{place} can run programs and could not be set aside ({error.strerror}): do not run git there"


Identity = tuple[int, int, int, bytes]


def _identity(place: Path) -> Identity:
    """Return what stays the same if a command moves the folder around a repository, and differs for one put there. The
    kernel gives the inode of a removed file or link to the next one, so their contents count too."""
    try:
        status = os.lstat(place)
        kind = stat.S_IFMT(status.st_mode)
        content = b""
        if kind == stat.S_IFLNK:
            content = os.fsencode(os.readlink(place))
        elif kind == stat.S_IFREG:
            content = read_inside(place.parent, place.name, TEXT_LIMIT) or b""
    except FileNotFoundError:
        return 0, 0, 0, b""
    return status.st_dev, status.st_ino, kind, content


def _obeyed(place: Path) -> tuple[object, ...]:
    """Return what git obeys in a git directory; a placeholder counts as nothing."""
    names = ("config", "config.worktree", "commondir", "gitdir", "info/attributes")
    texts = [read_inside(place, name, TEXT_LIMIT) or b"" for name in names]
    return (*(b"" if text == COMMONDIR.encode() else text for text in texts), *_hooks(place / "hooks"))


def _hooks(folder: Path) -> list[tuple[str, int, int, int]]:
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except OSError:  # there are none
        return []
    return sorted((name, status.st_ino, status.st_size, status.st_ctime_ns) for name, status in found)
