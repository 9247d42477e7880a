"""Private files: whole or not at all, for the owner only, and no change is lost."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outlast.core.errors import ConfigError
from outlast.runtime import private_file


def test_a_file_and_its_new_folders_are_for_the_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    before = os.umask(0)
    try:
        private_file.replace(path, b"one")
        private_file.replace(path, b"two")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"two"
    assert [one.stat().st_mode & 0o777 for one in (path, path.parent, path.parent.parent)] == [0o600, 0o700, 0o700]
    assert os.listdir(path.parent) == ["file"]


def test_the_file_and_its_folder_are_synced_before_replace_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def noted(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)

    monkeypatch.setattr(os, "fsync", noted)
    private_file.replace(tmp_path / "file", b"x")
    assert synced == [(tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino]


def test_a_write_that_fails_leaves_the_old_content_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    private_file.replace(path, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        private_file.replace(path, b"new")
    with pytest.raises(OSError, match="No space"):
        private_file.create(tmp_path / "other", b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_of_many_that_create_a_file_one_does(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def create(n: int) -> bool:
        return private_file.create(path, b"%d" % n)

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(create, range(16)))
    winner = made.index(True)
    assert made.count(True) == 1
    assert path.read_bytes() == b"%d" % winner
    assert os.listdir(tmp_path) == ["file"]


def test_changes_under_the_lock_are_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "file.json"

    def add(n: int) -> None:
        private_file.update_locked(path, lambda table: {**table, str(n): n})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(32)))
    table = private_file.read_json(path)
    assert table is not None
    assert sorted(map(int, table)) == list(range(32))


def test_unreadable_is_never_nothing_there(tmp_path: Path) -> None:
    assert private_file.read_json(tmp_path / "none") is None
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "torn").write_bytes(b'{"a": ')
    for name in ("folder", "pipe", "torn"):
        with pytest.raises(ConfigError, match="remove"):
            private_file.read_json(tmp_path / name)


def test_l1_every_new_folder_above_a_private_one_is_for_the_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "tools" / "id"
    before = os.umask(0)
    try:
        private_file.make_private_folder(folder)
        private_file.make_private_folder(folder)
    finally:
        os.umask(before)
    assert [one.stat().st_mode & 0o777 for one in (folder, folder.parent, folder.parent.parent)] == [0o700] * 3
