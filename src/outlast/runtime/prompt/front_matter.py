"""Parser for front matter: a few keys at the top of a Markdown file.

Between `+++` it is TOML. Between `---` it is the small subset of YAML that is common there: `key: value`, quoted or
not, and lists as `[a, b]` or as dashes below the key. Anything else is an error; the parser does not guess.
"""

from __future__ import annotations

import re
import tomllib

_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*)|[ \t]*)")
_DASH = re.compile(r"[ \t]*-[ \t]+(.+)")


class Malformed(ValueError):
    """The message says what is wrong with a file and how to fix it; callers put the file's name in front."""


def front_matter(text: str, *, body: str) -> dict[str, object]:
    """Return the keys of the front matter, and the rest of the text under the key `body`."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    fence = text[:3]
    if fence not in ("---", "+++") or text[3:4] != "\n":
        return {body: text}
    head, closed, rest = f"{text[3:]}\n".partition(f"\n{fence}\n")
    if not closed:
        raise Malformed(f"its front matter is not closed; end it with a line '{fence}'")
    table = toml_table(head) if fence == "+++" else _plain(head)
    if body in table:
        raise Malformed(f"'{body}' is the text below the front matter; remove the key")
    return {**table, body: rest}


def toml_table(text: str) -> dict[str, object]:
    try:
        return dict(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise Malformed(f"is not valid TOML ({error}); correct that line") from error


def _plain(text: str) -> dict[str, object]:
    table: dict[str, object] = {}
    items: list[str] = []
    open_key: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        dash = _DASH.fullmatch(line)
        if dash is not None and open_key is not None:
            items = [*items, _unquoted(dash.group(1))]
            table[open_key] = items
            continue
        pair = _KEY.fullmatch(line.rstrip())
        if pair is None or pair.group(1).replace("-", "_") in table:
            raise Malformed(f"line {number} is not understood ('{line.strip()[:40]}'); write one 'key: value' a line")
        key, value = pair.group(1).replace("-", "_"), (pair.group(2) or "").strip()
        table[key] = _value(value)
        items, open_key = [], None if value else key
    return table


def _value(text: str) -> object:
    if text.startswith("[") and text.endswith("]"):
        return [_unquoted(item) for item in text[1:-1].split(",") if item.strip()]
    return _unquoted(text)


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text
