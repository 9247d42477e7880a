"""Rich renderables as text for a terminal of a given width."""

from __future__ import annotations

import io
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from holdfast.app.terminal import shown
from holdfast.doors.repl.escaping import readable

CODE_THEME = "ansi_dark"


def drawn(*renderables: RenderableType, width: int, colours: bool = True) -> str:
    """What a terminal has to be sent."""
    file = io.StringIO()
    console = Console(
        file=file,
        force_terminal=True,
        width=max(20, width),
        color_system="standard" if colours else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for renderable in renderables:
        if isinstance(renderable, Text):  # printing makes a new text of it, and would forget these
            console.print(renderable, no_wrap=renderable.no_wrap, overflow=renderable.overflow)
        else:
            console.print(renderable)
    return file.getvalue()


class LeftHeading(Heading):
    """Headings stand at the left, and none is drawn in a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        if self.tag == "h1":
            self.text.stylize("bold underline")
        yield self.text


class LeftMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": LeftHeading}


def markdown(text: str) -> RenderableType:
    return LeftMarkdown(readable(text), code_theme=CODE_THEME, hyperlinks=False)


def diff(text: str, most: int | None = None) -> RenderableType:
    """A unified diff in colours; `most` lines of it, and a word about the rest."""
    lines = shown(text).splitlines()
    cut = lines if most is None or len(lines) <= most else lines[:most]
    drawn_lines = Text()
    for n, line in enumerate(cut):
        drawn_lines.append(line + ("\n" if n + 1 < len(cut) else ""), style=_diff_style(line))
    if len(cut) < len(lines):
        drawn_lines.append(f"\n… {len(lines) - len(cut)} more lines: /expand", style="dim")
    return Padding(drawn_lines, (0, 0, 0, 2))


def _diff_style(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "bold"
    if line.startswith("@@"):
        return "cyan"
    return "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"


def code(text: str, language: str) -> RenderableType:
    return Syntax(readable(text), language, theme=CODE_THEME, word_wrap=True, background_color="default")
