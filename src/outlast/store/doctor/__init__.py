"""Health checks of the machine and the store: what the store's promises depend on, with a remedy for each problem.

Read-only: creates no store and applies no migration. The contents of sessions are checked by `outlast.store.verify`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from outlast.core.errors import MissingExtra
from outlast.store import place_of
from outlast.store.doctor.check import Check, CheckStatus, fail, ok
from outlast.store.doctor.machine import private, versions

__all__ = ["Check", "CheckStatus", "examine"]


def examine(url: str, home: Path) -> Iterator[Check]:
    """Run all checks of this machine, the home directory and the store, and yield each result."""
    scheme, path = place_of(url)
    yield from versions()
    if home.exists():
        yield private("home", home)
    if scheme == "memory":
        yield ok("store", f"{url} keeps its sessions only as long as the process runs")
    elif path is not None and not path.exists():
        yield _not_made_yet(path)
    elif path is None:
        yield from _of_postgres(url)
    elif scheme == "files":
        from outlast.store.doctor.files import checks as of_files

        yield from of_files(path)
    else:
        from outlast.store.doctor.sqlite import checks as of_sqlite

        yield from of_sqlite(path)


def _not_made_yet(path: Path) -> Check:
    nearest = next(Path(place) for place in path.parents if os.path.exists(place))
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return ok("store", f"{path} does not exist yet; the first write creates it")
    why = "you cannot write there" if nearest.is_dir() else "it is not a folder"
    remedy = "set OUTLAST_HOME or --store to another place, or correct this one"
    return fail("store", f"{path} cannot be created in {nearest}: {why}", remedy)


def _of_postgres(url: str) -> Iterator[Check]:
    try:
        from outlast.store.doctor.postgres import checks
    except ImportError:
        raise MissingExtra("postgres", "a postgresql:// store") from None
    return checks(url)
