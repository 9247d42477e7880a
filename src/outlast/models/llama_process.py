"""The process in which llama.cpp runs: `python -m outlast.models.llama_process`, started by `outlast.models.local`.

It is told on its standard input, one JSON line, what to serve, says on its standard output where, and lives as long as
that input stays open. So it ends with whoever started it, even one that was killed, on every system; should a
forked process hold the pipe as well, the change of parent is seen within a second.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec


class LlamaOptions(msgspec.Struct, frozen=True):
    """What to serve. Only who knows `key` is answered: every program on a machine can reach its loopback."""

    model: str
    name: str
    key: str
    context_window: int
    threads: int


class Ready(msgspec.Struct, frozen=True):
    url: str


def _serve(order: LlamaOptions) -> str:
    xllamacpp: Any = import_module("xllamacpp")  # it has no types
    params = xllamacpp.CommonParams()
    params.model.path = order.model
    params.model_alias = {order.name}
    params.api_keys = [order.key]
    params.port = 0
    params.n_ctx = order.context_window
    params.n_parallel = 1
    params.cache_ram_mib = 256
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order.threads
    params.ui = False
    params.verbosity = -1
    params.cors_origins = ""
    params.sampling.temp = 0.2  # what the model's makers recommend; the penalty keeps so small a model out of loops
    params.sampling.top_p = 0.9
    params.sampling.penalty_repeat = 1.1
    _held.append(xllamacpp.Server(params))
    return str(_held[0].listening_address)


_held: list[Any] = []
"""The server, for as long as the process lives."""


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def main() -> None:
    parent = os.getppid()
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=LlamaOptions)
    answers = os.dup(1)
    os.dup2(2, 1)  # llama.cpp prints; only we may speak on the pipe
    if not Path(order.model).is_file():
        sys.exit(f"{order.model} is missing")
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    url = _serve(order)
    os.write(answers, msgspec.json.encode(Ready(url)) + b"\n")
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
