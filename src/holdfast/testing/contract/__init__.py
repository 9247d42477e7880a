"""The exam for stores.

    class TestMyStore(StoreContract):
        @pytest.fixture(autouse=True)
        def _place(self, tmp_path):
            self.path = tmp_path

        def make_store(self):
            return MyStore(self.path / "store")

        def reopen(self, store):
            return MyStore(self.path / "store")

Every question is one promise of `holdfast.store.port`; the name of the test is the promise. Questions are grouped by
noun, one file each, and put together here: this is the one place in Holdfast where classes are combined by inheritance,
because that is how pytest hands an exam on.
"""

from __future__ import annotations

from holdfast.testing.contract.appends import Appends
from holdfast.testing.contract.claims import Claims
from holdfast.testing.contract.drafts import Drafts
from holdfast.testing.contract.follows import Follows
from holdfast.testing.contract.handles import Handles
from holdfast.testing.contract.housekeeping import Housekeeping
from holdfast.testing.contract.keys import Keys
from holdfast.testing.contract.leases import Leases
from holdfast.testing.contract.lineages import Lineages
from holdfast.testing.contract.lists import Lists
from holdfast.testing.contract.reads import Reads
from holdfast.testing.contract.removals import Removals
from holdfast.testing.contract.restores import Restores
from holdfast.testing.contract.routes import Routes
from holdfast.testing.contract.texts import Texts
from holdfast.testing.contract.work import Work

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
