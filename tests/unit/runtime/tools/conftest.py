from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.runtime.tools.setting import Setting


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    made = Setting(tmp_path)
    yield made
    await made.registry.close()
