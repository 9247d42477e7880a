"""Which paths of a root git ignores: by `.gitignore` files in and above the root, and by the repository's exclude file.

The rules of a folder are read when the folder is listed, and kept until `forget`.
"""

from __future__ import annotations

import os
from pathlib import Path

from outlast.runtime.git_repository import GitRepository
from outlast.runtime.safe_open import read_inside
from outlast.runtime.tools.files.gitignore import LARGEST, IgnoreFile, is_ignored

NAME = ".gitignore"


class IgnoreRules:
    """The rules for paths relative to one root."""

    def __init__(self, root: Path, repository: GitRepository | None) -> None:
        self._root = root
        self._top = Path(os.path.realpath(repository.top)) if repository is not None else root
        self._exclude = repository.common / "info" / "exclude" if repository is not None else None
        inside = os.path.relpath(root, self._top)
        self._prefix = "" if inside == "." else f"{inside}/"
        self._files: dict[str, tuple[IgnoreFile, ...]] = {}
        self._ignored: dict[str, bool] = {}

    def forget(self) -> None:
        self._files, self._ignored = {}, {}

    def outer_stamp(self) -> tuple[int, ...]:
        """Return a value that changes when a rule outside the root does."""
        places = [self._top / above / NAME for above in self._above()]
        return tuple(_changed(place) for place in (*places, self._exclude) if place is not None)

    def is_ignored(self, path: str, is_folder: bool) -> bool:
        """Whether the rules ignore this path or a folder that holds it."""
        folder = path.rpartition("/")[0]
        if folder and folder not in self._ignored:
            self._ignored[folder] = self.is_ignored(folder, True)
        if folder and self._ignored[folder]:
            return True
        return is_ignored(self._prefix + path, is_folder, self._known(folder))

    def _above(self) -> list[str]:
        """Return the folders from the top of the repository down to the root, without the root."""
        parts = self._prefix.split("/")[:-1]
        return ["/".join(parts[:n]) for n in range(len(parts))]

    def _known(self, folder: str) -> tuple[IgnoreFile, ...]:
        """Return the ignore files that apply in a folder of the root, the nearest last."""
        if folder not in self._files:
            if folder:
                outer = self._known(folder.rpartition("/")[0])
            else:
                exclude = self._exclude
                outer = _read(exclude.parent, exclude.name, "") if exclude is not None else ()
                for above in self._above():
                    outer += _read(self._top, os.path.join(above, NAME), f"{above}/" if above else "")
            base = f"{self._prefix}{folder}/" if folder else self._prefix
            self._files[folder] = outer + _read(self._root, os.path.join(folder, NAME), base)
        return self._files[folder]


def _read(root: Path, relative: str, base: str) -> tuple[IgnoreFile, ...]:
    data = read_inside(root, relative, LARGEST)
    return (IgnoreFile(data.decode("utf-8", "replace"), base),) if data else ()


def _changed(path: Path) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0
