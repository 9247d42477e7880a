"""The ports of a store are small, every method of them is a promise, and a new adapter is told what it lacks."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from outlast.store import port
from outlast.store.engine import transaction
from outlast.store.log_store import LogStore
from outlast.store.memory import MemoryStore, memory_at
from outlast.store.read import inspection, read_view

PORTS = (port.EventLog, port.Catalog, port.WorkQueue, port.Routes, port.Blobs)
ROWS = (
    transaction.SessionRows,
    transaction.EventRows,
    transaction.KeyRows,
    transaction.DraftRows,
    transaction.RouteRows,
    transaction.BlobRows,
)
VIEWS = (read_view.SessionView, read_view.BlobView, read_view.ListView, inspection.Inspection)
STORES = Path(__file__).parents[3] / "docs" / "stores.md"


def methods(protocol: type) -> list[str]:
    return [name for name, value in vars(protocol).items() if inspect.isfunction(value) and not name.startswith("_")]


def needed(*protocols: type) -> list[str]:
    """What an adapter must implement itself."""
    return [
        name for one in protocols for name in methods(one) if getattr(getattr(one, name), "__isabstractmethod__", False)
    ]


@pytest.mark.parametrize("protocol", [*PORTS, *ROWS, *VIEWS], ids=lambda one: one.__name__)
def test_a_port_has_at_most_nine_methods_and_each_of_them_a_promise(protocol: type) -> None:
    assert 1 < len(methods(protocol)) <= 9
    assert [name for name in methods(protocol) if not getattr(protocol, name).__doc__] == []
    assert protocol.__doc__


def test_the_parts_are_the_whole() -> None:
    assert inspect.getmro(port.Store)[1:6] == PORTS
    with MemoryStore(memory_at("memory://")) as store:
        whole: port.Store = store
        parts: tuple[port.EventLog, port.Catalog, port.WorkQueue, port.Routes, port.Blobs]
        parts = (store, store, store, store, store)
        assert all(part is whole for part in parts)
        assert all(callable(getattr(store, name)) for one in PORTS for name in methods(one))


def test_an_adapter_that_lacks_something_is_told_what() -> None:
    class Unfinished(transaction.Transaction):
        pass

    with pytest.raises(TypeError, match=r"abstract methods.* append, .*put_route"):
        Unfinished()  # pyright: ignore[reportAbstractUsage]


def test_what_an_adapter_must_write_is_told_in_the_docs() -> None:
    text = STORES.read_text(encoding="utf-8")
    section = text[text.index("## An adapter of your own") :].split("\n## ")[0]
    hooks = sorted(name for name in LogStore.__abstractmethods__)
    for name in (*hooks, *needed(*ROWS), *needed(*VIEWS)):
        assert f"`{name}`" in section, name
    assert len(needed(*ROWS)) <= 24
    assert len(needed(*VIEWS)) <= 18
