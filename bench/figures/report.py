"""The results as text: a table for the terminal, JSON, and a page with a chart.

A page is only rewritten between its marks, so the words around the tables, and tables of other runs, stay.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import msgspec

from bench.figures.chart import chart
from bench.figures.figure import TIMES, Figure, Skipped
from outlast._version import __version__

MARKS = "<!-- {name}: made by {by}, do not edit -->", "<!-- end of {name} -->"
NEW_PAGE = "# Benchmarks\n\nRatios to the bare driver, measured in one run in turns; `outlast bench` makes them.\n"


class Results(msgspec.Struct, kw_only=True):
    """One run: its figures, what was left out and why, and on what it ran."""

    figures: list[Figure]
    skipped: list[Skipped] = []
    rounds: int = 5
    scale: float = 1.0
    at: str = msgspec.field(default_factory=lambda: time.strftime("%Y-%m-%d", time.gmtime()))
    outlast: str = __version__
    machine: str = msgspec.field(default_factory=lambda: machine())

    @property
    def missed(self) -> list[Figure]:
        return [figure for figure in self.figures if not figure.reached]


def machine() -> str:
    import apsw

    cores = os.cpu_count() or 1
    return (
        f"{platform.system()} {platform.machine()}, {cores} core{'s' * (cores != 1)}, "
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}"
    )


def value_of(figure: Figure) -> str:
    if figure.unit == TIMES:
        return f"{figure.value:.2f} x"
    return (
        f"{figure.value:.0f} {figure.unit}"
        if figure.value >= 10 or figure.value == 0
        else f"{figure.value:.2f} {figure.unit}"
    )


def goal_of(figure: Figure) -> str:
    if figure.goal is None:
        return "-"
    unit = "x" if figure.unit == TIMES else figure.unit
    return f"{'>=' if figure.at_least else '<='} {figure.goal:g} {unit}"


def verdict_of(figure: Figure) -> str:
    return "-" if figure.goal is None else "yes" if figure.reached else "NO"


def sides_of(figure: Figure) -> tuple[str, str]:
    """The medians of the limit and of ours, in the figure's own unit."""
    if not figure.rounds:
        return "-", "-"
    middle = len(figure.rounds) // 2
    bare = sorted(found.bare for found in figure.rounds)[middle]
    ours = sorted(found.ours for found in figure.rounds)[middle]
    return f"{_short(bare)} {figure.measured_in}", f"{_short(ours)} {figure.measured_in}"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}"


def rows_of(results: Results) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for figure in results.figures:
        low, high = figure.spread
        spread = f"{low:.2f} to {high:.2f}" if figure.rounds else "-"
        bare, ours = sides_of(figure)
        words = (
            figure.title,
            figure.against,
            bare,
            ours,
            value_of(figure),
            spread,
            goal_of(figure),
            verdict_of(figure),
        )
        rows.append((*words, figure.note or "-"))
    return rows


HEADINGS = ("workload", "compared with", "limit", "ours", "result", "rounds", "goal", "reached", "note")


def as_text(results: Results) -> str:
    """For a terminal: what was measured, its result and its goal."""
    rows = [(row[0], row[1], row[2], row[3], row[4], row[6], row[7]) for row in rows_of(results)]
    heads = ("workload", "compared with", "limit", "ours", "result", "goal", "reached")
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    lines = [
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in (heads, *rows)
    ]
    lines += [f"not measured: {skipped.name} ({skipped.reason})" for skipped in results.skipped]
    return "\n".join(lines)


def as_markdown(results: Results, picture: str) -> str:
    lines = [
        f"Outlast {results.outlast}, {results.at}, {results.machine}; {results.rounds} rounds"
        + ("." if results.scale == 1 else f"; a short run ({results.scale:g} of the full one), not for quoting."),
        "",
        f"![ratios and goals]({picture})",
        "",
        table(HEADINGS, rows_of(results)),
    ]
    lines += [f"\nNot measured: {skipped.name} ({skipped.reason})." for skipped in results.skipped]
    return "\n".join(lines)


def table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(word.replace('|', '/') for word in line)} |" for line in lines)


def write_report(results: Results, page: Path) -> list[Path]:
    """Put table and chart into a page (which is made if there is none); what was written."""
    picture = page.with_suffix(".svg")
    picture.write_text(chart(results.figures), encoding="utf-8")
    write_section(page, "figures", "outlast bench --report", as_markdown(results, picture.name))
    return [page, picture]


def write_section(page: Path, name: str, by: str, text: str) -> None:
    """Replace what stands between a page's marks of this name; append it, marks and all, where there are none."""
    begin, end = (mark.format(name=name, by=by) for mark in MARKS)
    old = page.read_text(encoding="utf-8") if page.exists() else NEW_PAGE
    section = f"{begin}\n{text}\n{end}"
    if begin in old and end in old:
        head, rest = old.split(begin, 1)
        new = head + section + rest.split(end, 1)[1]
    else:
        new = f"{old.rstrip()}\n\n{section}\n"
    page.write_text(new, encoding="utf-8")
