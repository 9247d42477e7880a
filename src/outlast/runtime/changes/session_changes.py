"""The looks of one session: before and after each shell command that may write, over all roots.

The index is stored before a command starts, so that after a crash the next process can tell what changed since. What
differs before a command is the user's own work, unless background jobs ran, or a call was started whose end was not
recorded; `ChangeGroup.cause` says which. Groups that no result holds yet wait in `unrecorded`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from outlast.runtime.changes.change_set import ABSENT, LARGE, Cause, ChangedFile, ChangeGroup
from outlast.runtime.changes.git_objects import GitObjects
from outlast.runtime.changes.kept_copies import KeptCopies
from outlast.runtime.changes.obeyed_files import configured_files, is_obeyed
from outlast.runtime.changes.workspace_index import FILES_LIMIT, IndexState, WorkspaceIndex, blob_id
from outlast.runtime.git_repository import find_repository
from outlast.runtime.sandbox.git_layout import GitDirectory, git_directory

FOLDER = "changes"
MEGABYTE = 1024 * 1024

T = TypeVar("T")


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was started and whose changes no result holds yet. `seq`: the last event before it."""

    call_id: str
    seq: int


class CallsState(msgspec.Struct, kw_only=True):
    """What is stored next to the index: small, and written with every command that may write."""

    pending: PendingCall | None = None
    unrecorded: list[ChangeGroup] = []
    jobs: list[str] = []
    told: list[str] = []


