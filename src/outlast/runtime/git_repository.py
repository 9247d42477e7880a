"""The git repository of a project, read from git's own files; no program runs.

`is_inert` answers whether git may be run to look at the repository: only if every key of its configuration is known to
run nothing. The files are read whole and split at line feeds only, as git reads them; anything unusual means no.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from outlast.runtime.safe_open import read_inside

CONFIG_LIMIT = 1024 * 1024
TEXT_LIMIT = 64 * 1024
REFS_LIMIT = 4 * 1024 * 1024
INDEX_LIMIT = 64 * 1024 * 1024

_HARMLESS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|abbrev|quotepath|longpaths|untrackedcache|preloadindex|sparsecheckout(cone)?|commitgraph|protectntfs"
    r"|protecthfs|hookspath)"  # git is run with another hooks path
    r"|remote\..*\.(url|pushurl|fetch|push|tagopt|prune|gh-resolved)"
    r"|branch\..*\.(remote|merge|rebase|description|vscode-merge-base|gh-merge-base|pushremote|base)"
    r"|user\.(name|email|signingkey)|init\.defaultbranch|pull\.(rebase|ff)|push\.(default|autosetupremote)"
    r"|gc\.(auto|[a-z.]*expire[a-z]*)|pack\.(window|windowmemory|threads|deltacachesize|packsizelimit)"
    r"|submodule\.(active|.*\.(url|active|branch))|lfs\.repositoryformatversion"
    r"|extensions\.(worktreeconfig|objectformat)|index\.(version|threads|sparse)|feature\.manyfiles"
    r"|color\.(ui|branch|diff|status|log)|advice\.[a-z]*|commit\.(verbose|gpgsign)|tag\.gpgsign"
    r"|merge\.(ff|conflictstyle)|rerere\.(enabled|autoupdate)|fetch\.(prune|parallel)"
    r"|rebase\.(autostash|autosquash)|log\.(date|decorate)|diff\.(renames|algorithm)"
)
_SUBMODULE = b"\x00\x00\xe0\x00"
"""The mode of a submodule in git's index."""
_SECTION = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\["\\])*)")?\]')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=.*)?")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_REFLOG = re.compile(r"[0-9a-f]{40,64} ([0-9a-f]{40,64}) [^\t]*\t(?:commit[^:]*: )?(.*)")


class GitRepository(msgspec.Struct, frozen=True, kw_only=True):
    """`top` is the working tree, `folder` its git directory, `common` the directory that all worktrees share."""

    top: Path
    folder: Path
    common: Path


class GitHead(msgspec.Struct, frozen=True, kw_only=True):
    """What HEAD names. `branch` is empty if no branch is checked out, `commit` if the branch has none yet."""

    branch: str = ""
    commit: str = ""
    subject: str = ""


def find_repository(project: Path) -> GitRepository | None:
    """Return the repository that git would find from this folder; None without one, or if its layout is unusual."""
    top = _top(project)
    if top is None or not os.path.lexists(top / ".git") or (top / ".git").is_symlink():
        return None  # without `.git`, git would take the folder itself for a repository
    folder = top / ".git" if (top / ".git").is_dir() else _worktree_folder(top)
    common = _common_folder(folder) if folder is not None else None
    if folder is None or common is None or not _has_head(folder):
        return None
    parts = [common / name for name in ("objects", "refs")]
    whole = all(os.path.isdir(part) and os.access(part, os.X_OK) for part in parts)
    return GitRepository(top=top, folder=folder, common=common) if whole else None


def is_outside_repositories(project: Path) -> bool:
    """Whether git surely finds no repository from this folder."""
    return _top(project) is None


def _top(project: Path) -> Path | None:
    project = Path(os.path.realpath(project))
    for top in (project, *project.parents):
        if os.path.lexists(top / ".git") or (os.path.lexists(top / "HEAD") and os.path.lexists(top / "objects")):
            return top
    return None


def _has_head(folder: Path) -> bool:
    """Whether git takes this directory for a repository; it passes over one whose HEAD names nothing."""
    head = _text(folder, "HEAD") if not (folder / "HEAD").is_symlink() else ""
    return head.startswith("ref: refs/") or _COMMIT.fullmatch(head.strip()) is not None


def _common_folder(folder: Path) -> Path | None:
    """Return the directory that `commondir` names. None if git could read another name in it than we do: git takes its
    bytes as they are, but for the line break at the end."""
    if not os.path.lexists(folder / "commondir"):
        return folder
    data = read_inside(folder, "commondir", TEXT_LIMIT + 1)
    if data is None or len(data) > TEXT_LIMIT:
        return None
    name = os.fsdecode(data).rstrip("\r\n")
    if not name.isprintable() or name != name.strip() or not name:  # a byte that is no UTF-8 is not printable
        return None
    return Path(os.path.realpath(folder / name))


