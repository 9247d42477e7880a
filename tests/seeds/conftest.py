"""The seeds' tests run on every store with the plain workflow, and once more with the guided one.

Store and workflow are the defaults of the process."""

from pathlib import Path

import pytest

RUNS = ("sqlite", "files", "postgres", "sqlite-guided")


@pytest.fixture(params=RUNS)
def store_kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    kind: str
    kind, _, workflow = request.param.partition("-")
    monkeypatch.setenv("OUTLAST_WORKFLOW", workflow or "plain")
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
