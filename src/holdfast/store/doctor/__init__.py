"""The doctor: looks at everything that the promises rest on, and says what to do where something is not right.

Changes nothing: creates no store and applies no migration.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.core.errors import MissingExtra
from holdfast.store import place_of
from holdfast.store.doctor.check import Check, Status, ok
from holdfast.store.doctor.machine import private, versions

__all__ = ["Check", "Status", "examine"]


def examine(url: str, home: Path) -> Iterator[Check]:
    """Every check of this machine, the home directory and the store, in the order in which they are made."""
    scheme, path = place_of(url)
    yield from versions()
    if home.exists():
        yield private("home", home)
    if path is not None and not path.exists():
        yield ok("store", f"{path} does not exist yet; the first write makes it")
    elif path is None:
        yield from _of_postgres(url)
    elif scheme == "files":
        from holdfast.store.doctor.files import checks as of_files

        yield from of_files(path)
    else:
        from holdfast.store.doctor.sqlite import checks as of_sqlite

        yield from of_sqlite(path)


def _of_postgres(url: str) -> Iterator[Check]:
    try:
        from holdfast.store.doctor.postgres import checks
    except ImportError:
        raise MissingExtra("postgres", "a postgresql:// store") from None
    return checks(url)
