"""A list to choose from: search as you type, arrows, Enter; Esc chooses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.processors import BeforeInput

from outlast.doors.cells import cells, cut
from outlast.doors.repl.application import TerminalApplication
from outlast.doors.repl.style import HERE, STYLE, colours

T = TypeVar("T")
ROWS = 10


class Option(Generic[T]):
    """One row. `detail` stands below it; it may take a while, so it is looked up while the list is shown already."""

    def __init__(self, value: T, title: str, note: str = "", detail: Callable[[], str] | None = None) -> None:
        self.value = value
        self.title = title
        self.note = note
        self.detail = ""
        self._detail = detail

    def look_up(self) -> None:
        if self._detail is not None:
            self.detail = self._detail()
            self._detail = None

    @property
    def is_looked_up(self) -> bool:
        return self._detail is None

    def fits(self, words: Sequence[str]) -> bool:
        seen = f"{self.title} {self.note} {self.detail}".lower()
        return all(word in seen for word in words)


class Picker(Generic[T]):
    def __init__(self, title: str, options: Sequence[Option[T]], hint: str = "") -> None:
        self.title = title
        self.options = list(options)
        self.hint = hint or "type to search · Enter chooses · Esc leaves"
        self.at = 0
        self.buffer = Buffer(on_text_changed=lambda _: self._moved_to(0))
        self._has_details = any(not option.is_looked_up for option in options)

    @property
    def _asking(self) -> str:
        return f"{self.title} " if self.title.endswith("?") else f"{self.title}: "

    @property
    def fitting(self) -> list[Option[T]]:
        words = self.buffer.text.lower().split()
        return [option for option in self.options if option.fits(words)]

    def _moved_to(self, at: int) -> None:
        self.at = max(0, min(at, len(self.fitting) - 1))

    def rows(self, width: int = 80, height: int = 24) -> StyleAndTextTuples:
        """As many as fit on the screen, the chosen one always among them."""
        fitting = self.fitting
        self.at = max(0, min(self.at, len(fitting) - 1))
        most = max(1, min(ROWS, (height - 3) // (2 if self._has_details else 1)))
        first = max(0, min(self.at - most // 2, len(fitting) - most))
        lines: StyleAndTextTuples = []
        for n, option in enumerate(fitting[first : first + most], first):
            lines += _row(option, n == self.at, width)
        if not fitting:
            lines.append(("class:note", "  nothing fits\n"))
        lines.append(("class:note", cut(f"  {len(fitting)} of {len(self.options)} · {self.hint}", width)))
        return lines

    async def choose(self) -> T | None:
        """The chosen value; None when the user left."""
        app: TerminalApplication[T | None] = TerminalApplication(
            layout=Layout(
                HSplit(
                    [
                        Window(
                            BufferControl(self.buffer, input_processors=[BeforeInput(self._asking, "class:title")]),
                            height=1,
                        ),
                        Window(FormattedTextControl(lambda: self.rows(*_size(app))), dont_extend_height=True),
                    ]
                )
            ),
            key_bindings=self._keys(),
            style=STYLE,
            color_depth=colours(),
            erase_when_done=True,
        )
        app.ttimeoutlen = 0.05
        looking = asyncio.ensure_future(self._look_up(app.invalidate))
        try:
            return await app.run_async()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look_up(self, redraw: Callable[[], None]) -> None:
        """The details, from the first row on; what is typed searches in those that are known."""
        for n, option in enumerate(self.options):
            if not option.is_looked_up:
                await asyncio.to_thread(option.look_up)
                if n < ROWS or n % ROWS == 0:
                    redraw()
        redraw()

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("up")
        @keys.add("c-p")
        def _(event: KeyPressEvent) -> None:
            self._moved_to(self.at - 1)

        @keys.add("down")
        @keys.add("c-n")
        def _(event: KeyPressEvent) -> None:
            self._moved_to(self.at + 1)

        @keys.add("pageup")
        def _(event: KeyPressEvent) -> None:
            self._moved_to(self.at - ROWS)

        @keys.add("pagedown")
        def _(event: KeyPressEvent) -> None:
            self._moved_to(self.at + ROWS)

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            fitting = self.fitting
            if fitting:
                event.app.exit(result=fitting[self.at].value)

        @keys.add("escape", eager=True)
        @keys.add("c-c")
        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        return keys


def _size(app: Application[T | None]) -> tuple[int, int]:
    size = app.output.get_size()
    return size.columns, size.rows


def _row(option: Option[T], here: bool, width: int) -> StyleAndTextTuples:
    """The note is seen whole where it can be; the title is cut first."""
    note = cut(option.note, width - 12)
    title = cut(option.title, max(8, width - 4 - cells(note)))
    lines: StyleAndTextTuples = [("class:picked" if here else "", f"{HERE if here else ' '} {title}")]
    lines.append(("class:note", f"  {note}\n"))
    if option.detail:
        lines.append(("class:note", f"    {cut(option.detail, width - 4)}\n"))
    return lines
