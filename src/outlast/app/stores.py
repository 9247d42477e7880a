"""The store that is used when nobody names one: opened once per process, closed at its end."""

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
    """The store of this process's settings. After a fork the child gets one of its own."""
    url = load_settings().store
    with _mutex:
        place = (os.getpid(), url)
        store = _open.get(place)
        if store is None or store.closed:
            store = _open[place] = open_store(url)
        return store


def store_at(url: str | None) -> LogStore:
    """The store at a URL, or that of this process's settings. Whoever asked closes it."""
    return open_store(load_settings(store=url).store)


def store_of(settings: Settings) -> LogStore:
    """The store of these settings, made if it is not there yet. Whoever asked closes it."""
    return open_store(settings.store)


def shown_url(url: str) -> str:
    """A store's URL without its password, wherever in it that stands."""
    if place_of(url)[0] != "postgresql":
        return url
    from outlast.store.postgres.dsn import PostgresAddress  # with its driver, which only those have who use it

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
