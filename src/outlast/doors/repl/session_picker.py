"""A list to choose from: search while typing, arrows, Enter; Esc chooses nothing.

Also lists sessions as rows of that picker: title, age, project, last message.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.processors import BeforeInput

from outlast.core.errors import OutlastError, SessionNotFound
from outlast.core.header import ARCHIVED, Header
from outlast.core.messages import Role
from outlast.doors.repl.pt_application import TerminalApplication
from outlast.doors.repl.render.style import HERE, STYLE, colours
from outlast.doors.repl.render.tool_call_line import one_line
from outlast.doors.terminal_text import cells, cut
from outlast.session import ConversationSession
from outlast.store.log_store import LogStore

T = TypeVar("T")
ROWS = 10


class PickerOption(Generic[T]):
    """One row. `detail` is shown below it; it may be slow, so it is loaded while the list is already shown."""

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


class SessionPicker(Generic[T]):
    def __init__(self, title: str, options: Sequence[PickerOption[T]], hint: str = "") -> None:
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
    def fitting(self) -> list[PickerOption[T]]:
        words = self.buffer.text.lower().split()
        return [option for option in self.options if option.fits(words)]

    def _moved_to(self, at: int) -> None:
        self.at = max(0, min(at, len(self.fitting) - 1))

    def rows(self, width: int = 80, height: int = 24) -> StyleAndTextTuples:
        """Draw as many rows as fit on the screen, always including the selected one."""
        fitting = self.fitting
        self.at = max(0, min(self.at, len(fitting) - 1))
        most = max(1, min(ROWS, (height - 3) // (2 if self._has_details else 1)))
        first = max(0, min(self.at - most // 2, len(fitting) - most))
        lines: StyleAndTextTuples = []
        for n, option in enumerate(fitting[first : first + most], first):
            lines += _row(option, n == self.at, width)
        if not fitting:
            lines.append(("class:note", "  no match\n"))
        lines.append(("class:note", cut(f"  {len(fitting)} of {len(self.options)} · {self.hint}", width)))
        return lines

    async def choose(self) -> T | None:
        """Return the chosen value; None if the user left."""
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
        """Load the details from the first row on; the search covers the details loaded so far."""
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


def _row(option: PickerOption[T], here: bool, width: int) -> StyleAndTextTuples:
    """Draw one row: the title is cut before the note."""
    note = cut(option.note, width - 12)
    title = cut(option.title, max(8, width - 4 - cells(note)))
    lines: StyleAndTextTuples = [("class:picked" if here else "", f"{HERE if here else ' '} {title}")]
    lines.append(("class:note", f"  {note}\n"))
    if option.detail:
        lines.append(("class:note", f"    {cut(option.detail, width - 4)}\n"))
    return lines


Pick = Callable[[str, Sequence[PickerOption[str]]], Awaitable[Any]]
_SPANS = ((60, "s", 1), (3600, "min", 60), (86_400, "h", 3600), (86_400 * 365, "d", 86_400))


def age(at: int) -> str:
    """Time since then, in one short word."""
    seconds = max(0, time.time() - at / 1e6)
    for limit, unit, size in _SPANS:
        if seconds < limit:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // (86_400 * 365))} y"


def session_rows(store: LogStore, project: Path | None, limit: int = 200, *, archived: bool = False) -> list[Header]:
    """Sessions started by users, newest activity first; sessions of sub-agents are left out."""
    rows = ConversationSession.list(project_root=project, store=store, limit=limit)
    hidden = {"damaged"} if archived else {"damaged", ARCHIVED}
    return [row for row in rows if row.depth == 0 and row.state not in hidden]


def session_option(store: LogStore, row: Header) -> PickerOption[str]:
    project = Path(row.project_root).name if row.project_root else ""
    state = "" if row.state == "active" else f" · {row.state}"
    note = f"{row.session_id[:8]} · {age(row.updated_at)} ago · {project}{state}"
    return PickerOption(
        row.session_id, one_line(row.title or "(untitled)"), note, lambda: last_words(store, row.session_id)
    )


def last_words(store: LogStore, session_id: str) -> str:
    """The start of the last message of the user or the model."""
    try:
        found = ConversationSession.load(session_id=session_id, store=store)
        said = found.history(6) if found is not None else []
    except OutlastError as error:
        return one_line(str(error), 100)
    for message in reversed(said):
        if message.role in {Role.USER, Role.ASSISTANT} and message.content.strip():
            return f"{'you' if message.role is Role.USER else 'it'}: {one_line(message.content, 100)}"
    return ""


async def choose_session(pick: Pick | None, store: LogStore, project: Path) -> str | None:
    """Let the user choose a session: this project's sessions first, then all others."""
    here = session_rows(store, project)
    known = {row.session_id for row in here}
    others = [row for row in session_rows(store, None) if row.session_id not in known]
    options = [session_option(store, row) for row in (*here, *others)]
    if not options:
        raise SessionNotFound("there is no session yet; `outlast` starts one")
    if pick is None:
        return await SessionPicker("Resume", options).choose()
    return await pick("Resume", options)
