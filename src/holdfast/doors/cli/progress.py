"""A progress bar, where there is a terminal to draw it on; nowhere else is anything written."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def bar(what: str, *, wanted: bool = True) -> Generator[Callable[[int, int], None] | None]:
    """Something to tell how much is done and of how much; None when nobody watches."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def told(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield told
