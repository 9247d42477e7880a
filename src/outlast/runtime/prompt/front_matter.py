"""Parser for front matter: a few keys at the top of a Markdown file.

Between `+++` it is TOML. Between `---` it is the small subset of YAML that is common there: `key: value`, quoted or
not, lists as `[a, b]` or as dashes below the key, one level of keys below a key, and text over several lines (indented,
or after `|` or `>`). Anything else is an error; the parser does not guess.
"""

from __future__ import annotations

import re
import tomllib
from textwrap import dedent

_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*)|[ \t]*)")
_DASH = re.compile(r"[ \t]*-[ \t]+(.+)")
_BLOCK = re.compile(r"[|>][+-]?")


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
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        line = lines[number].rstrip()
        if not line or line.lstrip().startswith("#"):
            number += 1
            continue
        pair = _KEY.fullmatch(line)
        if pair is None or pair.group(1).replace("-", "_") in table:
            raise _not_understood(number, line)
        below = _below(lines, number + 1)
        key, value = pair.group(1).replace("-", "_"), (pair.group(2) or "").strip()
        table[key] = _whole(value, below, number)
        number += 1 + len(below)
    return table


def _below(lines: list[str], first: int) -> list[str]:
    """Return the lines that belong to the key above them: indented or empty ones, and dashes."""
    last = first
    while last < len(lines) and (not lines[last].strip() or lines[last][0] in " \t" or _DASH.fullmatch(lines[last])):
        last += 1
    return lines[first:last]


def _whole(value: str, below: list[str], number: int) -> object:
    """Return the value of a key: what stands on its line, together with the lines below it."""
    if _BLOCK.fullmatch(value):
        return _block(below, folded=value[0] == ">")
    written = [(n, line) for n, line in enumerate(below, number + 1) if not _is_empty(line)]
    if value:
        if any(_DASH.fullmatch(line) for _, line in written):
            n, line = next(pair for pair in written if _DASH.fullmatch(pair[1]))
            raise _not_understood(n, line)
        return _value(" ".join([value, *(line.strip() for _, line in written)]))
    if not written:
        return ""
    if _DASH.fullmatch(written[0][1]):
        return [_item(n, line) for n, line in written]
    if _KEY.fullmatch(written[0][1].strip()):
        return dict(_pair(n, line) for n, line in written)
    return _value(" ".join(line.strip() for _, line in written))


def _is_empty(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _item(number: int, line: str) -> str:
    dash = _DASH.fullmatch(line.rstrip())
    if dash is None:
        raise _not_understood(number, line)
    return _unquoted(dash.group(1))


def _pair(number: int, line: str) -> tuple[str, object]:
    pair = _KEY.fullmatch(line.strip())
    if pair is None:
        raise _not_understood(number, line)
    return pair.group(1), _value((pair.group(2) or "").strip())


def _block(lines: list[str], *, folded: bool) -> str:
    """Return a block text (`|` keeps its lines, `>` joins them), without its common indentation."""
    text = dedent("\n".join(lines)).strip("\n")
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text) if folded else text


def _not_understood(number: int, line: str) -> Malformed:
    return Malformed(f"line {number + 1} is not understood ('{line.strip()[:40]}'); write one 'key: value' a line")


def _value(text: str) -> object:
    if text.startswith("[") and text.endswith("]"):
        return [_unquoted(item) for item in text[1:-1].split(",") if item.strip()]
    return _unquoted(text)


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text
