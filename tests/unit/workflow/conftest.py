"""A store and a project folder for guided turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import open_store
from outlast.store.log_store import LogStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    folder.mkdir()
    return folder
