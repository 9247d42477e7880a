"""In turns: a little of the limit, a little of ours, again and again, so that a busy moment hits both."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from bench.figures.figure import Round

SLICE = 50

Work = Callable[[int], object]
"""Does something so many times."""


def seconds(work: Work, count: int) -> float:
    began = time.perf_counter()
    work(count)
    return time.perf_counter() - began


def in_turns(rounds: int, count: int, bare: Work, ours: Work, *, per: float = 1e6, piece: int = SLICE) -> list[Round]:
    """Rounds of `count` times each, done in pieces; the result is in units of `1 / per` seconds for one time."""
    bare(1)
    ours(1)
    return [_round(count, bare, ours, per, piece) for _ in range(rounds)]


def _round(count: int, bare: Work, ours: Work, per: float, piece: int) -> Round:
    spent = [0.0, 0.0]
    gc.collect()
    done = 0
    while done < count:
        now = min(piece, count - done)
        spent[0] += seconds(bare, now)
        spent[1] += seconds(ours, now)
        done += now
    return Round(spent[0] / done * per, spent[1] / done * per)


def speeds(rounds: int, count: int, bare: Work, ours: Work) -> list[Round]:
    """Rounds of `count` times each as times per second, whole blocks in turns."""
    return [Round(count / seconds(bare, count), count / seconds(ours, count)) for _ in range(rounds)]
