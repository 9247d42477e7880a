"""Reads the text of a PDF's pages in another process: with pypdf if installed, otherwise with pdftotext."""

from __future__ import annotations

import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from outlast.runtime.tools.files.sandboxed_path import ResolvedPath, opened
from outlast.runtime.tools.output_limit import bounded
from outlast.runtime.tools.port import ToolContext, ToolFault, ToolOutcome
from outlast.runtime.tools.process.helper_process import PACKAGES, gather

SECONDS = 30
AT_ONCE = 20
SHOWN = 60_000
OUTPUT_LIMIT = 8 * 1024 * 1024
_RANGE = re.compile(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?")
_RUN = "import sys; sys.path += sys.argv[1:]; from outlast.runtime.tools.files.pdf_process import main; main()"


class PdfPages(msgspec.Struct, frozen=True, kw_only=True):
    """The text of some pages by number. `total` is how many pages there are, None if that is not known."""

    texts: dict[int, str]
    total: int | None
    whole: bool


def page_range(pages: str | None) -> tuple[int, int]:
    """Return first and last page of an argument such as `3` or `1-5`."""
    if pages is None:
        return 1, AT_ONCE
    found = _RANGE.fullmatch(pages)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last:
        raise ToolFault(f"pages must be a page or a range such as 3 or 1-5, not '{pages[:40]}'")
    if last - first >= AT_ONCE:
        raise ToolFault(f"pages may name at most {AT_ONCE} pages at once, such as {first}-{first + AT_ONCE - 1}")
    return first, last


async def pdf_text(place: ResolvedPath, pages: str | None, context: ToolContext) -> ToolOutcome:
    """Return the text of the pages. Raises ToolFault if nothing can read PDFs here, or if the file cannot be read."""
    first, last = page_range(pages)
    program = pdftotext(context)
    if has_pypdf():
        found = await _by_pypdf(place, first, last)
    elif program:
        found = await _by_pdftotext(program, place, first, last)
    else:
        raise ToolFault(
            f"{place.asked} is a PDF, and nothing that reads PDFs is installed here; "
            "the user can install pdftotext, or pypdf with: pip install 'outlast[pdf]'"
        )
    return _told(place.asked, found, first, last)


def has_pypdf() -> bool:
    return find_spec("pypdf") is not None


def pdftotext(context: ToolContext) -> str | None:
    """Return the path of pdftotext. A program inside the project is not trusted."""
    path = shutil.which("pdftotext", path=context.environment.get("PATH"))
    inside = path and any(Path(path).resolve().is_relative_to(root.resolve()) for root in context.roots)
    return None if inside else path


async def _by_pypdf(place: ResolvedPath, first: int, last: int) -> PdfPages:
    spec = find_spec("pypdf")
    assert spec is not None
    assert spec.origin is not None
    argv = [sys.executable, "-I", "-S", "-c", _RUN, PACKAGES, str(Path(spec.origin).parents[1])]
    with opened(place) as file:
        order = msgspec.json.encode({"file": file, "first": first, "last": last, "seconds": SECONDS})
        found = await gather(argv, given=order, seconds=SECONDS, limit=OUTPUT_LIMIT, descriptors=(file,))
    rows: list[dict[str, Any]] = [msgspec.json.decode(line) for line in found.output.split(b"\n")[:-1]]
    fault = next((row["fault"] for row in rows if "fault" in row), None)
    texts = {row["page"]: row["text"] for row in rows if "page" in row}
    if not texts and fault is not None:
        raise ToolFault(f"{place.asked} cannot be read: {fault}")
    if found.code > 0 or not rows:
        reason = found.errors.decode("utf-8", "replace").strip().rpartition("\n")[2] or "it took too long"
        raise ToolFault(f"{place.asked} cannot be read: {reason}")
    return PdfPages(texts=texts, total=rows[0].get("pages"), whole=found.whole and fault is None)


async def _by_pdftotext(program: str, place: ResolvedPath, first: int, last: int) -> PdfPages:
    with opened(place) as file:
        argv = [program, "-f", str(first), "-l", str(last + 1), "-enc", "UTF-8", f"/dev/fd/{file}", "-"]
        found = await gather(argv, seconds=SECONDS, limit=OUTPUT_LIMIT, descriptors=(file,))
    if found.code > 0:
        reason = found.errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        if "page range" in reason or "first page" in reason.lower():
            return PdfPages(texts={}, total=None, whole=True)
        raise ToolFault(f"{place.asked} cannot be read: {reason}")
    texts = dict(enumerate(found.output.decode("utf-8", "replace").split("\f")[:-1], first))
    more = texts.pop(last + 1, None) is not None  # one page more than asked for tells whether there are more
    return PdfPages(texts=texts, total=None if more else first + len(texts) - 1, whole=found.whole)


def _told(asked: str, found: PdfPages, first: int, last: int) -> ToolOutcome:
    facts: dict[str, Any] = {"pages": found.total, "shown": len(found.texts), "media_type": "application/pdf"}
    if not found.texts and found.whole:
        told = f"has {found.total} pages" if found.total is not None else "has fewer pages"
        raise ToolFault(f"{asked} {told}; there is no page {first}")
    count = f"{found.total} pages" if found.total is not None else "more pages"
    lines: list[str] = [f"[{asked}: PDF, {count}]"]
    for number, text in found.texts.items():
        lines += [f"[page {number}]", text.strip() or "(no text; the page may be a picture)"]
    if not found.whole:
        lines.append("[... the rest of the pages could not be read]")
    elif found.total is None or last < found.total:
        lines.append(f'[... more pages follow; read on with pages="{last + 1}-{last + AT_ONCE}"]')
    return ToolOutcome(text=bounded("\n".join(lines), SHOWN), facts=facts)
