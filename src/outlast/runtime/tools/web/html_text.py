"""Converts a web page to text: what a reader would see, with the addresses of links."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_UNSEEN = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object"})
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figcaption", "figure", "footer"}
    | {"form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section"}
    | {"table", "td", "th", "title", "tr", "ul"}
)


class _HtmlReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.unseen = 0
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNSEEN:
            self.unseen += 1
        elif tag in _BLOCKS:
            self.parts.append("\n" + ("- " if tag == "li" else "# " if tag in ("h1", "h2", "h3") else ""))
        elif tag == "a":
            self.links.append(dict(attrs).get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNSEEN:
            self.unseen = max(0, self.unseen - 1)
        elif tag in _BLOCKS:
            self.parts.append("\n")
        elif tag == "a" and self.links:
            address = self.links.pop()
            if address.startswith(("http://", "https://", "/")):
                self.parts.append(f" ({address})")

    def handle_data(self, data: str) -> None:
        if not self.unseen:
            self.parts.append(data)


def readable(html: str) -> str:
    """Return the text of a page. Malformed pages give whatever can be parsed."""
    reader = _HtmlReader()
    reader.feed(html)
    reader.close()
    lines = [re.sub(r"[ \t\r\f\v]+", " ", line).strip() for line in "".join(reader.parts).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
