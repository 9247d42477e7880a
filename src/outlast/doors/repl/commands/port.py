"""What a slash command is."""

from __future__ import annotations

from typing import NamedTuple

from outlast.doors.repl.controller import Doing


class ReplCommand(NamedTuple):
    """`run` gets the room and what was typed after the name. `words` are completed after it."""

    name: str
    about: str
    run: Doing
    usage: str = ""
    words: tuple[str, ...] = ()
