"""Runs `outlast` with a wall clock that jumps: `python clock_skew.py FILE WORDS...`; FILE holds how far it is off.

The file is eight bytes, a number of seconds that whoever holds it may change at any moment. Only the wall clock is off,
as when somebody sets it: clocks that count stay what they are.
"""

import ctypes
import mmap
import signal
import struct
import sys
import time
from pathlib import Path

_REAL_NS = time.time_ns
PR_SET_PDEATHSIG = 1


def jump(path: Path) -> None:
    """From now on the wall clock of this process is off by what the file says."""
    with path.open("rb") as file:
        seen = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)

    def time_ns() -> int:
        return _REAL_NS() + struct.unpack("<q", seen)[0] * 1_000_000_000

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


def die_with_parent() -> None:
    """Whatever ends the laboratory ends its processes."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    die_with_parent()
    jump(Path(sys.argv[1]))
    from outlast.doors.cli import main

    sys.argv = ["outlast", *sys.argv[2:]]
    sys.exit(main())
