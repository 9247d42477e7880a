"""Markdown in the form each platform can show.

Model output is text: none of its HTML tags, and only links with harmless schemes, reach a chat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING

from outlast.core.errors import MissingExtra

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

SCHEMES = ("https://", "http://", "mailto:", "tg://", "matrix:")
RULE = "———"


@cache
def _parser() -> MarkdownIt:
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingExtra("gateway", "the gateway") from error
    # No images: they would show only in part, and the chat's server should not fetch URLs that a model names.
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def matrix_html(text: str) -> str:
    """HTML subset for Matrix's `formatted_body`."""
    return _parser().render(text).strip()


def telegram_html(text: str) -> str:
    """HTML for Telegram's `parse_mode=HTML`: a few inline tags, code, quotes; lists and tables become text."""
    blocks = _Blocks(_parser().parse(text)).written()
    return "\n\n".join(block for block in blocks if block.strip())


class _Blocks:
    """Walks the tokens of a text, block by block."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def written(self, until: str | None = None) -> list[str]:
        blocks: list[str] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.type == until:
                break
            blocks += self._block(token)
        return blocks

    def _block(self, token: Token) -> Iterator[str]:
        match token.type:
            case "inline":
                yield inline_html(token.children or [])
            case "heading_open":
                yield f"<b>{''.join(self.written('heading_close'))}</b>"
            case "paragraph_open":
                yield "".join(self.written("paragraph_close"))
            case "fence" | "code_block":
                yield _code(token)
            case "blockquote_open":
                quoted = "\n".join(self.written("blockquote_close"))
                yield f"<blockquote>{quoted}</blockquote>"
            case "bullet_list_open":
                yield "\n".join(self._items("bullet_list_close", None))
            case "ordered_list_open":
                yield "\n".join(self._items("ordered_list_close", int(token.attrs.get("start", 1))))
            case "table_open":
                yield self._table()
            case "hr":
                yield RULE
            case _:
                return

    def _items(self, until: str, number: int | None) -> Iterator[str]:
        while self._tokens[self._at].type != until:
            self._at += 1  # list_item_open
            lines = "\n".join(self.written("list_item_close")).split("\n")
            mark = "•" if number is None else f"{number}."
            yield "\n".join(f"{mark} {line}" if n == 0 else f"   {line}" for n, line in enumerate(lines))
            number = None if number is None else number + 1
        self._at += 1

    def _table(self) -> str:
        rows: list[list[str]] = []
        while (token := self._tokens[self._at]).type != "table_close":
            self._at += 1
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append("".join(child.content for child in token.children or []))
        self._at += 1
        widths = [max(len(row[column]) for row in rows if column < len(row)) for column in range(len(rows[0]))]
        lines = [_row(row, widths) for row in (rows[0], ["-" * width for width in widths], *rows[1:])]
        return f"<pre>{escape(chr(10).join(lines), quote=False)}</pre>"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)).rstrip()


def _code(token: Token) -> str:
    text = escape(token.content.removesuffix("\n"), quote=False)
    language = token.info.split()[0] if token.info.split() else ""
    if not language:
        return f"<pre>{text}</pre>"
    return f'<pre><code class="language-{escape(language)}">{text}</code></pre>'


_TAGS = {
    "strong_open": "<b>",
    "strong_close": "</b>",
    "em_open": "<i>",
    "em_close": "</i>",
    "s_open": "<s>",
    "s_close": "</s>",
    "softbreak": "\n",
    "hardbreak": "\n",
}


def inline_html(tokens: Sequence[Token]) -> str:
    out: list[str] = []
    links: list[bool] = []
    for token in tokens:
        match token.type:
            case "text":
                out.append(escape(token.content, quote=False))
            case "code_inline":
                out.append(f"<code>{escape(token.content, quote=False)}</code>")
            case "link_open":
                target = str(token.attrs.get("href", ""))
                links.append(target.startswith(SCHEMES))
                out.append(f'<a href="{escape(target)}">' if links[-1] else "")
            case "link_close":
                out.append("</a>" if links.pop() else "")
            case kind:
                out.append(_TAGS.get(kind, escape(token.content, quote=False)))
    return "".join(out)
