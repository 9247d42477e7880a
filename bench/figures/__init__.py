"""The figures: each workload beside the bare driver that is its limit, in one run, as ratios.

A ratio survives what an absolute number does not: another machine, a busy one, another disk. So every workload runs in
turns with what it is compared with, five rounds of it, and what counts is the median of the rounds' ratios.

This package only measures and writes reports; `outlast bench` (`bench.command`) is what a user calls.
"""

from bench.figures.figure import Figure, Skipped
from bench.figures.lab import Lab, Options
from bench.figures.report import Results, write_report
from bench.figures.workloads import NAMES, measure

__all__ = ["NAMES", "Figure", "Lab", "Options", "Results", "Skipped", "measure", "write_report"]
