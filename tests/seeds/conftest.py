"""The seeds' tests run on every store: the default store of the process is the one under test."""

from pathlib import Path

import pytest

KINDS = ("sqlite", "files", "postgres")


@pytest.fixture(params=KINDS)
def store_kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    kind: str = request.param
    if kind == "postgres":
        url = request.getfixturevalue("pg_url")
    elif kind == "files":
        url = f"files:///{tmp_path / 'store'}"
    else:
        url = f"sqlite:///{tmp_path / 'store.db'}"
    monkeypatch.setenv("OUTLAST_STORE", url)
    return kind


@pytest.fixture
def temp_dir(tmp_path: Path, store_kind: str) -> Path:
    """The project folder of a test; asking for it chooses the store."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
