"""One figure: what was measured, what it is compared with, and the goal it should reach."""

from __future__ import annotations

from statistics import median

import msgspec

TIMES = "times"


class Round(msgspec.Struct, frozen=True):
    """One round: the limit and ours, both in the figure's own unit."""

    bare: float
    ours: float

    @property
    def ratio(self) -> float:
        return self.ours / self.bare


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """`goal` is a most, or with `at_least` a least; none means that the figure is only told.

    A figure in `times` has rounds, and its value is the median of their ratios; any other stands for itself.
    """

    name: str
    title: str
    against: str
    value: float
    goal: float | None = None
    at_least: bool = False
    unit: str = TIMES
    measured_in: str = ""
    rounds: list[Round] = []
    note: str = ""

    @property
    def reached(self) -> bool:
        if self.goal is None:
            return True
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    @property
    def spread(self) -> tuple[float, float]:
        ratios = [found.ratio for found in self.rounds] or [self.value]
        return min(ratios), max(ratios)


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A workload that could not be run here, and why."""

    name: str
    reason: str


def ratio(
    name: str,
    title: str,
    against: str,
    rounds: list[Round],
    *,
    measured_in: str,
    goal: float | None,
    at_least: bool = False,
    note: str = "",
) -> Figure:
    return Figure(
        name=name,
        title=title,
        against=against,
        value=median(found.ratio for found in rounds),
        goal=goal,
        at_least=at_least,
        measured_in=measured_in,
        rounds=rounds,
        note=note,
    )
