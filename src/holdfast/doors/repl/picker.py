"""A list to choose from: search as you type, arrows, Enter; Esc chooses nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.processors import BeforeInput

from holdfast.doors.repl.style import HERE, STYLE

T = TypeVar("T")
ROWS = 10


class Option(Generic[T]):
    """One row. `detail` is asked for only when the row is seen."""

    def __init__(self, value: T, title: str, note: str = "", detail: Callable[[], str] | None = None) -> None:
        self.value = value
        self.title = title
        self.note = note
        self._detail = detail
        self._told: str | None = None

    @property
    def detail(self) -> str:
        if self._told is None:
            self._told = self._detail() if self._detail is not None else ""
        return self._told

    def fits(self, words: Sequence[str]) -> bool:
        seen = f"{self.title} {self.note} {self._told or ''}".lower()
        return all(word in seen for word in words)


class Picker(Generic[T]):
    def __init__(self, title: str, options: Sequence[Option[T]], hint: str = "") -> None:
        self.title = title
        self.options = list(options)
        self.hint = hint or "type to search · Enter chooses · Esc leaves"
        self.at = 0
        self.buffer = Buffer(on_text_changed=lambda _: self._moved_to(0))

    @property
    def _asking(self) -> str:
        return f"{self.title} " if self.title.endswith("?") else f"{self.title}: "

    @property
    def fitting(self) -> list[Option[T]]:
        words = self.buffer.text.lower().split()
        return [option for option in self.options if option.fits(words)]

    def _moved_to(self, at: int) -> None:
        self.at = max(0, min(at, len(self.fitting) - 1))

    def rows(self) -> StyleAndTextTuples:
        fitting = self.fitting
        first = max(0, min(self.at - ROWS // 2, len(fitting) - ROWS))
        lines: StyleAndTextTuples = []
        for n, option in enumerate(fitting[first : first + ROWS], first):
            here = n == self.at
            lines.append(("class:picked" if here else "", f"{HERE if here else ' '} {option.title}"))
            lines.append(("class:note", f"  {option.note}\n"))
            if option.detail:
                lines.append(("class:note", f"    {option.detail}\n"))
        if not fitting:
            lines.append(("class:note", "  nothing fits\n"))
        lines.append(("class:note", f"  {len(fitting)} of {len(self.options)} · {self.hint}"))
        return lines

    async def choose(self) -> T | None:
        """The chosen value; None when the user left."""
        app: Application[T | None] = Application(
            layout=Layout(
                HSplit(
                    [
                        Window(
                            BufferControl(self.buffer, input_processors=[BeforeInput(self._asking, "class:title")]),
                            height=1,
                        ),
                        Window(FormattedTextControl(self.rows), dont_extend_height=True),
                    ]
                )
            ),
            key_bindings=self._keys(),
            style=STYLE,
            erase_when_done=True,
        )
        app.ttimeoutlen = 0.05
        return await app.run_async()

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
