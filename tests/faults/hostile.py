"""Process trees that do not want to die: `python hostile.py KIND READY MARK`. All have MARK on their command line.

A tree creates the file READY when it stands. Forks, sessions and signals are used as daemons and malware use them.
Two minutes later it ends by itself: the test that was to kill it may have been killed.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

END = time.monotonic() + 120


def deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


def linger() -> None:
    while time.monotonic() < END:
        time.sleep(5)


def child(does: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            does()
        finally:
            os._exit(0)
    return pid


def stubborn() -> None:
    deaf()
    linger()


def closed() -> None:
    deaf()
    os.closerange(0, 64)
    linger()


def daemon() -> None:
    """The classic: fork, new session, fork again, close everything."""

    def second() -> None:
        os.setsid()
        child(closed)

    os.waitpid(child(second), 0)


def forest() -> None:
    """Three levels of three, each in a session of its own, all deaf."""

    def grow(depth: int) -> None:
        deaf()
        with contextlib.suppress(OSError):
            os.setsid()
        if depth:
            for _ in range(3):
                child(lambda: grow(depth - 1))
        linger()

    child(lambda: grow(3))


def stopped() -> None:
    for _ in range(5):
        pid = child(stubborn)
        os.kill(pid, signal.SIGSTOP)


def bomb() -> None:
    """Doubles until there are 128, and whoever sees one die makes another."""

    def split(depth: int) -> None:
        deaf()
        for level in range(depth):
            child(lambda level=level: split(depth - level - 1))
        linger()

    child(lambda: split(7))


def comet(own_session: bool) -> None:
    """Never the same pid twice: forks and exits, all the time."""

    def fly() -> None:
        deaf()
        while time.monotonic() < END:
            if own_session:
                with contextlib.suppress(OSError):
                    os.setsid()
            if os.fork():
                os._exit(0)
            time.sleep(0.001)

    child(fly)


def reaper() -> None:
    """Makes itself the one to whom orphans fall."""

    def keep() -> None:
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
        os.setsid()
        deaf()
        daemon()
        linger()

    child(keep)


def silent() -> None:
    """Keeps no descriptor, so that nothing of it is heard of again."""
    daemon()
    os.closerange(0, 64)


def patricide() -> None:
    """Kills the one who watches over it, and hides."""
    daemon()
    os.kill(os.getsid(0), signal.SIGKILL)


KINDS: dict[str, Callable[[], None]] = {
    "stubborn": lambda: None,
    "daemon": daemon,
    "forest": forest,
    "stopped": stopped,
    "bomb": bomb,
    "comet": lambda: comet(False),
    "comet in its own session": lambda: comet(True),
    "reaper": reaper,
    "silent": silent,
}


def survivors(mark: str) -> list[str]:
    """Every process, zombies aside, whose command line holds the mark."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes()
                if mark.encode() in line:
                    found.append(f"{entry.name}: {line.decode('utf-8', 'replace')[:80]!r}")
    return found


def zombies() -> list[str]:
    """Ended children of ours that nobody waited for."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state == "Z" and int(parent) == os.getpid():
                    found.append(entry.name)
    return found


def main() -> None:
    kind, ready = sys.argv[1:3]
    deaf()
    (patricide if kind == "patricide" else KINDS[kind])()
    Path(ready).touch()
    linger()


if __name__ == "__main__":
    main()
