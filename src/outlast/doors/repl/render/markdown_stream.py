"""Streaming Markdown: releases a block as soon as no later text can change it.

Printed blocks are in the terminal's scrollback and cannot be taken back, so a block ends only at an empty line outside
a code block. The rest is the tail, which is redrawn with every piece. Each line is scanned once, and only the end of a
long tail is drawn: a reply may be one code block of a megabyte.
"""

from __future__ import annotations

FENCES = ("```", "~~~")
WIDEST = 4000


class MarkdownStream:
    """The text of one reply."""

    def __init__(self) -> None:
        self.text = ""
        self.given = 0
        self._looked = 0
        """Start of the first line that is not complete yet."""
        self._fence = ""
        """The opening line of the code block at that position; empty outside a code block."""
        self._says_something = False
        """Whether a non-empty line came after `given`."""

    def add(self, piece: str) -> str:
        """Add a piece; return the text that can be printed permanently now, possibly empty."""
        self.text += piece
        end = self._look_on()
        block, self.given = self.text[self.given : end], end
        return block

    @property
    def tail(self) -> str:
        return self.text[self.given :]

    @property
    def is_speaking(self) -> bool:
        """Whether the tail contains more than white space."""
        return self.given < len(self.text) and not self.text[self.given : self.given + WIDEST].isspace()

    def end_of_tail(self, lines: int) -> str:
        """The last lines of the tail; if they are inside a code block, its opening line is put before them."""
        begin = len(self.text)
        for _ in range(lines + 1):
            begin = self.text.rfind("\n", self.given, begin)
            if begin < 0:
                return self.tail[-WIDEST * lines :]
        seen = self.text[begin + 1 :][-WIDEST * lines :]
        return f"{self._fence}\n{seen}" if self._fence and not seen.startswith(self._fence) else seen

    def close(self, whole: str | None = None) -> str:
        """Return the rest of a finished reply. `whole` is the stored reply; if it differs from what was printed, all of
        it is returned.
        """
        if whole is not None and not whole.startswith(self.text[: self.given]):
            self.given = 0
            self.text = whole
        elif whole is not None:
            self.text = whole
        rest, self.given = self.text[self.given :], len(self.text)
        return rest

    def _look_on(self) -> int:
        """End of the last complete block; `given` if there is none."""
        end = self.given
        while (stop := self.text.find("\n", self._looked)) >= 0:
            line = self.text[self._looked : stop].strip()
            self._looked = stop + 1
            if self._fence:
                if _closes(line, self._fence):
                    self._fence = ""
            elif line.startswith(FENCES):
                self._fence, self._says_something = line, True
            elif line:
                self._says_something = True
            elif self._says_something:
                end, self._says_something = stop + 1, False
        return end


def _closes(line: str, opened: str) -> bool:
    fence = opened[: len(opened) - len(opened.lstrip(opened[0]))]
    return line.startswith(fence) and not line.strip(fence[0])
