"""Files of a folder are read, and nothing else is."""

import os
from pathlib import Path

import pytest

from outlast.runtime.safe_open import read_inside


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "proj"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"0123456789")
    (root / "sub" / "b.txt").write_bytes(b"b")
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (tmp_path / "proj-evil").mkdir()
    (tmp_path / "proj-evil" / "c.txt").write_bytes(b"evil")
    return root


def test_a_file_is_read_up_to_the_limit(project: Path) -> None:
    assert read_inside(project, "a.txt", 100) == b"0123456789"
    assert read_inside(project, "a.txt", 4) == b"0123"
    assert read_inside(project, "sub/b.txt", 9) == b"b"


def test_a_link_inside_is_followed(project: Path) -> None:
    (project / "link").symlink_to("sub/b.txt")
    (project / "dir").symlink_to("sub")
    assert read_inside(project, "link", 9) == b"b"
    assert read_inside(project, "dir/b.txt", 9) == b"b"


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("up", "../secret.txt"),
        ("sibling", "../proj-evil/c.txt"),
        ("abs", "/etc/passwd"),
        ("self", "self"),
        ("dangling", "nowhere"),
        ("null", "/dev/null"),
    ],
)
def test_a_link_out_is_no_file(project: Path, name: str, target: str) -> None:
    (project / name).symlink_to(target)
    assert read_inside(project, name, 9) is None


@pytest.mark.parametrize(
    "name",
    ["../secret.txt", "sub/../../secret.txt", "/etc/passwd", "", ".", "sub", "none", "a.txt/x", "a\0b", "x" * 5000],
)
def test_what_is_no_file_in_the_folder_is_none(project: Path, name: str) -> None:
    assert read_inside(project, name, 9) is None


def test_a_pipe_does_not_block(project: Path) -> None:
    os.mkfifo(project / "pipe")
    assert read_inside(project, "pipe", 9) is None


def test_the_folder_itself_may_be_reached_by_a_link(project: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(project)
    assert read_inside(tmp_path / "alias", "a.txt", 2) == b"01"
    assert read_inside(tmp_path / "gone", "a.txt", 2) is None
