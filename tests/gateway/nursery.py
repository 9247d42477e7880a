"""The nursery: a process that imports everything, opens nothing, and forks gateways that are meant to be killed.

    python -m tests.gateway.nursery HOME STORE

For each line on its input it forks a gateway and prints its pid; the gateway says `ready` to the file HOME/ready. The
model echoes, and says of every third reply that its window is full, so that sessions rotate all the time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from outlast.app.settings import load_settings
from outlast.doors.gateway.gateway import Gateway
from outlast.models.port import ModelEvent, ModelRequest
from outlast.store import open_store
from tests.gateway.echo import Echo
from tests.gateway.world import equipped

FULL, ROOMY = 90_000, 100


class Filling(Echo):
    """Full after every third reply of a session."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.tokens = FULL if request.replies % 3 == 2 else ROOMY
        async for event in super().stream(request):
            yield event


async def run(home: Path, store: str) -> None:
    logging.basicConfig(filename=home / "log", level=logging.INFO)
    settings = load_settings(home=home, store=store, model=f"scripted:{home}/script.json")
    model = Filling(delay=0.01, pieces=4)
    with open_store(store) as opened:
        gateway = Gateway(opened, settings, equip=equipped(model))
        await gateway.start()
        (home / "ready").write_text(str(os.getpid()))
        await asyncio.Event().wait()


def main() -> None:
    home, store = Path(sys.argv[1]), sys.argv[2]
    import outlast.doors.gateway.platforms.telegram as loaded  # what takes long is done once, here
    import outlast.store.sqlite as opened

    assert loaded
    assert opened
    print("open", flush=True)
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                asyncio.run(run(home, store))
            except BaseException as error:  # noqa: BLE001 - a child reports and ends; nothing may run on in it
                (home / "died").write_text(f"{type(error).__name__}: {error}")
            finally:
                os._exit(code)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
