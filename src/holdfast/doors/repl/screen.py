"""The terminal's screen: what was said scrolls away above, what goes on and what is typed stay below."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from prompt_toolkit.application import Application, in_terminal, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import ConditionalContainer, Dimension, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth
from rich.console import RenderableType

from holdfast.doors.repl.picture import drawn
from holdfast.doors.repl.question import Panel
from holdfast.doors.repl.style import HERE, STYLE

REDRAW_SECONDS = 0.1
ESCAPE_SECONDS = 0.05


class Screen:
    """Where everything is drawn. `live` is what changes by itself: the tail of a reply, the spinner."""

    def __init__(
        self,
        *,
        live: Callable[[int], RenderableType | None],
        activity: Callable[[], StyleAndTextTuples],
        status: Callable[[], StyleAndTextTuples],
        panel: Panel,
        completer: Completer,
        keys: KeyBindings,
        history: Path,
    ) -> None:
        self.panel = panel
        self._live, self._activity = live, activity
        self._pending: list[RenderableType] = []
        self._printing = asyncio.Lock()
        self.input = Buffer(
            multiline=True,
            history=_history(history),
            completer=ThreadedCompleter(completer),
            complete_while_typing=True,
            tempfile_suffix=".md",
        )
        self._input_window = Window(
            BufferControl(self.input, input_processors=[BeforeInput(f"{HERE} ", "class:prompt")], focus_on_click=False),
            height=Dimension(min=1, max=10),
            wrap_lines=True,
            dont_extend_height=True,
        )
        self._panel_window = Window(
            FormattedTextControl(self._drawn_panel, focusable=True, show_cursor=False),
            dont_extend_height=True,
            wrap_lines=True,
        )
        self.app: Application[int] = Application(
            layout=Layout(self._container(status), focused_element=self._input_window),
            key_bindings=keys,
            style=STYLE,
            color_depth=ColorDepth.DEPTH_4_BIT,
            enable_page_navigation_bindings=False,
            erase_when_done=True,
        )
        self.app.ttimeoutlen = ESCAPE_SECONDS
        self.app.timeoutlen = 0.5

    def _container(self, status: Callable[[], AnyFormattedText]) -> HSplit:
        asks = Condition(lambda: self.panel.asked is not None)
        speaks = Condition(lambda: self._live(1) is not None)
        works = Condition(lambda: bool(self._activity()))
        return HSplit(
            [
                ConditionalContainer(Window(FormattedTextControl(self._drawn_live), dont_extend_height=True), speaks),
                ConditionalContainer(self._panel_window, asks),
                ConditionalContainer(Window(FormattedTextControl(self._activity), height=1), works),
                Window(height=1, char="─", style="class:rule"),
                self._input_window,
                ConditionalContainer(CompletionsMenu(max_height=8, scroll_offset=1), has_completions),
                Window(FormattedTextControl(status), height=1),
            ]
        )

    # --- sizes and pieces

    @property
    def width(self) -> int:
        return self.app.output.get_size().columns

    @property
    def panel_height(self) -> int:
        return max(4, self.app.output.get_size().rows // 2 - 2)

    def _drawn_live(self) -> AnyFormattedText:
        height = max(3, self.app.output.get_size().rows // 2)
        found = self._live(height)
        if found is None:
            return ""
        text = drawn(found, width=self.width).rstrip("\n")
        return ANSI("\n".join(text.split("\n")[-height:]))

    def _drawn_panel(self) -> StyleAndTextTuples:
        return self.panel.drawn(self.panel_height, self.width)

    # --- printing above

    def put(self, renderable: RenderableType) -> None:
        """Print for good, above; soon, and in order."""
        self._pending.append(renderable)
        if len(self._pending) == 1:
            asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(self.flush()))

    async def flush(self) -> None:
        """Everything that was put is on the screen when this returns."""
        async with self._printing:
            if not self._pending:
                return
            pending, self._pending = self._pending, []
            text = drawn(*pending, width=self.width)
            if not self.app.is_running:
                self._write(text)
                return
            await run_in_terminal(lambda: self._write(text))

    def _write(self, text: str) -> None:
        self.app.output.write_raw(text.replace("\n", "\r\n"))
        self.app.output.flush()

    def bell(self) -> None:
        self.app.output.bell()
        self.app.output.flush()

    def redraw(self) -> None:
        self.app.invalidate()

    # --- focus

    def focus_panel(self, wanted: bool) -> None:
        self.panel.focused = wanted and self.panel.asked is not None
        self.app.layout.focus(self._panel_window if self.panel.focused else self._input_window)

    def apart(self) -> AbstractAsyncContextManager[None]:
        """A context in which something else has the terminal."""
        return in_terminal()


def _history(path: Path) -> History:
    """What was typed before, for the owner only; in memory where the home cannot be written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