class WorkspaceChanges:
    """Blocking and not thread-safe: the caller runs one look at a time, in a thread."""

    def __init__(
        self,
        folder: Path,
        project: Path,
        roots: tuple[Path, ...],
        *,
        search_path: str | None = None,
        left_out: tuple[Path, ...] = (),
        copies: KeptCopies | None = None,
        files_limit: int = FILES_LIMIT,
    ) -> None:
        self._folder = folder
        self._project = Path(os.path.realpath(project))
        self.copies = copies or KeptCopies(folder / "copies")
        self.calls = _stored(folder / "calls.msgpack", CallsState) or CallsState()
        self._is_new_process = True
        stored = _stored(folder / "index.msgpack", dict[str, IndexState]) or {}
        self._has_looked = bool(stored)
        self._indexes: list[tuple[WorkspaceIndex, GitObjects | None]] = []
        for number, root in enumerate(_outermost(roots)):
            repository = find_repository(Path(root))
            git = GitObjects(repository, folder / f"git{number}", search_path) if repository is not None else None
            index = WorkspaceIndex(
                Path(root),
                self.copies,
                git=git,
                left_out=(folder, *left_out),
                state=stored.get(str(root)),
                files_limit=files_limit,
            )
            self._indexes.append((index, git))
        self._tips: dict[str, tuple[str, ...]] = {}
        self._blobs: dict[str, bytes] = {}

    # --- around a call

    def before(self, call_id: str, seq: int) -> None:
        """Look, and store what the call may change. Changes since the last look are attributed."""
        self._between(seq)
        self._tips = {index.root: git.tips() for index, git in self._indexes if git is not None}
        self.calls.pending = PendingCall(call_id=call_id, seq=seq)
        if not all(index.is_saved for index, _ in self._indexes):
            states = {index.root: index.state for index, _ in self._indexes}
            _store(self._folder / "index.msgpack", states)
            for index, _ in self._indexes:
                index.is_saved = True
        self._save_calls()

    def after(self) -> ChangeGroup:
        """Look, and return what changed since `before`. The group is unrecorded until `recorded`."""
        pending = self.calls.pending
        group = self._looked(Cause.CALL, pending.seq if pending is not None else 0)
        self.calls.pending = None
        if group.files:
            self.calls.unrecorded.append(group)
        self._save_calls()
        return group

    def recorded(self, after: int | None = None) -> None:
        """Forget the groups that the log holds now; with `after`, those that began at this event or later."""
        left = [group for group in self.calls.unrecorded if after is not None and group.seq < after]
        if left != self.calls.unrecorded:
            self.calls.unrecorded = left
            self._save_calls()

    def without(self, paths: Collection[str]) -> None:
        """Take files that were put back out of the unrecorded groups."""
        self.calls.unrecorded = [
            msgspec.structs.replace(group, files=tuple(file for file in group.files if file.path not in paths))
            for group in self.calls.unrecorded
        ]
        self._save_calls()

    def look(self, seq: int) -> None:
        """Look between two calls: before a rewind, or when a background job has ended. Without an earlier look there
        is nothing to compare with."""
        if self._has_looked:
            self._between(seq)
            self._save_calls()

    def job_started(self, job_id: str) -> None:
        self.calls.jobs.append(job_id)

    def job_ended(self, job_id: str) -> None:
        self.calls.jobs = [job for job in self.calls.jobs if job != job_id]

    def _between(self, seq: int) -> None:
        pending, jobs = self.calls.pending, tuple(self.calls.jobs)
        group = self._looked(Cause.LOST if pending is not None else Cause.JOB, pending.seq if pending else seq)
        self._has_looked = True
        if group.files and (pending is not None or jobs):
            names = (pending.call_id,) if pending is not None else jobs
            self.calls.unrecorded.append(msgspec.structs.replace(group, names=names))
        self.calls.pending = None
        if self._is_new_process:  # jobs end with the process that ran them
            self.calls.jobs = []
        self._is_new_process = False

    def _looked(self, cause: Cause, seq: int) -> ChangeGroup:
        files: list[ChangedFile] = []
        folders: list[str] = []
        for index, _ in self._indexes:
            changes = index.look()
            for file in changes.files:
                after = index.with_digest(file.path, file.after)
                files.append(msgspec.structs.replace(file, path=self._recorded(index, file.path), after=after))
            folders += [self._recorded(index, path) for path in changes.folders]
        return ChangeGroup(cause=cause, seq=seq, files=tuple(files), folders=tuple(folders))

    # --- contents

    def pre_image(self, file: ChangedFile) -> bytes | None:
        """Return the bytes of a file before its change; None if they were not kept."""
        return self.content(file.before.digest, file.before.blob)

    def content(self, digest: str, blob: str = "") -> bytes | None:
        """Return a content by its digest, or from git by the id of its blob."""
        if blob and blob not in self._blobs:
            self.fetch([blob])
        return self._blobs.get(blob) if blob else self.copies.read(digest)

    def fetch(self, blobs: Iterable[str]) -> None:
        """Read these blobs from git at once; they stay in memory as long as this object."""
        missing = [blob for blob in blobs if blob and blob not in self._blobs]
        for _, git in self._indexes:
            if missing and git is not None:
                self._blobs |= git.blobs(missing)
                missing = [blob for blob in missing if blob not in self._blobs]

    def obeyed(self, files: Iterable[ChangedFile]) -> list[ChangedFile]:
        """Return those of the files that other programs obey, by their names or by the configuration of git."""
        named = [path for _, git in self._indexes if git is not None for path in configured_files(git.repository)]
        return [file for file in files if is_obeyed(file.path) or self._is_below(file, named)]

    def _is_below(self, file: ChangedFile, paths: list[Path]) -> bool:
        whole = self._project / file.path
        return any(whole.is_relative_to(path) for path in paths)

    def is_committed(self, file: ChangedFile) -> bool:
        """Whether the file is now as a commit has it that the repository had before the call."""
        path = Path(os.path.normpath(self._project / file.path))
        for index, git in self._indexes:
            if git is not None and path.is_relative_to(index.root):
                tips = self._tips.get(index.root, ())
                head = git.head()
                reachable = [head] if git.is_reachable(head, tips) else []
                worktree = _linked_worktree(path, Path(index.root), git.repository.common)
                if worktree is not None and path == worktree / ".git":
                    return True  # git's own pointer to a worktree of this repository
                inside = os.path.relpath(path, worktree or os.path.realpath(git.repository.top))
                blob = self._blob_now(file)
                if not blob:
                    return bool(reachable) and file.after.digest == ABSENT and not git.has_path(inside, head)
                return git.has_in_commits(inside, blob, [*reachable, *tips])
        return False

    def _blob_now(self, file: ChangedFile) -> str:
        """Return the id that git has for the file as it is now; empty if there is no file, or its bytes are unknown."""
        if file.after.link is not None:
            return blob_id(os.fsencode(file.after.link))
        data = self.content(file.after.digest, file.after.blob) if file.after.has_bytes else None
        return blob_id(data) if data is not None else ""

    # --- notices

    def notices(self, group: ChangeGroup) -> list[str]:
        """Return what the user and the model must know of the limits; each kind once in a session."""
        lost = [file for file in group.files if file.before.digest.startswith(LARGE)]
        limit = self.copies.file_limit // MEGABYTE
        reasons = {
            "size": lost
            and f"{lost[0].path} is larger than {limit} MB, so no copy of it was kept and undo cannot restore it",
            "session": self.copies.refused
            and "the copies for undo have reached their limit for this session; not every file can be restored",
            "files": any(index.state.over_limit for index, _ in self._indexes)
            and "the project has too many files that git does not track; undo does not know all of them",
            "ignored": group.files
            and any(folder.skipped for index, _ in self._indexes for folder in index.state.folders.values())
            and "files that git ignores are not kept, so undo does not restore them",
            "names": any(index.unnamed for index, _ in self._indexes)
            and "files whose names are not UTF-8 are not known to undo",
            "jobs": self.calls.jobs
            and group.files
            and f"{', '.join(self.calls.jobs)} ran too, and may have changed some of these files",
        }
        fresh = {kind: reason for kind, reason in reasons.items() if reason and kind not in self.calls.told}
        self.calls.told += fresh
        return [str(reason) for reason in fresh.values()]

    def _recorded(self, index: WorkspaceIndex, path: str) -> str:
        whole = Path(index.root) / path
        return str(whole.relative_to(self._project)) if whole.is_relative_to(self._project) else str(whole)

    def _save_calls(self) -> None:
        _store(self._folder / "calls.msgpack", self.calls)


def _linked_worktree(path: Path, root: Path, common: Path) -> Path | None:
    """Return the folder of the worktree that holds the path, if it is one that `git worktree add` made of the
    repository `common` inside the root."""
    for folder in path.parents:
        if not folder.is_relative_to(root) or folder == root:
            return None
        if os.path.lexists(folder / ".git"):
            found = git_directory(folder)
            if not isinstance(found, GitDirectory) or found.folder == found.common:
                return None
            return folder if os.path.samefile(found.common, common) else None
    return None


def _outermost(roots: tuple[Path, ...]) -> list[str]:
    """Return the real paths of the roots that lie in no other root."""
    real = list(dict.fromkeys(os.path.realpath(root) for root in roots))
    return [one for one in real if not any(one != other and Path(one).is_relative_to(other) for other in real)]


def _stored(path: Path, kind: type[T]) -> T | None:
    """Read a stored value. One that cannot be read is as good as none: the next look starts from nothing."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def _store(path: Path, value: object) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_bytes(msgspec.msgpack.encode(value))
    os.replace(temporary, path)
