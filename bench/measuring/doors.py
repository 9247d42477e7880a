"""The part of the scenario that goes through the command line, with turns in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from measuring.world import PATIENCE, World, call, said

VERBS = ("end", "reopen", "archive", "unarchive")


def by_library(world: World) -> None:
    """Let Python code do its part, in one process of the version."""
    script = world.version.script("library.py", world.store, str(world.project))
    process = world.version.start(script, world.home, world.project)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    told = json.loads(out)
    world.sessions.update({f"library {label}": name for label, name in told["sessions"].items()})
    for title, what in told["shown"]:
        world.show(f"library: {title}", what)


def turns(world: World) -> str:
    """Run turns by `-p`: one with tools, one that goes on, one with a fault, one that is refused, one that plans."""
    model = world.script(
        "turns",
        call("write", file_path="cli.txt", content="first\n"),
        call("bash", command="echo from bash; wc -l < cli.txt"),
        said("cli.txt is written."),
        call("edit", file_path="cli.txt", old_string="first", new_string="second"),
        said("cli.txt is changed."),
        {"error": "the provider is overloaded", "status": 529},
        said("It answered at last."),
    )
    allowed = ("--model", model, "--allow", "bash(echo *)", "--allow", "bash(wc *)")
    out = world.run("first turn", "-p", "Write cli.txt.", *allowed, "--output-format", "json")
    session = world.named("cli", json.loads(out)["session_id"])
    world.run("second turn", "-p", "Change cli.txt.", "--session", session, *allowed)
    again = ("--session", session, *allowed, "--output-format", "json")
    world.run("after a fault", "-p", "And again, just talk.", *again)
    refused = world.script("refused", {"error": "this key is not valid", "status": 401})
    words = ("-p", "Hello?", "--model", refused, "--output-format", "json")
    out = world.run("refused", *words, code=1)
    world.named("refused", json.loads(out)["session_id"])
    plan = world.script("plan", said("1. Look\n2. Change"))
    out = world.run("plan", "-p", "Plan a change.", "--plan", "--model", plan, "--output-format", "json")
    world.named("plan", json.loads(out)["session_id"])
    words = ("-p", "Only stored.", "--model", "none", "--persona", "reviewer", "--output-format", "json")
    world.named("stored", json.loads(world.run("stored", *words))["session_id"])
    return session


def boundaries(world: World, session: str) -> None:
    """Rewind with files and undo it, compact and undo it, fork, and live a session's life."""
    before = (world.project / "cli.txt").read_text()
    found = world.quick("show before", "sessions", "show", session, "--json")
    first = _seq_of(found, "cli.txt is written.")
    world.quick("rewind", "sessions", "rewind", session, "--to", str(first), "--files", "--json")
    world.show("rewound file", [before, (world.project / "cli.txt").read_text()])
    world.quick("show rewound", "sessions", "show", session, "--json")
    world.quick("unrewind", "sessions", "rewind", session, "--undo", "--json")
    world.show("restored file", (world.project / "cli.txt").read_text())
    model = world.script("summary", said("Nobody asks for this."))
    compact = ("sessions", "compact", session, "--model", model, "--json")
    world.quick("compact", *compact, "--instructions", "Keep names.")
    world.quick("show compacted", "sessions", "show", session, "--json")
    world.quick("uncompact", *compact, "--undo")
    made = world.quick("fork", "sessions", "fork", session, "--title", "A copy", "--json")
    fork = world.named("cli fork", made["session_id"])
    made = world.quick("fork at", "sessions", "fork", session, "--at", str(first), "--json")
    world.named("cli fork at", made["session_id"])
    world.quick("rename", "sessions", "rename", fork, "Renamed copy")
    world.quick("wrong rewind", "sessions", "rewind", session, "--to", "9999", code=1)
    for verb in VERBS:
        world.quick(verb, "sessions", verb, fork)
    world.quick("end again", "sessions", "end", world.sessions["cli fork at"])
    world.quick("no such", "sessions", "show", "zzzzzzzzzz", code=3)


def _seq_of(found: Any, text: str) -> int:
    [seq] = [one["seq"] for one in found["messages"] if one["role"] == "assistant" and one["content"].startswith(text)]
    return int(seq)


def killed(world: World) -> None:
    """Kill a process in the middle of a shell command, and go on with its session in another one."""
    model = world.script("killed", call("bash", command="sleep 600"), said("It was cut off."))
    words = ("--model", model, "--permission-mode", "allow", "--output-format", "stream-json")
    process = world.start("-p", "Sleep.", *words)
    _until_spawned(process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    newest = world.quick("newest", "sessions", "list", "-n", "1", "--json")["sessions"][0]
    session = world.named("killed", newest["id"])
    world.run("resumed", "-p", "--session", session, "--model", model, "--permission-mode", "allow")


def _until_spawned(process: subprocess.Popen[str]) -> None:
    """Read the events until the command's process is on record."""
    assert process.stdout is not None
    if not any(json.loads(line)["kind"] == "ToolProcessSpawned" for line in process.stdout):
        raise AssertionError("no process was spawned")


def moved(world: World) -> None:
    """Export a session and a fork, import them into another store, and delete what is not needed."""
    other = f"sqlite:///{world.folder}/other.db"
    for label in ("cli fork at", "library appended fork at 4"):
        file = world.folder / f"{label.replace(' ', '-')}.jsonl"
        world.quick("export", "sessions", "export", world.sessions[label], "-o", str(file))
        world.quick("import", "sessions", "import", str(file), "--json", store=other)
        world.quick("import again", "sessions", "import", str(file), "--json", store=other)
        again = Path(f"{file}.again")
        world.quick("export again", "sessions", "export", world.sessions[label], "-o", str(again), store=other)
        world.show("the same file", file.read_bytes() == again.read_bytes())
    world.quick("show imported", "sessions", "show", world.sessions["cli fork at"], "--json", "--all", store=other)
    world.quick("verify imported", "verify", "--json", store=other)
    golden = Path(__file__).with_name("golden.jsonl")
    if golden.exists():
        found = world.quick("import golden", "sessions", "import", str(golden), "--json")
        world.named("golden", found["sessions"][-1]["session_id"])
    gone = world.quick("fork to delete", "sessions", "fork", world.sessions["plan"], "--json")["session_id"]
    world.quick("unasked delete", "sessions", "delete", gone, code=4)
    world.quick("delete", "sessions", "delete", gone, "--yes", "--json")
    world.quick("show deleted", "sessions", "show", gone, code=3)
