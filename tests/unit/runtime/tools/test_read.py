"""read: numbered lines, bounded whatever the file is."""

import io
import random
import tracemalloc
import zlib
from typing import Any

import msgspec
import pytest

from outlast.core.messages import ImagePart
from outlast.runtime.tools.builtin.read import IMAGE_LIMIT
from outlast.runtime.tools.files import folder_scan, pdf_text
from outlast.runtime.tools.files.pdf_process import say
from outlast.runtime.tools.files.stored_output import UnpackedStream
from outlast.runtime.tools.files.text_lines import LINE_LIMIT, PAGE_LIMIT, whole_lines
from outlast.runtime.tools.port import StoredOutput
from tests.unit.runtime.tools.setting import PATH, Setting

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
        assert len(outcome.text) < PAGE_LIMIT + LINE_LIMIT + 200
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


# --- folders


async def test_folder_is_listed_two_levels_deep_with_sizes_and_without_ignored_files(setting: Setting) -> None:
    for name, text in {"a.py": "x" * 2048, "src/b.py": "12345", "src/deep/c.py": "x", "out/o.log": "x"}.items():
        (setting.project / name).parent.mkdir(parents=True, exist_ok=True)
        (setting.project / name).write_text(text)
    (setting.project / ".gitignore").write_text("out/\n")
    (setting.project / "node_modules").mkdir()
    (setting.project / "link").symlink_to(setting.base)
    outcome = await setting.run("read", file_path=".")
    assert outcome.text.splitlines()[1:] == [
        "  .gitignore  5 bytes",
        "  a.py  2.0 KiB",
        "  link  (link)",
        "  src/",
        "    b.py  5 bytes",
        "    deep/",
    ]
    below = await setting.run("read", file_path="src/deep")
    assert below.text.splitlines() == ["src/deep/ (two levels; ignored files are left out)", "  c.py  1 bytes"]


async def test_large_folder_says_how_many_entries_are_not_shown(setting: Setting) -> None:
    for n in range(folder_scan.MOST + 7):
        (setting.project / f"f{n:04d}").write_text("")
    text = (await setting.run("read", file_path=".")).text
    assert text.endswith("[... 7 more; read a folder below, or use glob]")
    assert len(text.splitlines()) == folder_scan.MOST + 2


async def test_folder_outside_and_lines_of_a_folder_are_refused(setting: Setting) -> None:
    assert "outside" in await setting.fault("read", file_path="..")
    said = await setting.fault("read", file_path=".", offset=1)
    assert said == ". is a folder; offset cannot be used with it, leave it out"


async def test_empty_folder_is_told(setting: Setting) -> None:
    (setting.project / "empty").mkdir()
    assert (await setting.run("read", file_path="empty")).text == "empty/ has no files, or all of them are ignored."


# --- notebooks

NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "source": "print(1)\n1/0",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": "QUJD" * 100, "text/plain": "<Figure>"}},
                {
                    "output_type": "error",
                    "ename": "E",
                    "evalue": "v",
                    "traceback": ["\x1b[31mZeroDivisionError\x1b[0m"],
                },
                {"output_type": "stream", "text": "y" * 10_000},
            ],
        },
    ],
    "nbformat": 4,
}


async def test_notebook_shows_cells_with_their_outputs(setting: Setting) -> None:
    (setting.project / "n.ipynb").write_bytes(msgspec.json.encode(NOTEBOOK))
    outcome = await setting.run("read", file_path="n.ipynb")
    lines = [line.partition("\t")[2] for line in outcome.text.splitlines()]
    assert lines[1:15] == [
        "[cell 1: markdown]",
        "# Title",
        "words",
        "[cell 2: code, run 3]",
        "print(1)",
        "1/0",
        "[output of cell 2]",
        "1",
        "[output of cell 2]",
        "<Figure>",
        "[image/png, 300 bytes]",
        "[output of cell 2]",
        "ZeroDivisionError",
        "[output of cell 2]",
    ]
    assert "6,000 characters left out" in outcome.text
    assert (
        (await setting.run("read", file_path="n.ipynb", offset=2, limit=1)).text.splitlines()[0].endswith("markdown]")
    )


@pytest.mark.parametrize("text", ["not json", "[]", '{"cells": 3}', '{"cells": [', "[" * 1900])
async def test_file_that_is_no_notebook_is_shown_as_it_is(setting: Setting, text: str) -> None:
    (setting.project / "n.ipynb").write_text(text)
    assert (await setting.run("read", file_path="n.ipynb")).text == f"     1\t{text}"


@pytest.mark.parametrize("cells", ['[{"cell_type": 1, "source": {"a": 1}, "outputs": [1, {"data": []}]}, null]', "[]"])
async def test_strange_notebook_does_not_fail(setting: Setting, cells: str) -> None:
    (setting.project / "n.ipynb").write_text(f'{{"cells": {cells}}}')
    assert "[notebook with" in (await setting.run("read", file_path="n.ipynb")).text


# --- PDF


