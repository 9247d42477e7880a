"""A reply as it comes: whole blocks of Markdown are given out as soon as nothing that follows can change them.

What is given out stands in the terminal's scrollback and cannot be taken back, so a block ends only at an empty line
outside of a code block. The rest is the tail, drawn anew with every piece. Every line is looked at once, and of a long
tail only its end is drawn: a reply may be one code block of a megabyte.
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
        """Where the first line begins that was not whole yet."""
        self._fence = ""
        """The line that opened the code block in which that is, if it is in one."""
        self._says_something = False
        """Whether anything but empty lines came since `given`."""

    def add(self, piece: str) -> str:
        """Take a piece; what can be printed for good now, or an empty text."""
        self.text += piece
        end = self._look_on()
        block, self.given = self.text[self.given : end], end
        return block

    @property
    def tail(self) -> str:
        return self.text[self.given :]

    @property
    def is_speaking(self) -> bool:
        """Whether the tail says anything."""
        return self.given < len(self.text) and not self.text[self.given : self.given + WIDEST].isspace()

    def end_of_tail(self, lines: int) -> str:
        """The last lines of the tail; where a code block began above them, it begins there."""
        begin = len(self.text)
        for _ in range(lines + 1):
            begin = self.text.rfind("\n", self.given, begin)
            if begin < 0:
                return self.tail[-WIDEST * lines :]
        seen = self.text[begin + 1 :][-WIDEST * lines :]
        return f"{self._fence}\n{seen}" if self._fence and not seen.startswith(self._fence) else seen

    def close(self, whole: str | None = None) -> str:
        """The rest, once the reply is whole. `whole` is what it really is: if it began otherwise, all of it."""
        if whole is not None and not whole.startswith(self.text[: self.given]):
            self.given = 0
            self.text = whole
        elif whole is not None:
            self.text = whole
        rest, self.given = self.text[self.given :], len(self.text)
        return rest

    def _look_on(self) -> int:
        """Where the last block that is complete ends now; `given` when there is none."""
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
