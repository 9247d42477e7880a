"""The header of a GGUF file, and sentences for files that are none."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from outlast.core.errors import ConfigError
from outlast.models.gguf import read_gguf
from outlast.models.local import own_abilities


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(key: str, kind: int, body: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + body


def header(*entries: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(entries)) + b"".join(entries)


ARCHITECTURE = entry("general.architecture", 8, text("llama"))
LENGTH = entry("llama.context_length", 4, struct.pack("<I", 131_072))
TOKENS = entry("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 3) + text("a") + text("bc") + text(""))
SCORES = entry("tokenizer.ggml.scores", 9, struct.pack("<IQ3f", 6, 3, 0.0, 1.0, 2.0))
FLAG = entry("tokenizer.ggml.add_bos_token", 7, b"\x01")
TEMPLATE = entry("tokenizer.chat_template", 8, text("{% if tools %}{{ tools }}{% endif %}"))


def written(folder: Path, data: bytes) -> Path:
    path = folder / "m.gguf"
    path.write_bytes(data)
    return path


def test_context_and_template_are_read_past_all_other_values(tmp_path: Path) -> None:
    found = read_gguf(written(tmp_path, header(ARCHITECTURE, LENGTH, TOKENS, SCORES, FLAG, TEMPLATE) + b"weights"))
    assert found.context_length == 131_072
    assert found.knows_tools
    assert own_abilities(found, None).tools
    assert own_abilities(found, None).context_window == 32_768
    assert own_abilities(found, 100_000).context_window == 100_000
    assert not own_abilities(found, None).chat_profile


def test_a_template_without_tools_means_calls_as_text(tmp_path: Path) -> None:
    found = read_gguf(written(tmp_path, header(ARCHITECTURE, LENGTH)))
    assert not found.knows_tools
    assert not own_abilities(found, None).tools
    assert own_abilities(read_gguf(written(tmp_path, header())), None).context_window == 8192


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is not a GGUF model"),
        (b"PK\x03\x04 a zip file", "is not a GGUF model"),
        (b"GGUF", "is a damaged GGUF model"),
        (header(LENGTH)[:-2], "is a damaged GGUF model"),
        (header(version=77), "is a damaged GGUF model"),
        (header(entry("a", 99, b"")), "is a damaged GGUF model"),
        (header(entry("a", 9, struct.pack("<IQ", 8, 1 << 60))), "is a damaged GGUF model"),
        (header(entry("a", 8, struct.pack("<Q", 1 << 62))), "is a damaged GGUF model"),
    ],
)
def test_a_file_that_is_no_model_is_refused_with_a_sentence(tmp_path: Path, data: bytes, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        read_gguf(written(tmp_path, data))
    assert str(tmp_path) in str(caught.value)
    assert "local_model" in str(caught.value)


def test_a_missing_file_or_a_folder_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is missing; correct local_model or remove it for the demo model"):
        read_gguf(tmp_path / "none.gguf")
    with pytest.raises(ConfigError, match=r"cannot be read \(Is a directory\)"):
        read_gguf(tmp_path)
