"""The default store: opened once per process, closed when the process ends."""

from __future__ import annotations

import atexit
import os
import threading

from outlast.app.settings import Settings, load_settings
from outlast.store import open_store, place_of
from outlast.store.log_store import LogStore

_open: dict[tuple[int, str], LogStore] = {}
_mutex = threading.Lock()


def default_store() -> LogStore:
    """The store of this process's settings. After a fork the child opens its own."""
    url = load_settings().store
    with _mutex:
        place = (os.getpid(), url)
        store = _open.get(place)
        if store is None or store.closed:
            store = _open[place] = open_store(url)
        return store


def store_at(url: str | None) -> LogStore:
    """Open the store at a URL, or that of this process's settings. The caller closes it."""
    return open_store(load_settings(store=url).store)


def store_of(settings: Settings) -> LogStore:
    """Open the store of these settings; creates it if it is missing. The caller closes it."""
    return open_store(settings.store)


def shown_url(url: str) -> str:
    """The store's URL without its password, wherever the password is in it."""
    if place_of(url)[0] != "postgresql":
        return url
    from outlast.store.postgres.dsn import PostgresAddress  # loads the driver, which is an optional dependency

    return PostgresAddress.parse(url).shown


def _after_fork_in_child() -> None:
    global _mutex
    _mutex = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


@atexit.register
def _close_all() -> None:
    for (pid, _), store in list(_open.items()):
        if pid == os.getpid():
            store.close()
