"""Header of a GGUF model file: how long its context is, and whether its chat template knows tools.

Only the metadata at the start of the file is read, never the weights. A file that is missing or no GGUF file raises
`ConfigError` with a sentence for the user.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import msgspec

from outlast.core.errors import ConfigError

MAGIC = b"GGUF"
MAX_ENTRIES = 4096
MAX_TEXT = 1 << 20
_STRING, _ARRAY = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


class GgufModel(msgspec.Struct, frozen=True, kw_only=True):
    """What the header says. `context_length` is None if the file does not say it."""

    name: str | None = None
    context_length: int | None = None
    chat_template: str = ""

    @property
    def knows_tools(self) -> bool:
        """Whether the template puts tools into the prompt, so that the model was trained with them."""
        return "tools" in self.chat_template


def read_gguf(path: Path) -> GgufModel:
    """Read the header of the file."""
    try:
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                raise ConfigError(
                    f"{path} is not a GGUF model (it does not begin with GGUF); local_model must name a .gguf file"
                )
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _model(_Reader(data))
    except FileNotFoundError as error:
        raise ConfigError(f"{path} is missing; correct local_model or remove it for the demo model") from error
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}); correct local_model or its permissions"
        ) from error
    except (struct.error, KeyError, ValueError, IndexError) as error:
        raise ConfigError(f"{path} is a damaged GGUF model; download it again or correct local_model") from error


class _Reader:
    """Walks through the values of the header."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 4

    def u32(self) -> int:
        return self._number(_U32)

    def u64(self) -> int:
        return self._number(_U64)

    def _number(self, form: struct.Struct) -> int:
        value: int = form.unpack_from(self.data, self.at)[0]
        self.at += form.size
        return value

    def text(self) -> str:
        length = self.u64()
        if length > MAX_TEXT or self.at + length > len(self.data):
            raise ValueError("a text is longer than the file")
        value = self.data[self.at : self.at + length].decode("utf-8", "replace")
        self.at += length
        return value

    def value(self, kind: int) -> object:
        """Return a text or a whole number; skip any other value."""
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            self._skip_array(self.u32(), self.u64())
            return None
        form = _NUMBERS.get(kind)
        value = struct.unpack_from(form, self.data, self.at)[0] if form is not None else None
        self.at += _SIZES[kind]
        return value

    def _skip_array(self, kind: int, count: int) -> None:
        if count > len(self.data):
            raise ValueError("an array is longer than the file")
        if kind == _STRING:
            at, data, unpack = self.at, self.data, _U64.unpack_from
            for _ in range(count):
                at += 8 + unpack(data, at)[0]
            self.at = at
        elif kind == _ARRAY:
            for _ in range(count):
                self._skip_array(self.u32(), self.u64())
        else:
            self.at += _SIZES[kind] * count


def _model(reader: _Reader) -> GgufModel:
    version = reader.u32()
    if version not in (2, 3):
        raise ValueError(f"unknown version {version}")
    reader.u64()
    entries = reader.u64()
    if entries > MAX_ENTRIES:
        raise ValueError("too many entries")
    found: dict[str, object] = {}
    for _ in range(entries):
        key = reader.text()
        value = reader.value(reader.u32())
        if value is not None:
            found[key] = value
    length = found.get(f"{found.get('general.architecture')}.context_length")
    name, template = found.get("general.name"), found.get("tokenizer.chat_template")
    return GgufModel(
        name=name if isinstance(name, str) else None,
        context_length=length if isinstance(length, int) and length > 0 else None,
        chat_template=template if isinstance(template, str) else "",
    )
