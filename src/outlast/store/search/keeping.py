"""What a store's adapter does for search, if it can: keep a shelf beside the store."""

from __future__ import annotations

from typing import Protocol

from outlast.store.log_store import LogStore
from outlast.store.search.catching_up import Progress, Shelf


class Keeper(Protocol):
    """Opens the shelf of one store, brings it up to date, throws it away."""

    @property
    def trouble(self) -> tuple[type[Exception], ...]:
        """What these and the shelf's methods raise when the shelf cannot be used."""
        ...

    def is_broken(self, error: Exception) -> bool:
        """Whether that is the shelf's own fault, so that it must be made anew; else it is only not to be had now."""
        ...

    def exists(self) -> bool: ...

    def open(self) -> Shelf:
        """The shelf, made if there is none."""
        ...

    def catch_up(self, store: LogStore, shelf: Shelf, progress: Progress | None = None) -> list[str]:
        """Bring it up to date; the damaged sessions, of which it holds only a part."""
        ...

    def remove(self) -> None: ...
