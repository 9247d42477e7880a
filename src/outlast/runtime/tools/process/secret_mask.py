"""Hides the values of the project's secret files in what commands put out, before model, log and screen get it.

Programs may read `.env` files and keys, since builds and tests must. `secret_mask` reads the secret files of a project
and returns the mask for their values. Only exact occurrences are hidden: a program that encodes a value, or cuts it
into lines, shows it. A value that is a plain word, a number, a path or an address without a password is no secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from outlast.runtime.permissions.paths import is_secret_name
from outlast.runtime.safe_open import read_inside

FOLDERS = 300
DEPTH = 3
FILES = 50
FILE_BYTES = 64 * 1024
VALUES = 500
SHORTEST = 8
LONGEST = 4096
PIECE = 1024 * 1024
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", ".tox", "target", ".outlast"})
_SETTING = re.compile(r"""\s*(?:export\s+)?["']?([A-Za-z_][\w.\-]*)["']?\s*[:=]\s*(.+?)\s*,?\s*""")
_TELLING = re.compile(r"key|token|secret|passw|pwd|credential|auth|private|dsn|salt|cert|signature", re.IGNORECASE)
_PASSWORD = re.compile(r"[a-z][a-z0-9+.\-]*://[^/\s:@]*:([^/\s@]+)@", re.IGNORECASE)
_PLAIN = re.compile(r"[a-z]+://\S*|[./~][\w./\-]*|[A-Za-z][a-z]*([ ._\-][A-Za-z][a-z]*)*|[\d.,:\-]+", re.IGNORECASE)
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(.*?)-----END", re.DOTALL)
_PLACEHOLDER = re.compile(r"(your|change|example|placeholder|dummy|test|xxx|<|\$\{)", re.IGNORECASE)


class SecretMask:
    """The values to hide, each with the name to show instead."""

    def __init__(self, values: dict[str, str]) -> None:
        self._names = values
        ordered = sorted(values, key=len, reverse=True)
        self._text = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._bytes = re.compile(b"|".join(re.escape(value.encode()) for value in ordered)) if ordered else None

    def __bool__(self) -> bool:
        return self._text is not None

    def text(self, text: str) -> str:
        return self._text.sub(lambda found: self._names[found[0]], text) if self._text is not None else text

    def data(self, data: bytes) -> bytes:
        if self._bytes is None:
            return data
        return self._bytes.sub(lambda found: self._names[found[0].decode()].encode(), data)

    def file(self, path: Path) -> None:
        """Rewrite a file without the values, in pieces that end with a line. It stays as it is if it has none."""
        if self._bytes is None:
            return
        masked = path.with_name(f"{path.name}.masked")
        try:
            with path.open("rb") as source, masked.open("wb") as target:
                for piece in _pieces(source.read):
                    target.write(self.data(piece))
            os.replace(masked, path)
        except FileNotFoundError:  # the command may have deleted its own log
            masked.unlink(missing_ok=True)

    def stream(self, tell: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that passes text on without the values; the beginning of one is held back."""
        held = ""

        def masked(text: str) -> None:
            nonlocal held
            whole = self.text(held + text)
            held = self._beginning(whole)
            shown = whole[: len(whole) - len(held)]
            if shown:
                tell(shown)

        return masked if self else tell

    def _beginning(self, text: str) -> str:
        """Return the longest end of a text with which a value could begin."""
        lengths = range(min(len(text), max(map(len, self._names), default=0) - 1), 0, -1)
        ends = (text[-length:] for length in lengths)
        return next((end for end in ends if any(value.startswith(end) for value in self._names)), "")


NO_MASK = SecretMask({})


def secret_mask(roots: Sequence[Path]) -> SecretMask:
    """Read the secret files of these folders, and return the mask for their values."""
    values: dict[str, str] = {}
    for root in roots:
        for path in _secret_files(root):
            data = read_inside(root, path, FILE_BYTES)
            for name, value in secret_values((data or b"").decode("utf-8", "replace")):
                values.setdefault(value, f"[value of {name} in {path}, hidden]")
    return SecretMask(dict(list(values.items())[:VALUES])) if values else NO_MASK


def _secret_files(root: Path) -> Iterator[str]:
    """Yield the paths of secret files, those of the upper folders first; within the limits of number and depth."""
    waiting, seen, count = [""], 0, 0
    while waiting and seen < FOLDERS and count < FILES:
        folder, seen = waiting.pop(0), seen + 1
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError:  # removed or unreadable: a command cannot have read it from here either
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                deeper = folder.count("/") + 1 < DEPTH and entry.name not in _SKIPPED
                waiting += [f"{folder}{entry.name}/"] if deeper else []
            elif is_secret_name(entry.name) and count < FILES:
                count += 1
                yield folder + entry.name


def secret_values(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the secrets in a settings file or a private key."""
    for body in _PEM.findall(text):
        for line in body.split():
            if len(line) >= SHORTEST * 2:
                yield "a private key", line
    if "-----BEGIN" in text:
        return
    for line in text.splitlines():
        found = _SETTING.fullmatch(line)
        if found is not None and not line.lstrip().startswith("#"):
            yield from ((found[1], value) for value in _secrets(found[1], _unquoted(found[2])))


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] in "\"'" and (end := value.rfind(value[0])) > 0:
        return value[1:end]
    return value.partition(" #")[0].strip()


def _secrets(name: str, value: str) -> list[str]:
    password = _PASSWORD.search(value)
    if password is not None:
        value = password[1]
    if not SHORTEST <= len(value) <= LONGEST or _PLACEHOLDER.match(value) or "\n" in value:
        return []
    is_secret = password is not None or _TELLING.search(name) is not None or _PLAIN.fullmatch(value) is None
    return [value] if is_secret and value.casefold() not in {"localhost", "undefined", "required"} else []


def _pieces(read: Callable[[int], bytes]) -> Iterator[bytes]:
    rest = b""
    while piece := read(PIECE):
        rest += piece
        end = rest.rfind(b"\n") + 1
        if end == 0 and len(rest) > PIECE * 4:
            end = len(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest
