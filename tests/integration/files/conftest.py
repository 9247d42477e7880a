"""Where the stores of these tests lie: in memory where that can be had, because syncing is not what is asked here."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def memory() -> Iterator[Path]:
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    place = Path(tempfile.mkdtemp(prefix="outlast-files-", dir=where))
    yield place
    shutil.rmtree(place)


@pytest.fixture
def folder(memory: Path) -> Path:
    return memory / "s"