def _worktree_folder(top: Path) -> Path | None:
    """Return the git directory of a linked worktree. It must point back: a `.git` file may name any repository."""
    kind, _, named = _text(top, ".git").partition(":")
    if kind != "gitdir" or not named.strip() or "\0" in named:
        return None
    folder = Path(os.path.realpath(top / named.strip()))
    back = _text(folder, "gitdir").strip()
    return folder if back and "\0" not in back and os.path.realpath(folder / back) == str(top / ".git") else None


def is_inert(repository: GitRepository) -> bool:
    """Whether looking with git runs no program of the repository's choice."""
    if os.path.lexists(repository.top / ".gitmodules") and may_enter_submodules(repository):
        return False
    if not (repository.common / "config").is_file():
        return False
    files = ((repository.common, "config"), (repository.folder, "config.worktree"))
    return all(_is_harmless(folder, name) for folder, name in files if os.path.lexists(folder / name))


def may_enter_submodules(repository: GitRepository) -> bool:
    """Whether looking may run git in a submodule, with that one's configuration: `ignore` in `.gitmodules` goes before
    our own setting. Without the file, git reads what is committed, so that a submodule in the index is enough."""
    if os.path.lexists(repository.top / ".gitmodules"):
        data = read_inside(repository.top, ".gitmodules", CONFIG_LIMIT + 1)
        return data is None or len(data) > CONFIG_LIMIT or b"ignore" in data.lower()
    for name in os.listdir(repository.folder):
        if name == "index" or name.startswith("sharedindex."):
            data = read_inside(repository.folder, name, INDEX_LIMIT + 1)
            if data is None or len(data) > INDEX_LIMIT or _SUBMODULE in data:
                return True
    return False


def _is_harmless(folder: Path, name: str) -> bool:
    settings = setting_names(folder, name)
    return settings is not None and all(is_harmless_setting(setting) for setting in settings)


def is_harmless_setting(setting: str) -> bool:
    """Whether this setting, in lower case, is known to run nothing when git is run with another hooks path."""
    return _HARMLESS.fullmatch(setting) is not None


def setting_names(folder: Path, name: str) -> list[str] | None:
    """Return the settings that a configuration file makes, in lower case; None if git could read it otherwise."""
    data = read_inside(folder, name, CONFIG_LIMIT + 1)
    if data is None or len(data) > CONFIG_LIMIT:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    section = ""
    names: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        line = line.replace("\t", " ").strip(" ")
        if not line.isprintable() or line.endswith("\\"):
            return None
        if not line or line[0] in "#;":
            continue
        header = _SECTION.fullmatch(line)
        if header is not None:
            section = ".".join(filter(None, (header[1], header[2]))).lower()
            continue
        setting = _SETTING.fullmatch(line)
        if setting is None:
            return None
        names.append(f"{section}.{setting[1].lower()}")
    return names


def read_head(repository: GitRepository) -> GitHead:
    """Return branch and last commit. What is not in plain files (a reftable) stays empty."""
    head = _text(repository.folder, "HEAD").strip()
    if not head.startswith("ref:"):
        commit = head if _COMMIT.fullmatch(head) else ""
        return GitHead(commit=commit, subject=_subject(repository, commit))
    ref = head[4:].strip()
    if not ref.startswith("refs/heads/") or ref == "refs/heads/.invalid":
        return GitHead()
    commit = _text(repository.common, ref).strip() or _packed(repository, ref)
    if not _COMMIT.fullmatch(commit):
        commit = ""
    return GitHead(branch=ref.removeprefix("refs/heads/"), commit=commit, subject=_subject(repository, commit))


def _packed(repository: GitRepository, ref: str) -> str:
    data = read_inside(repository.common, "packed-refs", REFS_LIMIT) or b""
    for line in data.decode("utf-8", "replace").split("\n"):
        commit, _, name = line.partition(" ")
        if name == ref:
            return commit
    return ""


def _subject(repository: GitRepository, commit: str) -> str:
    """Return the message that the reflog has for this commit; empty if its last entry is about another one."""
    lines = _tail(repository.folder / "logs" / "HEAD").strip("\n").split("\n")
    entry = _REFLOG.fullmatch(lines[-1])
    return entry[2] if entry is not None and commit and entry[1] == commit else ""


def _tail(path: Path) -> str:
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TEXT_LIMIT))
            return file.read(TEXT_LIMIT).decode("utf-8", "replace")
    except OSError:  # the subject is a convenience; the commit is told without it
        return ""


def _text(folder: Path, name: str) -> str:
    data = read_inside(folder, name, TEXT_LIMIT)
    return data.decode("utf-8", "replace") if data is not None else ""
