"""No code path can change a chat's route, or a session's id, outside the one commit that does it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.core import events as e
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.store import lineage, open_store
from outlast.store.port import Append, Claim, Create, NewEvent, PutRoute, Release
from tests.architecture.source import Module, dotted, modules
from tests.conftest import ROOT


def naming(*words: str) -> list[Module]:
    """The modules in whose text one of these stands; no other can do anything with it."""
    return [module for module in modules() if any(word in module.text for word in words)]


def called(module: Module) -> set[str]:
    """The last names of everything that a module calls."""
    calls = (node.func for node in ast.walk(module.tree) if isinstance(node, ast.Call))
    return {dotted(function).split(".")[-1] for function in calls}


def assignments(module: Module, attribute: str) -> Iterator[tuple[str, str]]:
    """Where an attribute of something is set, outside the constructor of its own class."""
    for function in ast.walk(module.tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function.name == "__init__":
            continue
        for node in ast.walk(function):
            targets = node.targets if isinstance(node, ast.Assign) else []
            flat = [one for target in targets for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
            if any(isinstance(one, ast.Attribute) and one.attr == attribute for one in flat):
                yield module.name, function.name


WRITERS = {
    "PutRoute": {"outlast.app.chat.chat_router"},
    "MoveRoutes": {"outlast.store.lineage"},
    "SessionRotated": {"outlast.store.lineage"},
    "put_route": {"outlast.store.engine.commit"},
    "move_routes": {"outlast.store.engine.commit", "outlast.store.engine.remove"},
    "put_tip": {"outlast.store.engine.commit", "outlast.store.engine.restore"},
}
"""Everything by which a route or a tip is written, and who may."""


def test_a_route_is_written_in_one_place_only() -> None:
    ours = (module for module in naming(*WRITERS) if not module.is_in("outlast.testing"))
    found: dict[str, set[str]] = {name: set() for name in WRITERS}
    for module in ours:
        for name in called(module) & WRITERS.keys():
            found[name].add(module.name)
    assert all(found.values()), "a search that found nothing at all proves nothing"
    assert {name: places - WRITERS[name] for name, places in found.items() if places - WRITERS[name]} == {}


def test_the_table_of_routes_is_touched_by_its_adapters_only() -> None:
    places = set[str]()
    for path in (ROOT / "src").rglob("*.py"):
        if re.search(r"(INTO|FROM|UPDATE) (outlast\.)?routes\b", path.read_text()):
            places.add(path.relative_to(ROOT / "src").as_posix())
    assert places == {
        f"outlast/store/{name}.py"
        for name in ("sqlite/rows", "sqlite/inspection", "postgres/rows", "postgres/inspection")
    }


def test_who_goes_on_under_another_session_id_says_where_from() -> None:
    """Every place that lets something stand for another session than before; a new one has to be thought about."""
    found = {place for module in naming(".session_id") for place in assignments(module, "session_id")}
    assert found == {
        ("outlast.app.chat.delivery_log", "outbox"),  # which session an outbox was read from
        ("outlast.doors.gateway.delivery_worker", "run"),  # the tip of the lineage it was sent to
        ("outlast.doors.gateway.delivery_worker", "_read"),  # a SessionRotated in the log
        ("outlast.doors.repl.print_mode", "_admitted"),  # the receipt says where the input is
        ("outlast.doors.repl.print_mode", "_turn"),  # the agent's session
        ("outlast.runtime.driver", "move"),  # after the commit of a rotation
        ("outlast.runtime.runner", "_drain"),  # the driver moved
        ("outlast.runtime.runner", "_rotated"),  # the driver moved
    } | {place for place in found if place[0].startswith("outlast.store.")}


def test_the_context_is_told_in_three_places_only() -> None:
    found = {
        module.name
        for module in naming("current.set")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and dotted(node.func) == "current.set"
    }
    assert found == {"outlast.runtime.runner", "outlast.runtime.history.boundaries", "outlast.context"}


# --- and whatever is written, in whatever order ----------------------------------------------------------------------

HARMLESS: list[e.Event] = [
    e.InputAdmitted(parts=()),
    e.TurnStarted(inputs=[]),
    e.TurnEnded(outcome="completed"),
    e.Compacted(summary="s", first_kept_seq=1, tokens_before=2, tokens_after=1),
    e.HistoryCleared(),
    e.SessionRenamed(title="t"),
    e.ModelChanged(model="m"),
    e.RouteOpened(route="r", from_session_id=None),
    e.NoticePosted(route="r", text="x"),
    e.DeliveryClosed(route="r", of_seq=1),
    e.SessionArchived(),
    e.RuntimeStateChanged(changes={"session_id": "x"}),
]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(range(len(HARMLESS) + 1)), max_size=12))
def test_only_a_rotation_moves_a_route_and_it_moves_it_to_the_tip(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int]
) -> None:
    folder: Path = tmp_path_factory.mktemp("routes")
    with open_store(f"sqlite:///{folder / 'store.db'}") as store:
        session = id_from(b"\0" * 15 + b"\1")
        store.commit(Create(header=Header(session_id=session), events=(NewEvent(event=e.SessionCreated()),)))
        store.commit(PutRoute(route="r", session_id=session))
        for n, step in enumerate(steps):
            if step < len(HARMLESS):
                store.commit(Append(session_id=session, events=(NewEvent(event=HARMLESS[step]),)))
            else:
                child = id_from(bytes([n + 2]) * 16)
                [claimed] = store.commit(Claim(session_id=session, token="t", holder="h"))
                assert claimed.lease is not None
                writes = lineage.rotate(store.head(session), child, token="t", holder="h", lease=claimed.lease)
                moved = store.commit(*writes)
                lease = next(receipt.lease for receipt in moved if receipt.lease is not None)
                store.commit(Release(lease=lease))
                session = child
            assert store.route("r") == session == store.tip(session)
            assert store.routes() == [("r", session)]
