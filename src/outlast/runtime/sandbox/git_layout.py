"""Which git directories belong to a project's roots, read from git's own files; no program runs.

A `.git` folder belongs to the folder that holds it. A `.git` file may name any directory, so it counts only if git's
own record there names this root:

| layout | record |
|---|---|
| linked worktree | its `gitdir` file names the root's `.git`, and it lies in `worktrees/` of the directory it shares |
| submodule | `core.worktree` in its config names the root |
| `--separate-git-dir` | no pointer exists; its index must hold the inode and times of a file of the root |

A command cannot forge a record outside the roots: it cannot write there, and a hard link across a bind mount fails.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from outlast.runtime.safe_open import read_inside

FOLDER_LIMIT = 20_000
"""Folders that a search for repositories looks into."""
TEXT_LIMIT = 64 * 1024
INDEX_LIMIT = 256 * 1024
_WORKTREE = re.compile(rb'^[ \t]*worktree[ \t]*=[ \t]*"?([^"\r\n]+?)"?[ \t]*\r?$', re.MULTILINE | re.IGNORECASE)
_BARE = re.compile(rb"^[ \t]*bare[ \t]*=[ \t]*(?:true|yes|on|1)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_ENTRY = struct.Struct(">10I")


class GitDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """`folder` is the git directory of the working tree `top`; `common` the one that its worktrees share. `pointer` is
    the `.git` file that names it, None if `.git` is the directory itself."""

    top: Path
    folder: Path
    common: Path
    pointer: Path | None = None


def git_directory(
    top: Path, roots: Sequence[Path] = (), known: frozenset[Path] = frozenset()
) -> GitDirectory | str | None:
    """Return the git directory that belongs to this folder; a sentence if there is one that does not; None without one.

    One that lies inside the `roots` needs no record: commands can write there anyway. `known` are separate git
    directories that this function accepted before in this session: a command may have changed every file since, so
    that no file of the root fits the index any more."""
    top = Path(os.path.realpath(top))
    place = top / ".git"
    if not os.path.lexists(place):
        return GitDirectory(top=top, folder=top, common=top) if is_bare(top) else None
    if place.is_symlink():
        return f"{place} is a symbolic link, so commands can read its git directory but not change it"
    if place.is_dir():
        if os.path.lexists(place / "commondir") and common_directory(place) != place:
            return f"{place} shares the directory of another repository, so commands can read it but not change it"
        return GitDirectory(top=top, folder=place, common=place)
    named = named_directory(place)
    if named is None:
        return f"{place} names no git directory"
    common = common_directory(named)
    is_ours = common is not None and all(any(one.is_relative_to(r) for r in roots) for one in (named, common))
    if common is not None and (is_ours or named in known or _belongs(named, common, top)):
        return GitDirectory(top=top, folder=named, common=common, pointer=place)
    return f"{place} names {named}, which does not name {top} in return, so commands can read it but not change it"


def is_bare(folder: Path) -> bool:
    """Whether git would take the folder itself for a git directory."""
    return (folder / "HEAD").exists() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def named_directory(pointer: Path) -> Path | None:
    """Return the directory that a `.git` file names; None if git would not take it for a git directory."""
    kind, _, name = _text(pointer.parent, ".git").partition(":")
    name = name.rstrip("\r\n").strip(" ")
    if kind != "gitdir" or not name or not name.isprintable():
        return None
    folder = Path(os.path.realpath(pointer.parent / name))
    return folder if (folder / "HEAD").is_file() else None


def common_directory(folder: Path) -> Path | None:
    if not os.path.lexists(folder / "commondir"):
        return folder
    name = _text(folder, "commondir").rstrip("\r\n")
    if not name or not name.isprintable() or name != name.strip():
        return None
    return Path(os.path.realpath(folder / name))


def _belongs(folder: Path, common: Path, top: Path) -> bool:
    if folder != common:
        return folder.parent == common / "worktrees" and _back_pointer(folder) == top / ".git"
    config = read_inside(folder, "config", TEXT_LIMIT)
    if config is None or folder.name == ".git":
        return False
    worktree = _WORKTREE.search(config)
    if worktree is not None:
        return os.path.realpath(folder / os.fsdecode(worktree[1])) == str(top)
    if _BARE.search(config) or folder.parent.name in ("worktrees", "modules"):
        return False
    return _is_unborn(folder) or _index_fits(folder, top, 32 if b"sha256" in config else 20)


def _back_pointer(folder: Path) -> Path | None:
    name = _text(folder, "gitdir").rstrip("\r\n")
    return Path(os.path.realpath((folder / name).parent)) / Path(name).name if name and "\0" not in name else None


def _is_unborn(folder: Path) -> bool:
    """Whether the repository has neither an index nor a commit: nothing in it could be lost."""
    if os.path.lexists(folder / "index") or os.path.lexists(folder / "packed-refs"):
        return False
    heads = folder / "refs" / "heads"
    return heads.is_dir() and not names_in(heads)


def names_in(folder: Path) -> list[str]:
    """Return the entries of a folder; none if another command has just removed it or put something in its place."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _index_fits(folder: Path, top: Path, id_size: int) -> bool:
    """Whether git's index has recorded a file of this working tree: same inode, same times."""
    data = read_inside(folder, "index", INDEX_LIMIT) or b""
    for name, changed, modified, inode in _index_entries(data, id_size):
        try:
            status = os.lstat(os.path.join(os.fsencode(top), name))
        except (OSError, ValueError):
            continue
        ours = (status.st_ctime_ns // 10**9, status.st_mtime_ns // 10**9, status.st_ino)
        if (changed, modified, inode) == tuple(number & 0xFFFFFFFF for number in ours):
            return True
    return False


def _index_entries(data: bytes, id_size: int) -> Iterator[tuple[bytes, int, int, int]]:
    if data[:4] != b"DIRC" or len(data) < 12:
        return
    version, count = struct.unpack(">II", data[4:12])
    at = 12
    for _ in range(min(count, 2000)):
        head = at + _ENTRY.size + id_size
        if len(data) < head + 4 or version not in (2, 3, 4):
            return
        changed, _, modified, _, _, inode, *_ = _ENTRY.unpack_from(data, at)
        extended = version >= 3 and data[head] & 0x40
        start = head + (4 if extended else 2) + (1 if version == 4 else 0)
        end = data.find(b"\0", start)
        if end < 0:
            return
        yield data[start:end], changed, modified, inode
        if version == 4:  # later names are written as the difference to the one before
            return
        at += (end - at + 8) & ~7


FolderListings = dict[str, tuple[tuple[int, int], "_Listing"]]
"""What a look found in each folder, with the folder's inode and change time."""


def find_git_directories(
    root: Path, limit: int = FOLDER_LIMIT, *, known: FolderListings | None = None, seen: FolderListings | None = None
) -> tuple[Path, ...]:
    """Return every `.git` below the root, and every folder that could be a git directory.

    At most `limit` folders are looked into, those near the root first. Links are not followed. Folders that have not
    changed since `known` was made are not listed again; `seen` takes the listings of this look."""
    found: list[Path] = []
    waiting = [str(root)]
    for at in range(limit):
        if at >= len(waiting):
            break
        has_git, is_repository, folders = _looked_at(waiting[at], known, seen)
        if has_git:
            found.append(Path(waiting[at], ".git"))
        if at and is_repository:
            found.append(Path(waiting[at]))
            continue
        waiting.extend(folders)
    return tuple(found)


_PARTS = ({"objects", "refs"}, {"HEAD", "commondir"})
"""What makes a folder a git directory, alone or with another folder that its `commondir` names."""
_Listing = tuple[bool, bool, tuple[str, ...]]
"""Whether a folder has a `.git`, whether it is a bare repository, and its folders."""


def _looked_at(folder: str, known: FolderListings | None, seen: FolderListings | None) -> _Listing:
    try:
        status = os.lstat(folder)
    except OSError:
        return False, False, ()
    mark = (status.st_ino, status.st_ctime_ns)
    kept = known.get(folder) if known is not None else None
    if kept is None or kept[0] != mark:
        names, folders = _listing(folder)
        kept = (mark, (".git" in names, any(part <= names for part in _PARTS), tuple(folders)))
    if seen is not None:
        seen[folder] = kept
    return kept[1]


def _listing(folder: str) -> tuple[set[str], list[str]]:
    names: set[str] = set()
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.add(entry.name)
                if entry.name != ".git" and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    except OSError:  # it vanished, or it cannot be read
        return set(), []
    return names, folders


def _text(folder: Path, name: str) -> str:
    data = read_inside(folder, name, TEXT_LIMIT)
    return os.fsdecode(data) if data is not None else ""
