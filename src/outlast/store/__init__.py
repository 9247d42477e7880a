"""The store of sessions: one interface (`outlast.store.port`), four adapters; `open_store` picks one by URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from outlast.core.errors import ConfigError, StoreUnavailable
from outlast.store.log_store import LogStore
from outlast.store.maintenance.migrations import UpgradeProgress
from outlast.store.process_identity import may_write

__all__ = ["open_existing", "open_store", "open_to_read", "place_of"]


def open_store(url: str, *, watch: UpgradeProgress | None = None) -> LogStore:
    """Open the store at a URL; create or migrate it if necessary.

    `sqlite:///PATH`, `files:///DIR` (three slashes, then a relative or absolute path: an absolute path makes four),
    `postgresql://...`, `memory://` (see `outlast.store.memory`). `watch` receives the progress of a migration.
    """
    scheme, path = place_of(url)
    if scheme == "memory":
        from outlast.store.memory import MemoryStore, memory_at

        return MemoryStore(memory_at(url), url)
    if path is None:
        from outlast.store.postgres import PostgresStore

        return PostgresStore(url, watch)
    if scheme == "files":
        from outlast.store.files import FilesStore

        return FilesStore(path, url)
    from outlast.store.sqlite import SqliteStore

    return SqliteStore(path, url, watch)


def open_existing(url: str, *, watch: UpgradeProgress | None = None) -> LogStore:
    """Like `open_store`, but never creates a store: `StoreUnavailable` if there is none."""
    _refuse_missing(url)
    return open_store(url, watch=watch)


def open_to_read(url: str) -> LogStore:
    """Like `open_existing`, for callers that only read: also opens a store without write permission and a SQLite
    database that is too damaged for normal use. Commits to those are refused."""
    _refuse_missing(url)
    scheme, path = place_of(url)
    if path is None:
        return open_store(url)
    if scheme == "files":
        from outlast.store.files import FilesStore

        return FilesStore(path, url, read_only=not may_write(path))
    from outlast.store.sqlite.read_only import open_database

    return open_database(path, url)


def _refuse_missing(url: str) -> None:
    scheme, path = place_of(url)
    if scheme == "memory":
        from outlast.store.memory import is_open

        there, where = is_open(url), url
    elif path is None:
        from outlast.store.postgres.migrate import applied

        there, where = bool(applied(url)), _shown(url)
    else:
        there, where = _holds_something(path), str(path)
    if not there:
        raise StoreUnavailable(f"there is no store at {where}; check --store, or write a first message to create it")


def _holds_something(path: Path) -> bool:
    """False for an empty file or folder, which opening would turn into a store. True for paths that are neither;
    opening refuses them."""
    if path.is_dir():
        return any(path.iterdir())
    return path.exists() and (path.stat().st_size > 0 or not path.is_file())


def place_of(url: str) -> tuple[str, Path | None]:
    """The adapter that a URL names (sqlite, files, postgresql, memory), and its file or directory, if any."""
    scheme, separator, rest = url.partition("://")
    if separator and scheme in ("sqlite", "files") and rest.startswith("/") and len(rest) > 1:
        path = Path(unquote(rest[1:])).expanduser()
        if "\0" in str(path):
            raise ConfigError("a store's path must not contain a NUL character")
        return scheme, path
    if scheme in ("postgresql", "postgres") and separator:
        return "postgresql", None
    if scheme == "memory" and separator:
        return scheme, None
    raise ConfigError(
        f"'{_shown(url)}' is not a store: use sqlite:///PATH, files:///DIR, postgresql://USER@HOST/DATABASE or memory://"
    )


def _shown(url: str) -> str:
    """A URL without its password."""
    head, at, tail = url.rpartition("@")
    scheme, separator, user = head.partition("://")
    return f"{scheme}{separator}{user.split(':')[0]}:***@{tail}" if at and ":" in user else url
