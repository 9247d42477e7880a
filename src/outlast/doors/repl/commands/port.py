"""Interface of a slash command."""

from __future__ import annotations

from typing import NamedTuple

from outlast.doors.repl.controller import Doing


class ReplCommand(NamedTuple):
    """`run` gets the controller and the text after the name; `words` are offered as completions after the name."""

    name: str
    about: str
    run: Doing
    usage: str = ""
    words: tuple[str, ...] = ()
