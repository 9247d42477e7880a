"""Tables, marks and the chart."""

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bench.figures.chart import chart
from bench.figures.figure import Figure, Round, Skipped, ratio
from bench.figures.report import Results, as_markdown, as_text, write_report, write_section

SLOW = ratio(
    "slow", "slow | one", "bare", [Round(1.0, 3.0), Round(1.0, 2.0), Round(2.0, 8.0)], measured_in="us", goal=2.5
)
FAST = ratio("fast", "fast one", "bare", [Round(100.0, 400.0)], measured_in="appends/s", goal=3.0, at_least=True)
WAIT = Figure(name="wait", title="wait", against="-", value=12.0, goal=500.0, unit="ms")
TOLD = ratio("told", "told only", "itself", [Round(1.0, 1.0)], measured_in="us", goal=None)


@pytest.fixture
def results() -> Results:
    left = Skipped(name="append-postgres", reason="no server")
    return Results(figures=[SLOW, FAST, WAIT, TOLD], skipped=[left], machine="a machine", at="2026-01-01")


def test_value_is_the_median_of_the_rounds_ratios() -> None:
    assert SLOW.value == 3.0
    assert SLOW.spread == (2.0, 4.0)


def test_goal_is_a_most_or_a_least() -> None:
    assert (SLOW.reached, FAST.reached, WAIT.reached, TOLD.reached) == (False, True, True, True)


def test_missed_goals_are_known(results: Results) -> None:
    assert results.missed == [SLOW]


def test_text_has_a_line_for_each_figure_and_each_that_is_missing(results: Results) -> None:
    lines = as_text(results).splitlines()
    assert len(lines) == 6
    assert "3.00 x" in lines[1]
    assert lines[1].endswith("NO")
    assert lines[5] == "not measured: append-postgres (no server)"


def test_markdown_is_a_table_whose_cells_hold(results: Results) -> None:
    rows = [line for line in as_markdown(results, "x.svg").splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1


def test_results_survive_json(results: Results) -> None:
    assert msgspec.json.decode(msgspec.json.encode(results), type=Results) == results


def test_chart_is_well_formed_and_shows_only_ratios() -> None:
    tree = ElementTree.fromstring(chart([SLOW, FAST, WAIT, TOLD]))  # noqa: S314 (we wrote it)
    bars = [node for node in tree.iter() if node.tag.endswith("rect")][1:]
    goals = [node for node in tree.iter() if node.tag.endswith("path")]
    assert (len(bars), len(goals)) == (3, 2)


def test_chart_of_nothing_is_well_formed() -> None:
    assert ElementTree.fromstring(chart([])).tag.endswith("svg")  # noqa: S314 (we wrote it)


def test_report_rewrites_only_its_own_section(results: Results, tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("# Title\n\nWords before.\n")
    write_report(results, page)
    write_section(page, "peers", "hand", "other table")
    write_report(results, page)
    text = page.read_text()
    assert text.startswith("# Title\n\nWords before.\n")
    assert text.count("slow / one") == 1
    assert "other table" in text
    assert (tmp_path / "benchmarks.svg").read_text().startswith("<svg")


def test_report_makes_a_page_where_there_is_none(results: Results, tmp_path: Path) -> None:
    page = tmp_path / "new.md"
    write_report(results, page)
    assert page.read_text().startswith("# Benchmarks\n")
