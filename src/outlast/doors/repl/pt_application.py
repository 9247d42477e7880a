"""An application that clears up after itself, also when the terminal gets narrower.

Most terminals then break every long line into several, so that what was drawn takes more rows than the library
remembers, and pieces of old spinners would stay behind. Terminals that only cut long lines would lose lines of text
instead; those that are known for it are left to the library.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from typing import Any, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout.screen import Screen

from outlast.app.settings import rewraps_lines

Result = TypeVar("Result")
REMEMBER, GO_BACK, DOWN, WIPE = "\x1b7", "\x1b8", "\x1b[1B", "\x1b[2K"


class TerminalApplication(Application[Result]):
    """Ends with its terminal."""

    def _handle_exception(self, loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        """A terminal that is gone fails each time it is read. There is nobody left to be told: leave, as at its end."""
        if not isinstance(context.get("exception"), OSError):
            super()._handle_exception(loop, context)
        elif self.is_running and not self.is_done:
            self.exit(exception=EOFError)


class FullHeightApplication(TerminalApplication[Result]):
    _cursor = Point(0, 0)
    """Where the cursor was left by the last frame; what has the focus now may have had no place in it."""

    def remember_cursor(self, _: object) -> None:
        """To be told after every frame."""
        screen = self.renderer.last_rendered_screen
        self._cursor = screen.get_cursor_position(self.layout.current_window) if screen is not None else Point(0, 0)

    def wipe(self) -> None:
        """Take away what is drawn; the cursor stands where it began.

        Row by row: some terminals take a screen that is cleared from its top for one to keep, and others hold a row for
        as long as the longest thing that ever stood in it unless all of it is wiped.
        """
        screen = self.renderer.last_rendered_screen
        if screen is None:
            return
        size, cursor = self.output.get_size(), self._cursor
        more = rows_added(screen, cursor.x, cursor.y, size.columns) if rewraps_lines() else 0
        self.output.write_raw("\r")
        self.output.cursor_up(cursor.y + more)
        rows = min(screen.height + more, size.rows)
        self.output.write_raw(f"{REMEMBER}{WIPE}{f'{DOWN}{WIPE}' * (rows - 1)}{GO_BACK}")
        self.renderer.reset(leave_alternate_screen=False)

    def _on_resize(self) -> None:
        self.wipe()
        super()._on_resize()


def rows_added(screen: Screen, x: int, y: int, width: int) -> int:
    """How many rows more what stands above the cursor takes, where no row may be wider than `width`."""
    above = sum(max(0, row_length(screen, row) - 1) // width for row in range(y))
    return above + x // width


def row_length(screen: Screen, row: int) -> int:
    """How many columns of a row are written; blanks at its end are not."""
    return max((at + cell.width for at, cell in screen.data_buffer[row].items() if cell.char.strip()), default=0)
