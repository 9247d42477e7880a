"""Output of commands: JSON, times and progress bars. Escaping of stored text is in `outlast.doors.terminal_text`."""

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


# ---- times for people -----------------------------------------------------------------------------------------------


def age(at: int, now: int) -> str:
    """Rough time since then; `at` and `now` are microseconds UTC."""
    seconds = max(0, (now - at) // 1_000_000)
    for limit, unit, size in _STEPS:
        if seconds < limit:
            return f"{seconds // size} {unit} ago"
    return day(at)


def day(at: int) -> str:
    return _moment(at).strftime("%Y-%m-%d")


def moment(at: int) -> str:
    """Date and time to the second, UTC."""
    return _moment(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def _moment(at: int) -> datetime:
    try:
        return datetime.fromtimestamp(at / 1_000_000, UTC)
    except (ValueError, OverflowError, OSError):  # the clock of the writing machine may have been wrong
        return datetime.fromtimestamp(0, UTC)


# ---- progress bars: only in a terminal ------------------------------------------------------------------------------


@contextmanager
def bar(what: str, *, wanted: bool = True) -> Generator[Told | None]:
    """A callback for (done, total) that draws a progress bar; None without a terminal."""
    with bars(what, wanted=wanted) as (told,):
        yield told


@contextmanager
def bars(*names: str, wanted: bool = True) -> Generator[tuple[Told | None, ...]]:
    """The same for work in several steps. A bar appears when its step first reports progress: a step that is done at
    once draws no bar and does not wait for the import of the drawing library.
    """
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
