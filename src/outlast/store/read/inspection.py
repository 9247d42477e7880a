"""What an adapter shows to those who look for damage (`outlast.store.verify`), beside what every reader sees."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, Protocol

from outlast.core.event_row import StoredEvent
from outlast.store.engine.transaction import KeyRow


class StoredKey(NamedTuple):
    """A key and the receipt that it stands for."""

    scope: str
    key: str
    row: KeyRow


class StoreFlaw(NamedTuple):
    """What an adapter itself finds, in words. `damage` False: nothing is lost or wrong, it is only worth knowing."""

    text: str
    damage: bool = True


class Inspection(Protocol):
    """The rest of a store, unchecked, as of one moment. `everything`, `scan`, `flaws` and `checks` must cope with
    damage; the others may raise `DamagedSession` or `StoreUnavailable`."""

    def everything(self) -> tuple[list[str], list[str]]:
        """Every session there is, sorted: of all owners, tombstones and those whose header cannot be read included.
        Second, in words, what of that list could not be read."""
        ...

    def scan(self, session_id: str) -> Iterator[StoredEvent]:
        """Every row that may be the session's own, found without its header and without trusting any order: unchecked,
        in any order, perhaps twice. Leaves out what cannot be read. May cost as much as reading the whole store."""
        ...

    def keys_of(self, session_ids: Collection[str]) -> list[StoredKey]:
        """Every stored key whose receipt names one of these sessions."""
        ...

    def blobs_of(self, session_id: str) -> list[str]:
        """The names of the session's blobs."""
        ...

    def routes(self, prefix: str = "") -> list[tuple[str, str]]:
        """Every route that begins so and the session it leads to, sorted by route."""
        ...

    def lineages(self) -> list[tuple[str, str]]:
        """Every rotated lineage: its first session and its newest."""
        ...

    def flaws(self, session_id: str) -> Iterator[StoreFlaw]:
        """What the adapter itself finds wrong with one session, beside its events."""
        ...

    def checks(self, deep: bool) -> Iterator[StoreFlaw]:
        """What the adapter itself finds wrong with its files or tables; `deep` may take long."""
        ...
