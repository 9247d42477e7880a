"""Every workload by name, and the run through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bench.figures.figure import Figure, Skipped
from bench.figures.lab import Lab
from bench.figures.server import Unavailable
from bench.figures.workloads.append import append_async, append_sync
from bench.figures.workloads.commands import starting
from bench.figures.workloads.crowd import crowd
from bench.figures.workloads.fanout import fan_out, stalled_readers
from bench.figures.workloads.following import follow
from bench.figures.workloads.importing import importing
from bench.figures.workloads.length import append_late, fork_late, open_late
from bench.figures.workloads.lists import list_newest, resume_prefix
from bench.figures.workloads.looks import looks
from bench.figures.workloads.over_http import list_and_open
from bench.figures.workloads.processes import processes
from bench.figures.workloads.resuming import resume_worked
from bench.figures.workloads.sandboxed import sandboxed_start
from bench.figures.workloads.scale_out import scale_out
from bench.figures.workloads.searching import search
from bench.figures.workloads.streams import streams
from bench.figures.workloads.turn import whole_turn
from bench.figures.workloads.turn_cost import turn_cost
from bench.figures.workloads.wal import wal_bytes
from outlast.core.errors import ConfigError

Run = Callable[[Lab, str], Iterator[Figure]]

_ALL: Mapping[str, tuple[str, Run]] = {
    "append-sqlite": ("sqlite", append_sync),
    "append-sqlite-async": ("sqlite", append_async),
    "append-files": ("files", append_sync),
    "append-postgres": ("postgres", append_sync),
    "append-postgres-async": ("postgres", append_async),
    "crowd-sqlite": ("sqlite", crowd),
    "crowd-postgres": ("postgres", crowd),
    "late-append": ("sqlite", append_late),
    "processes": ("sqlite", processes),
    "open-last-50": ("sqlite", open_late),
    "list": ("sqlite", list_newest),
    "resume": ("sqlite", resume_prefix),
    "wal-bytes": ("sqlite", wal_bytes),
    "fork": ("sqlite", fork_late),
    "follow": ("sqlite", follow),
    "turn": ("sqlite", whole_turn),
    "resume-session": ("sqlite", resume_worked),
    "import": ("", importing),
    "search": ("sqlite", search),
    "commands": ("sqlite", starting),
    "sandbox": ("sqlite", sandboxed_start),
    "looks": ("sqlite", looks),
    "fan-out": ("sqlite", fan_out),
    "stalled": ("sqlite", stalled_readers),
    "http": ("sqlite", list_and_open),
    "workers": ("postgres", scale_out),
    "turn-cost": ("postgres", turn_cost),
    "streams": ("postgres", streams),
}
NAMES = tuple(_ALL)


def measure(lab: Lab) -> Iterator[Figure | Skipped]:
    """Run what the lab's options ask for, in order; each figure as soon as it is there."""
    for name in _chosen(lab):
        kind, run = _ALL[name]
        lab.tell(name)
        try:
            yield from run(lab, kind)
        except Unavailable as error:
            yield Skipped(name=name, reason=str(error))


def _chosen(lab: Lab) -> list[str]:
    unknown = [name for name in lab.options.only if name not in _ALL]
    if unknown:
        raise ConfigError(f"there is no workload '{unknown[0]}'; there are {', '.join(NAMES)}")
    return [
        name
        for name, (kind, _) in _ALL.items()
        if (name in lab.options.only if lab.options.only else kind in ("", *lab.options.stores))
    ]
