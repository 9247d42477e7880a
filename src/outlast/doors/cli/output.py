"""What commands print: JSON, text that stored bytes cannot use to steer the terminal, times and progress bars."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

Told = Callable[[int, int], None]
_STEPS = ((60, "s", 1), (3600, "min", 60), (86_400, "h", 3600), (86_400 * 60, "d", 86_400))


def print_json(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value)) + b"\n")
    sys.stdout.buffer.flush()


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# ---- times as people read them --------------------------------------------------------------------------------------


def age(at: int, now: int) -> str:
    """How long ago, roughly; `at` and `now` are microseconds UTC."""
    seconds = max(0, (now - at) // 1_000_000)
    for limit, unit, size in _STEPS:
        if seconds < limit:
            return f"{seconds // size} {unit} ago"
    return day(at)


def day(at: int) -> str:
    return _moment(at).strftime("%Y-%m-%d")


def moment(at: int) -> str:
    """To the second, UTC."""
    return _moment(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def _moment(at: int) -> datetime:
    try:
        return datetime.fromtimestamp(at / 1_000_000, UTC)
    except (ValueError, OverflowError, OSError):  # a writer's clock may have been anywhere
        return datetime.fromtimestamp(0, UTC)


# ---- progress bars: only where there is a terminal to draw them on --------------------------------------------------


@contextmanager
def bar(what: str, *, wanted: bool = True) -> Generator[Told | None]:
    """Something to tell how much is done and of how much; None without a terminal."""
    with bars(what, wanted=wanted) as (told,):
        yield told


@contextmanager
def bars(*names: str, wanted: bool = True) -> Generator[tuple[Told | None, ...]]:
    """The same for work in several steps. A bar appears when its step first tells something: what is done at once draws
    none, and does not wait for what would draw it."""
    if not wanted or not sys.stderr.isatty():
        yield (None,) * len(names)
        return
    drawing = _Drawing()
    try:
        yield tuple(drawing.step(name) for name in names)
    finally:
        drawing.end()


class _Drawing:
    def __init__(self) -> None:
        self._progress: Any = None

    def step(self, name: str) -> Told:
        task: Any = None

        def told(done: int, total: int) -> None:
            nonlocal task
            if self._progress is None:
                self._progress = self._begun()
            if task is None:
                task = self._progress.add_task(name, total=total)
            self._progress.update(task, completed=done, total=total)

        return told

    def _begun(self) -> Any:
        from rich.console import Console
        from rich.progress import Progress

        progress = Progress(console=Console(stderr=True), transient=True)
        progress.start()
        return progress

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
