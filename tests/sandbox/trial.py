"""Runs attacks inside an arena, without and with a sandbox: `python -m tests.sandbox.trial RUNNER KIND...`.

It prints one JSON object per attack: what the canaries told of each run. Exit codes and messages of the attacks play no
part in it.
"""

import ctypes
import json
import os
import secrets
import sys
import threading
import time
from dataclasses import dataclass, field

from tests.sandbox.attack import PLACES, Attack, Effect, filled
from tests.sandbox.attacks import ATTACKS
from tests.sandbox.canaries import (
    METADATA,
    PUBLIC,
    PUBLIC_6,
    SERVER_PORT,
    TCP_PORT,
    UDP_PORT,
    Canary,
    Kernel,
    Network,
    Terminal,
    UnixServers,
    Victim,
    processes,
    sweep,
    with_mark,
)
from tests.sandbox.runners import BareRunner, PlainBubblewrapRunner, Runner, user_environment
from tests.sandbox.tool_runner import ToolRunner
from tests.sandbox.world import World

KEYS = (
    "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "NPM_TOKEN",
    "DATABASE_URL", "OUTLAST_TOKEN", "MY_SERVICE_PASSWORD",
)  # fmt: skip
MOST_BYTES = 10 << 20
MOST_PROCESSES = 450
BARE_RUNS = 3
LINGER = 0.3
"""Seconds for which a process may still be ending after its command."""


@dataclass
class Trial:
    """The world, its canaries and the runners."""

    world: World = field(default_factory=World)
    peak: int = 0

    def __post_init__(self) -> None:
        keys = {name: os.environ[name] for name in KEYS}
        self.world.secrets |= {f"${name}": value for name, value in keys.items()}
        environment = user_environment(keys)
        self.environment = environment
        self.victim = Victim(self.world.secret("victim"))
        self.terminal = Terminal()
        self.sockets = UnixServers()
        self.canaries: list[Canary] = [Network(), self.sockets, self.victim, Kernel(), self.terminal]
        self.bare = BareRunner(environment)
        self.world.settle()

    def values(self, mark: str) -> dict[str, str]:
        return {
            **PLACES,
            "mark": mark,
            "victim": str(self.victim.pid),
            "word": str(self.victim.word),
            "descriptor": str(self.victim.descriptor),
            "secret_at": str(self.victim.secret_at),
            "agent": str(os.getpid()),
            "tty": self.terminal.name,
            "port": str(TCP_PORT),
            "udp": str(UDP_PORT),
            "server": str(SERVER_PORT),
            "metadata": METADATA,
            "public": PUBLIC,
            "public6": PUBLIC_6,
        }

    def effects(self, attack: Attack, runner: Runner, read_only: bool) -> dict[str, list[str]]:
        """Run an attack; return what the canaries tell, by effect."""
        mark = str(secrets.randbelow(10**9) + 10**9)
        values = self.values(mark)
        known = set(processes())
        if attack.setup:
            self.bare.run(filled(attack.setup, values))
        self.world.begin(bool(attack.setup))
        for canary in self.canaries:
            canary.begin()
        output = self._run_watched(attack, runner, read_only, values)
        found: dict[str, list[str]] = {canary.effect: canary.changes() for canary in self.canaries}
        found[Effect.SURVIVOR] = self._survivors(mark)
        self.world.look()
        found["project"] = self.world.project_changes()
        found[Effect.PROTECTED] = self.world.protected_changes()
        if attack.then:
            self.bare.run(filled(attack.then, values))
            self.world.look()
        found[Effect.FILES] = self.world.outside_changes()
        found[Effect.SECRET] = self.world.found_secrets(output)
        if attack.elsewhere and mark in runner.run(filled(attack.elsewhere, values), elsewhere=True):
            found[Effect.CROSSED] = [attack.elsewhere]
        found[Effect.RESOURCES] = self._resources()
        if runner is self.bare:
            sweep(known)
        elif attack.effect is Effect.RESOURCES:
            runner.run("rm -rf /tmp/* /dev/shm/*", read_only=read_only)
        self.restore()
        return {effect: lines[:5] for effect, lines in found.items() if lines} | {"output": [output[-300:]]}

    def bare_effects(self, attack: Attack) -> dict[str, list[str]]:
        """Run an attack without a sandbox, again if it was too slow on a busy machine: it must work once to count."""
        for _ in range(BARE_RUNS - 1):
            found = self.effects(attack, self.bare, False)
            if attack.effect in found:
                return found
        return self.effects(attack, self.bare, False)

    def _run_watched(self, attack: Attack, runner: Runner, read_only: bool, values: dict[str, str]) -> str:
        self.peak = 0
        base = len(processes())
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.02):
                self.peak = max(self.peak, len(processes()) - base)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            return "".join(runner.run(filled(command, values), read_only=read_only) for command in attack.commands)
        finally:
            done.set()
            watcher.join()

    def _survivors(self, mark: str) -> list[str]:
        until = time.monotonic() + LINGER
        if not with_mark(mark):
            time.sleep(0.01)  # a process has no command line while it becomes another program
        while (left := with_mark(mark)) and time.monotonic() < until:
            time.sleep(0.01)
        return [str(pid) for pid in left]

    def _resources(self) -> list[str]:
        size = self.world.largest_file()
        found = [f"{size} bytes"] if size > MOST_BYTES else []
        return [*found, f"{self.peak} processes"] if self.peak > MOST_PROCESSES else found

    def restore(self) -> None:
        for canary in self.canaries:
            canary.restore()
        self.world.restore(self.sockets.bind_again)


def own_proc() -> None:
    """Mount a /proc of the arena's own processes."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"proc", b"/proc", b"proc", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "the arena cannot mount /proc")


def start_again_with_keys() -> None:
    """Become a process that was started with the user's keys in its environment, as an agent is."""
    if KEYS[0] not in os.environ:
        keys = {name: f"secret{secrets.token_hex(12)}" for name in KEYS}
        environment = {**os.environ, **user_environment(keys)}
        os.execve(sys.executable, [sys.executable, "-m", "tests.sandbox.trial", *sys.argv[1:]], environment)  # noqa: S606


def main() -> None:
    start_again_with_keys()
    own_proc()
    name, *kinds = sys.argv[1:]
    trial = Trial()
    runner: Runner = (ToolRunner if name == "tool" else PlainBubblewrapRunner)(trial.environment)
    try:
        for attack in ATTACKS:
            if attack.kind in kinds or attack.id in kinds or kinds == ["all"]:
                began = time.monotonic()
                runs = {
                    "bare": trial.bare_effects(attack),
                    "write": trial.effects(attack, runner, False),
                    "read": trial.effects(attack, runner, True),
                }
                seconds = round(time.monotonic() - began, 3)
                print(json.dumps({"id": attack.id, "seconds": seconds, **runs}), flush=True)
    finally:
        runner.close()


if __name__ == "__main__":
    main()
