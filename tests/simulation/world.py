"""The world of the simulation: one clock, one source of chance, and facts about machines that are not there.

Everything in the process that asks for the time, for random bytes or for its own name gets the simulation's answer, so
nothing is left to this machine. It replaces what modules know by these names: it belongs into a process of its own.
"""

from __future__ import annotations

import random
import secrets
import sys
import time
from collections.abc import Callable
from typing import Any

from outlast.store import process_identity
from tests.simulation.loop import HERE, SimulatedLoop

EPOCH = 1_800_000_000
UPTIME = 50_000


def begin(seed: int) -> SimulatedLoop:
    """From now on time and chance are the simulation's."""
    loop = SimulatedLoop(seed)
    _set_clocks(loop)
    _set_chance(seed)
    _set_names(loop)
    return loop


def _set_clocks(loop: SimulatedLoop) -> None:
    def wall_ns() -> int:
        here = HERE.get()
        return int((EPOCH + loop.time() + (here.skew if here is not None else 0)) * 1_000_000_000)

    def up(_: int = 0) -> float:
        return UPTIME + loop.time()

    time.time_ns = wall_ns
    time.time = lambda: wall_ns() / 1e9
    time.monotonic = up
    time.clock_gettime = up
    time.clock_gettime_ns = lambda _: int(up() * 1_000_000_000)


def _set_chance(seed: int) -> None:
    dice = random.Random(f"{seed} chance")
    random.seed(f"{seed} jitter")
    secrets.token_bytes = lambda nbytes=None: dice.randbytes(nbytes or 32)
    secrets.token_hex = lambda nbytes=None: dice.randbytes(nbytes or 32).hex()


def _set_names(loop: SimulatedLoop) -> None:
    """Each process has a machine of its own; that somebody was killed is known there, and only there."""

    def holder() -> str:
        here = HERE.get()
        return f"{here.host} boot {here.name} 1" if here is not None else "world boot world 1"

    def holder_is_gone(text: str) -> bool:
        here = HERE.get()
        words = text.split(" ")
        return here is not None and len(words) == 4 and words[0] == here.host and not loop.lives(words[2])

    def hostname() -> str:
        here = HERE.get()
        return here.host if here is not None else "world"

    _replace(process_identity.holder, holder)
    _replace(process_identity.holder_is_gone, holder_is_gone)
    _replace(process_identity.hostname, hostname)


def _replace(honest: Callable[..., Any], simulated: Callable[..., Any]) -> None:
    """Wherever a module of Outlast knows this function by its name."""
    for name, module in list(sys.modules.items()):
        if name.startswith("outlast."):
            for word in [word for word, value in vars(module).items() if value is honest]:
                setattr(module, word, simulated)
