"""The schedule of a run: which fault, on whom, when and for how long. A pure function of the seed.

The schedule can be repeated to the letter; what five processes on two cores make of it cannot, so a seed that found
something finds it again often, not always. What is random in the laboratory's own parts (jobs, cuts of streams, moods
of the model) is drawn from the same seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

LEASE_SECONDS = 10.0
DAY = 86_400

# How often each kind comes, in parts. A pause and a partition outlast the lease one time in three.
WEIGHTS: dict[str, dict[str, int]] = {
    "postgres": {
        "kill": 30,
        "pause": 10,
        "term": 8,
        "restart postgres": 8,
        "cut postgres": 14,
        "silence postgres": 6,
        "slow postgres": 5,
        "cut model": 8,
        "silence model": 3,
        "bad model": 4,
        "clock": 8,
    },
    "sqlite": {
        "kill": 34,
        "pause": 10,
        "term": 10,
        "cut model": 10,
        "silence model": 4,
        "bad model": 6,
        "clock": 10,
        "full disk": 8,
    },
}
ON_EVERYBODY = frozenset({"restart postgres", "bad model", "full disk"})
"""The others befall one process."""
PER_PROCESS = 8.0
"""Seconds from one fault to the next of the same process, on average: time enough to get somewhere, now and then."""


class Fault(NamedTuple):
    """`number` counts from 1. `at` is seconds after the beginning; `target` chooses among the actors; `amount` is what
    the kind makes of it: bytes until a cut, seconds that a clock is off."""

    number: int
    at: float
    kind: str
    target: int
    seconds: float
    amount: int

    def __str__(self) -> str:
        more = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"#{self.number} {self.kind}{more}"


def schedule(seed: int, store: str, faults: int, seconds: float, lease_seconds: float = LEASE_SECONDS) -> list[Fault]:
    """`faults` of them, spread over `seconds`."""
    dice = random.Random(f"{seed} {store} schedule")
    mean = seconds / max(1, faults)
    return list(_drawn(dice, WEIGHTS[store], faults, mean, lease_seconds))


def _drawn(dice: random.Random, weights: dict[str, int], faults: int, mean: float, lease: float) -> Iterator[Fault]:
    kinds, parts = list(weights), list(weights.values())
    at = mean
    for number in range(1, faults + 1):
        kind = dice.choices(kinds, parts)[0]
        yield Fault(
            number=number,
            at=round(at, 3),
            kind=kind,
            target=dice.randrange(1_000),
            seconds=round(_seconds(dice, kind, lease), 2),
            amount=_amount(dice, kind),
        )
        at += mean * (0.25 + 1.5 * dice.random())


def _seconds(dice: random.Random, kind: str, lease: float) -> float:
    match kind:
        case "pause" | "silence postgres":
            long = dice.random() < 1 / 3
            return lease + 1 + 3 * dice.random() if long else 0.2 + 3 * dice.random()
        case "slow postgres" | "silence model" | "bad model":
            return 1 + 3 * dice.random()
        case "full disk":
            return 0.5 + 2 * dice.random()
        case _:
            return 0.0


def _amount(dice: random.Random, kind: str) -> int:
    match kind:
        case "cut postgres" | "cut model":
            return dice.choice((0, 0, dice.randrange(1, 200), dice.randrange(1, 20_000)))
        case "clock":
            return dice.choice((-DAY, DAY, -600, 600, 0))
        case _:
            return 0
