"""The process that runs llama.cpp: `python -m outlast.models.llama_process`, started by `outlast.models.local`.

It reads one JSON line with its options from standard input, writes its URL to standard output, and runs until standard
input closes. So it ends with its parent on every system, even if the parent was killed. If a forked process also holds
the pipe open, the server notices the change of parent within a second.
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
    """What to serve. Requests must carry `key`, because every program on the machine can reach the loopback port.
    `demo`: sample as the authors of the demo model recommend, else with llama.cpp's and the file's own values."""

    model: str
    name: str
    key: str
    context_window: int
    threads: int
    demo: bool = True


class Ready(msgspec.Struct, frozen=True):
    url: str


def _serve(order: LlamaOptions) -> str:
    xllamacpp: Any = import_module("xllamacpp")  # it has no type stubs
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
    if order.demo:
        params.sampling.temp = 0.2  # as the model's authors recommend; the penalty prevents loops
        params.sampling.top_p = 0.9
        params.sampling.penalty_repeat = 1.1
    _held.append(xllamacpp.Server(params))
    return str(_held[0].listening_address)


_held: list[Any] = []
"""Keeps a reference to the server for the life of the process."""


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def main() -> None:
    parent = os.getppid()
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=LlamaOptions)
    answers = os.dup(1)
    os.dup2(2, 1)  # llama.cpp prints to stdout; the pipe is for our answer only
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
