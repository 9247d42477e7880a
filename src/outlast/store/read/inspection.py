"""The interface for inspecting a store: what `outlast.store.verify` needs from an adapter beyond ordinary reads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator
from typing import NamedTuple, Protocol

from outlast.core.event_row import StoredEvent
from outlast.store.engine.transaction import KeyRow


class StoredKey(NamedTuple):
    """A stored key and its receipt."""

    scope: str
    key: str
    row: KeyRow


class StoreFlaw(NamedTuple):
    """A problem found by the adapter itself, in words. `damage` False: information only, nothing is lost or wrong."""

    text: str
    damage: bool = True


class Inspection(Protocol):
    """Unchecked data of a store, as of one moment. `everything`, `scan`, `flaws` and `checks` must tolerate damage;
    the others may raise `DamagedSession` or `StoreUnavailable`."""

    @abstractmethod
    def everything(self) -> tuple[list[str], list[str]]:
        """All session ids, sorted: of all owners, including tombstones and sessions with an unreadable header.
        Second, in words, the parts of that list that could not be read."""
        ...

    @abstractmethod
    def scan(self, session_id: str) -> Iterator[StoredEvent]:
        """Every row that may belong to the session itself, found without its header and without relying on row order:
        unchecked, in any order, perhaps twice. Skips unreadable rows. May cost as much as reading the whole store."""
        ...

    @abstractmethod
    def keys_of(self, session_ids: Collection[str]) -> list[StoredKey]:
        """Every stored key whose receipt names one of these sessions."""
        ...

    @abstractmethod
    def blobs_of(self, session_id: str) -> list[str]:
        """The names of the session's blobs."""
        ...

    @abstractmethod
    def routes(self, prefix: str = "") -> list[tuple[str, str]]:
        """Every route with this prefix and the session it leads to, sorted by route."""
        ...

    @abstractmethod
    def lineages(self) -> list[tuple[str, str]]:
        """The first and the newest session of every rotated lineage."""
        ...

    def flaws(self, session_id: str) -> Iterator[StoreFlaw]:
        """Problems of one session that the adapter itself finds, apart from its events."""
        return iter(())

    def checks(self, deep: bool) -> Iterator[StoreFlaw]:
        """Problems that the adapter itself finds in its files or tables; `deep` may take long."""
        return iter(())
