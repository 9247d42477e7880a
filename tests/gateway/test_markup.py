"""Markdown as Telegram and Matrix show it; hostile Markdown as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.doors.gateway.platforms.markup import matrix_html, telegram_html

TELEGRAM_TAGS = {"b", "i", "s", "code", "pre", "a", "blockquote"}


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "plain"),
        ("**bold** _it_ ~~s~~ `c<d`", "<b>bold</b> <i>it</i> <s>s</s> <code>c&lt;d</code>"),
        ("# Head\n\ntext", "<b>Head</b>\n\ntext"),
        ("- a\n- b\n  - c", "• a\n• b\n   • c"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("> q\n> r", "<blockquote>q\nr</blockquote>"),
        ("```py\na < b\n```", '<pre><code class="language-py">a &lt; b</code></pre>'),
        ("```\nx\n```", "<pre>x</pre>"),
        ("[t](https://x.y/?a=1&b=2)", '<a href="https://x.y/?a=1&amp;b=2">t</a>'),
        ("[t](javascript:alert)", "[t](javascript:alert)"),
        ("[t](file:///etc/passwd)", "[t](file:///etc/passwd)"),
        ("<b>x</b> & <script>", "&lt;b&gt;x&lt;/b&gt; &amp; &lt;script&gt;"),
        ("| a | bb |\n|---|---|\n| 1 | 2<3 |", "<pre>a  bb\n-  ---\n1  2&lt;3</pre>"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
    ],
)
def test_telegram_gets_the_tags_it_knows(text: str, html: str) -> None:
    assert telegram_html(text) == html


def test_matrix_gets_html_without_what_the_model_wrote_as_html() -> None:
    html = matrix_html("# Head\n\n<img src=x onerror=alert(1)> ![p](http://evil/p.png) [j](javascript:x)")
    assert "<h1>Head</h1>" in html
    assert "<img" not in html
    assert 'javascript:x"' not in html


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@given(st.text(alphabet="ab *_`~#>-|[]()<&\"'\n1.!:/\\", max_size=200))
def test_whatever_is_written_telegram_gets_known_tags_that_close(text: str) -> None:
    found = _Tags()
    found.feed(telegram_html(text))
    found.close()
    assert found.open == []
    assert found.tags <= TELEGRAM_TAGS


@given(st.text(max_size=100))
def test_any_text_at_all_can_be_formatted(text: str) -> None:
    assert not re.search(r"<script|<img", telegram_html(text) + matrix_html(text))
