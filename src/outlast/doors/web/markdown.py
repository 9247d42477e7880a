"""Parses Markdown into trees of plain values. The page draws each node with its own code: text never becomes markup.

A node is a text, or `{"tag", ...}` with `nodes` below it. Tags are a closed set; raw HTML is text; links lead only to
http, https or mailto; a picture is never loaded but becomes a link with its description. Top-level blocks have the
`line` on which they begin: while a reply grows, all blocks but the last are final, and only the last is parsed again.

No text is lost: a text that is too deep, too wide or too long to lay out is returned as one plain block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from outlast.core.errors import InvalidInput

Node = str | dict[str, Any]

TEXTS = 200
"""Most texts in one request."""
CHARACTERS = 192 * 1024
"""Most characters in one request, all texts together."""
LONGEST = 64 * 1024
"""Most characters of one text that is parsed; a longer text is returned as one plain block."""
NODES = 20_000
DEPTH = 40
BRACKETS = 2_000
"""Each opening bracket may begin a link: a text of only brackets takes seconds to parse."""
COLUMNS = 100
"""Every row of a table gets as many cells as the first row, whatever the row contains."""

SCHEMES = frozenset({"http", "https", "mailto"})

_SAME = {
    "bullet_list": "ul",
    "list_item": "li",
    "blockquote": "blockquote",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
    "paragraph": "p",
    "em": "em",
    "strong": "strong",
    "s": "del",
}
TAGS = frozenset(
    {*_SAME.values(), "ol", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "code", "a", "image", "br", "hr", "plain"}
)
_ADDRESS = re.compile(r"\bhttps?://[^\s<>\"'`|\\^{}]+")
_TASK = re.compile(r"\[([ xX])\]\s+")


def trees(texts: Sequence[str]) -> list[list[Node]]:
    """Return the blocks of each text. Raises InvalidInput if the texts exceed the limits of one request."""
    if len(texts) > TEXTS:
        raise InvalidInput(f"texts: at most {TEXTS} in one request, not {len(texts)}")
    total = sum(map(len, texts))
    if total > CHARACTERS:
        raise InvalidInput(f"texts: at most {CHARACTERS} characters in one request, not {total}")
    return [tree(text) for text in texts]


def tree(text: str) -> list[Node]:
    """Return the blocks of one text."""
    if len(text) > LONGEST or text.count("[") > BRACKETS or _is_too_wide(text):
        return [_plain(text)]
    tokens = _parser().parse(text)
    sizes = sum(1 + len(token.children or ()) for token in tokens)
    if sizes > NODES or any(token.level >= DEPTH for token in tokens):
        return [_plain(text)]
    return _blocks(tokens)


def _is_too_wide(text: str) -> bool:
    return text.count("|") > COLUMNS and any(line.count("|") > COLUMNS for line in text.splitlines())


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 2 * DEPTH}).enable(["table", "strikethrough"])
    # The parser accepts every link and picture; `_followable` decides which of them may be followed.
    parser.validateLink = lambda url: True
    return parser


def _plain(text: str) -> Node:
    return {"tag": "plain", "text": text, "line": 0}


# --- blocks ----------------------------------------------------------------------------------------------------------


def _blocks(tokens: Sequence[Token]) -> list[Node]:
    top: list[Node] = []
    open_nodes: list[list[Node]] = [top]
    for token in tokens:
        if token.hidden:  # the paragraphs of a tight list get no node
            continue
        if token.nesting == -1:
            open_nodes.pop()
        elif token.type == "inline":
            open_nodes[-1].extend(_inline(token.children or []))
        else:
            node = _block(token)
            if len(open_nodes) == 1 and token.map:
                node["line"] = token.map[0]
            open_nodes[-1].append(node)
            if token.nesting == 1:
                open_nodes.append(node.setdefault("nodes", []))
    _mark_tasks(top)
    return top


def _block(token: Token) -> dict[str, Any]:
    kind = token.type.removesuffix("_open")
    match kind:
        case "fence" | "code_block":
            language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
            return {"tag": "pre", "text": token.content, "language": language[:40]}
        case "heading":
            return {"tag": token.tag}
        case "ordered_list":
            start = token.attrGet("start")
            return {"tag": "ol"} if start is None else {"tag": "ol", "start": start}
        case "th" | "td":
            style = str(token.attrGet("style") or "")
            aligned = style.removeprefix("text-align:")
            return {"tag": kind, "align": aligned} if aligned in {"center", "right"} else {"tag": kind}
        case "hr":
            return {"tag": "hr"}
        case _:
            return {"tag": _SAME[kind]}


def _mark_tasks(nodes: Sequence[Node]) -> None:
    """Turn `[ ]` and `[x]` at the beginning of a list item into `checked`."""
    for node in nodes:
        if not isinstance(node, dict):
            continue
        below: list[Node] = node.get("nodes", [])
        if node["tag"] == "li":
            first = below[0] if below else None
            inside: list[Node] = first.get("nodes", []) if isinstance(first, dict) and first["tag"] == "p" else below
            if inside and isinstance(inside[0], str) and (found := _TASK.match(inside[0])):
                node["checked"] = found[1] != " "
                inside[0] = inside[0][found.end() :]
        _mark_tasks(below)


# --- inside a block --------------------------------------------------------------------------------------------------


def _inline(tokens: Sequence[Token]) -> list[Node]:
    top: list[Node] = []
    open_nodes: list[list[Node]] = [top]
    links = 0
    for token in tokens:
        if token.nesting == -1:
            links -= token.type == "link_close"
            open_nodes.pop()
            continue
        for node in _piece(token, bare_links=not links):
            _add(open_nodes[-1], node)
        if token.nesting == 1:
            links += token.type == "link_open"
            opened = open_nodes[-1][-1]
            assert isinstance(opened, dict)
            open_nodes.append(opened.setdefault("nodes", []))
    return top


def _add(nodes: list[Node], node: Node) -> None:
    if isinstance(node, str) and nodes and isinstance(nodes[-1], str):
        nodes[-1] += node
    elif node != "":
        nodes.append(node)


def _piece(token: Token, *, bare_links: bool) -> Iterator[Node]:
    match token.type:
        case "text":
            yield from _linked(token.content) if bare_links else (token.content,)
        case "softbreak":
            yield "\n"
        case "hardbreak":
            yield {"tag": "br"}
        case "code_inline":
            yield {"tag": "code", "text": token.content}
        case "link_open":
            yield _link(str(token.attrGet("href") or ""))
        case "image":
            text = token.content or "image"
            yield {"tag": "image", "text": text, **_target(str(token.attrGet("src") or ""))}
        case _:
            kind = token.type.removesuffix("_open")
            yield {"tag": _SAME[kind]} if kind in _SAME else token.content


def _linked(text: str) -> Iterator[Node]:
    """Yield the text with its bare URLs as links."""
    at = 0
    for found in _ADDRESS.finditer(text):
        address = _without_closing(found[0])
        if not _followable(address):
            continue
        yield text[at : found.start()]
        yield {"tag": "a", "nodes": [address], "href": address}
        at = found.start() + len(address)
    yield text[at:]


def _without_closing(address: str) -> str:
    """Return the URL without the punctuation of the surrounding sentence."""
    while address and (address[-1] in ".,;:!?*_~]" or (address[-1] == ")" and address.count(")") > address.count("("))):
        address = address[:-1]
    return address


def _link(href: str) -> dict[str, Any]:
    return {"tag": "a", **_target(href)}


def _target(href: str) -> dict[str, str]:
    """Return `href` for a link to a page or a mailbox; otherwise `address`, which is shown but cannot be followed."""
    return {"href": href} if _followable(href) else {"address": href}


def _followable(href: str) -> bool:
    try:
        parts = urlsplit(href)
    except ValueError:
        return False
    whole = bool(parts.netloc) if parts.scheme in {"http", "https"} else bool(parts.path)
    return parts.scheme in SCHEMES and whole and href.isprintable()
