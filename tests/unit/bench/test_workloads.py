"""Every workload runs and tells something, with counts far too small to mean anything. Nothing here measures time."""

from pathlib import Path

import pytest

from bench.figures import NAMES, Figure, Lab, Options, Skipped, measure
from outlast.core.errors import ConfigError

POSTGRES = [name for name in NAMES if "postgres" in name]
HERE = [name for name in NAMES if name not in POSTGRES]
OFTEN = ("append-sqlite", "append-files", "list", "fork", "turn", "looks")
"""Run with every change; the others, which fill stores or start processes, with `make soak`."""


def tiny(folder: Path, *only: str, stores: tuple[str, ...] = ("sqlite", "files")) -> Options:
    return Options(only=only, stores=stores, folder=folder, rounds=2, scale=0.002)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in OFTEN else pytest.mark.soak) for name in HERE])
def test_workload_gives_positive_figures_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    with Lab(tiny(tmp_path, name)) as lab:
        found = list(measure(lab))
    assert found
    for figure in found:
        assert isinstance(figure, Figure)
        assert figure.value > 0 or figure.unit in ("in all", "share", "ms more")
        assert all(one.bare > 0 and one.ours > 0 for one in figure.rounds)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_resuming_gives_a_figure_and_leaves_nothing_behind(tmp_path: Path) -> None:
    once = Options(only=("resume-session",), stores=("sqlite",), folder=tmp_path, rounds=1, scale=0.002)
    with Lab(once) as lab:
        found = list(measure(lab))
    assert [figure.value > 0 for figure in found if isinstance(figure, Figure)]
    assert list(tmp_path.iterdir()) == []


def test_commands_give_figures_and_leave_nothing_behind(tmp_path: Path) -> None:
    once = Options(only=("commands",), stores=("sqlite",), folder=tmp_path, rounds=1, scale=0.002)
    with Lab(once) as lab:
        found = list(measure(lab))
    assert [figure.value > 0 for figure in found if isinstance(figure, Figure)] == [True] * 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_four_processes_lose_nothing(tmp_path: Path) -> None:
    once = Options(only=("processes",), stores=("sqlite",), folder=tmp_path, rounds=1, scale=0.002)
    with Lab(once) as lab:
        [wrong] = [figure for figure in measure(lab) if figure.name == "processes-errors"]
    assert isinstance(wrong, Figure)
    assert (wrong.value, wrong.note) == (0, "")


def test_postgres_that_cannot_be_reached_is_skipped_with_the_reason(tmp_path: Path) -> None:
    nobody = "postgresql://postgres@/postgres?host=/nonexistent"
    options = Options(only=("append-postgres",), folder=tmp_path, postgres_url=nobody, scale=0.002)
    with Lab(options) as lab:
        [skipped] = list(measure(lab))
    assert isinstance(skipped, Skipped)
    assert "cannot be reached" in skipped.reason


def test_stores_choose_the_workloads(tmp_path: Path) -> None:
    told: list[str] = []
    with Lab(tiny(tmp_path, stores=("files",)), tell=told.append) as lab:
        names = [figure.name for figure in measure(lab)]
    assert names == told == ["append-files", "import"]


def test_unknown_workload_is_named(tmp_path: Path) -> None:
    with Lab(tiny(tmp_path, "nonsense")) as lab, pytest.raises(ConfigError, match="no workload 'nonsense'"):
        list(measure(lab))


def test_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a directory"):
        Lab(tiny(tmp_path / "nowhere"))
