"""M8: the charset of a page is the server's choice, so no charset makes a fetch slow or makes it fail."""

import asyncio
import codecs
import threading
import time

import pytest

from outlast.runtime.tools.builtin import web_fetch
from outlast.runtime.tools.builtin.web_fetch import told
from outlast.runtime.tools.port import ToolFault
from outlast.runtime.tools.web.charset import TEXT_CODECS, codec_of, decoded
from outlast.runtime.tools.web.http_get import HttpReply
from tests.integration.runtime.tools.test_web_fetch import page, serving
from tests.unit.runtime.tools.setting import Setting

HOSTILE = [
    "punycode", "undefined", "idna", "zlib", "rot13", "unicode_escape", "raw_unicode_escape", "utf-7", "x\0y", "\u20ac",
    "no-such-charset", "", "mbcs", "../x", "a" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("charset", HOSTILE)
def test_m8_hostile_charset_means_utf_8_and_takes_no_time(charset: str) -> None:
    headers = {"content-type": f"text/plain; charset={charset}"}
    body = "gr\u00fc\u00dfe ".encode() + b"a" * 100_000 + b"-\xff"
    started = time.monotonic()
    outcome = told("asked", "url", HttpReply(200, headers, body, False))
    assert time.monotonic() - started < 1
    assert "gr\u00fc\u00dfe" in outcome.text


async def test_m8_a_page_of_a_hostile_charset_is_fetched(setting: Setting) -> None:
    async with serving(lambda _: page(b"words", "text/plain; charset=undefined")) as site:
        assert "words" in (await site.fetch(setting)).text


async def test_m8_a_page_is_decoded_beside_the_loop_and_inside_the_time_limit(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, beats = threading.Event(), 0

    def hang(body: bytes, content_type: str) -> str:
        return str(release.wait(10))

    monkeypatch.setattr(web_fetch, "decoded", hang)
    async with serving(lambda _: page(b"words")) as site:
        fetching = asyncio.ensure_future(site.fetch(setting, seconds=0.5))
        while not fetching.done():
            await asyncio.sleep(0.01)
            beats += 1
    release.set()
    with pytest.raises(ToolFault, match="did not answer within"):
        await fetching
    assert beats > 5


@pytest.mark.parametrize("charset", ["iso-8859-1", "windows-1252", "Shift_JIS", '"gbk"', "utf-16", "koi8-r", "UTF8"])
def test_charsets_of_text_count(charset: str) -> None:
    plain = charset.strip('"')
    assert decoded("text".encode(plain), f"text/html; charset={charset}; x=y") == "text"
    assert codec_of(f"text/html; CHARSET={charset}") == codecs.lookup(plain).name


def test_every_codec_of_the_list_is_known_by_this_name() -> None:
    assert {codecs.lookup(name).name for name in TEXT_CODECS} == TEXT_CODECS
