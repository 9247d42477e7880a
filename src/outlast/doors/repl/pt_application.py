"""prompt_toolkit applications that erase what they drew, also after the terminal gets narrower.

Most terminals then wrap every long line, so that the drawing takes more rows than the library remembers and parts of
old spinners would stay on screen. Terminals known to cut long lines instead are left to the library: erasing the extra
rows there would delete text.
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
    """An application that exits when its terminal is gone."""

    def _handle_exception(self, loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        """Exit as at end of input if the terminal is gone: every read fails then, and no error can be shown."""
        if not isinstance(context.get("exception"), OSError):
            super()._handle_exception(loop, context)
        elif self.is_running and not self.is_done:
            self.exit(exception=EOFError)


class FullHeightApplication(TerminalApplication[Result]):
    _cursor = Point(0, 0)
    """Cursor position in the last frame; the window that has the focus now may not have been part of that frame."""

    def remember_cursor(self, _: object) -> None:
        """Must be called after every frame."""
        screen = self.renderer.last_rendered_screen
        self._cursor = screen.get_cursor_position(self.layout.current_window) if screen is not None else Point(0, 0)

    def wipe(self) -> None:
        """Erase what is drawn and move the cursor to its start.

        Row by row: some terminals save a screen that is cleared from its top to the scrollback, and others keep a row
        as wide as its longest content ever unless the whole row is erased.
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
    """How many additional rows the text above the cursor takes when rows wrap at `width`."""
    above = sum(max(0, row_length(screen, row) - 1) // width for row in range(y))
    return above + x // width


def row_length(screen: Screen, row: int) -> int:
    """Number of written columns in a row, without trailing blanks."""
    return max((at + cell.width for at, cell in screen.data_buffer[row].items() if cell.char.strip()), default=0)
