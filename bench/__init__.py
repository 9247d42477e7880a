"""Benchmarks: no part of the installed package, so `outlast bench` needs a checkout of the source.

`bench.figures` holds the workloads, `bench.command` what `outlast bench` runs, `bench.peers` other session stores.
`equality.py` and `versions.py` are scripts that compare two installed versions.
"""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
"""Where the source is; child processes start there, and so find this package."""
