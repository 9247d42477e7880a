"""For tests that set up logging as a program would: afterwards it is as it was before."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def kept_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("outlast")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
