"""The exam for stores.

    class TestMyStore(StoreContract):
        @pytest.fixture(autouse=True)
        def _place(self, tmp_path):
            self.path = tmp_path

        def make_store(self):
            return MyStore(self.path / "store")

        def reopen(self, store):
            return MyStore(self.path / "store")

Every question is one promise of `outlast.store.port`; the name of the test is the promise. Questions are grouped by
noun, one file each, and put together here: this is the one place in Outlast where classes are combined by inheritance,
because that is how pytest hands an exam on.
"""

from __future__ import annotations

from outlast.testing.contract.appends import Appends
from outlast.testing.contract.claims import Claims
from outlast.testing.contract.drafts import Drafts
from outlast.testing.contract.follows import Follows
from outlast.testing.contract.handles import Handles
from outlast.testing.contract.housekeeping import Housekeeping
from outlast.testing.contract.keys import Keys
from outlast.testing.contract.leases import Leases
from outlast.testing.contract.lineages import Lineages
from outlast.testing.contract.lists import Lists
from outlast.testing.contract.reads import Reads
from outlast.testing.contract.removals import Removals
from outlast.testing.contract.restores import Restores
from outlast.testing.contract.routes import Routes
from outlast.testing.contract.texts import Texts
from outlast.testing.contract.work import Work

__all__ = ["StoreContract"]


class StoreContract(
    Appends,
    Keys,
    Leases,
    Drafts,
    Lineages,
    Routes,
    Removals,
    Restores,
    Housekeeping,
    Reads,
    Lists,
    Work,
    Claims,
    Texts,
    Follows,
    Handles,
):
    """The exam for a store adapter: inherit it, provide two methods, and let pytest collect it.

    class TestMyStore(StoreContract):
        @pytest.fixture(autouse=True)
        def _place(self, tmp_path):
            self.path = tmp_path

        def make_store(self):            # a new, empty store
            return MyStore(self.path / "store")

        def reopen(self, store):         # the same place once more; `store` may be open, closed or abandoned
            return MyStore(self.path / "store")
    """
