"""A reply as it comes: whole blocks of Markdown are given out as soon as nothing that follows can change them.

What is given out stands in the terminal's scrollback and cannot be taken back, so a block ends only at an empty line
outside of a code block. The rest is the tail, drawn anew with every piece.
"""

from __future__ import annotations

FENCES = ("```", "~~~")


class Stream:
    """The text of one reply."""

    def __init__(self) -> None:
        self.text = ""
        self.given = 0

    def add(self, piece: str) -> str:
        """Take a piece; what can be printed for good now, or an empty text."""
        self.text += piece
        end = _last_block_end(self.text, self.given)
        block, self.given = self.text[self.given : end], end
        return block

    @property
    def tail(self) -> str:
        return self.text[self.given :]

    def close(self, whole: str | None = None) -> str:
        """The rest, once the reply is whole. `whole` is what it really is: if it began otherwise, all of it."""
        if whole is not None and not whole.startswith(self.text[: self.given]):
            self.given = 0
            self.text = whole
        elif whole is not None:
            self.text = whole
        rest, self.given = self.text[self.given :], len(self.text)
        return rest


def _last_block_end(text: str, start: int) -> int:
    """Where the last block that is complete ends; `start` when there is none."""
    end, at, fence = start, start, ""
    while (stop := text.find("\n", at)) >= 0:
        line = text[at:stop].strip()
        if fence:
            fence = "" if line.startswith(fence) and not line.strip(fence[0]) else fence
        elif line.startswith(FENCES):
            fence = line[: len(line) - len(line.lstrip(line[0]))]
        elif not line and text[start:at].strip():
            end = stop + 1
        at = stop + 1
    return end
