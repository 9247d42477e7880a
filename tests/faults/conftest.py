"""Fixtures of the fault tests: a place for each kind of store."""

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.stores import MODULES, in_memory
from tests.support.pg import pg_server, pg_url

__all__ = ["pg_server", "pg_url"]


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest) -> str:
    """What `url_in` needs besides a folder: a server's database, made for this test."""
    if importlib.util.find_spec(MODULES[kind]) is None:
        pytest.skip(f"there is no {kind} store yet")
    return "" if kind != "postgres" else str(request.getfixturevalue("pg_url"))


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder that syncs at once: where the disk is simulated, the real one need not be waited for."""
    folder = Path(tempfile.mkdtemp(prefix="outlast-", dir=in_memory()))
    yield folder
    shutil.rmtree(folder)
