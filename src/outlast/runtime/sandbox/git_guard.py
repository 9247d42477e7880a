"""Keeps git's own files from being changed while one command runs, and looks at the repositories it leaves.

A command may create repositories. From the next command on they are protected like the project's own. One whose
configuration could run a program is set aside at once and named: the next `git status` of the user would run it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from outlast.runtime.sandbox.bubblewrap import Mount, SessionPlaces
from outlast.runtime.sandbox.git_layout import FolderListings, find_git_directories
from outlast.runtime.sandbox.git_protection import can_run_program, guard_mounts, protected_mounts, set_aside
from outlast.runtime.sandbox.placeholders import PlaceholderLease


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
    """The protection of one command. `end` must be called when the command has ended."""

    def __init__(self, roots: Sequence[Path], places: SessionPlaces, state_dir: Path, known: KnownRepositories) -> None:
        self._roots = roots
        self._known = known
        places_before = known.find(roots)
        self._before = {_identity(place) for place in places_before}
        protection = protected_mounts(roots, places, nested=places_before, known=known.separate)
        self._own = protection.directories
        self._lease = PlaceholderLease(protection.placeholders, state_dir)
        self._notes = protection.notes
        known.separate = protection.separate
        self.mounts: tuple[Mount, ...] = guard_mounts(protection, self._lease, places)

    def end(self) -> tuple[str, ...]:
        """Remove what protected missing paths; return sentences about repositories for the model and the user."""
        self._lease.release()
        new = [place for place in self._known.find(self._roots) if _identity(place) not in self._before]
        hostile = [set_aside(place) for place in new if can_run_program(place, self._own)]
        notes = tuple(note for note in self._notes if note not in self._known.told)
        self._known.told.update(notes)
        return (*notes, *hostile)


def _identity(place: Path) -> tuple[int, int]:
    """Return what stays the same if a command moves the folder around a repository, and differs for one put there."""
    try:
        status = os.lstat(place)
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino
