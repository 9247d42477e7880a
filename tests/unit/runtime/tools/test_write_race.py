"""Two writers of one process never both replace the same content."""

import threading
from concurrent.futures import ThreadPoolExecutor

from outlast.runtime.tools.files.atomic_write import now, replace
from outlast.runtime.tools.files.sandboxed_path import locate
from outlast.runtime.tools.port import ToolFault
from tests.unit.runtime.tools.setting import Setting


async def test_of_writers_that_expect_the_same_content_one_wins(setting: Setting) -> None:
    context = setting.context()
    place = locate("shared.txt", context)
    for turn in range(20):
        expected = now(place).digest
        together = threading.Barrier(4)

        def write(
            name: int, expected: str = expected, turn: int = turn, together: threading.Barrier = together
        ) -> bool:
            together.wait()
            try:
                replace(place, f"{turn} {name}".encode(), expected, context, threading.Event())
            except ToolFault:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(write, range(4))) == 1
