"""A worker whose pauses after deaths are shorter, and whose model may kill it: `python -m tests.faults.crash_worker`.

OUTLAST_TEST_PAUSES is the factor of the pauses. OUTLAST_TEST_REQUESTS names a file that gets a line for each request.
With OUTLAST_TEST_POISON=1 the process dies, by SIGKILL, once it has received the first byte of any reply.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from outlast.doors.cli import main
from outlast.models.port import ModelEvent, ModelRequest, TextDelta
from outlast.models.scripted import ScriptedFile
from outlast.runtime import failpoints
from outlast.runtime.turn import recovery

_stream = ScriptedFile.stream


async def stream(self: ScriptedFile, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    with Path(os.environ["OUTLAST_TEST_REQUESTS"]).open("a") as requests:
        requests.write(f"{request.session_id}\n")
    if os.environ.get("OUTLAST_TEST_POISON") == "1":
        yield TextDelta("poison")
        await asyncio.sleep(60)
    async for event in _stream(self, request):
        yield event


def die(name: str) -> None:
    if name == "draft.flushed":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    factor = float(os.environ.get("OUTLAST_TEST_PAUSES", "1"))
    setattr(recovery, "WAITS", tuple(seconds * factor for seconds in recovery.WAITS))  # noqa: B010
    setattr(ScriptedFile, "stream", stream)  # noqa: B010
    if os.environ.get("OUTLAST_TEST_POISON") == "1":
        failpoints.install(die)
    main()
