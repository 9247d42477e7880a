"""The figures: each workload beside the bare driver that is its limit, in one run, as ratios.

A ratio survives what an absolute number does not: another machine, a busy one, another disk. So every workload runs in
turns with what it is compared with, five rounds of it, and what counts is the median of the rounds' ratios.

This package only measures and writes reports; `outlast bench` (`outlast.doors.cli.bench`) is what a user calls. It
stands beside the other facades because it needs both what a user has (sessions, stores) and the bare drivers.
"""

from outlast.bench.figure import Figure, Skipped
from outlast.bench.lab import Lab, Options
from outlast.bench.report import Results, write_report
from outlast.bench.workloads import NAMES, measure

__all__ = ["NAMES", "Figure", "Lab", "Options", "Results", "Skipped", "measure", "write_report"]