def pdf_of(*pages: str) -> bytes:
    """A small PDF with one line of text per page."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        content = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    data, places = "%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    start = len(data)
    size = len(objects) + 1
    data += f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    data += f"startxref\n{start}\n%%EOF\n"
    return data.encode()


@pytest.fixture
def pdf(setting: Setting) -> Setting:
    pytest.importorskip("pypdf")
    (setting.project / "f.pdf").write_bytes(pdf_of(*(f"Page number {n}" for n in range(1, 26))))
    return setting


async def test_pdf_is_read_as_text_by_pages(pdf: Setting) -> None:
    outcome = await pdf.run("read", file_path="f.pdf", pages="2-3")
    assert outcome.text.splitlines() == [
        "[f.pdf: PDF, 25 pages]",
        "[page 2]",
        "Page number 2",
        "[page 3]",
        "Page number 3",
        '[... more pages follow; read on with pages="4-23"]',
    ]
    assert (await pdf.run("read", file_path="f.pdf", pages="25")).text.endswith("Page number 25")
    first = (await pdf.run("read", file_path="f.pdf")).text
    assert "Page number 20\n" in first
    assert 'pages="21-40"' in first


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ("26", "f.pdf has 25 pages; there is no page 26"),
        ("0", "pages must be a page or a range such as 3 or 1-5, not '0'"),
        ("5-2", "pages must be"),
        ("all", "pages must be"),
        ("1-25", "pages may name at most 20 pages at once, such as 1-20"),
    ],
)
async def test_pages_that_are_not_there_are_refused(pdf: Setting, pages: str, said: str) -> None:
    assert said in await pdf.fault("read", file_path="f.pdf", pages=pages)


def test_half_a_character_in_a_pdf_does_not_end_the_turn(capfd: pytest.CaptureFixture[str]) -> None:
    say(page=1, text="a\ud800\n\u20ac")
    assert msgspec.json.decode(capfd.readouterr().out) == {"page": 1, "text": "a?\n\u20ac"}


async def test_damaged_pdf_is_refused_in_one_sentence(pdf: Setting) -> None:
    for n, data in enumerate([b"%PDF-1.4\n", b"%PDF-1.7\n" + bytes(range(256)) * 50, pdf_of("x")[:200]]):
        (pdf.project / f"{n}.pdf").write_bytes(data)
        said = await pdf.fault("read", file_path=f"{n}.pdf")
        assert said.startswith(f"{n}.pdf ")
        assert "\n" not in said


async def test_without_a_reader_one_sentence_says_what_is_missing(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf_text, "has_pypdf", lambda: False)
    (setting.project / "f.pdf").write_bytes(pdf_of("x"))
    said = await setting.fault("read", setting.context(environment={"PATH": ""}), file_path="f.pdf")
    assert said.startswith("f.pdf is a PDF, and nothing that reads PDFs is installed here; the user can install")


async def test_pdftotext_is_used_where_pypdf_is_missing(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    program = setting.base / "bin" / "pdftotext"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ "$6" = UTF-8 ] || exit 9\nhead -c 5 "$7" >&2\nprintf \'one\\fte xt\\f\'\n')
    program.chmod(0o755)
    monkeypatch.setattr(pdf_text, "has_pypdf", lambda: False)
    (setting.project / "f.pdf").write_bytes(pdf_of("x"))
    context = setting.context(environment={"PATH": f"{program.parent}:{PATH}"})
    outcome = await setting.run("read", context, file_path="f.pdf", pages="1-2")
    assert outcome.text.splitlines() == ["[f.pdf: PDF, 2 pages]", "[page 1]", "one", "[page 2]", "te xt"]


async def test_pages_of_a_text_file_are_refused(setting: Setting) -> None:
    (setting.project / "f").write_text("x")
    said = await setting.fault("read", file_path="f", pages="1")
    assert said == "f is no PDF; pages cannot be used with it, leave it out"


# --- stored outputs


def stored(data: bytes, **fields: Any) -> Any:
    async def find(call_id: str) -> StoredOutput | None:
        return StoredOutput(data=data, **fields) if call_id == "c1" else None

    return find


async def test_stored_output_is_read_in_pages_until_nothing_is_left(setting: Setting) -> None:
    whole = "".join(f"{n} {'é' * (n % 7000)}\n" for n in range(0, 9000, 500))
    for packed in (False, True):
        data = whole.encode()
        context = setting.context(stored_output=stored(zlib.compress(data) if packed else data, packed=packed))
        seen, offset, more = "", 1, True
        while more:
            outcome = await setting.run("read", context, file_path="output:c1", offset=offset, limit=7)
            lines = [line for line in outcome.text.splitlines() if not line.startswith("[...")]
            seen += "".join(line.partition("\t")[2] for line in lines)
            offset, more = offset + len(lines), outcome.facts["more"]
        assert seen == whole.replace("\n", "")


async def test_stored_output_says_how_many_lines_it_has(setting: Setting) -> None:
    context = setting.context(stored_output=stored(b"line\n" * 5000, cut_bytes=77))
    first = await setting.run("read", context, file_path="output:c1")
    assert first.text.endswith("[... 5000 lines in all; read on with offset 2001]")
    last = await setting.run("read", context, file_path="output:c1", offset=5000)
    assert last.text == "  5000\tline\n[... 77 more bytes were not kept]"
    assert "has only 5000 lines" in await setting.fault("read", context, file_path="output:c1", offset=5001)


async def test_unknown_or_damaged_output_is_refused(setting: Setting) -> None:
    packed = zlib.compress(random.Random(1).randbytes(200_000))
    for data in (packed[:1000], packed[:150_000], b"no zlib"):
        context = setting.context(stored_output=stored(data, packed=True))
        assert "output:c1 cannot be read" in await setting.fault("read", context, file_path="output:c1")
    said = await setting.fault("read", file_path="output:none")
    assert said == "there is no output:none: no call with this id has a result in this session"


async def test_file_whose_name_looks_like_a_reference_is_read_by_its_path(setting: Setting) -> None:
    (setting.project / "output:c1").write_text("file")
    assert (await setting.run("read", file_path="./output:c1")).text == "     1\tfile"


def test_unpacking_stops_where_reading_stops() -> None:
    bomb = zlib.compress(b"a\n" * 50_000_000)
    tracemalloc.start()
    text = io.TextIOWrapper(io.BufferedReader(UnpackedStream(bomb)), "utf-8", newline="\n")
    assert next(iter(whole_lines(text))) == (1, "a")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2_000_000
