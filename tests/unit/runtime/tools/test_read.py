"""read: numbered lines, bounded whatever the file is."""

import pytest

from outlast.core.messages import ImagePart
from outlast.runtime.tools.builtin.read import IMAGE_LIMIT, LINE_LIMIT, TEXT_LIMIT
from tests.unit.runtime.tools.setting import Setting

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


async def test_lines_are_numbered(setting: Setting) -> None:
    (setting.project / "f").write_text("one\ntwo\n")
    outcome = await setting.run("read", file_path="f")
    assert outcome.text == "     1\tone\n     2\ttwo"
    assert outcome.facts == {"bytes": 8, "lines": 2, "more": False}


async def test_offset_and_limit_choose_lines_and_say_how_to_go_on(setting: Setting) -> None:
    (setting.project / "f").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    outcome = await setting.run("read", file_path="f", offset=4, limit=2)
    assert outcome.text.splitlines()[:2] == ["     4\tline 4", "     5\tline 5"]
    assert "read on with offset 6" in outcome.text
    last = await setting.run("read", file_path="f", offset=10)
    assert last.text == "    10\tline 10"


async def test_reading_on_by_the_offset_that_was_told_shows_every_line_once(setting: Setting) -> None:
    (setting.project / "f").write_text("".join(f"{n} {'x' * 90}\n" for n in range(1, 3001)))
    seen: list[int] = []
    offset: int | None = 1
    while offset is not None:
        outcome = await setting.run("read", file_path="f", offset=offset)
        lines = [line for line in outcome.text.splitlines() if not line.startswith("[")]
        seen += [int(line.split("\t")[0]) for line in lines]
        offset = seen[-1] + 1 if outcome.facts["more"] else None
        assert len(outcome.text) < TEXT_LIMIT + LINE_LIMIT + 200
    assert seen == list(range(1, 3001))


async def test_offset_behind_the_end_is_refused(setting: Setting) -> None:
    (setting.project / "f").write_text("one\n")
    assert "has only 1 lines" in await setting.fault("read", file_path="f", offset=5)


async def test_empty_file_is_said_to_be_empty(setting: Setting) -> None:
    (setting.project / "f").write_text("")
    assert (await setting.run("read", file_path="f")).text == "f is empty."


async def test_endless_line_is_cut(setting: Setting) -> None:
    (setting.project / "f").write_text("x" * 10_000_000 + "\nend\n")
    outcome = await setting.run("read", file_path="f")
    assert len(outcome.text) < 3 * LINE_LIMIT
    assert "a line of 10000001 bytes" in outcome.text
    assert outcome.text.endswith("     2\tend")


async def test_long_line_says_how_much_is_missing(setting: Setting) -> None:
    (setting.project / "f").write_text("x" * (LINE_LIMIT + 7))
    assert (await setting.run("read", file_path="f")).text.endswith("[... 7 more characters]")


async def test_binary_is_refused_and_bad_utf8_is_shown(setting: Setting) -> None:
    (setting.project / "bin").write_bytes(b"ELF\0\1\2")
    (setting.project / "latin").write_bytes(b"caf\xe9\n")
    assert "is not text (6 bytes)" in await setting.fault("read", file_path="bin")
    assert (await setting.run("read", file_path="latin")).text == "     1\tcaf\ufffd"


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0" + bytes(50), "image/jpeg"),
        (b"GIF89a" + bytes(9000), "image/gif"),
        (b"RIFF\0\0\0\0WEBP" + bytes(20), "image/webp"),
    ],
)
async def test_image_comes_as_an_image(setting: Setting, data: bytes, media_type: str) -> None:
    (setting.project / "picture").write_bytes(data)
    outcome = await setting.run("read", file_path="picture")
    assert outcome.attachments == (ImagePart(media_type=media_type, data=data, alt="picture"),)


async def test_image_that_is_too_large_is_refused(setting: Setting) -> None:
    (setting.project / "big.png").write_bytes(PNG + bytes(IMAGE_LIMIT))
    assert "make it smaller" in await setting.fault("read", file_path="big.png")
