"""Decodes the body of a web page by the charset that its server names.

A server chooses the charset, so only codecs for text count that take time in proportion to the length: Python also has
codecs that compress, that need time with the square of the length (punycode) or that always fail (undefined). An
unknown name means UTF-8. No body makes this module raise.
"""

from __future__ import annotations

import codecs
import re

_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9][A-Za-z0-9_.:+-]{0,39})", re.IGNORECASE)
TEXT_CODECS = frozenset(
    [
        "utf-8",
        "utf-8-sig",
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "utf-32",
        "utf-32-le",
        "utf-32-be",
        "ascii",
        "iso8859-1",
        "iso8859-2",
        "iso8859-3",
        "iso8859-4",
        "iso8859-5",
        "iso8859-6",
        "iso8859-7",
        "iso8859-8",
        "iso8859-9",
        "iso8859-10",
        "iso8859-11",
        "iso8859-13",
        "iso8859-14",
        "iso8859-15",
        "iso8859-16",
        "cp437",
        "cp850",
        "cp852",
        "cp855",
        "cp866",
        "cp874",
        "cp932",
        "cp949",
        "cp950",
        "cp1250",
        "cp1251",
        "cp1252",
        "cp1253",
        "cp1254",
        "cp1255",
        "cp1256",
        "cp1257",
        "cp1258",
        "koi8-r",
        "koi8-u",
        "koi8-t",
        "mac-roman",
        "mac-cyrillic",
        "tis-620",
        "gb2312",
        "gbk",
        "gb18030",
        "big5",
        "big5hkscs",
        "euc_jp",
        "euc_jis_2004",
        "shift_jis",
        "shift_jis_2004",
        "iso2022_jp",
        "iso2022_jp_2",
        "euc_kr",
        "johab",
        "hz",
    ]
)
"""The codecs that a server may choose, under Python's own names for them."""


def decoded(body: bytes, content_type: str) -> str:
    """Return the text of a body; bytes that do not fit its charset are replaced."""
    return body.decode(codec_of(content_type), "replace")


def codec_of(content_type: str) -> str:
    """Return the codec for a Content-Type header: the one that it names if that is in the list, else UTF-8."""
    named = _CHARSET.search(content_type)
    if named is None:
        return "utf-8"
    try:
        found = codecs.lookup(named[1]).name
    except LookupError:
        return "utf-8"
    return found if found in TEXT_CODECS else "utf-8"
