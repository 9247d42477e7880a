"""Every store passes the same exam."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.store import open_store
from outlast.store.port import Store
from outlast.testing import StoreContract
from tests.contract.conftest import place


class Stored(StoreContract):
    """The exam on a URL."""

    url: str

    def make_store(self) -> Store:
        return open_store(self.url)

    def reopen(self, store: Store) -> Store:
        return open_store(self.url)


class TestSqliteStore(Stored):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> Iterator[None]:
        with place("sqlite", tmp_path) as self.url:
            yield


class TestFilesStore(Stored):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> Iterator[None]:
        with place("files", tmp_path) as self.url:
            yield


class TestMemoryStore(Stored):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> Iterator[None]:
        with place("memory", tmp_path) as self.url:
            yield


class TestPostgresStore(Stored):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, pg_server: object) -> Iterator[None]:
        with place("postgres", tmp_path) as self.url:
            yield
            self.close_all()  # before its database goes


def test_no_question_hides_another_one() -> None:
    """Two files of the exam may not use the same name for a test: one of the two would never run."""
    asked = [name for part in StoreContract.__mro__ for name, value in vars(part).items() if inspect.isfunction(value)]
    assert [name for name in set(asked) if asked.count(name) > 1] == []


def test_the_exam_itself_is_not_collected() -> None:
    assert not StoreContract.__name__.startswith("Test")
