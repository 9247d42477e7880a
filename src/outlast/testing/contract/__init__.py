"""The test suite for store adapters.

    class TestMyStore(StoreContract):
        @pytest.fixture(autouse=True)
        def _place(self, tmp_path):
            self.path = tmp_path

        def make_store(self):
            return MyStore(self.path / "store")

        def reopen(self, store):
            return MyStore(self.path / "store")

Every test checks one promise of `outlast.store.port` and is named after it. The tests are grouped by subject, one file
each, and combined here. This is the only place in Outlast that combines classes by inheritance, because that is how
pytest shares a test suite.
"""

from __future__ import annotations

from outlast.testing.contract.appends import AppendQuestions
from outlast.testing.contract.claims import ClaimQuestions
from outlast.testing.contract.drafts import DraftQuestions
from outlast.testing.contract.follows import FollowQuestions
from outlast.testing.contract.gc import GcQuestions
from outlast.testing.contract.handles import HandleQuestions
from outlast.testing.contract.keys import KeyQuestions
from outlast.testing.contract.leases import LeaseQuestions
from outlast.testing.contract.lineages import LineageQuestions
from outlast.testing.contract.lists import ListQuestions
from outlast.testing.contract.reads import ReadQuestions
from outlast.testing.contract.removals import RemovalQuestions
from outlast.testing.contract.restores import RestoreQuestions
from outlast.testing.contract.routes import RouteQuestions
from outlast.testing.contract.texts import TextQuestions
from outlast.testing.contract.work import WorkQuestions

__all__ = ["StoreContract"]


class StoreContract(
    AppendQuestions,
    KeyQuestions,
    LeaseQuestions,
    DraftQuestions,
    LineageQuestions,
    RouteQuestions,
    RemovalQuestions,
    RestoreQuestions,
    GcQuestions,
    ReadQuestions,
    ListQuestions,
    WorkQuestions,
    ClaimQuestions,
    TextQuestions,
    FollowQuestions,
    HandleQuestions,
):
    """The test suite for a store adapter: inherit it, provide two methods, and let pytest collect it.

    class TestMyStore(StoreContract):
        @pytest.fixture(autouse=True)
        def _place(self, tmp_path):
            self.path = tmp_path

        def make_store(self):            # a new, empty store
            return MyStore(self.path / "store")

        def reopen(self, store):         # another handle on the same place; `store` may be open, closed or abandoned
            return MyStore(self.path / "store")
    """
