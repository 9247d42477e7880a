"""The end of what a command puts out while it runs: its last few lines, made fit to be shown."""

from __future__ import annotations

from outlast.doors.repl.escaping import output

KEPT = 8192
LINES = 5


class Tail:
    """Takes pieces as they come; keeps no more than is needed to show the end."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, piece: str) -> None:
        self._text = (self._text + piece)[-KEPT:]

    def lines(self, most: int = LINES) -> list[str]:
        """The last lines as a terminal would show them: what was written over is gone, tabs are spaces."""
        written = self._text.replace("\r\n", "\n").rstrip("\n\r").split("\n")[-4 * most :]
        seen = [output(line.rstrip("\r").rpartition("\r")[2]).expandtabs(4).rstrip() for line in written]
        return [line for line in seen if line][-most:]
