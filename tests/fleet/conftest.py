"""A fleet on a database of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.fleet import Fleet


@pytest.fixture
def fleet(pg_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(pg_url, tmp_path) as fleet:
        yield fleet
