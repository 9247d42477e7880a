"""A copy of a store that is called a backup only after it was verified."""

from __future__ import annotations

from pathlib import Path

from outlast.store import open_store
from outlast.store.log_store import LogStore, Progress
from outlast.store.verify import Report, verify


def verified_backup(
    store: LogStore, target: Path, *, copying: Progress | None = None, verifying: Progress | None = None
) -> tuple[str, Report]:
    """Copy the store to a path where nothing is yet, while others write; the copy's URL, and what verify says of it."""
    copy = store.backup(target, copying)
    with open_store(copy) as opened:
        report = verify(opened, progress=verifying)
    if target.is_file():
        _tidy(target)
    return copy, report


def _tidy(target: Path) -> None:
    """Looking at a SQLite copy leaves files beside it; nobody else knows the copy yet, so they may go."""
    log = target.with_name(target.name + "-wal")
    if log.exists() and log.stat().st_size:
        return
    for suffix in ("-wal", "-shm", ".gate"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
