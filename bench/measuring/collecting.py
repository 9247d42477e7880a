"""Run the whole scenario in one world, and collect what it stored and what it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from measuring import conversation, doors
from measuring.served import Receiver, Server
from measuring.version import Version
from measuring.world import World


class Seen(NamedTuple):
    """What one version stored (events by session) and showed, in the order of the scenario."""

    sessions: dict[str, str]
    events: dict[str, list[dict[str, Any]]]
    shown: list[tuple[str, Any]]


def seen(version: Version, folder: Path, store: str) -> Seen:
    """Play the scenario in a new world."""
    world = World(version, folder, store)
    world.begin()
    try:
        doors.by_library(world)
        session = doors.turns(world)
        doors.boundaries(world, session)
        doors.killed(world)
        doors.moved(world)
        with Receiver() as receiver:
            model = conversation.configure(world, receiver)
            with Server(world, "--gateway", "--permission-mode", "allow", "--model", model) as server:
                conversation.over_http(world, server)
                conversation.in_a_chat(world, server, receiver)
                everything = _all_sessions(world)
                conversation.looked_at(world, server, everything)
                events = {label: _exported(server, name) for label, name in everything.items()}
        _by_commands(world, everything)
    finally:
        world.close()
    return Seen(everything, events, world.shown)


def _all_sessions(world: World) -> dict[str, str]:
    """Those that the scenario names, then the others (sub-agents, rotations) in the order of their creation."""
    rows: list[dict[str, Any]] = []
    for state in ((), ("--state", "archived")):
        found = world.quick("list", "sessions", "list", "--all-projects", "-n", "500", "--json", *state)
        rows += found["sessions"]
    named = {name: label for label, name in reversed(world.sessions.items())}
    everything = {label: name for name, label in named.items()}
    others = sorted((row["created_at"], row["id"]) for row in rows if row["id"] not in named)
    ordered = {label: everything[label] for label in world.sessions if label in everything}
    return ordered | {f"other {number}": name for number, (_, name) in enumerate(others, 1)}


def _exported(server: Server, session: str) -> list[dict[str, Any]]:
    """Every row of the log, the blobs before the events that name them."""
    status, text = server.raw("GET", f"/api/sessions/{session}/export?format=jsonl")
    assert status == 200, text
    return [json.loads(line) for line in text.splitlines()]


def _by_commands(world: World, sessions: dict[str, str]) -> None:
    """Keep what the commands show of the whole store, and of every session."""
    world.quick("list here", "sessions", "list", "--json")
    world.quick("list ended", "sessions", "list", "--state", "ended", "--json")
    for label, session in sessions.items():
        world.quick(f"show {label}", "sessions", "show", session, "--all", "--json")
    world.quick("search", "sessions", "search", "notes", "--json")
    world.quick("sessions stats", "sessions", "stats", "--json")
    world.quick("verify", "verify", "--json")
    world.quick("verify deep", "verify", "--deep", "--json")
