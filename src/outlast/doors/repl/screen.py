"""The terminal screen: printed text scrolls up, the live area and the input line stay at the bottom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from prompt_toolkit.application import in_terminal, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import ConditionalContainer, Dimension, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.widgets import SearchToolbar
from rich.console import RenderableType

from outlast.doors.repl.approval_panel import ApprovalPanel
from outlast.doors.repl.input.history_file import typed_before
from outlast.doors.repl.pt_application import FullHeightApplication
from outlast.doors.repl.render.renderables import drawn
from outlast.doors.repl.render.style import HERE, STYLE, colours

REDRAW_SECONDS = 0.1
ESCAPE_SECONDS = 0.05
BELOW = 3
"""Rows taken by the rule, one line of input and the status line."""

BEGIN_FRAME, END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
"""Terminals that support synchronized output show everything between them at once; others ignore them."""


class Screen:
    """Draws everything. `live` gets a height and returns the part that changes by itself, the tail of a reply;
    `activity` and `status` get the width and return the spinner lines and the status line.
    """

    def __init__(
        self,
        *,
        live: Callable[[int], RenderableType | None],
        activity: Callable[[int], StyleAndTextTuples],
        status: Callable[[int], StyleAndTextTuples],
        panel: ApprovalPanel,
        completer: Completer,
        keys: KeyBindings,
        history: Path,
    ) -> None:
        self.panel = panel
        self._live, self._activity, self._status = live, activity, status
        self._live_now: list[str] = []
        self._activity_now: StyleAndTextTuples = []
        self._shape = (0, 0)
        self._pending: list[RenderableType] = []
        self._printing = asyncio.Lock()
        self.input = Buffer(
            multiline=True,
            history=typed_before(history),
            completer=ThreadedCompleter(completer),
            complete_while_typing=True,
            tempfile_suffix=".md",
        )
        self._search = SearchToolbar(text_if_not_searching="", backward_search_prompt="typed before: ")
        control = BufferControl(
            self.input,
            input_processors=[BeforeInput(f"{HERE} ", "class:prompt")],
            search_buffer_control=self._search.control,
            preview_search=True,
            focus_on_click=False,
        )
        self._input_window = Window(control, height=Dimension(min=1, max=10), wrap_lines=True, dont_extend_height=True)
        self._panel_window = Window(
            FormattedTextControl(self._drawn_panel, focusable=True, show_cursor=False),
            dont_extend_height=True,
            wrap_lines=True,
        )
        self.app: FullHeightApplication[int] = FullHeightApplication(
            layout=Layout(self._container(), focused_element=self._input_window),
            key_bindings=keys,
            style=STYLE,
            color_depth=colours(),
            enable_page_navigation_bindings=False,
            erase_when_done=True,
        )
        self.app.ttimeoutlen = ESCAPE_SECONDS
        self.app.timeoutlen = 0.5
        self.app.before_render += self._look
        self.app.after_render += self.app.remember_cursor

    def _container(self) -> HSplit:
        asks = Condition(lambda: self.panel.asked is not None)
        speaks = Condition(lambda: bool(self._live_now))
        works = Condition(lambda: bool(self._activity_now))
        live = FormattedTextControl(lambda: ANSI("\n".join(self._live_now)))
        activity = FormattedTextControl(lambda: self._activity_now)
        self._above = [
            ConditionalContainer(Window(live, dont_extend_height=True), speaks),
            ConditionalContainer(self._panel_window, asks),
            ConditionalContainer(Window(activity, dont_extend_height=True), works),
        ]
        return HSplit(
            [
                *self._above,
                Window(height=1, char="─", style="class:rule"),
                self._input_window,
                self._search,
                ConditionalContainer(CompletionsMenu(max_height=8, scroll_offset=1), has_completions),
                Window(FormattedTextControl(lambda: self._status(self.width)), height=1),
            ]
        )

    # --- layout

    @property
    def width(self) -> int:
        return self.app.output.get_size().columns

    def _look(self, _: object) -> None:
        """Before each frame: update the live parts. Redraw everything if the rule moves, so that no row keeps more than
        is visible, and if the width changed, which is noticed here before the resize signal arrives.
        """
        size = self.app.output.get_size()
        height = max(3, size.rows // 2)
        found = self._live(height)
        text = drawn(found, width=size.columns).rstrip("\n") if found is not None else ""
        self._live_now = text.split("\n")[-height:] if text else []
        self._activity_now = self._activity(size.columns)
        rows = sum(one.preferred_height(size.columns, size.rows).preferred for one in self._above)
        if (rows, size.columns) != self._shape:
            self._shape = (rows, size.columns)
            self.app.wipe()

    def _drawn_panel(self) -> StyleAndTextTuples:
        size = self.app.output.get_size()
        return self.panel.drawn(max(4, size.rows // 2 - 2), size.columns, size.rows - BELOW)

    # --- the input line

    def offer(self, text: str) -> None:
        """Put a text into the input line for editing or sending, unless the user is typing there."""
        if not self.input.text:
            self.input.document = Document(text, len(text))

    # --- printing above

    def put(self, renderable: RenderableType) -> None:
        """Queue output to be printed permanently above the input line, in order."""
        self._pending.append(renderable)
        if len(self._pending) == 1:
            asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(self.flush()))

    async def flush(self) -> None:
        """Print everything that was queued; it is on the screen when this returns."""
        async with self._printing:
            if not self._pending:
                return
            pending, self._pending = self._pending, []
            text = await asyncio.to_thread(drawn, *pending, width=self.width)
            if not self.app.is_running:
                self._write(text)
                return
            self._write(BEGIN_FRAME)
            self.app.wipe()
            try:
                await run_in_terminal(lambda: self._write(text))
            finally:
                self._write(END_FRAME)

    def clear_line(self) -> None:
        """Clear the echo of text typed before startup; that text will appear in the input line."""
        self._write("\r\x1b[K")

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
        """A context in which another application may use the terminal."""
        return in_terminal()
