"""Which project a folder is, wherever it was moved."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from outlast.runtime.prompt.project_identity import project_fingerprint
from tests.conftest import needs

CONFIG = '[core]\n\tbare = false\n[remote "origin"]\n\turl = {}\n\tfetch = x\n[branch "main"]\n\tremote = origin\n'


def repository(folder: Path, origin: str) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(CONFIG.format(origin))
    return folder


@pytest.mark.parametrize(
    "spelled",
    [
        "git@example.org:o/r.git",
        "https://example.org/o/r",
        "https://me:secret@example.org/o/r.git",
        "ssh://git@EXAMPLE.org:22/o/r",
    ],
)
def test_an_origin_is_the_same_however_it_is_spelled(tmp_path: Path, spelled: str) -> None:
    known = project_fingerprint(repository(tmp_path / "a", "https://example.org/o/r.git"))
    assert project_fingerprint(repository(tmp_path / "b", spelled)) == known is not None


def test_folders_of_one_repository_are_projects_of_their_own(tmp_path: Path) -> None:
    top = repository(tmp_path / "a", "https://example.org/o/r.git")
    (top / "sub").mkdir()
    assert project_fingerprint(top / "sub") not in (project_fingerprint(top), None)


def test_a_folder_without_a_repository_has_no_fingerprint(tmp_path: Path) -> None:
    assert project_fingerprint(tmp_path) is None


def test_a_worktree_belongs_to_its_repository(tmp_path: Path) -> None:
    top = repository(tmp_path / "a", "https://example.org/o/r.git")
    shared = top / ".git" / "worktrees" / "w"
    shared.mkdir(parents=True)
    (shared / "commondir").write_text("../..\n")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").write_text(f"gitdir: {shared}\n")
    assert project_fingerprint(tmp_path / "w") == project_fingerprint(top)


def test_without_an_origin_the_first_commit_names_it_and_a_move_does_not_matter(tmp_path: Path) -> None:
    needs("git")
    place = tmp_path / "a"
    place.mkdir()
    for words in (
        ["init", "-q"],
        ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-mx"],
    ):
        subprocess.run(["git", *words], cwd=place, check=True)
    known = project_fingerprint(place)
    moved = place.rename(tmp_path / "b")
    assert project_fingerprint(moved) == known is not None
    shutil.rmtree(moved / ".git" / "logs")  # then git itself is asked
    assert project_fingerprint(moved) == known
    with (moved / ".git" / "config").open("a") as file:  # it is not asked where it could run a program
        file.write("[core]\n\tsshCommand = ./evil\n")
    assert project_fingerprint(moved) is None
