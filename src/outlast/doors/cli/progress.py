"""Progress bars, where there is a terminal to draw them on; nowhere else is anything written."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

Told = Callable[[int, int], None]


@contextmanager
def bar(what: str, *, wanted: bool = True) -> Generator[Told | None]:
    """Something to tell how much is done and of how much; None when nobody watches."""
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
