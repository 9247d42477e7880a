"""Rich renderables as text for a terminal of a given width.

Uses only those of the user's sixteen colours that are readable on a light and on a dark background. Lines are not
padded with spaces: padding would be copied with the text, and would wrap into empty lines when the terminal gets
narrower.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import ClassVar

from pygments.token import Comment, Keyword, Name, Number, Operator, String
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from outlast.core.text import show_invisible
from outlast.doors.terminal_text import cells, cut, readable

THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "default",
        "markdown.block_quote": "dim",
        "markdown.link": "underline",
        "markdown.link_url": "underline",
        "markdown.item.bullet": "cyan",
        "markdown.item.number": "cyan",
        "markdown.hr": "dim",
    }
)
CODE = ANSISyntaxTheme(
    {
        Comment: Style(dim=True, italic=True),
        Keyword: Style(color="magenta"),
        Operator.Word: Style(color="magenta"),
        String: Style(color="green"),
        Number: Style(color="cyan"),
        Name.Function: Style(bold=True),
        Name.Class: Style(bold=True),
        Name.Decorator: Style(color="cyan"),
        Name.Builtin: Style(color="cyan"),
        Name.Tag: Style(color="magenta"),
        Name.Attribute: Style(color="cyan"),
    }
)
HIGHLIGHTED = 2000
"""Code longer than this many lines is not highlighted."""

_FILLED = re.compile(r"(?: |\x1b\[[0-9;]*m)+$", re.MULTILINE)
_EMPTY = re.compile(r"\A(?:(?:\x1b\[[0-9;]*m)*\n)+|\n(?:(?:\x1b\[[0-9;]*m)*\n)+\Z")
_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def drawn(*renderables: RenderableType, width: int, colours: bool = True) -> str:
    """Render to the text that is sent to the terminal."""
    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        width=max(20, width),
        color_system="standard" if colours else None,
        theme=THEME,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    return "".join(_one(console, renderable) for renderable in renderables)


def _one(console: Console, renderable: RenderableType) -> str:
    with console.capture() as captured:
        if isinstance(renderable, Text):  # print() copies a Text without these two settings
            console.print(renderable, no_wrap=renderable.no_wrap, overflow=renderable.overflow)
        else:
            console.print(renderable)
    text = _FILLED.sub(lambda found: "".join(_STYLES.findall(found.group())), captured.get())
    return f"{_EMPTY.sub('', text).rstrip()}\n" if isinstance(renderable, ReplyBlock) else text


# --- model output ----------------------------------------------------------------------------------------------------


class LeftHeading(Heading):
    """Headings are left-aligned and have no box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold underline" if self.tag == "h1" else "bold")
        yield self.text


class PlainCode(CodeBlock):
    """Code on the terminal's own background, indented."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield code(str(self.text).rstrip(), self.lexer_name)


class LeftMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": LeftHeading,
        "fence": PlainCode,
        "code_block": PlainCode,
    }


class ReplyBlock:
    """Markdown that is parsed when it is drawn; a long text should therefore be drawn in a thread."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Without a final newline the parser fails on a text that ends in a quoted comment: "> - <!-- \n>".
        yield LeftMarkdown(f"{readable(self.text)}\n", hyperlinks=False)


def markdown(text: str) -> RenderableType:
    return ReplyBlock(text)


def code(text: str, language: str) -> RenderableType:
    language = language if text.count("\n") <= HIGHLIGHTED else "text"
    syntax = Syntax(readable(text), language, theme=CODE, word_wrap=True, background_color="default")
    return Padding(syntax, (0, 0, 0, 2))


# --- tool calls ------------------------------------------------------------------------------------------------------


class CallLine:
    """A call on one line at any width: the result is always visible, the call itself is cut if necessary. A `reason` is
    shown in full, on lines of its own if it does not fit.
    """

    def __init__(self, mark: str, style: str, told: str, result: str, *, reason: bool = False) -> None:
        self.mark, self.style, self.told, self.result, self.reason = mark, style, told, result, reason

    @property
    def plain(self) -> str:
        return f"{self.mark} {self.told}  {self.result}".rstrip()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        mark, width = Text(f"{self.mark} ", style=self.style), options.max_width - 2
        if self.reason and cells(self.told) + 2 + cells(self.result) > width:
            yield mark.append(cut(self.told, width), style="not bold default")
            yield Padding(Text(self.result, style="dim"), (0, 0, 0, 2))
            return
        result = cut(self.result, max(width // 2, width - cells(self.told) - 2))
        told = cut(self.told, width - cells(result) - 2 if result else width)
        yield Text.assemble(mark, (told, "default"), (f"  {result}" if result else "", "dim"))


def folded(text: str, most: int, more: str = "/expand") -> Text:
    """The first and last lines of a long text, with a note about the lines left out."""
    lines = text.split("\n")
    if len(lines) <= most:
        return Text(text)
    first = most // 3
    found = Text("\n".join(lines[:first]))
    found.append(f"\n… {len(lines) - most} more lines: {more}\n", style="dim")
    return found.append("\n".join(lines[first - most :]))


def diff(text: str, most: int | None = None) -> RenderableType:
    """A coloured unified diff; at most `most` lines, with a note about the rest."""
    lines = show_invisible(text).splitlines()
    seen = lines if most is None or len(lines) <= most else lines[:most]
    drawn_lines = Text()
    for n, line in enumerate(seen):
        drawn_lines.append(line + ("\n" if n + 1 < len(seen) else ""), style=_diff_style(line))
    if len(seen) < len(lines):
        drawn_lines.append(f"\n… {len(lines) - len(seen)} more lines: /expand", style="dim")
    return Padding(drawn_lines, (0, 0, 0, 2))


def _diff_style(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "bold"
    if line.startswith("@@"):
        return "cyan"
    return "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"


# --- reports ---------------------------------------------------------------------------------------------------------


def rows(lines: Sequence[Sequence[str | Text]], *styles: str) -> RenderableType:
    """A table with one style per column; only the last column wraps, within its own column."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for n, style in enumerate(styles):
        table.add_column(
            style=style, no_wrap=n + 1 < len(styles), overflow="ellipsis" if n + 1 < len(styles) else "fold"
        )
    for line in lines:
        table.add_row(*line)
    return Padding(table, (0, 0, 0, 2))
