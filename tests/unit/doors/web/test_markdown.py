"""Markdown as trees: a closed set of nodes, nothing that could run or load, nothing lost, and never slow."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.errors import InvalidInput
from outlast.doors.web import markdown as md
from outlast.doors.web.markdown import Node, tree, trees


def one(text: str) -> dict[str, Any]:
    [node] = tree(text)
    assert isinstance(node, dict)
    return node


def inside(text: str) -> list[Node]:
    return one(text)["nodes"]


def nodes_of(nodes: list[Node]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for node in nodes:
        if isinstance(node, dict):
            found += [node, *nodes_of(node.get("nodes", []))]
    return found


def text_of(nodes: list[Node]) -> str:
    return "".join(
        node if isinstance(node, str) else str(node.get("text", "")) + text_of(node.get("nodes", [])) for node in nodes
    )


def test_blocks_carry_the_line_on_which_they_begin() -> None:
    found = tree("# Title\n\ntext\nmore\n\n```py\ncode\n```\n\n- item\n")
    assert [(node["tag"], node["line"]) for node in found if isinstance(node, dict)] == [
        ("h1", 0),
        ("p", 2),
        ("pre", 5),
        ("ul", 9),
    ]


def test_inline_marks_nest() -> None:
    assert inside("a **b *c* ~~d~~** `e`") == [
        "a ",
        {"tag": "strong", "nodes": ["b ", {"tag": "em", "nodes": ["c"]}, " ", {"tag": "del", "nodes": ["d"]}]},
        " ",
        {"tag": "code", "text": "e"},
    ]


def test_code_keeps_its_text_and_its_language() -> None:
    node = one("```python title=x\nif a < b:\n    pass\n```")
    assert (node["tag"], node["language"], node["text"]) == ("pre", "python", "if a < b:\n    pass\n")


def test_tables_have_alignment() -> None:
    cells = [node for node in nodes_of(tree("| a | b |\n|---|--:|\n| 1 | 2 |")) if node["tag"] in {"th", "td"}]
    assert [cell.get("align") for cell in cells] == [None, "right", None, "right"]


def test_task_lists_are_checked_or_not() -> None:
    items = [node for node in nodes_of(tree("- [x] done\n- [ ] open\n- [y] neither\n")) if node["tag"] == "li"]
    assert [item.get("checked") for item in items] == [True, False, None]
    assert [text_of(item["nodes"]) for item in items] == ["done", "open", "[y] neither"]


def test_raw_html_is_text() -> None:
    found = tree("<script>alert(1)</script>\n\n<b onclick=x>b</b> <img src=x onerror=y>")
    assert {node["tag"] for node in nodes_of(found)} == {"p"}
    assert text_of(found) == "<script>alert(1)</script><b onclick=x>b</b> <img src=x onerror=y>"


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "&#106;avascript:alert(1)",
        "java\tscript:alert(1)",
        "vbscript:x",
        "data:text/html,<script>alert(1)</script>",
        "data:image/png;base64,AAAA",
        "file:///etc/passwd",
        "blob:http://x/y",
        "//evil.example/x",
        "/api/sessions",
        "http:",
        "https:///x",
        "mailto:",
        "ftp://example.org/x",
        "src/a.py",
        "#place",
    ],
)
def test_only_pages_and_mailboxes_can_be_followed(address: str) -> None:
    for text in (f"[x](<{address}>)", f"![x](<{address}>)", f"[x]\n\n[x]: <{address}>"):
        assert [node for node in nodes_of(tree(text)) if "href" in node] == []


@pytest.mark.parametrize("address", ["https://example.org/a?b=c#d", "http://example.org", "mailto:a@example.org"])
def test_pages_and_mailboxes_can_be_followed(address: str) -> None:
    [link] = [node for node in nodes_of(tree(f"[x]({address})")) if node["tag"] == "a"]
    assert link["href"] == address


def test_pictures_are_links_with_their_description() -> None:
    assert inside("![a cat](https://example.org/cat.png)") == [
        {"tag": "image", "text": "a cat", "href": "https://example.org/cat.png"}
    ]


def test_bare_addresses_are_links_without_the_punctuation_around_them() -> None:
    found = inside("see (https://example.org/a_(b)), or http://x.org/y. Not http://.")
    links = [node["href"] for node in found if isinstance(node, dict)]
    assert links == ["https://example.org/a_(b)", "http://x.org/y"]
    assert text_of(found) == "see (https://example.org/a_(b)), or http://x.org/y. Not http://."


def test_addresses_in_code_and_in_links_are_left_alone() -> None:
    found = tree("`https://a.org` [https://b.org](https://c.org)")
    assert [node["href"] for node in nodes_of(found) if "href" in node] == ["https://c.org"]


HARD = {
    "brackets": "[" * 60_000,
    "pictures": "![" * 30_000,
    "links": "[a](b" * 12_000,
    "stars": "*a_ " * 15_000,
    "quotes": ">" * 60_000,
    "lists": "- " * 30_000,
    "items": "* a\n" * 15_000,
    "a wide table": "|" + "a|" * 1_000 + "\n|" + "-|" * 1_000 + "\n" + "|x\n" * 2_000,
    "ticks": "".join("`" * n + " " for n in range(400)),
    "references": "[a]: b\n" * 8_000,
    "entities": "&amp;" * 12_000,
}


@pytest.mark.parametrize("name", HARD)
def test_hard_texts_take_no_longer_than_a_moment(name: str) -> None:
    began = time.process_time()
    found = tree(HARD[name])
    assert time.process_time() - began < 4
    assert len(nodes_of(found)) <= md.NODES


@pytest.mark.parametrize("depth", [5, 19, 20, 39, 40, 41, 80, 120])
def test_what_is_nested_too_deep_is_not_lost(depth: int) -> None:
    assert "deep" in text_of(tree("> " * depth + "deep"))
    stairs = "\n".join("  " * n + f"- item{n}." for n in range(depth))
    assert all(f"item{n}." in text_of(tree(stairs)) for n in range(depth))


def test_a_text_that_is_too_long_is_shown_as_it_is() -> None:
    text = "*a* " * (md.LONGEST // 4 + 1)
    assert tree(text) == [{"tag": "plain", "text": text, "line": 0}]


def test_a_request_is_bounded() -> None:
    with pytest.raises(InvalidInput, match="at most 200"):
        trees(["x"] * 201)
    with pytest.raises(InvalidInput, match="characters"):
        trees(["x" * md.CHARACTERS, "y"])
    assert trees(["a", ""]) == [[{"tag": "p", "nodes": ["a"], "line": 0}], []]


MARKS = (
    "# ",
    "> ",
    "- ",
    "1. ",
    "* ",
    "`",
    "```",
    "~~",
    "**",
    "_",
    "[",
    "](",
    ")",
    "<b>",
    "|",
    "---",
    "\n",
    "\n\n",
    "    ",
)
WORDS = ("word", "http://a.b", "javascript:x", "&lt;", "\\", "!", "x ", "\t", "ü", "\u202e", "\x00")
PIECES = st.sampled_from((*MARKS, *WORDS))


@given(st.lists(PIECES, max_size=60).map("".join))
def test_any_text_gives_json_of_known_tags_with_links_that_may_be_followed(text: str) -> None:
    found = tree(text)
    json.dumps(found)
    lines = [node["line"] for node in found if isinstance(node, dict)]
    assert lines == sorted(lines)
    for node in nodes_of(found):
        assert node["tag"] in md.TAGS
        if "href" in node:
            assert node["href"].startswith(("http://", "https://", "mailto:"))


@given(
    st.lists(st.sampled_from(["a b\n\n", "- x\n", "```\ncode\n```\n", "> q\n\n", "# h\n", "|a|\n|-|\n"]), max_size=12)
)
def test_finished_blocks_stay_as_they_are_when_a_reply_grows(pieces: list[str]) -> None:
    """What the page relies on while a reply streams: all blocks but the last are final."""
    text = "".join(pieces)
    whole = tree(text)
    for cut in range(0, len(text), 7):
        for then, now in zip(tree(text[:cut])[:-1], whole, strict=False):
            assert then == now
