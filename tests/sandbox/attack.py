"""What an attack is: a command, what it needs, and the effect that it has without a sandbox."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from tests.sandbox.arena import WORLD


class Effect(StrEnum):
    """What the canaries outside tell of an attack. Exit codes say nothing."""

    FILES = "files"  # a file or folder outside the project is new, gone or changed
    SECRET = "secret"  # a secret of the user stands in the output or in a file of the project
    NETWORK = "network"  # a packet came to the machine's network
    SOCKET = "socket"  # a server on a Unix socket got a connection
    PROCESS = "process"  # another process was ended, stopped, changed or written to
    KERNEL = "kernel"  # mounts, kernel settings, the host's name or IPC objects of the machine changed
    TERMINAL = "terminal"  # the user's terminal got input, output or other settings
    SURVIVOR = "survivor"  # a process of the command is alive after it
    RESOURCES = "resources"  # a file or a number of processes above the limits of the trial
    PROTECTED = "protected"  # git's configuration, hooks and the like in the project changed
    CROSSED = "crossed"  # a command of another session, in another project, saw a mark of this one


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """One attack. `@name@` in its texts is replaced by what the trial knows: @out@, @home@, @victim@, ...

    `commands` run one after the other through the runner. `setup` runs before them, as the user would run it, and
    `then` after them: what the user does next in a terminal, for attacks that plant something. `elsewhere` runs in
    another session and project through the same runner; its output is searched for @mark@."""

    id: str
    kind: str
    effect: Effect
    commands: tuple[str, ...]
    setup: str = ""
    then: str = ""
    elsewhere: str = ""


def attacks(kind: str, effect: Effect, commands: Sequence[str | tuple[str, ...]], **more: str) -> list[Attack]:
    """Make a class of attacks that differ in their commands alone."""
    return [
        Attack(
            id=f"{kind}-{at:02d}",
            kind=kind,
            effect=effect,
            commands=(command,) if isinstance(command, str) else command,
            **more,
        )
        for at, command in enumerate(commands, 1)
    ]


def numbered(kind: str, made: Sequence[Attack]) -> list[Attack]:
    """Number the attacks of a class that was put together from several lists."""
    return [msgspec.structs.replace(attack, id=f"{kind}-{at:02d}", kind=kind) for at, attack in enumerate(made, 1)]


PLACES = {
    "out": str(WORLD / "outside"),
    "home": str(WORLD / "home"),
    "project": str(WORLD / "home" / "project"),
    "other": str(WORLD / "home" / "other"),
    "ours": str(WORLD / "home" / ".outlast-home"),
}


def filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text
