"""The store of the simulation takes the same exam as every other."""

from __future__ import annotations

from outlast.store.port import Store
from outlast.testing import StoreContract
from tests.simulation.memory import Memory, MemoryStore


class TestMemoryStore(StoreContract):
    def make_store(self) -> Store:
        return MemoryStore(Memory())

    def reopen(self, store: Store) -> Store:
        assert isinstance(store, MemoryStore)
        return MemoryStore(store.memory)
